//! Sending: what is repeated, what never changes, and what earlier sends leave open.

use std::time::Duration;

use super::super::StripeApi::PaymentIntents;
use super::super::transport::{Method, TransportResult};
use super::super::{StripeProvider, StripeSettings};
use super::{
    Script, answer, answer_with, deadline, intent, lost, not_sent, provider, script, settings,
};
use crate::payments::outcome::{FailureKind, NextStep, NotExecutedReason, Outcome};
use crate::payments::provider::{FrozenRequest, PaymentProvider, SendLimits};

const DECLINE: &str = r#"{"error":{"type":"card_error","code":"card_declined"}}"#;
const INVALID: &str = r#"{"error":{"type":"invalid_request_error","code":"parameter_missing"}}"#;
const CANCELED: &str = r#"{"error":{"type":"invalid_request_error","code":"payment_intent_unexpected_state",
    "payment_intent":{"id":"pi_1","status":"canceled"}}}"#;

fn frozen() -> FrozenRequest {
    FrozenRequest {
        path: "/v1/payment_intents".to_owned(),
        body: "amount=1999&x=%F0%9F%92%B6".to_owned(),
    }
}

fn limits(seconds: u64, sent_before: bool) -> SendLimits {
    SendLimits {
        wall_deadline: std::time::SystemTime::now() + Duration::from_secs(3_600),
        deadline: deadline(seconds),
        sent_before,
    }
}

fn succeeded() -> TransportResult {
    answer(200, &intent("pi_1", "succeeded"))
}

fn short(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded(_) => "succeeded",
        Outcome::Processing(_) => "processing",
        Outcome::Failed(failure) => match failure.kind {
            FailureKind::Declined => "declined",
            FailureKind::Refused => "refused",
            FailureKind::Canceled => "canceled",
            FailureKind::NeverExecuted => "never executed",
        },
        Outcome::NotExecuted(not_executed) => match not_executed.reason {
            NotExecutedReason::Unreachable => "unreachable",
            NotExecutedReason::RateLimited => "rate limited",
            NotExecutedReason::Credentials => "credentials",
            NotExecutedReason::OutOfTime => "out of time",
        },
        Outcome::Unknown(unknown) => match unknown.next {
            NextStep::Resend => "resend",
            NextStep::LookUp => "look up",
            NextStep::LookUpElseReview => "look up or review",
        },
    }
}

