//! The caller resets its connection, which makes the server drop the handler. The charge runs to its end.

use std::time::Duration;

use crate::support::{Engine, HeldPoint, Session, TestApp, eventually, reset};

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

/// The reserve transaction itself is under way, waiting for a lock, when its caller is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn postgres_a_reset_inside_the_reserve_transaction_leaves_no_open_transaction() {
    let app = TestApp::start(Engine::Postgres).await;
    let service = app.serve().await;
    service.invoice("inv_1").await;
    let mut locker = Session::open(&app.database.url).await;
    locker.run("BEGIN").await;
    locker
        .run("LOCK TABLE idempotency_keys IN EXCLUSIVE MODE")
        .await;

    let connection = service.charge_unread("inv_1").await;
    eventually("the reservation waits for the lock", async || {
        let waiting = "SELECT count(*) AS value FROM pg_stat_activity WHERE datname = current_database() \
            AND wait_event_type = 'Lock'";
        (app.database.number(waiting).await == 1).then_some(())
    })
    .await;
    reset(connection);
    assert_eq!(service.get("/health/live").await.status, 200);
    locker.run("COMMIT").await;
    app.settled("inv_1").await;

    let open = "SELECT count(*) AS value FROM pg_stat_activity WHERE datname = current_database() \
        AND state LIKE 'idle in transaction%'";
    assert_eq!(app.database.number(open).await, 0);
    assert_eq!(app.sends(), ["charge:inv_1"]);
    app.check_oracles(&[]).await;
}
