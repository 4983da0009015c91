//! stripe-mock: validates each request against Stripe's own OpenAPI description. Its PaymentIntents always wait for a payment
//! method, its Charges always succeed.

use std::process::Command;

use chargeonce::payments::outcome::{Failure, FailureKind, Outcome, PaymentStatus};
use chargeonce::payments::provider::{
    FrozenRequest, PaymentOrder, PaymentProvider, PaymentQuery, PreparedPayment,
};
use chargeonce::payments::refund::{
    RefundOrder, RefundProvider, RefundQuery, RefundReason, RefundState,
};
use chargeonce::payments::stripe::StripeApi;
use serde_json::json;

use super::{Peer, limits, refund_order, soon};
use crate::support::{Engine, TestApp};

async fn stripe_mock() -> Peer {
    let program = std::env::var("STRIPE_MOCK_BIN")
        .expect("STRIPE_MOCK_BIN names stripe-mock; `make test` fetches it");
    let mut command = Command::new(program);
    // Its HTTPS port would be the same one for all.
    command.args(["-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0"]);
    Peer::announcing(command, "Listening for HTTP at address: ").await
}

fn order(open_payment_id: Option<&str>) -> PaymentOrder {
    PaymentOrder {
        invoice_id: "inv_1".into(),
        charge_key: "charge:inv_1".into(),
        attempt: 1,
        installation_id: "ins_1".into(),
        amount_minor: 1250,
        currency: "usd".into(),
        customer_id: "cus_1".into(),
        payment_method_id: Some("pm_card_visa".into()),
        open_payment_id: open_payment_id.map(str::to_owned),
    }
}

/// A schema error is a 400 without a code; anything the schema accepts is answered by a fixture.
fn is_schema_error(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(Failure { kind: FailureKind::Refused, code, .. }) if code == "invalid_request_error")
        || matches!(outcome, Outcome::Unknown(_))
}

async fn send(provider: &dyn PaymentProvider, request: &FrozenRequest) -> Outcome {
    provider.send("charge:inv_1", request, limits()).await
}

#[tokio::test]
#[ignore = "needs stripe-mock: make test"]
async fn every_request_of_the_payment_intents_client_fits_stripes_schema() {
    let peer = stripe_mock().await;
    let provider = peer.provider(StripeApi::PaymentIntents);

    let PreparedPayment { request, .. } = provider.prepare(&order(None)).await.unwrap();
    let created = send(&*provider, &request).await;
    assert!(!is_schema_error(&created), "{created:?}");
    let Outcome::Failed(failure) = created else {
        panic!("{created:?}")
    };
    assert_eq!(failure.code, "requires_payment_method");
    let payment_id = failure.payment_id.unwrap();

    let confirm = provider
        .prepare(&order(Some(&payment_id)))
        .await
        .unwrap()
        .request;
    assert_eq!(
        confirm.path,
        format!("/v1/payment_intents/{payment_id}/confirm")
    );
    let confirmed = send(&*provider, &confirm).await;
    assert!(!is_schema_error(&confirmed), "{confirmed:?}");

    let query = |payment_id: Option<&str>| PaymentQuery {
        payment_id: payment_id.map(str::to_owned),
        customer_id: "cus_1".into(),
        invoice_id: "inv_1".into(),
        installation_id: "ins_1".into(),
        since_ms: 1_700_000_000_000,
    };
    let found = provider
        .find(&query(Some(&payment_id)), soon())
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].status, PaymentStatus::RequiresPaymentMethod);
    // Its list has one payment without metadata, which is nobody's.
    assert_eq!(provider.find(&query(None), soon()).await.unwrap(), []);
    let canceled = provider
        .cancel(&payment_id, "charge:inv_1:cancel", soon())
        .await
        .unwrap();
    assert_eq!(canceled.id, payment_id);
    // A customer without any default: the look-up is accepted, and there is nothing to charge.
    let without_method = PaymentOrder {
        payment_method_id: None,
        ..order(None)
    };
    let error = provider.prepare(&without_method).await.unwrap_err();
    assert!(
        error.to_string().contains("no default payment method"),
        "{error}"
    );
}

#[tokio::test]
#[ignore = "needs stripe-mock: make test"]
async fn every_request_of_the_charges_client_fits_stripes_schema() {
    let peer = stripe_mock().await;
    let provider = peer.provider(StripeApi::Charges);

    for method in [Some("tok_visa".to_owned()), None] {
        let order = PaymentOrder {
            payment_method_id: method,
            ..order(None)
        };
        let request = provider.prepare(&order).await.unwrap().request;
        let Outcome::Succeeded(payment) = send(&*provider, &request).await else {
            panic!("not charged")
        };
        assert_eq!(
            (payment.amount_minor, payment.currency.as_str()),
            (1250, "usd")
        );
        let query = PaymentQuery {
            payment_id: Some(payment.id.clone()),
            customer_id: "cus_1".into(),
            invoice_id: "inv_1".into(),
            installation_id: "ins_1".into(),
            since_ms: 1_700_000_000_000,
        };
        let found = provider.find(&query, soon()).await.unwrap();
        assert_eq!(found[0].id, payment.id);
        let listed = provider
            .find(
                &PaymentQuery {
                    payment_id: None,
                    ..query
                },
                soon(),
            )
            .await
            .unwrap();
        assert_eq!(listed, []);
    }
}

