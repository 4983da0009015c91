//! Webhooks: what is posted, how failures are retried, lost and doubled. Time is paused, so that waits are free.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;

use super::super::signature;
use super::super::{
    Delivery, DeliveryState, HttpSender, MockStripe, Reach, RetryPolicy, WebhookEndpoint,
    WebhookFault, WebhookFaultRule, WebhookPost, WebhookSink,
};
use super::{answer, charge, get};

/// A receiver that answers as told, 200 once it was told nothing more.
#[derive(Debug)]
struct Receiver {
    answers: Mutex<Vec<Result<u16, String>>>,
    posts: mpsc::UnboundedSender<WebhookPost>,
}

#[async_trait]
impl WebhookSink for Receiver {
    fn check(&self, _url: &str) -> Result<(), String> {
        Ok(())
    }

    async fn post(&self, post: WebhookPost) -> Result<u16, String> {
        self.posts.send(post).unwrap();
        let mut answers = self.answers.lock().unwrap();
        if answers.is_empty() {
            Ok(200)
        } else {
            answers.remove(0)
        }
    }
}

fn start(answers: Vec<Result<u16, String>>) -> (MockStripe, mpsc::UnboundedReceiver<WebhookPost>) {
    let (posts, arrived) = mpsc::unbounded_channel();
    let mock = MockStripe::new();
    let answers = Mutex::new(answers);
    mock.deliver_webhooks(
        Arc::new(Receiver { answers, posts }),
        RetryPolicy::default(),
    );
    mock.set_webhook_endpoint(Some(endpoint(&["whsec_1"])))
        .unwrap();
    (mock, arrived)
}

fn endpoint(secrets: &[&str]) -> WebhookEndpoint {
    let secrets = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    WebhookEndpoint::new("http://127.0.0.1:9/hook", secrets).unwrap()
}

fn rule(fault: WebhookFault, event_type: &str) -> WebhookFaultRule {
    WebhookFaultRule {
        fault,
        event_type: Some(event_type.to_owned()),
        key: None,
        times: 1,
        delay_ms: 5000,
    }
}

fn event(post: &WebhookPost) -> Value {
    serde_json::from_slice(&post.body).unwrap()
}

