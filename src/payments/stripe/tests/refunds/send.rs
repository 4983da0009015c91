//! Sending a refund: what is repeated, what never changes, and what is asked once more before an answer is believed.

use super::super::super::transport::{Method, TransportResult};
use super::super::StripeApi::PaymentIntents;
use super::super::{answer, answer_with, lost, not_sent, provider, script, short};
use super::{KEY, frozen, limits, refund};
use crate::payments::provider::FrozenRequest;
use crate::payments::refund::RefundProvider;

const ALREADY: &str =
    r#"{"error":{"type":"invalid_request_error","code":"charge_already_refunded"}}"#;
const EXCEEDS: &str = r#"{"error":{"type":"invalid_request_error","param":"amount"}}"#;
const DISPUTED: &str = r#"{"error":{"type":"invalid_request_error","code":"charge_disputed"}}"#;
const INVALID: &str = r#"{"error":{"type":"invalid_request_error","code":"parameter_missing"}}"#;
const MISMATCH: &str = r#"{"error":{"type":"idempotency_error"}}"#;
const LIST: &str = "/v1/refunds?payment_intent=pi_1&created%5Bgte%5D=0&limit=100";

fn now(status: &str) -> TransportResult {
    answer(200, &refund("re_1", status))
}

fn replayed(status: u16, body: &str) -> TransportResult {
    answer_with(status, &[("idempotent-replayed", "true")], body)
}

fn stored(status: &str) -> TransportResult {
    replayed(200, &refund("re_1", status))
}

