//! After a failure: which calls start another attempt, which repeat the failure, and which are told to stop.

use std::time::Duration;

use chargeonce::payments::mock::Fault;
use serde_json::json;

use crate::support::{SENDS_MAX, TestApp, all_but_one};

on_both_stores! {
    async fn a_hard_decline_is_repeated_without_the_provider_until_the_card_changes(engine) {
        let app = TestApp::start(engine).await;
        let cards = [
            "pm_card_visa_chargeDeclinedStolenCard",
            "pm_card_visa_chargeDeclinedLostCard",
            "pm_card_chargeDeclinedFraudulent",
            "pm_card_authenticationRequired",
        ];
        let mut replies = Vec::new();
        for (row, card) in cards.into_iter().enumerate() {
            let id = format!("inv_{row}");
            app.invoice_with(&id, json!({"paymentMethodId": card})).await;
            let declined = app.charge(&id).await;
            declined.assert(402, "charge_declined", "no", "after_change");
            let asked = app.mock.ledger().requests;

            for _ in 0..10 {
                let stopped = app.charge(&id).await;
                stopped.assert(402, "retry_not_advised", "no", "after_change");
                replies.push(stopped);
            }
            assert_eq!(app.mock.ledger().requests, asked, "{card}");
            app.change_card(&id, "pm_card_mastercard").await;
            let charged = app.charge(&id).await;

            charged.assert(201, "", "yes", "not_needed");
            assert_eq!(charged.text("attempt"), "2");
            replies.extend([declined, charged]);
        }
        app.check_oracles(&replies).await;
    }

    async fn attempts_run_out_and_then_nothing_is_sent(engine) {
        let app = TestApp::with(engine).set("CHARGE_MAX_ATTEMPTS", "3").start().await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedInsufficientFunds"})).await;

        let first = app.charge("inv_1").await;
        first.assert(402, "charge_declined", "no", "later");
        let second = app.charge("inv_1").await;
        second.assert(402, "charge_declined", "no", "later");
        let third = app.charge("inv_1").await;
        third.assert(402, "charge_declined", "no", "never");
        let asked = app.mock.ledger().requests;
        let over = app.charge("inv_1").await;
        over.assert(402, "attempts_exhausted", "no", "never");
        app.change_card("inv_1", "pm_card_visa").await;
        let still_over = app.charge("inv_1").await;

        still_over.assert(402, "attempts_exhausted", "no", "never");
        assert_eq!(app.mock.ledger().requests, asked);
        assert_eq!(app.sends(), ["charge:inv_1", "charge:inv_1:2", "charge:inv_1:3"]);
        app.check_oracles(&[first, second, third, over, still_over]).await;
    }

    async fn within_the_cooldown_the_decline_is_repeated_byte_for_byte(engine) {
        let app = TestApp::with(engine).set("RETRY_COOLDOWN", "1h").start().await;
        let poor = json!({"paymentMethodId": "pm_card_visa_chargeDeclinedInsufficientFunds"});
        app.invoice_with("inv_1", poor.clone()).await;
        app.invoice_with("inv_2", poor).await;
        let declined = app.charge("inv_1").await;
        let declined_too = app.charge("inv_2").await;

        let again = app.charge("inv_1").await;
        assert!(again.is_replay());
        assert_eq!((again.status, &again.body), (402, &declined.body));
        let left: u64 = again.header("retry-after").unwrap().parse().unwrap();
        assert!((3_500..=3_600).contains(&left), "{left}");
        assert_eq!(app.sends_for("inv_1"), 1);
        app.change_card("inv_1", "pm_card_visa").await;
        let by_card = app.charge("inv_1").await;
        app.age(Duration::from_secs(3_601)).await;
        let by_time = app.charge("inv_2").await;

        by_card.assert(201, "", "yes", "not_needed");
        by_time.assert(402, "charge_declined", "no", "later");
        assert!(!by_time.is_replay());
        assert_eq!(by_time.json()["charge"]["attempt"], 2);
        app.check_oracles(&[declined, declined_too, again, by_card, by_time]).await;
    }

    async fn five_calls_at_once_after_a_decline_start_one_attempt(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;
        let mut replies = vec![app.charge("inv_1").await];
        let gate = app.line.hold_posts().await;

        let (busy, second) = all_but_one((0..5).map(|_| app.charge("inv_1")), gate).await;

        second.assert(402, "charge_declined", "no", "later");
        assert!(!second.is_replay());
        for reply in &busy {
            reply.assert(409, "charge_in_progress", "unknown", "later");
        }
        assert_eq!(app.sends(), ["charge:inv_1", "charge:inv_1:2"]);
        assert_eq!(app.attempts("inv_1").await, ["failed", "failed"]);
        replies.extend(busy);
        replies.push(second);
        app.check_oracles(&replies).await;
    }

    async fn no_new_attempt_is_made_while_the_last_is_unknown(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        let lost = app.charge("inv_1").await;
        lost.assert(202, "", "unknown", "later");

        let changed = app.change_card("inv_1", "pm_card_mastercard").await;
        changed.assert(409, "charge_in_progress", "unknown", "later");
        let voided = app.post("/v1/invoices/inv_1/void", &json!({})).await;
        voided.assert(409, "charge_in_progress", "unknown", "later");
        let again = app.charge("inv_1").await;
        again.assert(409, "charge_in_progress", "unknown", "later");
        assert_eq!(app.sends(), vec!["charge:inv_1"; 3]);
        app.past_lease().await;
        let found = app.charge("inv_1").await;

        found.assert(201, "", "yes", "not_needed");
        assert_eq!(app.attempts("inv_1").await, ["succeeded"]);
        app.check_oracles(&[lost, again, found]).await;
    }

    async fn a_refused_request_does_not_lock_the_invoice_once_it_is_put_right(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("inv_1", json!({"customerId": "cus_missing_1", "paymentMethodId": "pm_card_visa"})).await;

        let refused = app.charge("inv_1").await;
        refused.assert(402, "charge_refused", "no", "after_change");
        app.mock.ensure_customer("cus_missing_1", None);
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(charged.text("idempotencyKey"), "charge:inv_1:2");
        app.check_oracles(&[refused, charged]).await;
    }

    async fn a_customer_without_a_card_reserves_nothing(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("inv_1", json!({"customerId": "cus_missing_1"})).await;

        let refused = app.charge("inv_1").await;
        refused.assert(409, "no_payment_method", "no", "after_change");
        assert_eq!(app.attempts("inv_1").await, Vec::<String>::new());
        app.mock.ensure_customer("cus_missing_1", None);
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(charged.text("attempt"), "1");
        app.check_oracles(&[refused, charged]).await;
    }

    async fn a_takeover_sends_the_frozen_bytes_although_the_default_card_changed(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropBefore, SENDS_MAX);
        let lost = app.charge("inv_1").await;
        lost.assert(202, "", "unknown", "later");
        assert_eq!(lost.text("paymentMethodId"), "pm_card_visa");
        let body = "invoice_settings[default_payment_method]=pm_card_mastercard&description=changed";
        app.by_another_program("/v1/customers/cus_1", "change-1", body).await;

        app.past_lease().await;
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(charged.text("paymentMethodId"), "pm_card_visa");
        app.check_oracles(&[lost, charged]).await;
    }

    async fn later_attempts_confirm_the_payment_that_the_decline_left_open(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;
        let declined = app.charge("inv_1").await;
        declined.assert(402, "charge_declined", "no", "later");

        app.change_card("inv_1", "pm_card_visa").await;
        app.mock.add_fault(chargeonce::payments::mock::FaultRule { times: SENDS_MAX, ..chargeonce::payments::mock::FaultRule::once(Fault::DropAfter).for_key("charge:inv_1:2") });
        let lost = app.charge("inv_1").await;
        lost.assert(202, "", "unknown", "later");
        app.hours_later(25).await;
        let found = app.charge("inv_1").await;

        found.assert(201, "", "yes", "not_needed");
        assert_eq!(app.mock.ledger().payments.len(), 1, "one payment object, which can succeed once");
        app.check_oracles(&[declined, lost, found]).await;
    }
}