/// Waits, in time that costs nothing, until no delivery is pending.
async fn settled(mock: &MockStripe) -> Vec<Delivery> {
    loop {
        let deliveries = mock.deliveries();
        if deliveries
            .iter()
            .all(|one| one.state != DeliveryState::Pending)
        {
            return deliveries;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One event only: a PaymentIntent that nobody confirms.
async fn one_event(mock: &MockStripe) {
    let (status, _) = super::post(mock, "/v1/payment_intents", "amount=500&currency=usd").await;
    assert_eq!(status, 200);
}

#[tokio::test(start_paused = true)]
async fn every_event_of_a_charge_is_posted_signed_and_marked_delivered() {
    let (mock, mut arrived) = start(vec![]);
    let sent = answer(&mock, charge("order-1")).await;
    let request_id = sent.header("request-id").unwrap().to_owned();
    let mut events = HashMap::new();
    for _ in 0..3 {
        let post = arrived.recv().await.unwrap();
        let at = post.signature.strip_prefix("t=").unwrap();
        let at: i64 = at.split(',').next().unwrap().parse().unwrap();
        assert_eq!(
            post.signature,
            signature::header(at, &["whsec_1".into()], &post.body)
        );
        assert!((chrono::Utc::now().timestamp() - at).abs() < 60);
        let event = event(&post);
        events.insert(event["type"].as_str().unwrap().to_owned(), event);
    }
    let event = &events["payment_intent.succeeded"];
    let expected = serde_json::json!({
        "object": "event", "livemode": false, "pending_webhooks": 1, "api_version": "2026-06-24.dahlia",
        "request": { "id": request_id, "idempotency_key": "order-1" },
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&event[name], value, "{name}");
    }
    assert_eq!(event["data"]["object"]["status"], "succeeded");
    // A replay happens to nothing and tells of nothing.
    answer(&mock, charge("order-1")).await;
    let deliveries = settled(&mock).await;
    assert_eq!(deliveries.len(), 3);
    let path = format!("/v1/events/{}", event["id"].as_str().unwrap());
    assert_eq!(get(&mock, &path).await.1["pending_webhooks"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_delivery_is_tried_again_later_and_later_with_the_same_bytes() {
    let lost = Err("no answer within 10 s".to_owned());
    let (mock, mut arrived) = start(vec![Ok(500), Ok(302), lost]);
    let started = tokio::time::Instant::now();
    one_event(&mock).await;
    let (mut bodies, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        bodies.push(arrived.recv().await.unwrap().body);
        waits.push(started.elapsed().as_secs());
    }
    assert_eq!(waits, [0, 1, 3, 7]);
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    let attempts = &settled(&mock).await[0].attempts;
    let statuses: Vec<_> = attempts.iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [Some(500), Some(302), None, Some(200)]);
    assert_eq!(attempts[2].error.as_deref(), Some("no answer within 10 s"));
}

#[tokio::test(start_paused = true)]
async fn after_six_attempts_it_is_given_up_and_found_among_the_undelivered() {
    let (mock, _arrived) = start(vec![Ok(400); 6]);
    one_event(&mock).await;
    let deliveries = settled(&mock).await;
    assert_eq!(
        (deliveries[0].state, deliveries[0].attempts.len()),
        (DeliveryState::Failed, 6)
    );
    for (delivered, count) in [("false", 1), ("true", 0)] {
        let (_, events) = get(&mock, &format!("/v1/events?delivery_success={delivered}")).await;
        assert_eq!(
            events["data"].as_array().unwrap().len(),
            count,
            "{delivered}"
        );
    }
    // Sent once more by hand, it arrives.
    let id = mock.redeliver(&deliveries[0].event_id).unwrap();
    let deliveries = settled(&mock).await;
    assert_eq!(
        (&deliveries[1].id, deliveries[1].state),
        (&id, DeliveryState::Delivered)
    );
    assert_eq!(mock.redeliver("evt_nothing"), None);
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_rotated_between_two_attempts() {
    let (mock, mut arrived) = start(vec![Ok(500)]);
    one_event(&mock).await;
    let first = arrived.recv().await.unwrap();
    assert_eq!(first.signature.matches(",v1=").count(), 1);
    mock.set_webhook_endpoint(Some(endpoint(&["whsec_2", "whsec_1"])))
        .unwrap();
    let second = arrived.recv().await.unwrap();
    assert_eq!(second.signature.matches(",v1=").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_delayed_dropped_or_doubled() {
    let (mock, mut arrived) = start(vec![]);
    mock.add_webhook_fault(rule(WebhookFault::WebhookDelay, "payment_intent.created"));
    mock.add_webhook_fault(rule(WebhookFault::WebhookDrop, "charge.succeeded"));
    mock.add_webhook_fault(WebhookFaultRule {
        key: Some("k".into()),
        ..rule(WebhookFault::WebhookDuplicate, "payment_intent.succeeded")
    });
    answer(&mock, charge("k")).await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(event(&arrived.recv().await.unwrap()));
    }
    let types: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    // The first to happen comes last.
    assert_eq!(
        types,
        [
            "payment_intent.succeeded",
            "payment_intent.succeeded",
            "payment_intent.created"
        ]
    );
    assert_eq!(events[0]["id"], events[1]["id"]);
    let dropped: Vec<_> = settled(&mock)
        .await
        .into_iter()
        .filter(|one| one.attempts.is_empty())
        .collect();
    assert_eq!(
        (dropped.len(), dropped[0].state),
        (1, DeliveryState::Dropped)
    );
    // The rules are used up.
    answer(&mock, charge("k2")).await;
    for _ in 0..3 {
        arrived.recv().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_keeps_the_endpoint_and_ends_what_was_pending() {
    let (mock, mut arrived) = start(vec![Ok(500)]);
    one_event(&mock).await;
    let old = event(&arrived.recv().await.unwrap());
    mock.reset();
    assert_eq!(mock.deliveries().len(), 0);
    one_event(&mock).await;
    let fresh = event(&arrived.recv().await.unwrap());
    assert_ne!(old["id"], fresh["id"]);
    assert_eq!(settled(&mock).await.len(), 1);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(
        arrived.try_recv().is_err(),
        "the old event is tried no more"
    );
}

#[tokio::test]
async fn a_late_verdict_is_told_too_and_without_a_request() {
    let (mock, mut arrived) = start(vec![]);
    let body = "amount=500&currency=usd&payment_method=pm_card_authenticationRequired&confirm=true";
    let (_, asked) = super::post(&mock, "/v1/payment_intents", body).await;
    for _ in 0..2 {
        arrived.recv().await.unwrap();
    }
    mock.authenticate(asked["id"].as_str().unwrap(), true);
    for _ in 0..2 {
        let event = event(&arrived.recv().await.unwrap());
        assert_eq!(
            event["request"],
            serde_json::json!({ "id": null, "idempotency_key": null })
        );
    }
}

#[tokio::test]
async fn an_address_that_is_not_this_machine_is_refused_at_run_time() {
    let mock = MockStripe::new();
    let far = || WebhookEndpoint::new("http://example.com/", vec![]).unwrap();
    assert!(
        mock.set_webhook_endpoint(Some(far())).is_err(),
        "nobody carries it"
    );
    let sender = HttpSender::new(Reach::Loopback).unwrap();
    mock.deliver_webhooks(Arc::new(sender), RetryPolicy::default());
    assert!(
        mock.set_webhook_endpoint(Some(far()))
            .unwrap_err()
            .contains("--webhook-any-host")
    );
    assert_eq!(mock.webhook_endpoint(), None);
}
