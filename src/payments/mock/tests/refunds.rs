//! Refunds as their callers meet them: faults that hit them by their key, verdicts that come by themselves, the ledger.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;

use super::super::{
    Fault, FaultRule, MockReply, MockRequest, MockStripe, RetryPolicy, WebhookEndpoint,
    WebhookPost, WebhookSink,
};
use super::{get, json, post};

const KEY: &str = "refund:chg_1";

/// A payment of 1000 with this card.
async fn payment(mock: &MockStripe, card: &str) -> String {
    let body = format!("amount=1000&currency=usd&payment_method={card}&confirm=true");
    let request = MockRequest::post("/v1/payment_intents", "charge:inv_1", &body);
    json(mock, request).await.1["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn refund(payment_id: &str, key: &str, amount: i64) -> MockRequest {
    let body = format!("payment_intent={payment_id}&amount={amount}&metadata%5Bcharge_id%5D=chg_1");
    MockRequest::post("/v1/refunds", key, &body)
}

fn states(mock: &MockStripe) -> Vec<(i64, String)> {
    let refunds = mock.ledger().refunds.into_iter();
    refunds
        .map(|refund| (refund.amount, refund.status))
        .collect()
}

/// Each fault, whether the first call has an answer, and how many refunds there are after it and after a second call.
#[rustfmt::skip]
const FAULTS: [(Fault, bool, usize, usize); 11] = [
    (Fault::DropBefore, false, 0, 1), (Fault::HangBefore, false, 0, 1),
    (Fault::DropAfter, false, 1, 1), (Fault::HangAfter, false, 1, 1),
    (Fault::Error500Before, true, 0, 0), (Fault::Error500After, true, 1, 1),
    (Fault::Error503, true, 0, 1), (Fault::RateLimit, true, 0, 1), (Fault::LockTimeout, true, 0, 1),
    (Fault::Unauthorized, true, 0, 1), (Fault::GarbageAfter, true, 1, 1),
];

#[tokio::test(start_paused = true)]
async fn a_fault_hits_a_refund_by_its_key_and_the_same_key_gives_back_once() {
    for (fault, answered, first, second) in FAULTS {
        let mock = MockStripe::new();
        let paid = payment(&mock, "pm_card_visa").await;
        mock.add_fault(FaultRule {
            delay_ms: 10,
            ..FaultRule::once(fault).for_key(KEY)
        });
        let (other, _) = json(&mock, refund(&paid, "refund:chg_2", 1)).await;
        assert_eq!(other, 200, "{fault:?} hit another key");

        let reply = mock.handle(refund(&paid, KEY, 400)).await;
        assert_eq!(matches!(reply, MockReply::Answer(_)), answered, "{fault:?}");
        assert_eq!(mock.ledger().refunds.len(), 1 + first, "{fault:?}");
        let MockReply::Answer(again) = mock.handle(refund(&paid, KEY, 400)).await else {
            panic!("{fault:?}: cut again");
        };
        assert_eq!(again.status == 200, !fault_is_stored(fault), "{fault:?}");
        assert_eq!(mock.ledger().refunds.len(), 1 + second, "{fault:?}");
    }
}

fn fault_is_stored(fault: Fault) -> bool {
    matches!(fault, Fault::Error500Before | Fault::Error500After)
}

#[tokio::test]
async fn a_fault_leaves_a_refund_pending_until_somebody_settles_it() {
    for (card, success, last) in [
        ("pm_card_visa", true, "succeeded"),
        ("pm_card_visa", false, "failed"),
        ("pm_card_pendingRefund", false, "failed"),
    ] {
        let mock = MockStripe::new();
        let paid = payment(&mock, card).await;
        mock.add_fault(FaultRule::once(Fault::Processing).for_key(KEY));
        let (_, made) = json(&mock, refund(&paid, KEY, 400)).await;
        assert_eq!(made["status"], "pending");
        mock.advance_clock(Duration::from_secs(24 * 3600));
        assert_eq!(states(&mock), [(400, "pending".to_owned())], "{card}");

        assert!(mock.settle_processing(made["id"].as_str().unwrap(), success));
        assert_eq!(states(&mock), [(400, last.to_owned())], "{card}");
        // What failed can be given back again, what is reserved cannot.
        let (status, _) = json(&mock, refund(&paid, "refund:chg_1:2", 1000)).await;
        assert_eq!(status == 200, !success, "{card}");
    }
}

#[tokio::test]
async fn a_wrong_amount_never_exceeds_what_was_taken() {
    for (asked, given) in [(1000, 999), (2, 1), (1, 1)] {
        let mock = MockStripe::new();
        let paid = payment(&mock, "pm_card_visa").await;
        mock.add_fault(FaultRule::once(Fault::WrongAmount).for_key(KEY));
        let (_, made) = json(&mock, refund(&paid, KEY, asked)).await;
        assert_eq!(made["amount"], given, "{asked}");
    }
}

#[tokio::test]
async fn some_refunds_turn_a_while_after_they_were_made() {
    let table = [
        ("pm_card_visa", "succeeded", "succeeded"),
        ("pm_card_pendingRefund", "pending", "succeeded"),
        ("pm_card_refundFail", "succeeded", "failed"),
    ];
    for (card, first, last) in table {
        let mock = MockStripe::new();
        let paid = payment(&mock, card).await;
        let (_, made) = json(&mock, refund(&paid, KEY, 400)).await;
        assert_eq!(made["status"], first, "{card}");
        mock.advance_clock(Duration::from_secs(50));
        assert_eq!(states(&mock), [(400, first.to_owned())], "{card}");
        mock.advance_clock(Duration::from_secs(20));
        assert_eq!(states(&mock), [(400, last.to_owned())], "{card}");

        // Its key tells of the first moment for ever, its path of now.
        let (_, stored) = json(&mock, refund(&paid, KEY, 400)).await;
        assert_eq!(stored["status"], first, "{card}");
        let path = format!("/v1/refunds/{}", made["id"].as_str().unwrap());
        let (_, now) = get(&mock, &format!("{path}?expand[]=charge")).await;
        assert_eq!(now["status"], last, "{card}");
        assert_eq!(now["failure_reason"].is_null(), last != "failed", "{card}");
        let left = if last == "failed" { 0 } else { 400 };
        assert_eq!(now["charge"]["amount_refunded"], left, "{card}");
    }
}

#[tokio::test]
async fn a_verdict_by_hand_is_not_turned_again() {
    let mock = MockStripe::new();
    let paid = payment(&mock, "pm_card_pendingRefund").await;
    let (_, made) = json(&mock, refund(&paid, KEY, 400)).await;
    assert!(mock.settle_processing(made["id"].as_str().unwrap(), false));
    mock.advance_clock(Duration::from_secs(3600));
    assert_eq!(states(&mock), [(400, "failed".to_owned())]);
}

#[tokio::test]
async fn the_ledger_tells_whose_money_each_refund_gave_back() {
    let mock = MockStripe::new();
    let paid = payment(&mock, "pm_card_visa").await;
    json(&mock, refund(&paid, KEY, 400)).await;
    let (_, charge) = post(
        &mock,
        "/v1/charges",
        "amount=100&currency=eur&source=tok_visa",
    )
    .await;
    let charge_id = charge["id"].as_str().unwrap();
    post(&mock, "/v1/refunds", &format!("charge={charge_id}")).await;

    let ledger = serde_json::to_value(mock.ledger()).unwrap();
    let rows = ledger["refunds"].as_array().unwrap();
    let row = |row: &Value| {
        [
            "idempotencyKey",
            "chargeId",
            "paymentId",
            "currency",
            "status",
        ]
        .map(|name| row[name].as_str().unwrap_or("-").to_owned())
    };
    assert_eq!(row(&rows[0]), [KEY, "chg_1", &paid, "usd", "succeeded"]);
    assert_eq!(row(&rows[1]), ["-", "-", charge_id, "eur", "succeeded"]);
    assert!(rows[0]["id"].as_str().unwrap().starts_with("re_"));
    assert!(rows[0]["createdAt"].as_str().unwrap().ends_with('Z'));
    let given: Vec<_> = mock
        .ledger()
        .given_back("chg_1")
        .iter()
        .map(|refund| refund.amount)
        .collect();
    assert_eq!(given, [400]);
    assert!(mock.ledger().given_back("chg_2").is_empty());
}

#[derive(Debug)]
struct Posts(mpsc::UnboundedSender<String>);

#[async_trait]
impl WebhookSink for Posts {
    fn check(&self, _url: &str) -> Result<(), String> {
        Ok(())
    }

    async fn post(&self, post: WebhookPost) -> Result<u16, String> {
        let event: Value = serde_json::from_slice(&post.body).unwrap();
        let (kind, object) = (&event["type"], &event["data"]["object"]);
        let told = format!(
            "{} {}",
            kind.as_str().unwrap(),
            object["status"].as_str().unwrap()
        );
        self.0.send(told).unwrap();
        Ok(200)
    }
}

#[tokio::test]
async fn webhooks_tell_of_a_refund_that_came_back() {
    let (posts, mut arrived) = mpsc::unbounded_channel();
    let mock = MockStripe::new();
    mock.deliver_webhooks(Arc::new(Posts(posts)), RetryPolicy::default());
    let endpoint = WebhookEndpoint::new("http://127.0.0.1:9/hook", vec!["whsec_1".to_owned()]);
    mock.set_webhook_endpoint(Some(endpoint.unwrap())).unwrap();
    let paid = payment(&mock, "pm_card_refundFail").await;
    json(&mock, refund(&paid, KEY, 400)).await;
    let mut told = Vec::new();
    for _ in 0..5 {
        told.push(arrived.recv().await.unwrap());
    }
    // The clock alone: nobody asks the mock for anything.
    mock.advance_clock(Duration::from_secs(61));
    for _ in 0..2 {
        told.push(arrived.recv().await.unwrap());
    }
    told.sort_unstable();
    assert_eq!(
        told,
        [
            "charge.refund.updated failed",
            "charge.refunded succeeded",
            "charge.succeeded succeeded",
            "payment_intent.created requires_confirmation",
            "payment_intent.succeeded succeeded",
            "refund.created succeeded",
            "refund.failed failed",
        ]
    );
}
