//! What the service holds in the database, and what somebody else holds there.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::support::{Engine, Session, TestApp, eventually, reset};

/// The reserve transaction itself is under way, waiting for a lock, when its caller is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn a_reset_inside_the_reserve_transaction_leaves_no_open_transaction() {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn charges_that_wait_for_the_provider_hold_no_connection() {
    const COUNT: usize = 50;
    const PROVIDER_TAKES: Duration = Duration::from_secs(12);
    let app = TestApp::start(Engine::Postgres).await;
    let service = app
        .service()
        .set("DATABASE_POOL_SIZE", "5")
        .set("PROVIDER_TIMEOUT", "60s")
        .start()
        .await;
    let ids: Vec<String> = (0..COUNT).map(|n| format!("inv_{n}")).collect();
    join_all(ids.iter().map(|id| service.invoice(id))).await;
    app.mock.set_latency(PROVIDER_TAKES);

    let charges = join_all(ids.iter().map(|id| service.charge(id)));
    let (replies, slowest) = tokio::join!(charges, async {
        app.sent(COUNT).await;
        let mut slowest = Duration::ZERO;
        for id in ids.iter().take(20) {
            let begun = Instant::now();
            assert_eq!(service.get(&format!("/v1/invoices/{id}")).await.status, 200);
            slowest = slowest.max(begun.elapsed());
            let open = "SELECT count(*) AS value FROM pg_stat_activity WHERE datname = current_database() \
                AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '100 ms'";
            assert_eq!(app.database.number(open).await, 0);
        }
        let busy = "SELECT count(*) AS value FROM pg_stat_activity WHERE datname = current_database() \
            AND application_name = 'chargeonce' AND state <> 'idle'";
        assert_eq!(app.database.number(busy).await, 0);
        assert!(
            app.mock.ledger().payments.is_empty(),
            "the charges had to be under way all the time"
        );
        slowest
    });

    // A read that had to wait for a charge's connection would wait for the provider. A busy machine is slow, not that slow.
    assert!(slowest < PROVIDER_TAKES / 2, "{slowest:?}");
    for reply in &replies {
        reply.assert(201, "", "yes", "not_needed");
    }
    app.check_oracles(&replies).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn an_abandoned_transaction_of_somebody_else_blocks_a_charge_for_a_bounded_time() {
    let app = TestApp::start(Engine::Postgres).await;
    let service = app.service().set("DATABASE_TIMEOUT", "2s").start().await;
    service.invoice("inv_0").await;
    let mut abandoned = Session::open(&app.database.url).await;
    abandoned
        .run(
            "BEGIN; INSERT INTO idempotency_keys VALUES \
             ('charge:inv_0', 'charge', 'in_progress', 1, '', '', 0, 'resend', 0, 0, 0, NULL, NULL, NULL, 0, 0)",
        )
        .await;

    let begun = Instant::now();
    let refused = service.charge("inv_0").await;
    refused.assert(503, "storage_unavailable", "unknown", "later");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(app.sends(), Vec::<String>::new());
    drop(abandoned);

    let charged = eventually("the invoice is paid", async || {
        Some(service.charge("inv_0").await).filter(|reply| reply.status == 201)
    })
    .await;
    app.check_oracles(&[charged]).await;
}
