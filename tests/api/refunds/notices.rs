//! Refunds by webhook: a late verdict at once, and money that came back.

use std::time::Duration;

use chargeonce::payments::mock::Fault;
use serde_json::json;

use crate::support::{SENDS_MAX, TestApp};

/// Waits until all events are dealt with and a charge's last refund has this status, without calling the service.
async fn refund_is(app: &TestApp, charge: &str, status: &str) {
    for _ in 0..200 {
        app.events_are_over().await;
        if app.refunds_of(charge).await.last().map(String::as_str) == Some(status) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let now = app.refunds_of(charge).await;
    panic!("never {status}: {now:?}, {:?}", app.events().await);
}

on_both_stores! {
    async fn a_late_verdict_is_taken_in_at_once(engine) {
        let app = TestApp::with_webhooks(engine).await;
        let (given, failed) = (app.paid("given").await, app.paid("failed").await);
        let mut replies = Vec::new();
        for charge in [&given, &failed] {
            app.refund_fault(charge, Fault::Processing, 1);
            let told = app.give_back(charge).await;
            told.assert_refund(202, "", "unknown", "later");
            replies.push(told);
        }
        for (told, success) in replies.iter().zip([true, false]) {
            assert!(app.mock.settle_processing(&told.text("providerRefundId"), success));
        }
        refund_is(&app, &given, "succeeded").await;
        refund_is(&app, &failed, "failed").await;

        let replay = app.give_back(&given).await;
        replay.assert_refund(201, "", "yes", "not_needed");
        assert!(replay.is_replay());
        let next = app.give_back(&failed).await;
        next.assert_refund(201, "", "yes", "not_needed");
        assert_eq!(next.text("attempt"), "2");
        replies.extend([replay, next]);
        app.events_are_over().await;
        app.check_refunds(&replies).await;
    }

    async fn money_that_came_back_is_told_and_can_be_given_again(engine) {
        let app = TestApp::with_webhooks(engine).await;
        let (rest, part) = (app.paid("rest").await, app.paid("part").await);
        let first = app.give_back(&rest).await;
        let of_part = app.give_part(&part, 500, "k1").await;
        for given in [&first, &of_part] {
            given.assert_refund(201, "", "yes", "not_needed");
            assert!(app.mock.settle_processing(&given.text("providerRefundId"), false));
        }
        refund_is(&app, &rest, "returned").await;
        refund_is(&app, &part, "returned").await;
        assert_eq!((app.refunded(&rest).await, app.refunded(&part).await), (0, 0));

        let read = app.get(&format!("/v1/refunds/{}", first.text("id"))).await;
        assert_eq!((read.text("status"), read.text("refunded")), ("returned".into(), "no".into()));
        let again = app.give_back(&rest).await;
        again.assert_refund(201, "", "yes", "not_needed");
        assert_eq!(again.text("idempotencyKey"), format!("refund:{rest}:2"));
        let same_key = app.give_part(&part, 500, "k1").await;
        same_key.assert_refund(402, "refund_failed", "no", "after_change");
        assert_eq!(same_key.json()["refund"]["status"], "returned");
        let other_key = app.give_part(&part, 500, "k2").await;
        other_key.assert_refund(201, "", "yes", "not_needed");
        let history = app.get(&format!("/v1/refunds/{}/evidence", first.text("id"))).await.json();
        assert_eq!(history["data"][0]["what"], "notice");
        app.events_are_over().await;
        app.check_refunds(&[again, same_key, other_key]).await;
    }

    async fn a_webhook_about_a_refund_whose_answer_was_lost_finds_it(engine) {
        let app = TestApp::with_webhooks(engine).await;
        let charge = app.paid("inv_1").await;
        app.refund_fault(&charge, Fault::DropAfter, SENDS_MAX);
        let lost = app.give_back(&charge).await;
        lost.assert_refund(202, "", "unknown", "later");

        refund_is(&app, &charge, "succeeded").await;

        let replay = app.give_back(&charge).await;
        assert!(replay.is_replay() && replay.status == 201, "{replay:#?}");
        // One that somebody made by hand is none of ours, and changes nothing.
        let other = app.paid_with("inv_2", json!({})).await;
        let payment = app.get(&format!("/v1/charges/{other}")).await.text("providerPaymentId");
        app.refund(&payment).await;
        app.events_are_over().await;
        assert_eq!(app.refunds_of(&other).await, Vec::<String>::new());
        app.check_refunds(&[lost, replay]).await;
    }
}
