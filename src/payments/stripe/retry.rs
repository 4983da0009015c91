//! Whether a request is repeated, and after what wait. PURE: the caller brings the random number and the clock.
//!
//! The official SDKs' common rule (connection error, then Stripe's own word, then 409 and 5xx), with two changes: a 429
//! is repeated too, since nothing is stored for it, and every wait is jittered, the first included, so that a fleet
//! that failed together does not come back together.

use std::time::Duration;

use super::transport::TransportResult;
use crate::payments::outcome::{FailureKind, NextStep, NotExecutedReason, Outcome};

/// The waits between repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait, before jitter; doubled for each further one.
    pub first: Duration,
    /// No wait is longer, whatever the provider asks for.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            longest: Duration::from_secs(5),
        }
    }
}

impl Backoff {
    /// The longest that one send can take: every request up to its limit and every wait between them.
    pub fn longest_send(&self, timeout: Duration, max_retries: u32) -> Duration {
        let requests = timeout.saturating_mul(max_retries.saturating_add(1));
        requests.saturating_add(self.longest.saturating_mul(max_retries))
    }

    /// The wait before repeat `repeats_done + 1`: between half and all of the doubled first wait, by `unit` in
    /// `0.0..1.0`; at least what the answer asked for in `Retry-After`; never over [`longest`](Self::longest).
    pub fn wait(&self, repeats_done: u32, unit: f64, asked_for: Option<Duration>) -> Duration {
        let doubled = self.first.saturating_mul(1 << repeats_done.min(16));
        let jittered = doubled
            .min(self.longest)
            .mul_f64(0.5 + unit.clamp(0.0, 1.0) / 2.0);
        jittered
            .max(asked_for.unwrap_or(Duration::ZERO))
            .min(self.longest)
    }
}

/// Whether a read, or a cancel, is worth repeating after this result.
pub fn repeats_call(result: &TransportResult) -> bool {
    let told = result.headers().and_then(|headers| headers.should_retry);
    match result {
        TransportResult::NotSent(_) => true,
        // Whatever its status: without its body the answer says nothing about the object.
        TransportResult::Lost(_) => told.unwrap_or(true),
        TransportResult::Answer(answer) => {
            told.unwrap_or(matches!(answer.status, 409 | 429) || answer.status >= 500)
        }
    }
}