#[tokio::test(start_paused = true)]
#[rustfmt::skip]
async fn sends_are_repeated_and_joined() {
    let replayed_500 = || answer_with(500, &[("idempotent-replayed", "true")], "{}");
    let again_500 = || answer_with(500, &[("stripe-should-retry", "true")], "{}");
    let rows: Vec<(&str, bool, Vec<TransportResult>, &str)> = vec![
        ("a success", false, vec![succeeded()], "succeeded"),
        ("a decline", false, vec![answer(402, DECLINE)], "declined"),
        ("refused", false, vec![answer(400, INVALID)], "refused"),
        ("credentials", false, vec![answer(401, "")], "credentials"),
        ("unreachable, then a success", false, vec![not_sent(), succeeded()], "succeeded"),
        ("never reachable", false, vec![not_sent(), not_sent(), not_sent()], "unreachable"),
        ("rate limited to the end", false, vec![answer(429, ""), answer(429, ""), answer(429, "")], "rate limited"),
        ("rate limited, then credentials", false, vec![answer(429, ""), answer(401, "")], "credentials"),
        ("cut, then a success", false, vec![lost("cut"), succeeded()], "succeeded"),
        ("cut, then a decline: the key's own answer", false, vec![lost("cut"), answer(402, DECLINE)], "declined"),
        ("cut to the end", false, vec![lost("cut"), lost("cut"), lost("cut")], "resend"),
        ("cut, then unreachable", false, vec![lost("cut"), not_sent(), not_sent()], "resend"),
        ("cut, then credentials: resolves nothing", false, vec![lost("cut"), answer(401, "")], "resend"),
        ("cut, then a permission is missing: resolves nothing", false, vec![lost("cut"), answer(403, "")], "resend"),
        ("cut, then rate limited: resolves nothing", false, vec![lost("cut"), answer(429, ""), answer(429, "")], "resend"),
        ("cut, then in use: resolves nothing", false, vec![lost("cut"), answer(409, ""), answer(409, "")], "resend"),
        ("cut, then refused: resolves nothing", false, vec![lost("cut"), answer(400, INVALID)], "resend"),
        ("cut, then the payment is canceled for ever", false, vec![lost("cut"), answer(400, CANCELED)], "canceled"),
        ("in use, then the twin's success", false, vec![answer(409, ""), succeeded()], "succeeded"),
        ("503, then a success", false, vec![answer(503, ""), succeeded()], "succeeded"),
        ("unreadable, then its replay", false, vec![answer(200, "{"), succeeded()], "succeeded"),
        ("500, repeated once", false, vec![answer(500, ""), answer(500, "")], "look up"),
        ("500, and it was stored", false, vec![answer(500, ""), replayed_500()], "look up"),
        ("500, then rolled forward", false, vec![answer(500, ""), succeeded()], "succeeded"),
        ("500, then 503: still a look-up", false, vec![answer(500, ""), answer(503, ""), answer(503, "")], "look up"),
        ("replayed 500", false, vec![replayed_500()], "look up"),
        ("500 that Stripe wants again", false, vec![again_500(), again_500(), again_500()], "look up"),
        ("takeover: a success", true, vec![succeeded()], "succeeded"),
        ("takeover: a decline", true, vec![answer(402, DECLINE)], "declined"),
        ("takeover: unreachable resolves nothing", true, vec![not_sent(), not_sent(), not_sent()], "resend"),
        ("takeover: credentials resolve nothing", true, vec![answer(401, "")], "resend"),
        ("takeover: a refusal resolves nothing", true, vec![answer(400, INVALID)], "resend"),
        ("takeover: another request under the key", true, vec![answer(400, r#"{"error":{"type":"idempotency_error"}}"#)], "look up or review"),
    ];
    for (name, sent_before, results, expected) in rows {
        let sends = results.len();
        let script = script(results);
        let outcome = provider(PaymentIntents, &script)
            .send("charge:inv_1", &frozen(), limits(600, sent_before))
            .await;
        assert_eq!(short(&outcome), expected, "{name}: {outcome:?}");
        let calls = script.calls();
        assert_eq!(calls.len(), sends, "{name}");
        for call in calls {
            assert_eq!(call.method, Method::Post, "{name}");
            assert_eq!(call.path_and_query, frozen().path, "{name}");
            assert_eq!(call.body, Some(frozen().body), "{name}");
            assert_eq!(call.key.as_deref(), Some("test/charge:inv_1"), "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_wait_is_jittered_the_first_included() {
    for _ in 0..20 {
        let script = script([not_sent(), not_sent(), succeeded()]);
        let begun = tokio::time::Instant::now();
        provider(PaymentIntents, &script)
            .send("charge:inv_1", &frozen(), limits(600, false))
            .await;
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_millis(750), "{waited:?}");
        assert!(waited <= Duration::from_millis(1_510), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_up_to_a_small_cap() {
    for (asked_for, least, most) in [("3", 3_000, 3_010), ("3600", 5_000, 5_010)] {
        let script = script([
            answer_with(429, &[("retry-after", asked_for)], ""),
            succeeded(),
        ]);
        let begun = tokio::time::Instant::now();
        provider(PaymentIntents, &script)
            .send("charge:inv_1", &frozen(), limits(600, false))
            .await;
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_millis(least), "{waited:?}");
        assert!(waited <= Duration::from_millis(most), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_the_deadline_is_over() {
    for (sent_before, expected) in [(false, "out of time"), (true, "resend")] {
        let script = script([]);
        let outcome = provider(PaymentIntents, &script)
            .send("charge:inv_1", &frozen(), limits(0, sent_before))
            .await;
        assert_eq!(short(&outcome), expected);
        assert!(script.calls().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_gets_no_more_time_than_is_left() {
    let script = Script {
        takes: Duration::from_secs(1_000),
        ..Script::default()
    };
    let begun = tokio::time::Instant::now();
    let outcome = provider(PaymentIntents, &script)
        .send("charge:inv_1", &frozen(), limits(100, false))
        .await;
    assert_eq!(short(&outcome), "resend");
    assert!(begun.elapsed() <= Duration::from_secs(100));
    let timeouts: Vec<_> = script.calls().iter().map(|call| call.timeout).collect();
    assert_eq!(timeouts[0], Duration::from_secs(80));
    assert!(timeouts[1] < Duration::from_secs(20), "{timeouts:?}");
    assert_eq!(timeouts.len(), 2, "no third send begins");
}

#[tokio::test(start_paused = true)]
async fn no_wait_runs_past_the_deadline() {
    let script = script([answer_with(429, &[("retry-after", "5")], "")]);
    let begun = tokio::time::Instant::now();
    let outcome = provider(PaymentIntents, &script)
        .send("charge:inv_1", &frozen(), limits(4, false))
        .await;
    assert_eq!(short(&outcome), "rate limited");
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_ours_is_not_sent() {
    let script = script([]);
    let request = FrozenRequest {
        path: "/v1/refunds".to_owned(),
        body: String::new(),
    };
    let outcome = provider(PaymentIntents, &script)
        .send("charge:inv_1", &request, limits(600, false))
        .await;
    assert_eq!(short(&outcome), "look up");
    assert!(script.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_sent_is_not_sent() {
    for key in [
        "x".repeat(251),
        "charge:\u{fc}".to_owned(),
        "a\nb".to_owned(),
    ] {
        let script = script([]);
        let send = |sent_before| {
            let (provider, key) = (provider(PaymentIntents, &script), key.clone());
            async move {
                provider
                    .send(&key, &frozen(), limits(600, sent_before))
                    .await
            }
        };
        assert_eq!(short(&send(false).await), "refused", "{key}");
        assert_eq!(short(&send(true).await), "look up", "{key}");
        assert!(script.calls().is_empty());
    }
}

#[test]
fn the_longest_send_counts_every_request_and_every_wait() {
    assert_eq!(
        settings(PaymentIntents).longest_send(),
        Duration::from_secs(3 * 80 + 2 * 5)
    );
    let endless = StripeSettings {
        timeout: Duration::MAX,
        max_retries: u32::MAX,
        ..settings(PaymentIntents)
    };
    assert_eq!(endless.longest_send(), Duration::MAX);
}

#[test]
fn the_provider_is_known_by_the_name_of_its_settings_and_shows_no_transport() {
    let script = script([]);
    let provider: StripeProvider<&Script> = provider(PaymentIntents, &script);
    assert_eq!(provider.name(), "stripe");
    assert!(format!("{provider:?}").contains("StripeProvider"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_the_wall_clock_says_that_the_time_is_over() {
    for (sent_before, right) in [(false, "out of time"), (true, "resend")] {
        let script = script([succeeded()]);
        let limits = SendLimits {
            wall_deadline: std::time::SystemTime::now(),
            ..limits(60, sent_before)
        };

        let outcome = provider(PaymentIntents, &script)
            .send("k", &frozen(), limits)
            .await;

        assert_eq!(short(&outcome), right);
        assert_eq!(
            script.calls().len(),
            0,
            "a machine that slept sends nothing"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_repeated_to_a_first_send_is_looked_up() {
    let replayed = || answer_with(402, &[("idempotent-replayed", "true")], DECLINE);
    for (sent_before, right) in [(false, "look up"), (true, "declined")] {
        let script = script([replayed()]);

        let outcome = provider(PaymentIntents, &script)
            .send("k", &frozen(), limits(60, sent_before))
            .await;

        assert_eq!(short(&outcome), right);
    }
}
