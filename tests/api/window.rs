//! Past the provider's key window: the old key is never sent again, the payment is looked up, and the attempt ends.

use chargeonce::payments::mock::Fault;
use serde_json::json;

use crate::support::{SENDS_MAX, TestApp};

on_both_stores! {
    async fn a_lost_payment_is_found_a_day_later_without_sending_the_old_key(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        let lost = app.charge("inv_1").await;
        lost.assert(202, "", "unknown", "later");
        let sent = app.sends();

        app.hours_later(25).await;
        let found = app.charge("inv_1").await;

        found.assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends(), sent, "the provider has forgotten the key and would have charged again");
        assert_eq!(app.times_paid("inv_1"), 1);
        app.check_oracles(&[lost, found]).await;
    }

    async fn an_attempt_that_never_arrived_ends_a_day_later_and_the_next_one_charges(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropBefore, SENDS_MAX);
        let lost = app.charge("inv_1").await;
        lost.assert(202, "", "unknown", "later");

        app.hours_later(25).await;
        let ended = app.charge("inv_1").await;
        ended.assert(409, "charge_never_executed", "no", "now");
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends().last().map(String::as_str), Some("charge:inv_1:2"));
        assert_eq!(app.attempts("inv_1").await, ["failed", "succeeded"]);
        app.check_oracles(&[lost, ended, charged]).await;
    }

    async fn an_empty_list_proves_nothing_while_the_last_send_is_young(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropBefore, 2 * SENDS_MAX);
        let mut replies = vec![app.charge("inv_1").await];

        app.hours_later(19).await;
        replies.push(app.charge("inv_1").await);
        assert_eq!(app.sends().len(), 6, "inside the window the key is sent again");
        for hours in [2, 10, 7] {
            app.hours_later(hours).await;
            replies.push(app.charge("inv_1").await);
        }
        for reply in &replies {
            reply.assert(202, "", "unknown", "later");
        }
        assert_eq!(app.sends().len(), 6, "past the window it is not");
        assert_eq!(app.attempts("inv_1").await, ["pending"]);
        app.hours_later(2).await;
        let ended = app.charge("inv_1").await;
        ended.assert(409, "charge_never_executed", "no", "now");
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        replies.extend([ended, charged]);
        app.check_oracles(&replies).await;
    }

    async fn every_unfinished_payment_is_closed_before_the_attempt_ends(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::Error500Before, 1);
        let lost = app.charge("inv_1").await;
        lost.assert(202, "", "unknown", "later");
        let installation = app.database.words("SELECT id AS value FROM installation").await.remove(0);
        for n in 0..2 {
            let body = format!(
                "amount=1250&currency=usd&customer=cus_1&metadata[invoice_id]=inv_1&metadata[installation_id]={installation}"
            );
            app.by_another_program("/v1/payment_intents", &format!("by-hand-{n}"), &body).await;
        }

        app.hours_later(21).await;
        let ended = app.charge("inv_1").await;
        ended.assert(409, "charge_canceled", "no", "now");
        let open = app.mock.ledger().payments.into_iter().filter(|payment| payment.status != "canceled");
        assert_eq!(open.count(), 0);
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[lost, ended, charged]).await;
    }

    async fn a_payment_that_nobody_confirmed_is_not_closed_while_a_send_may_be_under_way(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa"})).await;
        app.fault("inv_1", Fault::Error500Before, 1);
        let lost = app.charge("inv_1").await;
        let installation = app.database.words("SELECT id AS value FROM installation").await.remove(0);
        let body = format!(
            "amount=1250&currency=usd&customer=cus_1&metadata[invoice_id]=inv_1&metadata[installation_id]={installation}"
        );
        app.by_another_program("/v1/payment_intents", "by-hand", &body).await;

        app.past_lease().await;
        let looked = app.charge("inv_1").await;

        looked.assert(202, "", "unknown", "later");
        assert_eq!(app.mock.ledger().payments[0].status, "requires_payment_method");
        app.check_oracles(&[lost, looked]).await;
    }
}
