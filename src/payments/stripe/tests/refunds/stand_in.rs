//! Refunds through the whole adapter against the stateful stand-in, in this process and over HTTP: what the provider says,
//! and what the stand-in's ledger says.

use std::time::Duration;

use futures_util::future::join_all;

use super::super::StripeApi::{Charges, PaymentIntents};
use super::super::{FAULTS, deadline, over, over_http, short};
use super::{KEY, limits};
use crate::payments::mock::{Fault, FaultRule, MockStripe};
use crate::payments::outcome::Outcome;
use crate::payments::provider::{PaymentOrder, PaymentProvider};
use crate::payments::refund::{
    ProviderRefund, RefundOrder, RefundProvider, RefundQuery, RefundReason, RefundState,
};

/// Takes 1999 and gives the payment's id.
async fn paid(provider: &impl PaymentProvider, card: &str) -> String {
    let order = PaymentOrder {
        invoice_id: "inv_1".to_owned(),
        charge_key: "charge:inv_1".to_owned(),
        attempt: 1,
        installation_id: "inst".to_owned(),
        amount_minor: 1999,
        currency: "eur".to_owned(),
        customer_id: "cus_1".to_owned(),
        payment_method_id: Some(card.to_owned()),
        open_payment_id: None,
    };
    let prepared = provider.prepare(&order).await.expect("prepared");
    let outcome = provider
        .send("charge:inv_1", &prepared.request, limits(false))
        .await;
    let Outcome::Succeeded(payment) = outcome else {
        panic!("{outcome:?}");
    };
    payment.id
}

fn order(payment_id: &str, key: &str, amount_minor: i64) -> RefundOrder {
    RefundOrder {
        refund_key: key.to_owned(),
        amount_minor,
        reason: Some(RefundReason::RequestedByCustomer),
        ..super::order(payment_id)
    }
}

/// Prepares and sends one refund.
async fn give_back(
    provider: &impl RefundProvider,
    payment_id: &str,
    key: &str,
    amount_minor: i64,
) -> Outcome<ProviderRefund> {
    let request = provider.prepare_refund(&order(payment_id, key, amount_minor));
    provider.send_refund(key, &request, limits(false)).await
}

fn query(payment_id: &str) -> RefundQuery {
    RefundQuery {
        payment_id: payment_id.to_owned(),
        refund_id: None,
        since_ms: chrono::Utc::now().timestamp_millis(),
    }
}

fn amounts(mock: &MockStripe) -> Vec<i64> {
    let refunds = mock.ledger().refunds;
    refunds.iter().map(|refund| refund.amount).collect()
}

