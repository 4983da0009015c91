//! A new charge, a replay, a decline and the next attempt.

use futures_util::future::join_all;
use serde_json::json;

use crate::support::TestApp;

on_both_stores! {
    async fn an_invoice_is_charged_once_and_then_replayed(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;

        let first = app.charge("inv_1").await;
        first.assert(201, "", "yes", "not_needed");
        assert!(!first.is_replay());
        assert_eq!(first.header("location"), Some(format!("/v1/charges/{}", first.text("id")).as_str()));
        let again = app.charge("inv_1").await;
        assert!(again.is_replay());
        assert_eq!((again.status, &again.body), (201, &first.body));

        assert_eq!(app.invoice_status("inv_1").await, "paid");
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[first, again]).await;
    }

    async fn a_declined_invoice_gets_a_second_attempt_under_the_next_key(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;

        app.charge("inv_1").await.assert(402, "charge_declined", "no", "later");
        assert_eq!(app.invoice_status("inv_1").await, "open");
        let changed = app.patch("/v1/invoices/inv_1", &json!({"paymentMethodId": "pm_card_visa"})).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let second = app.charge("inv_1").await;
        second.assert(201, "", "yes", "not_needed");

        assert_eq!(second.text("idempotencyKey"), "charge:inv_1:2");
        assert_eq!(app.sends(), ["charge:inv_1", "charge:inv_1:2"]);
        assert_eq!(app.attempts("inv_1").await, ["failed", "succeeded"]);
        app.check_oracles(&[second]).await;
    }

    async fn two_hundred_calls_at_once_are_one_charge(engine) {
        let app = TestApp::start(engine).await;
        app.mock.set_latency(std::time::Duration::from_millis(500));
        app.invoice("inv_1").await;

        let calls = (0..200).map(|n| {
            let app = &app;
            async move { if n % 2 == 0 { app.charge("inv_1").await } else { app.charge_waiting("inv_1", 20).await } }
        });
        let replies = join_all(calls).await;

        let fresh = replies.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).count();
        assert_eq!(fresh, 1);
        for reply in &replies {
            match reply.status {
                201 => {}
                _ => { reply.assert(409, "charge_in_progress", "unknown", "later"); }
            }
        }
        assert_eq!(app.sends(), ["charge:inv_1"]);
        let replays = join_all((0..200).map(|_| app.charge("inv_1"))).await;
        assert!(replays.iter().all(|reply| reply.status == 201 && reply.is_replay()));
        app.check_oracles(&[replies, replays].concat()).await;
    }
}
