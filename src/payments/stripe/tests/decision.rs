//! The decision table, one row a sentence.

use super::super::decision::read;
use super::super::request::Endpoint;
use super::super::transport::TransportResult;
use super::{
    answer, answer_with, charge, cut, each_with_a_nul, error, intent, lost, not_sent, short,
};
use crate::payments::outcome::Outcome;

const CREATE: Endpoint<'_> = Endpoint::CreateIntent;
const CONFIRM: Endpoint<'_> = Endpoint::ConfirmIntent("pi_1");
const CHARGE: Endpoint<'_> = Endpoint::CreateCharge;

fn check(rows: &[(&str, Endpoint<'_>, TransportResult, &str)]) {
    for (name, endpoint, result, expected) in rows {
        assert_eq!(short(&read(*endpoint, result)), *expected, "{name}");
    }
}

/// An error with a PaymentIntent inside.
fn error_on(fields: &str, status: &str) -> String {
    error(&format!(
        r#"{fields},"payment_intent":{}"#,
        intent("pi_1", status)
    ))
}

const INVALID: &str = r#""type":"invalid_request_error""#;
const DECLINED: &str = r#""type":"card_error","code":"card_declined""#;
const UNEXPECTED: &str =
    r#""type":"invalid_request_error","code":"payment_intent_unexpected_state""#;

#[test]
#[rustfmt::skip]
fn what_the_connection_says() {
    check(&[
        ("DNS, connect or TLS failure, nothing written", CREATE, not_sent(), "not executed: unreachable"),
        ("timeout, reset or EOF after bytes may have left", CREATE, lost("reset"), "unknown, resend -"),
        ("a 200 whose body was cut", CREATE, cut(200), "unknown, resend -"),
        ("a 402 whose body was cut", CREATE, cut(402), "unknown, resend -"),
        ("a 400 whose body was cut", CREATE, cut(400), "unknown, resend -"),
        ("a 500 whose body was cut", CREATE, cut(500), "unknown, look up -"),
        ("a 401 whose body was cut", CREATE, cut(401), "not executed: credentials"),
        ("a 403 whose body was cut", CREATE, cut(403), "not executed: credentials"),
        ("a 429 whose body was cut", CREATE, cut(429), "not executed: rate limited"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_a_200_says() {
    let received = r#"{"id":"pi_1","status":"succeeded","amount":1999,"amount_received":1500,"currency":"EUR"}"#;
    let declined = r#"{"id":"pi_1","status":"requires_payment_method","amount":5,"currency":"eur",
        "last_payment_error":{"type":"card_error","code":"expired_card"}}"#;
    let stand_in = r#"{"id":"pi_1","status":"requires_payment_method","amount":5,"currency":"eur","latest_charge":null,
        "amount_received":0,"last_payment_error":{"type":"idempotency_error"},"canceled_at":1234567890}"#;
    let odd_id = r#"{"id":"pi/1","status":"requires_payment_method","amount":5,"currency":"eur"}"#;
    let duplicate = r#"{"id":"pi_1","status":"requires_payment_method","amount":5,"currency":"eur",
        "last_payment_error":{"type":"card_error","code":"card_declined","decline_code":"duplicate_transaction"}}"#;
    check(&[
        ("2xx whose body cannot be parsed", CREATE, answer(200, "{\"id\":"), "unknown, resend -"),
        ("2xx with another kind of JSON", CREATE, answer(200, "[]"), "unknown, resend -"),
        ("2xx without a status", CREATE, answer(200, r#"{"id":"pi_1","amount":1,"currency":"eur"}"#), "unknown, resend -"),
        ("2xx with a web page", CREATE, answer(200, "<html>"), "unknown, resend -"),
        ("204 without a body", CREATE, answer(204, ""), "unknown, resend -"),
        ("succeeded", CREATE, answer(200, &intent("pi_1", "succeeded")), "succeeded pi_1 1999"),
        ("succeeded, with less received than asked for", CREATE, answer(200, received), "succeeded pi_1 1500"),
        ("succeeded, replayed", CREATE, answer_with(200, &[("idempotent-replayed", "true")], received), "succeeded pi_1 1500"),
        ("processing", CREATE, answer(200, &intent("pi_1", "processing")), "processing pi_1"),
        ("requires_capture", CREATE, answer(200, &intent("pi_1", "requires_capture")), "unknown, look up pi_1"),
        ("requires_action", CREATE, answer(200, &intent("pi_1", "requires_action")), "processing pi_1"),
        ("requires_confirmation", CREATE, answer(200, &intent("pi_1", "requires_confirmation")), "unknown, look up pi_1"),
        ("requires_payment_method, no error", CREATE, answer(200, &intent("pi_1", "requires_payment_method")), "refused requires_payment_method pi_1 open"),
        ("requires_payment_method, last try declined", CREATE, answer(200, declined), "declined expired_card pi_1 open"),
        ("requires_payment_method, last error not the card's (stripe-mock)", CREATE, answer(200, stand_in), "refused requires_payment_method pi_1 open"),
        ("requires_payment_method, id of no use in a path", CREATE, answer(200, odd_id), "refused requires_payment_method pi/1"),
        ("requires_payment_method, declined as a duplicate", CREATE, answer(200, duplicate), "unknown, look up -"),
        ("canceled", CREATE, answer(200, &intent("pi_1", "canceled")), "canceled payment_canceled pi_1"),
        ("unknown status string", CREATE, answer(200, &intent("pi_1", "requires_a_dance")), "unknown, look up pi_1"),
        ("confirm: succeeded", CONFIRM, answer(200, &intent("pi_1", "succeeded")), "succeeded pi_1 1999"),
        ("confirm: about another payment", CONFIRM, answer(200, &intent("pi_2", "succeeded")), "unknown, look up -"),
        ("charge: succeeded", CHARGE, answer(200, &charge("ch_1", "succeeded")), "succeeded ch_1 1999"),
        ("charge: pending", CHARGE, answer(200, &charge("ch_1", "pending")), "processing ch_1"),
        ("charge: failed", CHARGE, answer(200, &charge("ch_1", "failed")), "declined card_declined ch_1"),
        ("charge: unknown status string", CHARGE, answer(200, &charge("ch_1", "dancing")), "unknown, look up ch_1"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_a_decline_says() {
    let charge_only = error(&format!(r#"{DECLINED},"charge":"ch_1""#));
    let intent_id_only = error(&format!(r#"{DECLINED},"payment_intent":"pi_1""#));
    let localstripe = error(&format!(r#"{INVALID},"code":"card_declined","charge":"ch_1""#));
    let duplicate = error_on(&format!(r#"{DECLINED},"decline_code":"duplicate_transaction""#), "requires_payment_method");
    let authenticate = error_on(r#""type":"card_error","code":"authentication_required","decline_code":"authentication_required""#, "requires_payment_method");
    check(&[
        ("402 card_error", CREATE, answer(402, &error_on(DECLINED, "requires_payment_method")), "declined card_declined pi_1 open"),
        ("402 authentication_required", CREATE, answer(402, &authenticate), "declined authentication_required pi_1 open"),
        ("402 card_error, replayed", CREATE, answer_with(402, &[("idempotent-replayed", "true")], &error_on(DECLINED, "requires_payment_method")), "declined card_declined pi_1 open"),
        ("402 card_error, payment named by id only", CREATE, answer(402, &intent_id_only), "declined card_declined pi_1"),
        ("402 card_error on a canceled payment", CREATE, answer(402, &error_on(DECLINED, "canceled")), "declined card_declined pi_1"),
        ("402 card_error beside a payment that succeeded", CREATE, answer(402, &error_on(DECLINED, "succeeded")), "unknown, look up pi_1"),
        ("402 card_error beside a payment that is processing", CREATE, answer(402, &error_on(DECLINED, "processing")), "unknown, look up pi_1"),
        ("402 card_error beside a payment that waits for the customer", CREATE, answer(402, &error_on(DECLINED, "requires_action")), "unknown, look up pi_1"),
        ("402 duplicate_transaction: look for a sibling first", CREATE, answer(402, &duplicate), "unknown, look up -"),
        ("402 card_declined of another type (localstripe)", CREATE, answer(402, &localstripe), "declined card_declined ch_1"),
        ("402 card_declined of another type, on a confirm", CONFIRM, answer(402, &localstripe), "declined card_declined pi_1 open"),
        ("402 card_error on a legacy charge: a dead object", CHARGE, answer(402, &charge_only), "declined card_declined ch_1"),
        ("402 that is no decline", CREATE, answer(402, &error(INVALID)), "refused invalid_request_error -"),
        ("402 of unknown type", CREATE, answer(402, &error(r#""type":"weather_error""#)), "unknown, resend -"),
        ("402 that cannot be read", CREATE, answer(402, "<html>"), "unknown, resend -"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_a_refusal_says() {
    let code = |code: &str| error(&format!(r#"{INVALID},"code":"{code}""#));
    let return_url = error_on(&format!(r#"{INVALID},"message":"must provide a return_url""#), "requires_payment_method");
    check(&[
        ("400 parameter_missing", CREATE, answer(400, &code("parameter_missing")), "refused parameter_missing -"),
        ("400 amount_too_small", CREATE, answer(400, &code("amount_too_small")), "refused amount_too_small -"),
        ("400 without a code", CREATE, answer(400, &error(INVALID)), "refused invalid_request_error -"),
        ("400 no code, must provide a return_url, a payment was made", CREATE, answer(400, &return_url), "refused invalid_request_error pi_1 open"),
        ("400 beside a payment that succeeded", CREATE, answer(400, &error_on(INVALID, "succeeded")), "unknown, look up pi_1"),
        ("400 on a confirm, without a code (localstripe, already paid)", CONFIRM, answer(400, &error(INVALID)), "unknown, look up -"),
        ("400 on a confirm, with a code", CONFIRM, answer(400, &code("parameter_unknown")), "refused parameter_unknown pi_1 open"),
        ("400 idempotency_error", CREATE, answer(400, &error(r#""type":"idempotency_error""#)), "unknown, look up or review -"),
        ("400 rate_limit", CREATE, answer(400, &code("rate_limit")), "not executed: rate limited"),
        ("400 unexpected state: succeeded is paid", CONFIRM, answer(400, &error_on(UNEXPECTED, "succeeded")), "succeeded pi_1 1999"),
        ("400 unexpected state: processing", CONFIRM, answer(400, &error_on(UNEXPECTED, "processing")), "processing pi_1"),
        ("400 unexpected state: canceled", CONFIRM, answer(400, &error_on(UNEXPECTED, "canceled")), "canceled payment_canceled pi_1"),
        ("400 unexpected state: any other", CONFIRM, answer(400, &error_on(UNEXPECTED, "requires_action")), "unknown, look up pi_1"),
        ("400 unexpected state: no payment inside", CONFIRM, answer(400, &error(UNEXPECTED)), "unknown, look up -"),
        ("400 unexpected state: a payment that cannot be read", CONFIRM, answer(400, &error(&format!(r#"{UNEXPECTED},"payment_intent":{{"status":"succeeded"}}"#))), "unknown, look up -"),
        ("400 resource_missing, an id passed as parameter", CREATE, answer(400, &code("resource_missing")), "refused resource_missing -"),
        ("404 resource_missing, the id in the path", CONFIRM, answer(404, &code("resource_missing")), "refused resource_missing -"),
        ("400 that cannot be read", CREATE, answer(400, "Bad Request"), "unknown, resend -"),
        ("404 web page", CREATE, answer(404, "<html>"), "unknown, resend -"),
        ("400 of unknown type", CREATE, answer(400, &error(r#""type":"api_error""#)), "unknown, resend -"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_the_other_statuses_say() {
    let limited = &[("stripe-rate-limited-reason", "global-rate")];
    let in_use = error(&format!(r#"{INVALID},"code":"idempotency_key_in_use""#));
    let lock = error(&format!(r#"{INVALID},"code":"lock_timeout""#));
    let indeterminate = error_on(r#""type":"api_error""#, "processing");
    check(&[
        ("401, whatever the body", CREATE, answer(401, "<html>"), "not executed: credentials"),
        ("401 api_key_expired", CREATE, answer(401, &error(r#""type":"invalid_request_error","code":"api_key_expired""#)), "not executed: credentials"),
        ("403", CREATE, answer(403, &error(INVALID)), "not executed: credentials"),
        ("409 idempotency_key_in_use", CREATE, answer(409, &in_use), "unknown, resend -"),
        ("409 other", CREATE, answer(409, ""), "unknown, resend -"),
        ("424", CREATE, answer(424, ""), "unknown, resend -"),
        ("429 with Stripe-Rate-Limited-Reason", CREATE, answer_with(429, limited, ""), "not executed: rate limited"),
        ("429 lock_timeout", CREATE, answer(429, &lock), "not executed: rate limited"),
        ("429 other code", CREATE, answer(429, &error(r#""code":"payment_intent_rate_limit_exceeded""#)), "not executed: rate limited"),
        ("500 api_error", CREATE, answer(500, &error(r#""type":"api_error""#)), "unknown, look up -"),
        ("500 that names its payment", CREATE, answer(500, &indeterminate), "unknown, look up pi_1"),
        ("502 web page", CREATE, answer(502, "<html>"), "unknown, resend -"),
        ("503", CREATE, answer(503, ""), "unknown, resend -"),
        ("504", CREATE, answer(504, ""), "unknown, resend -"),
        ("a redirect, which is not followed", CREATE, answer(302, ""), "unknown, resend -"),
        ("a status that Stripe does not document", CREATE, answer(418, &error(INVALID)), "unknown, resend -"),
    ]);
}

#[test]
fn a_decline_keeps_its_codes() {
    let body = error_on(
        r#""type":"card_error","code":"card_declined","decline_code":"insufficient_funds",
        "advice_code":"try_again_later","message":"Your card has insufficient funds.""#,
        "requires_payment_method",
    );
    let Outcome::Failed(failure) = read(CREATE, &answer(402, &body)) else {
        panic!("not a failure");
    };
    assert_eq!(failure.decline_code.as_deref(), Some("insufficient_funds"));
    assert_eq!(failure.advice_code.as_deref(), Some("try_again_later"));
    assert_eq!(
        failure.message.as_deref(),
        Some("Your card has insufficient funds.")
    );
}

#[test]
fn a_success_carries_our_marks() {
    let Outcome::Succeeded(payment) = read(CHARGE, &answer(200, &charge("ch_1", "succeeded")))
    else {
        panic!("not a success");
    };
    assert_eq!(payment.invoice_id.as_deref(), Some("inv_1"));
    assert_eq!(payment.installation_id.as_deref(), Some("inst"));
    assert_eq!(payment.charge_key.as_deref(), Some("charge:inv_1"));
    assert_eq!(payment.currency, "eur");
}

#[test]
#[rustfmt::skip]
fn a_nul_in_any_text_of_an_answer_reaches_nobody() {
    let failed_charge = r#"{"id":"ch_1","status":"failed","amount":5,"currency":"eur","metadata":{"invoice_id":"inv_1"},
        "failure_code":"card_declined","failure_message":"No.","outcome":{"reason":"insufficient_funds","advice_code":"try_again_later"}}"#;
    let declined = error(&format!(
        r#"{DECLINED},"decline_code":"insufficient_funds","advice_code":"try_again_later","message":"No.","charge":"ch_1""#
    ));
    let duplicate = error(&format!(r#"{DECLINED},"decline_code":"duplicate_transaction","charge":"ch_1""#));
    let bodies = [
        (CREATE, 200, intent("pi_1", "succeeded")),
        (CREATE, 200, intent("pi_1", "requires_payment_method")),
        (CONFIRM, 200, intent("pi_1", "processing")),
        (CREATE, 402, error_on(DECLINED, "requires_payment_method")),
        (CREATE, 400, error_on(UNEXPECTED, "succeeded")),
        (CREATE, 409, error_on(INVALID, "processing")),
        (CHARGE, 200, charge("ch_1", "succeeded")),
        (CHARGE, 200, failed_charge.to_owned()),
        (CHARGE, 402, declined),
        (CHARGE, 402, duplicate),
    ];
    for (endpoint, status, body) in bodies {
        let spoiled = each_with_a_nul(&body);
        assert!(spoiled.len() > 7, "{body}");
        for body in spoiled {
            let outcome = format!("{:?}", read(endpoint, &answer(status, &body)));
            assert!(!outcome.contains("\\0"), "{body}: {outcome}");
        }
    }
}

#[test]
fn an_id_or_a_mark_with_a_nul_is_not_taken_for_the_one_without() {
    let body = intent("pi_1", "succeeded").replace("pi_1", r"pi_1\u0000");
    let id = short(&read(CREATE, &answer(200, &body)));
    assert_eq!(id, "succeeded pi_1\u{fffd} 1999");
    assert_eq!(
        short(&read(CONFIRM, &answer(200, &body))),
        "unknown, look up -"
    );
    let body = intent("pi_1", "succeeded").replace("inv_1", r"inv_1\u0000");
    match read(CREATE, &answer(200, &body)) {
        Outcome::Succeeded(payment) => {
            assert_eq!(payment.invoice_id.as_deref(), Some("inv_1\u{fffd}"));
        }
        other @ (Outcome::Failed(_)
        | Outcome::Processing(_)
        | Outcome::NotExecuted(_)
        | Outcome::Unknown(_)) => panic!("{other:?}"),
    }
}