#[tokio::test]
#[ignore = "needs stripe-mock: make test"]
async fn every_request_of_a_refund_fits_stripes_schema() {
    let peer = stripe_mock().await;
    for (api, payment_id) in [
        (StripeApi::PaymentIntents, "pi_1"),
        (StripeApi::Charges, "ch_1"),
    ] {
        let provider = peer.provider(api);
        let reasons = RefundReason::ALL.map(Some).into_iter();
        for reason in reasons.chain([None]) {
            let order = RefundOrder {
                reason,
                ..refund_order(payment_id)
            };
            let request = provider.prepare_refund(&order);
            let sent = provider.send_refund(&order.refund_key, &request, limits());
            let Outcome::Succeeded(refund) = sent.await else {
                panic!("{api:?} {reason:?}: not given back")
            };
            assert_eq!(
                (refund.amount_minor, refund.currency.as_str()),
                (400, "usd")
            );
            assert_eq!(refund.payment_id.as_deref(), Some(payment_id));
        }

        // Its list has one refund without metadata, which is nobody's.
        let query = RefundQuery {
            payment_id: payment_id.to_owned(),
            refund_id: Some("re_1".to_owned()),
            since_ms: 1_700_000_000_000,
        };
        let found = provider.find_refunds(&query, soon()).await.unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            (found[0].refund_key.as_ref(), found[1].id.as_str()),
            (None, "re_1")
        );
        let page = provider.page_refunds(1_700_000_000_000, None, soon()).await;
        assert_eq!(page.unwrap().refunds.len(), 1);
        let one = provider.retrieve_refund("re_1", soon()).await.unwrap();
        assert_eq!(one.unwrap().status, RefundState::Succeeded);

        let mut request = provider.prepare_refund(&refund_order(payment_id));
        request.body.push_str("&no_such_parameter=1");
        let sent = provider.send_refund("refund:chg_1", &request, limits());
        assert!(matches!(
            sent.await,
            Outcome::Failed(Failure {
                kind: FailureKind::Refused,
                ..
            })
        ));
    }
}

#[tokio::test]
#[ignore = "needs stripe-mock: make test"]
async fn a_parameter_that_stripe_does_not_know_would_have_been_noticed() {
    let peer = stripe_mock().await;
    let provider = peer.provider(StripeApi::PaymentIntents);
    let mut request = provider.prepare(&order(None)).await.unwrap().request;
    request.body.push_str("&no_such_parameter=1");

    let outcome = send(&*provider, &request).await;

    assert!(is_schema_error(&outcome), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stripe-mock: make test"]
async fn an_invoice_is_charged_end_to_end_through_the_charges_api() {
    let peer = stripe_mock().await;
    let app = TestApp::with(Engine::Sqlite)
        .provider(peer.provider(StripeApi::Charges))
        .start()
        .await;
    app.invoice_with("inv_1", json!({"paymentMethodId": "tok_visa"}))
        .await;

    let first = app.charge("inv_1").await;
    first.assert(201, "", "yes", "not_needed");
    let again = app.charge("inv_1").await;

    assert!(again.is_replay());
    assert_eq!(again.body, first.body);
    assert!(
        first.text("providerPaymentId").starts_with("ch_"),
        "{first:?}"
    );
    assert_eq!(app.invoice_status("inv_1").await, "paid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stripe-mock: make test"]
async fn a_payment_intent_that_takes_no_money_is_a_failure_and_the_next_attempt_has_the_next_key() {
    let peer = stripe_mock().await;
    let app = TestApp::with(Engine::Sqlite)
        .provider(peer.provider(StripeApi::PaymentIntents))
        .start()
        .await;
    app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa"}))
        .await;

    let first = app.charge("inv_1").await;
    first.assert(402, "charge_refused", "no", "after_change");
    let second = app.charge("inv_1").await;

    assert_eq!(first.json()["charge"]["idempotencyKey"], "charge:inv_1");
    assert_eq!(second.json()["charge"]["idempotencyKey"], "charge:inv_1:2");
    assert_eq!(app.attempts("inv_1").await, ["failed", "failed"]);
    assert_eq!(app.invoice_status("inv_1").await, "open");
}
