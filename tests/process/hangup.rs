//! The caller resets its connection, which makes the server drop the handler. The charge runs to its end.

use std::time::Duration;

use crate::support::{HeldPoint, TestApp, reset};

on_both_stores! {
    async fn a_reset_right_after_the_request_leaves_nothing_half_done(engine) {
        let app = TestApp::start(engine).await;
        let service = app.serve().await;
        service.invoice("inv_1").await;

        for _ in 0..20 {
            reset(service.charge_unread("inv_1").await);
        }
        let reply = service.charge_waiting("inv_1", 20).await;

        reply.assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[reply]).await;
    }

    async fn a_reset_during_the_reservation_stops_nothing(engine) {
        let app = TestApp::start(engine).await;
        let point = HeldPoint::new();
        let service = app.service().hold_at("before_reserve", &point).start().await;
        service.invoice("inv_1").await;

        let connection = service.charge_unread("inv_1").await;
        point.reached().await;
        reset(connection);
        // The server has seen the reset when it answers on a connection that came after it.
        assert_eq!(service.get("/health/live").await.status, 200);
        point.let_go();
        app.settled("inv_1").await;

        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[]).await;
    }

    async fn a_reset_during_the_providers_call_stops_nothing(engine) {
        let app = TestApp::start(engine).await;
        let service = app.serve().await;
        service.invoice("inv_1").await;
        app.mock.set_latency(Duration::from_millis(500));

        let connection = service.charge_unread("inv_1").await;
        app.sent(1).await;
        reset(connection);
        app.settled("inv_1").await;

        assert_eq!(app.sends(), ["charge:inv_1"]);
        let reply = service.charge("inv_1").await;
        assert!(reply.is_replay());
        app.check_oracles(&[reply]).await;
    }
}
