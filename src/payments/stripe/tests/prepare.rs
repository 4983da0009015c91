//! Preparing: the default payment method is looked up, and only when none is named.

use super::super::StripeApi::{self, Charges, PaymentIntents};
use super::super::transport::{Method, TransportResult};
use super::{answer, lost, not_sent, provider, script};
use crate::payments::provider::{PaymentOrder, PaymentProvider, PrepareError};

fn order(method: Option<&str>) -> PaymentOrder {
    PaymentOrder {
        invoice_id: "inv_1".to_owned(),
        charge_key: "charge:inv_1".to_owned(),
        attempt: 1,
        installation_id: "inst".to_owned(),
        amount_minor: 1999,
        currency: "eur".to_owned(),
        customer_id: "cus_1".to_owned(),
        payment_method_id: method.map(str::to_owned),
        open_payment_id: None,
    }
}

fn customer(fields: &str) -> TransportResult {
    answer(
        200,
        &format!(r#"{{"id":"cus_1","object":"customer"{fields}}}"#),
    )
}

/// What was prepared, in short.
async fn prepared(api: StripeApi, results: Vec<TransportResult>) -> String {
    let script = script(results);
    let prepared = provider(api, &script).prepare(&order(None)).await;
    for call in script.calls() {
        assert_eq!(
            (call.method, call.path_and_query.as_str()),
            (Method::Get, "/v1/customers/cus_1")
        );
    }
    match prepared {
        Ok(prepared) => prepared.payment_method_id.unwrap_or("-".to_owned()),
        Err(PrepareError::Unavailable(_)) => "unavailable".to_owned(),
        Err(PrepareError::Credentials(_)) => "credentials".to_owned(),
        Err(PrepareError::NoPaymentMethod(_)) => "no payment method".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_payment_method_needs_no_look_up() {
    let script = script([]);
    let prepared = provider(PaymentIntents, &script)
        .prepare(&order(Some("pm_1")))
        .await
        .expect("prepared");
    assert_eq!(prepared.payment_method_id.as_deref(), Some("pm_1"));
    assert_eq!(prepared.request.path, "/v1/payment_intents");
    assert!(prepared.request.body.contains("&payment_method=pm_1&"));
    assert!(script.calls().is_empty());
}

#[tokio::test(start_paused = true)]
#[rustfmt::skip]
async fn the_customers_default_is_resolved() {
    let both = || customer(r#","invoice_settings":{"default_payment_method":"pm_2"},"default_source":"card_1""#);
    let expanded = || customer(r#","invoice_settings":{"default_payment_method":{"id":"pm_3","object":"payment_method"}}"#);
    let source = || customer(r#","invoice_settings":{"default_payment_method":null},"default_source":"card_1""#);
    let nothing = || customer(r#","invoice_settings":{"default_payment_method":null},"default_source":null"#);
    let rows = [
        ("both, PaymentIntents", PaymentIntents, vec![both()], "pm_2"),
        ("both, Charges take sources", Charges, vec![both()], "card_1"),
        ("expanded", PaymentIntents, vec![expanded()], "pm_3"),
        ("only a source", PaymentIntents, vec![source()], "card_1"),
        ("only for invoices, Charges", Charges, vec![expanded()], "pm_3"),
        ("nothing, PaymentIntents", PaymentIntents, vec![nothing()], "no payment method"),
        ("nothing, Charges leave it to Stripe", Charges, vec![nothing()], "-"),
        ("deleted", PaymentIntents, vec![customer(r#","deleted":true"#)], "no payment method"),
        ("deleted, Charges", Charges, vec![customer(r#","deleted":true"#)], "no payment method"),
        ("unknown", PaymentIntents, vec![answer(404, "{}")], "no payment method"),
        ("not our key", PaymentIntents, vec![answer(401, "{}")], "credentials"),
        ("not our permission", PaymentIntents, vec![answer(403, "{}")], "credentials"),
        ("a bad request", PaymentIntents, vec![answer(400, "{}")], "unavailable"),
        ("unreadable", PaymentIntents, vec![answer(200, "<html>")], "unavailable"),
        ("repeated until it works", PaymentIntents, vec![not_sent(), answer(503, ""), both()], "pm_2"),
        ("repeated in vain", PaymentIntents, vec![lost("cut"), lost("cut"), lost("cut")], "unavailable"),
        ("rate limited in vain", PaymentIntents, vec![answer(429, ""), answer(429, ""), answer(429, "")], "unavailable"),
    ];
    for (name, api, results, expected) in rows {
        assert_eq!(prepared(api, results).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_customer_id_that_changes_the_path_is_not_asked_for() {
    let script = script([]);
    let order = PaymentOrder {
        customer_id: "..".to_owned(),
        ..order(None)
    };
    let prepared = provider(PaymentIntents, &script).prepare(&order).await;
    assert!(matches!(prepared, Err(PrepareError::NoPaymentMethod(_))));
    assert!(script.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_look_up_takes_no_longer_than_one_request_may() {
    let script = super::Script {
        takes: std::time::Duration::from_secs(1_000),
        ..super::Script::default()
    };
    let begun = tokio::time::Instant::now();
    let prepared = provider(PaymentIntents, &script)
        .prepare(&order(None))
        .await;
    assert!(matches!(prepared, Err(PrepareError::Unavailable(_))));
    assert_eq!(begun.elapsed(), std::time::Duration::from_secs(80));
}
