//! The whole adapter against the stateful stand-in, in this process and over HTTP: what the provider says, and what the
//! stand-in's ledger says.

use std::time::Duration;

use futures_util::future::join_all;

use super::super::StripeApi::{Charges, PaymentIntents};
use super::{FAULTS, deadline, over, over_http};
use crate::payments::mock::{Fault, FaultRule, MockStripe};
use crate::payments::outcome::{Outcome, PaymentStatus};
use crate::payments::provider::{PaymentOrder, PaymentProvider, PaymentQuery, SendLimits};

const KEY: &str = "charge:inv_1";

fn order(payment_method: Option<&str>) -> PaymentOrder {
    PaymentOrder {
        invoice_id: "inv_1".to_owned(),
        charge_key: KEY.to_owned(),
        attempt: 1,
        installation_id: "inst".to_owned(),
        amount_minor: 1999,
        currency: "eur".to_owned(),
        customer_id: "cus_1".to_owned(),
        payment_method_id: payment_method.map(str::to_owned),
        open_payment_id: None,
    }
}

fn query(payment_id: Option<&str>) -> PaymentQuery {
    PaymentQuery {
        payment_id: payment_id.map(str::to_owned),
        customer_id: "cus_1".to_owned(),
        invoice_id: "inv_1".to_owned(),
        installation_id: "inst".to_owned(),
        since_ms: chrono::Utc::now().timestamp_millis(),
    }
}

fn limits() -> SendLimits {
    SendLimits {
        wall_deadline: std::time::SystemTime::now() + Duration::from_secs(3_600),
        deadline: deadline(600),
        sent_before: false,
    }
}

/// Prepares and sends one order.
async fn charge(provider: &impl PaymentProvider, order: &PaymentOrder, key: &str) -> Outcome {
    let prepared = provider.prepare(order).await.expect("prepared");
    provider.send(key, &prepared.request, limits()).await
}

fn taken(mock: &MockStripe) -> usize {
    let payments = mock.ledger().payments;
    payments.iter().filter(|p| p.status == "succeeded").count()
}

#[tokio::test(start_paused = true)]
async fn an_invoice_is_charged_to_the_customers_default() {
    for api in [PaymentIntents, Charges] {
        let mock = MockStripe::new();
        let provider = over(api, &mock);
        let outcome = charge(&provider, &order(None), KEY).await;
        let Outcome::Succeeded(payment) = outcome else {
            panic!("{api:?}: {outcome:?}");
        };
        assert_eq!(payment.amount_minor, 1999);
        assert_eq!(payment.invoice_id.as_deref(), Some("inv_1"));
        assert_eq!(payment.charge_key.as_deref(), Some(KEY));
        assert_eq!(taken(&mock), 1);

        let known = provider.find(&query(Some(&payment.id)), deadline(60)).await;
        assert_eq!(known, Ok(vec![payment.clone()]), "{api:?}");
        let listed = provider.find(&query(None), deadline(60)).await;
        assert_eq!(listed, Ok(vec![payment]), "{api:?}");
    }
}

async fn meet_fault(
    provider: &impl PaymentProvider,
    mock: &MockStripe,
    fault: Fault,
    resolved: bool,
) {
    mock.add_fault(FaultRule::once(fault));
    let outcome = charge(provider, &order(Some("pm_card_visa")), KEY).await;
    match outcome {
        Outcome::Succeeded(_) => assert!(resolved, "{fault:?}"),
        Outcome::Unknown(_) => assert!(!resolved, "{fault:?}: {outcome:?}"),
        Outcome::Processing(_) | Outcome::Failed(_) | Outcome::NotExecuted(_) => {
            panic!("{fault:?}: {outcome:?}")
        }
    }
    let found = provider.find(&query(None), deadline(60)).await;
    let succeeded = found
        .expect("an answer")
        .iter()
        .filter(|payment| payment.status == PaymentStatus::Succeeded)
        .count();
    assert_eq!(succeeded, taken(mock), "{fault:?}");
    assert!(succeeded <= 1, "{fault:?}");
    assert!(!resolved || succeeded == 1, "{fault:?}");
}

#[tokio::test(start_paused = true)]
async fn whatever_is_lost_on_the_way_the_money_is_taken_once() {
    for (fault, resolved) in FAULTS {
        let mock = MockStripe::new();
        meet_fault(&over(PaymentIntents, &mock), &mock, fault, resolved).await;
    }
}

#[tokio::test]
async fn over_http_it_is_the_same() {
    join_all(FAULTS.map(|(fault, resolved)| async move {
        let mock = MockStripe::new();
        let (provider, stop) = over_http(&mock);
        meet_fault(&provider, &mock, fault, resolved).await;
        stop.await;
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_later_attempt_confirms_the_payment_that_a_decline_left_open() {
    let mock = MockStripe::new();
    let provider = over(PaymentIntents, &mock);
    let declining = order(Some("pm_card_visa_chargeDeclined"));
    let outcome = charge(&provider, &declining, KEY).await;
    let Outcome::Failed(failure) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(failure.payment_open);
    let second = PaymentOrder {
        open_payment_id: failure.payment_id.clone(),
        ..order(Some("pm_card_visa"))
    };
    let outcome = charge(&provider, &second, "charge:inv_1:2").await;
    let Outcome::Succeeded(payment) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(Some(payment.id.clone()), failure.payment_id);

    // One payment succeeds once: a third confirm, under a key of its own, says paid and takes nothing.
    let outcome = charge(&provider, &second, "charge:inv_1:3").await;
    assert_eq!(outcome, Outcome::Succeeded(payment));
    assert_eq!(taken(&mock), 1);
}

#[tokio::test(start_paused = true)]
async fn an_open_payment_is_canceled_and_stays_so() {
    let mock = MockStripe::new();
    let provider = over(PaymentIntents, &mock);
    let declining = order(Some("pm_card_visa_chargeDeclined"));
    let Outcome::Failed(failure) = charge(&provider, &declining, KEY).await else {
        panic!("not declined");
    };
    let id = failure.payment_id.expect("a payment");
    for key in ["cancel:1", "cancel:1", "cancel:2"] {
        let state = provider.cancel(&id, key, deadline(60)).await;
        assert_eq!(state.map(|p| p.status), Ok(PaymentStatus::Canceled));
    }
    let second = PaymentOrder {
        open_payment_id: Some(id),
        ..order(Some("pm_card_visa"))
    };
    let outcome = charge(&provider, &second, "charge:inv_1:2").await;
    let Outcome::Failed(failure) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(failure.code, "payment_canceled");
    assert!(!failure.payment_open);
}
