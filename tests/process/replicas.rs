//! Several processes on one database: at the same moment, and one of them paused by the operating system.

use std::time::Duration;

use futures_util::future::join_all;

use crate::support::{HeldPoint, TestApp, real_time, signal};

on_both_stores! {
    async fn two_hundred_calls_over_two_processes_are_one_charge(engine) {
        let app = TestApp::start(engine).await;
        let services = [app.serve().await, app.serve().await];
        services[0].invoice("inv_1").await;
        app.mock.set_latency(Duration::from_millis(500));

        let calls = (0..200).map(|n| {
            let service = &services[n % 2];
            async move { if n % 4 < 2 { service.charge("inv_1").await } else { service.charge_waiting("inv_1", 20).await } }
        });
        let replies = join_all(calls).await;

        assert_eq!(replies.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).count(), 1);
        for reply in replies.iter().filter(|reply| reply.status != 201) {
            reply.assert(409, "charge_in_progress", "unknown", "later");
        }
        assert_eq!(app.sends(), ["charge:inv_1"]);
        let replays = join_all((0..200).map(|n| services[n % 2].charge("inv_1"))).await;
        assert!(replays.iter().all(|reply| reply.status == 201 && reply.is_replay()));
        app.check_oracles(&[replies, replays].concat()).await;
    }

    async fn a_process_that_was_paused_during_its_call_loses_to_its_successor(engine) {
        let app = TestApp::start(engine).await;
        let point = HeldPoint::new();
        let mut paused = app.service().hold_at("after_send", &point).start().await;
        let successor = app.serve().await;
        paused.invoice("inv_1").await;

        let (late, taken_over) = tokio::join!(paused.charge("inv_1"), async {
            point.reached().await;
            signal(paused.id(), "STOP");
            assert_eq!(app.mock.paid("inv_1"), 1);
            app.age_past_leases().await;
            let taken_over = successor.charge("inv_1").await;
            point.let_go();
            signal(paused.id(), "CONT");
            taken_over
        });

        taken_over.assert(201, "", "yes", "not_needed");
        late.assert(201, "", "yes", "not_needed");
        assert!(late.is_replay());
        assert!(paused.stderr().contains("the lease was lost"), "{}", paused.stderr());
        assert!(paused.is_running());
        assert_eq!(app.mock.paid("inv_1"), 1);
        app.check_oracles(&[late, taken_over]).await;
    }

    async fn a_process_that_was_paused_before_its_call_sends_nothing_once_its_lease_is_over(engine) {
        let app = TestApp::start(engine).await;
        let point = HeldPoint::new();
        let paused = app.service().short_lease().hold_at("after_reserve", &point).start().await;
        paused.invoice("inv_1").await;

        let (late, ()) = tokio::join!(paused.charge("inv_1"), async {
            point.reached().await;
            signal(paused.id(), "STOP");
            real_time(Duration::from_millis(2_100)).await;
            point.let_go();
            signal(paused.id(), "CONT");
        });

        late.assert(503, "provider_unavailable", "no", "later");
        assert_eq!(app.sends(), Vec::<String>::new());
        let reply = paused.charge("inv_1").await;
        reply.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[late, reply]).await;
    }

    async fn a_process_that_was_paused_before_its_call_leaves_the_charge_to_its_successor(engine) {
        let app = TestApp::start(engine).await;
        let point = HeldPoint::new();
        let paused = app.service().short_lease().hold_at("after_reserve", &point).start().await;
        let successor = app.serve().await;
        paused.invoice("inv_1").await;

        let (late, taken_over) = tokio::join!(paused.charge("inv_1"), async {
            point.reached().await;
            signal(paused.id(), "STOP");
            real_time(Duration::from_millis(2_100)).await;
            let taken_over = successor.charge("inv_1").await;
            point.let_go();
            signal(paused.id(), "CONT");
            taken_over
        });

        taken_over.assert(201, "", "yes", "not_needed");
        late.assert(201, "", "yes", "not_needed");
        assert!(late.is_replay());
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[late, taken_over]).await;
    }

    /// The first process sleeps between its record and the end of its work. What it then knows is old news.
    async fn a_caller_that_waits_for_a_process_that_sleeps_is_told_what_is_true_when_it_calls(engine) {
        let app = TestApp::start(engine).await;
        let point = HeldPoint::new();
        let sleeping = app.service().hold_at("after_record", &point).start().await;
        let other = app.serve().await;
        other.invoice_with("inv_1", "pm_card_visa_chargeDeclined").await;

        let (declined, (charged, joined)) = tokio::join!(sleeping.charge("inv_1"), async {
            point.reached().await;
            let card = serde_json::json!({"paymentMethodId": "pm_card_visa"});
            assert_eq!(other.patch("/v1/invoices/inv_1", &card).await.status, 200);
            let charged = other.charge("inv_1").await;
            let joined = tokio::join!(sleeping.charge_waiting("inv_1", 20), async {
                // The call waits in its process when a later one is answered.
                real_time(Duration::from_millis(300)).await;
                assert_eq!(sleeping.get("/health/live").await.status, 200);
                point.let_go();
            });
            (charged, joined.0)
        });

        declined.assert(402, "charge_declined", "no", "later");
        charged.assert(201, "", "yes", "not_needed");
        joined.assert(201, "", "yes", "not_needed");
        assert!(joined.is_replay());
        app.check_oracles(&[declined, charged, joined]).await;
    }
}
