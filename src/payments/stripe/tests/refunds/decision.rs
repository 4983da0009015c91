//! The refunds' decision table, one row a sentence.

use super::super::super::decision::read;
use super::super::super::refunds::decision::RefundAnswer;
use super::super::super::refunds::request::Asked;
use super::super::super::transport::TransportResult;
use super::super::{answer, answer_with, cut, each_with_a_nul, error, lost, not_sent, short};
use super::{frozen, refund};
use crate::payments::outcome::Outcome;
use crate::payments::refund::ProviderRefund;

fn said(result: &TransportResult) -> Outcome<ProviderRefund> {
    let asked = Asked::of(&frozen()).expect("a refund");
    read(RefundAnswer { asked: &asked }, result)
}

fn check(rows: &[(&str, TransportResult, &str)]) {
    for (name, result, expected) in rows {
        assert_eq!(short(&said(result)), *expected, "{name}");
    }
}

const INVALID: &str = r#""type":"invalid_request_error""#;

#[test]
#[rustfmt::skip]
fn what_the_connection_says() {
    check(&[
        ("DNS, connect or TLS failure, nothing written", not_sent(), "not executed: unreachable"),
        ("timeout, reset or EOF after bytes may have left", lost("reset"), "unknown, resend -"),
        ("a 200 whose body was cut", cut(200), "unknown, resend -"),
        ("a 400 whose body was cut", cut(400), "unknown, resend -"),
        ("a 500 whose body was cut", cut(500), "unknown, look up -"),
        ("a 401 whose body was cut", cut(401), "not executed: credentials"),
        ("a 429 whose body was cut", cut(429), "not executed: rate limited"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_a_200_says() {
    let no_status = refund("re_1", "x").replace(r#""status":"x""#, r#""status":null"#);
    let no_amount = refund("re_1", "succeeded").replace("1999", "null");
    check(&[
        ("succeeded", answer(200, &refund("re_1", "succeeded")), "succeeded re_1 1999"),
        ("pending", answer(200, &refund("re_1", "pending")), "processing re_1"),
        ("waits for the customer's bank details", answer(200, &refund("re_1", "requires_action")), "processing re_1"),
        ("failed", answer(200, &refund("re_1", "failed")), "declined refund_failed re_1"),
        ("canceled", answer(200, &refund("re_1", "canceled")), "canceled refund_canceled re_1"),
        ("unknown status string", answer(200, &refund("re_1", "dancing")), "unknown, look up re_1"),
        ("no status at all", answer(200, &no_status), "unknown, look up re_1"),
        ("no amount", answer(200, &no_amount), "unknown, resend -"),
        ("a body that cannot be parsed", answer(200, "{\"id\":"), "unknown, resend -"),
        ("another kind of JSON", answer(200, "[]"), "unknown, resend -"),
        ("a web page", answer(200, "<html>"), "unknown, resend -"),
        ("204 without a body", answer(204, ""), "unknown, resend -"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_a_refusal_says() {
    let code = |code: &str| error(&format!(r#"{INVALID},"code":"{code}""#));
    let amount = error(&format!(r#"{INVALID},"param":"amount","message":"Refund amount ($5) is greater than charge""#));
    let not_a_number = error(&format!(r#"{INVALID},"param":"amount","code":"parameter_invalid_integer""#));
    let names_its_payment = error(&format!(r#"{INVALID},"code":"charge_already_refunded","charge":"ch_1","payment_intent":{{"id":"pi_1"}}"#));
    check(&[
        ("already given back", answer(400, &code("charge_already_refunded")), "declined charge_already_refunded -"),
        ("already given back, the payment named: it is no refund", answer(400, &names_its_payment), "declined charge_already_refunded -"),
        ("less is left than was asked for", answer(400, &amount), "declined refund_exceeds_payment -"),
        ("the amount is none", answer(400, &not_a_number), "refused parameter_invalid_integer -"),
        ("disputed", answer(400, &code("charge_disputed")), "declined charge_disputed -"),
        ("disputed, in newer words", answer(400, &code("refund_disputed_payment")), "declined refund_disputed_payment -"),
        ("a payment of a kind that gives nothing back", answer(400, &code("charge_not_refundable")), "declined charge_not_refundable -"),
        ("the merchant's balance is too low", answer(400, &code("balance_insufficient")), "declined balance_insufficient -"),
        ("402 card_error", answer(402, &error(r#""type":"card_error","code":"card_declined""#)), "declined card_declined -"),
        ("a hold, not captured: no code", answer(400, &error(INVALID)), "refused invalid_request_error -"),
        ("no such payment", answer(400, &code("resource_missing")), "refused resource_missing -"),
        ("no such payment, as a 404", answer(404, &code("resource_missing")), "refused resource_missing -"),
        ("another request under the key", answer(400, &error(r#""type":"idempotency_error""#)), "unknown, look up or review -"),
        ("400 rate_limit", answer(400, &code("rate_limit")), "not executed: rate limited"),
        ("400 of unknown type", answer(400, &error(r#""type":"weather_error""#)), "unknown, resend -"),
        ("400 without a type", answer(400, &error(r#""message":"no""#)), "unknown, resend -"),
        ("400 that cannot be read", answer(400, "Bad Request"), "unknown, resend -"),
        ("404 web page", answer(404, "<html>"), "unknown, resend -"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_the_other_statuses_say() {
    let in_use = error(&format!(r#"{INVALID},"code":"idempotency_key_in_use""#));
    let lock = error(&format!(r#"{INVALID},"code":"lock_timeout""#));
    let indeterminate = error(r#""type":"api_error","charge":"ch_1","payment_intent":{"id":"pi_1"}"#);
    check(&[
        ("401, whatever the body", answer(401, "<html>"), "not executed: credentials"),
        ("403", answer(403, &error(INVALID)), "not executed: credentials"),
        ("409 idempotency_key_in_use", answer(409, &in_use), "unknown, resend -"),
        ("409 other", answer(409, ""), "unknown, resend -"),
        ("424", answer(424, ""), "unknown, resend -"),
        ("429", answer_with(429, &[("stripe-rate-limited-reason", "global-rate")], ""), "not executed: rate limited"),
        ("429 lock_timeout", answer(429, &lock), "not executed: rate limited"),
        ("500", answer(500, ""), "unknown, look up -"),
        ("500 that names the payment: it is no refund", answer(500, &indeterminate), "unknown, look up -"),
        ("502 web page", answer(502, "<html>"), "unknown, resend -"),
        ("503", answer(503, ""), "unknown, resend -"),
        ("a redirect, which is not followed", answer(302, ""), "unknown, resend -"),
        ("a status that Stripe does not document", answer(418, &error(INVALID)), "unknown, resend -"),
    ]);
}

#[test]
fn a_refund_carries_our_marks_and_the_payment_it_was_asked_for_with() {
    let Outcome::Succeeded(refund_1) = said(&answer(200, &refund("re_1", "succeeded"))) else {
        panic!("not a success");
    };
    assert_eq!(refund_1.refund_key.as_deref(), Some("refund:chg_1"));
    assert_eq!(refund_1.charge_id.as_deref(), Some("chg_1"));
    assert_eq!(refund_1.installation_id.as_deref(), Some("inst"));
    assert_eq!(refund_1.currency, "eur");
    let table = [
        (r#""ch_1""#, r#""pi_1""#, Some("pi_1")),
        (r#""pi_1""#, r#""pi_2""#, Some("pi_1")),
        (r#"{"id":"ch_1"}"#, r#"{"id":"pi_1"}"#, Some("pi_1")),
        (r#""ch_1""#, r#""pi_2""#, Some("pi_2")),
        (r#""ch_1""#, "null", Some("ch_1")),
        ("null", "null", None),
        ("7", "[]", None),
    ];
    for (charge, intent, expected) in table {
        let body = refund("re_1", "pending")
            .replace(r#""pi_1""#, "INTENT")
            .replace(r#""charge":"ch_1""#, &format!(r#""charge":{charge}"#))
            .replace("INTENT", intent);
        let Outcome::Processing(refund) = said(&answer(200, &body)) else {
            panic!("{charge} {intent}");
        };
        assert_eq!(refund.payment_id.as_deref(), expected, "{charge} {intent}");
    }
}

#[test]
fn a_failed_refund_tells_why() {
    for (reason, expected) in [
        (
            r#""lost_or_stolen_card""#.to_owned(),
            Some("lost_or_stolen_card".to_owned()),
        ),
        (r#""""#.to_owned(), None),
        ("null".to_owned(), None),
        (format!(r#""{}""#, "x".repeat(500)), Some("x".repeat(100))),
    ] {
        let body = refund("re_1", "failed").replace(
            r#""failure_reason":null"#,
            &format!(r#""failure_reason":{reason}"#),
        );
        let Outcome::Failed(failure) = said(&answer(200, &body)) else {
            panic!("not a failure");
        };
        assert_eq!(failure.code, "refund_failed");
        assert_eq!(failure.decline_code, expected);
        assert_eq!(failure.payment_id.as_deref(), Some("re_1"));
        assert!(!failure.payment_open);
    }
}

#[test]
fn a_nul_in_any_text_of_an_answer_reaches_nobody() {
    let failed = refund("re_1", "failed").replace("null", r#""lost_or_stolen_card""#);
    let refused = error(&format!(
        r#"{INVALID},"code":"charge_disputed","message":"No.","charge":"ch_1""#
    ));
    let bodies = [
        (200, refund("re_1", "succeeded")),
        (200, refund("re_1", "canceled")),
        (200, failed),
        (400, refused),
    ];
    for (status, body) in bodies {
        let spoiled = each_with_a_nul(&body);
        assert!(spoiled.len() > 7, "{body}");
        for body in spoiled {
            let outcome = format!("{:?}", said(&answer(status, &body)));
            assert!(!outcome.contains("\\0"), "{body}: {outcome}");
        }
    }
}