#[tokio::test(start_paused = true)]
async fn two_parts_are_given_back_each_once_and_found_again() {
    for api in [PaymentIntents, Charges] {
        let mock = MockStripe::new();
        let provider = over(api, &mock);
        let payment_id = paid(&provider, "pm_card_visa").await;
        let mut refunds = Vec::new();
        for (key, amount) in [("refund:chg_1:a", 1000), ("refund:chg_1:b", 999)] {
            for _ in 0..3 {
                let outcome = give_back(&provider, &payment_id, key, amount).await;
                let Outcome::Succeeded(refund) = outcome else {
                    panic!("{api:?}: {outcome:?}");
                };
                assert_eq!(refund.payment_id.as_deref(), Some(payment_id.as_str()));
                assert_eq!(refund.refund_key.as_deref(), Some(key));
                assert_eq!(
                    (refund.amount_minor, refund.currency.as_str()),
                    (amount, "eur")
                );
                refunds.insert(0, refund);
            }
        }
        refunds.dedup();
        assert_eq!(amounts(&mock), [1000, 999]);
        let found = provider
            .find_refunds(&query(&payment_id), deadline(60))
            .await;
        assert_eq!(found, Ok(refunds.clone()), "{api:?}");
        let one = provider.retrieve_refund(&refunds[0].id, deadline(60)).await;
        assert_eq!(one, Ok(Some(refunds[0].clone())));
        let gone = provider.retrieve_refund("re_gone", deadline(60)).await;
        assert_eq!(gone, Ok(None));

        let third = give_back(&provider, &payment_id, "refund:chg_1:c", 1).await;
        assert_eq!(short(&third), "declined charge_already_refunded -");
        assert_eq!(amounts(&mock), [1000, 999]);
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_is_left_is_refused_and_gives_nothing_back() {
    let mock = MockStripe::new();
    let provider = over(PaymentIntents, &mock);
    let payment_id = paid(&provider, "pm_card_visa").await;
    give_back(&provider, &payment_id, "refund:chg_1:a", 1500).await;
    let outcome = give_back(&provider, &payment_id, "refund:chg_1:b", 500).await;
    assert_eq!(short(&outcome), "declined refund_exceeds_payment -");
    assert_eq!(amounts(&mock), [1500]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_stripe_has_forgotten_gives_nothing_back_again() {
    let mock = MockStripe::new();
    let provider = over(PaymentIntents, &mock);
    let payment_id = paid(&provider, "pm_card_visa").await;
    let first = give_back(&provider, &payment_id, KEY, 1999).await;
    mock.advance_clock(Duration::from_secs(25 * 3600));

    let second = give_back(&provider, &payment_id, KEY, 1999).await;

    assert_eq!(second, first, "the refund that was made then");
    assert_eq!(amounts(&mock), [1999]);
}

#[tokio::test(start_paused = true)]
async fn a_refund_that_came_back_is_not_told_as_done() {
    let mock = MockStripe::new();
    let provider = over(PaymentIntents, &mock);
    let payment_id = paid(&provider, "pm_card_refundFail").await;
    let first = give_back(&provider, &payment_id, KEY, 1999).await;
    assert!(matches!(first, Outcome::Succeeded(_)), "{first:?}");
    mock.advance_clock(Duration::from_secs(61));

    let again = give_back(&provider, &payment_id, KEY, 1999).await;

    let Outcome::Failed(failure) = again else {
        panic!("{again:?}");
    };
    assert_eq!(failure.code, "refund_failed");
    let found = provider
        .find_refunds(&query(&payment_id), deadline(60))
        .await;
    assert_eq!(found.expect("an answer")[0].status, RefundState::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_refund_without_a_verdict_is_processing_until_it_has_one() {
    let mock = MockStripe::new();
    let provider = over(Charges, &mock);
    let payment_id = paid(&provider, "pm_card_pendingRefund").await;
    let first = give_back(&provider, &payment_id, KEY, 1999).await;
    assert!(matches!(first, Outcome::Processing(_)), "{first:?}");
    mock.advance_clock(Duration::from_secs(61));
    let again = give_back(&provider, &payment_id, KEY, 1999).await;
    assert!(matches!(again, Outcome::Succeeded(_)), "{again:?}");
    assert_eq!(amounts(&mock), [1999]);
}

#[tokio::test(start_paused = true)]
async fn the_whole_accounts_refunds_are_paged() {
    let mock = MockStripe::new();
    let provider = over(PaymentIntents, &mock);
    let payment_id = paid(&provider, "pm_card_visa").await;
    for number in 0..103 {
        give_back(&provider, &payment_id, &format!("refund:chg_1:{number}"), 1).await;
    }
    let since_ms = chrono::Utc::now().timestamp_millis();
    let first = provider.page_refunds(since_ms, None, deadline(60)).await;
    let first = first.expect("a page");
    let rest = provider
        .page_refunds(since_ms, first.next.as_deref(), deadline(60))
        .await
        .expect("a page");
    assert_eq!((first.refunds.len(), rest.refunds.len()), (100, 3));
    assert_eq!(rest.next, None);
    let newest = first.refunds[0].refund_key.as_deref();
    assert_eq!(newest, Some("refund:chg_1:102"));
}

async fn meet_fault(
    provider: &(impl PaymentProvider + RefundProvider),
    mock: &MockStripe,
    fault: Fault,
    resolved: bool,
) {
    let payment_id = paid(provider, "pm_card_visa").await;
    mock.add_fault(FaultRule {
        key_suffix: Some(KEY.to_owned()),
        ..FaultRule::once(fault)
    });
    let outcome = give_back(provider, &payment_id, KEY, 1000).await;
    match outcome {
        Outcome::Succeeded(_) => assert!(resolved, "{fault:?}"),
        Outcome::Unknown(_) => assert!(!resolved, "{fault:?}: {outcome:?}"),
        Outcome::Processing(_) | Outcome::Failed(_) | Outcome::NotExecuted(_) => {
            panic!("{fault:?}: {outcome:?}")
        }
    }
    let found = provider
        .find_refunds(&query(&payment_id), deadline(60))
        .await
        .expect("an answer");
    let given = amounts(mock).len();
    assert_eq!(found.len(), given, "{fault:?}");
    assert!(given <= 1, "{fault:?}");
    assert!(!resolved || given == 1, "{fault:?}");
}

#[tokio::test(start_paused = true)]
async fn whatever_is_lost_on_the_way_the_money_is_given_back_once() {
    for (fault, resolved) in FAULTS {
        let mock = MockStripe::new();
        let provider = over(PaymentIntents, &mock);
        meet_fault(&provider, &mock, fault, resolved).await;
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