/// Whether a send is worth repeating under the same key after this result.
///
/// `outcome` is what this very result says, not yet joined with earlier sends; `repeats_done` counts the repeats that
/// were already made. The limit on repeats is the caller's.
pub fn repeats_send<P>(outcome: &Outcome<P>, result: &TransportResult, repeats_done: u32) -> bool {
    let headers = result.headers();
    let told = headers.and_then(|headers| headers.should_retry);
    let replayed = headers.is_some_and(|headers| headers.replayed);
    match outcome {
        Outcome::Succeeded(_) | Outcome::Processing(_) => false,
        Outcome::Failed(failure) => match failure.kind {
            // Stored under the key: it would only be said again.
            FailureKind::Declined | FailureKind::Canceled | FailureKind::NeverExecuted => false,
            FailureKind::Refused => told == Some(true),
        },
        Outcome::NotExecuted(not_executed) => match not_executed.reason {
            NotExecutedReason::Unreachable => true,
            NotExecutedReason::RateLimited => told.unwrap_or(true),
            NotExecutedReason::Credentials => told.unwrap_or(false),
            NotExecutedReason::OutOfTime => false,
        },
        Outcome::Unknown(unknown) => match result.status() {
            // A stored 500 never changes.
            Some(500) if replayed => false,
            // Most 500s are stored; one repeat finds that out.
            Some(500) => told.unwrap_or(repeats_done == 0),
            Some(_) | None => told.unwrap_or(match unknown.next {
                NextStep::Resend => true,
                NextStep::LookUp | NextStep::LookUpElseReview => false,
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::decision;
    use super::super::request::Endpoint;
    use super::super::transport::{AnswerHeaders, HttpAnswer, Lost};
    use super::*;

    fn answer(status: u16, pairs: &[(&str, &str)], body: &str) -> TransportResult {
        TransportResult::Answer(HttpAnswer {
            status,
            headers: AnswerHeaders::from_pairs(pairs.iter().copied()),
            body: body.as_bytes().to_vec(),
        })
    }

    const SUCCESS: &str =
        r#"{"id":"pi_1","status":"succeeded","amount":1,"amount_received":1,"currency":"eur"}"#;
    const DECLINE: &str = r#"{"error":{"type":"card_error","code":"card_declined"}}"#;
    const INVALID: &str =
        r#"{"error":{"type":"invalid_request_error","code":"parameter_missing"}}"#;
    const MISMATCH: &str = r#"{"error":{"type":"idempotency_error"}}"#;
    const YES: &[(&str, &str)] = &[("stripe-should-retry", "true")];
    const NO: &[(&str, &str)] = &[("stripe-should-retry", "false")];
    const REPLAYED: &[(&str, &str)] = &[("idempotent-replayed", "true")];
    const REPLAYED_YES: &[(&str, &str)] = &[
        ("idempotent-replayed", "true"),
        ("stripe-should-retry", "true"),
    ];

    #[test]
    fn a_send_is_repeated_only_when_that_can_say_more() {
        let lost = || TransportResult::Lost(Lost::without_head("cut"));
        #[rustfmt::skip]
        let rows = [
            ("nothing was sent", TransportResult::NotSent("refused".to_owned()), 0, true),
            ("cut after bytes left", lost(), 0, true),
            ("cut again", lost(), 5, true),
            ("a success is the end", answer(200, YES, SUCCESS), 0, false),
            ("an unreadable success", answer(200, &[], "{"), 0, true),
            ("a decline, whatever the header", answer(402, YES, DECLINE), 0, false),
            ("a refused request", answer(400, &[], INVALID), 0, false),
            ("a refused request that Stripe wants again", answer(400, YES, INVALID), 0, true),
            ("another request under the key", answer(400, &[], MISMATCH), 0, false),
            ("credentials", answer(401, &[], "{}"), 0, false),
            ("in use", answer(409, &[], "{}"), 0, true),
            ("in use, but Stripe says no", answer(409, NO, "{}"), 0, false),
            ("a failed dependency", answer(424, &[], "{}"), 0, true),
            ("rate limited", answer(429, &[], "{}"), 0, true),
            ("rate limited, but Stripe says no", answer(429, NO, "{}"), 0, false),
            ("a first 500", answer(500, &[], "{}"), 0, true),
            ("a second 500", answer(500, &[], "{}"), 1, false),
            ("a second 500 that Stripe wants again", answer(500, YES, "{}"), 1, true),
            ("a first 500 that Stripe does not want again", answer(500, NO, "{}"), 0, false),
            ("a replayed 500", answer(500, REPLAYED, "{}"), 0, false),
            ("a replayed 500, whatever the header", answer(500, REPLAYED_YES, "{}"), 0, false),
            ("a 503", answer(503, &[], "<html>"), 4, true),
            ("a 503, but Stripe says no", answer(503, NO, ""), 0, false),
        ];
        for (name, result, repeats_done, expected) in rows {
            let outcome = decision::read(Endpoint::CreateIntent, &result);
            assert_eq!(
                repeats_send(&outcome, &result, repeats_done),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn a_read_follows_the_common_rule() {
        #[rustfmt::skip]
        let rows = [
            ("nothing was sent", TransportResult::NotSent("refused".to_owned()), true),
            ("cut", TransportResult::Lost(Lost::without_head("cut")), true),
            ("found", answer(200, &[], "{}"), false),
            ("missing", answer(404, &[], "{}"), false),
            ("credentials", answer(401, &[], "{}"), false),
            ("in use", answer(409, &[], "{}"), true),
            ("rate limited", answer(429, &[], "{}"), true),
            ("a 500", answer(500, &[], "{}"), true),
            ("a 500, but Stripe says no", answer(500, NO, "{}"), false),
            ("a 400 that Stripe wants again", answer(400, YES, "{}"), true),
        ];
        for (name, result, expected) in rows {
            assert_eq!(repeats_call(&result), expected, "{name}");
        }
    }

    #[test]
    fn every_wait_is_jittered_and_bounded() {
        let backoff = Backoff::default();
        let ms = Duration::from_millis;
        #[rustfmt::skip]
        let rows = [
            ("the first wait, least jitter", backoff.wait(0, 0.0, None), ms(250)),
            ("the first wait, most jitter", backoff.wait(0, 1.0, None), ms(500)),
            ("doubled", backoff.wait(1, 1.0, None), ms(1_000)),
            ("capped", backoff.wait(10, 1.0, None), ms(5_000)),
            ("capped, jittered all the same", backoff.wait(u32::MAX, 0.0, None), ms(2_500)),
            ("what was asked for", backoff.wait(0, 0.5, Some(ms(3_000))), ms(3_000)),
            ("too much was asked for", backoff.wait(0, 0.5, Some(ms(3_600_000))), ms(5_000)),
            ("nonsense for a random number", backoff.wait(0, 7.0, None), ms(500)),
        ];
        for (name, wait, expected) in rows {
            assert_eq!(wait, expected, "{name}");
        }
    }
}