fn page(entries: &[String]) -> TransportResult {
    let entries = entries.join(",");
    answer(200, &format!(r#"{{"has_more":false,"data":[{entries}]}}"#))
}

/// One send: whether there was one before, what the transport answers to the POSTs and then to the GETs, what is known
/// afterwards, and the path of the GET, if there is one.
type Row = (
    &'static str,
    bool,
    Vec<TransportResult>,
    Vec<TransportResult>,
    &'static str,
);

async fn check(rows: Vec<Row>, read_path: &str) {
    for (name, sent_before, posts, gets, expected) in rows {
        let (sends, reads) = (posts.len(), gets.len());
        let script = script(posts.into_iter().chain(gets));
        let outcome = provider(PaymentIntents, &script)
            .send_refund(KEY, &frozen(), limits(sent_before))
            .await;
        assert_eq!(short(&outcome), expected, "{name}: {outcome:?}");
        let calls = script.calls();
        assert_eq!(calls.len(), sends + reads, "{name}");
        let (posted, read) = calls.split_at(sends);
        for call in posted {
            assert_eq!(call.method, Method::Post, "{name}");
            assert_eq!(call.path_and_query, "/v1/refunds", "{name}");
            assert_eq!(call.body, Some(frozen().body), "{name}");
            assert_eq!(call.key.as_deref(), Some("test/refund:chg_1"), "{name}");
        }
        for call in read {
            assert_eq!(call.method, Method::Get, "{name}");
            assert_eq!(call.path_and_query, read_path, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
#[rustfmt::skip]
async fn sends_are_repeated_and_joined_as_those_of_payments() {
    check(vec![
        ("a success", false, vec![now("succeeded")], vec![], "succeeded re_1 1999"),
        ("no verdict yet", false, vec![now("pending")], vec![], "processing re_1"),
        ("failed at once", false, vec![now("failed")], vec![], "declined refund_failed re_1"),
        ("refused", false, vec![answer(400, INVALID)], vec![], "refused parameter_missing -"),
        ("disputed", false, vec![answer(400, DISPUTED)], vec![], "declined charge_disputed -"),
        ("never reachable", false, vec![not_sent(), not_sent(), not_sent()], vec![], "not executed: unreachable"),
        ("cut, then a success", false, vec![lost("cut"), now("succeeded")], vec![], "succeeded re_1 1999"),
        ("cut to the end", false, vec![lost("cut"), lost("cut"), lost("cut")], vec![], "unknown, resend -"),
        ("cut, then credentials: resolves nothing", false, vec![lost("cut"), answer(401, "")], vec![], "unknown, resend -"),
        ("cut, then refused: resolves nothing", false, vec![lost("cut"), answer(400, INVALID)], vec![], "unknown, resend -"),
        ("cut, then disputed: the key's own answer", false, vec![lost("cut"), answer(400, DISPUTED)], vec![], "declined charge_disputed -"),
        ("500, repeated once", false, vec![answer(500, ""), answer(500, "")], vec![], "unknown, look up -"),
        ("500, then disputed: the first may still give back", false, vec![answer(500, ""), answer(400, DISPUTED)], vec![], "unknown, look up -"),
        ("in use, then the twin's success", false, vec![answer(409, ""), now("succeeded")], vec![], "succeeded re_1 1999"),
        ("rate limited to the end", false, vec![answer(429, ""), answer(429, ""), answer(429, "")], vec![], "not executed: rate limited"),
        ("takeover: unreachable resolves nothing", true, vec![not_sent(), not_sent(), not_sent()], vec![], "unknown, resend -"),
        ("takeover: another request under the key", true, vec![answer(400, MISMATCH)], vec![], "unknown, look up or review -"),
        ("a failure that is repeated to a first send", false, vec![replayed(400, DISPUTED)], vec![], "unknown, look up -"),
        ("takeover: the stored failure", true, vec![replayed(400, DISPUTED)], vec![], "declined charge_disputed -"),
    ], "").await;
}

#[tokio::test(start_paused = true)]
#[rustfmt::skip]
async fn a_stored_answer_is_a_snapshot_and_the_refund_of_now_counts() {
    let about_another = || answer(200, &refund("re_2", "failed"));
    check(vec![
        ("still so", true, vec![stored("succeeded")], vec![now("succeeded")], "succeeded re_1 1999"),
        ("it failed since", true, vec![stored("succeeded")], vec![now("failed")], "declined refund_failed re_1"),
        ("it succeeded since", true, vec![stored("pending")], vec![now("succeeded")], "succeeded re_1 1999"),
        ("in a state of tomorrow", true, vec![stored("pending")], vec![now("dancing")], "unknown, look up re_1"),
        ("after a cut, in one send", false, vec![lost("cut"), stored("succeeded")], vec![now("failed")], "declined refund_failed re_1"),
        ("its state cannot be had", true, vec![stored("succeeded")], vec![answer(401, "")], "succeeded re_1 1999"),
        ("it is gone", true, vec![stored("succeeded")], vec![answer(404, "")], "succeeded re_1 1999"),
        ("the answer is about another", true, vec![stored("pending")], vec![about_another()], "processing re_1"),
    ], "/v1/refunds/re_1").await;
}

#[tokio::test(start_paused = true)]
#[rustfmt::skip]
async fn what_was_given_back_before_may_have_been_this_very_refund() {
    let of_another_key = refund("re_2", "succeeded").replace(KEY, "refund:chg_2");
    let elsewhere = refund("re_3", "succeeded").replace(r#""inst""#, r#""elsewhere""#);
    let by_hand = r#"{"id":"re_4","status":"succeeded","amount":1999,"currency":"eur","payment_intent":"pi_1","metadata":{}}"#.to_owned();
    let ours = |status: &str| refund("re_1", status);
    for body in [ALREADY, EXCEEDS] {
        let refused = || vec![answer(400, body)];
        let failed = if body == ALREADY { "declined charge_already_refunded -" } else { "declined refund_exceeds_payment -" };
        check(vec![
            ("it was", false, refused(), vec![page(&[by_hand.clone(), ours("succeeded")])], "succeeded re_1 1999"),
            ("it was, without a verdict", false, refused(), vec![page(&[ours("pending")])], "processing re_1"),
            ("it was, in a state of tomorrow", false, refused(), vec![page(&[ours("dancing")])], "unknown, look up re_1"),
            ("at a takeover", true, refused(), vec![page(&[ours("succeeded")])], "succeeded re_1 1999"),
            ("it failed, and another gave the money back", false, refused(), vec![page(&[by_hand.clone(), ours("failed")])], failed),
            ("somebody gave it back by hand", false, refused(), vec![page(std::slice::from_ref(&by_hand))], failed),
            ("others of ours, and another installation", false, refused(), vec![page(&[of_another_key.clone(), elsewhere.clone()])], failed),
            ("nobody knows", false, refused(), vec![page(&[])], failed),
            ("it cannot be asked", false, refused(), vec![answer(401, "")], "unknown, look up -"),
        ], LIST).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_no_refund_is_not_sent_and_a_refund_is_no_payment() {
    use crate::payments::provider::PaymentProvider;
    let script = script([]);
    let provider = provider(PaymentIntents, &script);
    let payment = FrozenRequest {
        path: "/v1/payment_intents".to_owned(),
        body: frozen().body,
    };
    let outcome = provider.send_refund(KEY, &payment, limits(false)).await;
    assert_eq!(short(&outcome), "unknown, look up -");
    let outcome = provider.send(KEY, &frozen(), limits(false)).await;
    assert!(
        matches!(outcome, crate::payments::outcome::Outcome::Unknown(_)),
        "{outcome:?}"
    );
    let key = "x".repeat(251);
    for (sent_before, expected) in [
        (false, "refused idempotency_key_invalid -"),
        (true, "unknown, look up -"),
    ] {
        let outcome = provider
            .send_refund(&key, &frozen(), limits(sent_before))
            .await;
        assert_eq!(short(&outcome), expected);
    }
    assert!(script.calls().is_empty());
}
