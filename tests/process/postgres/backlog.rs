//! A heap of attempts that nobody works on any more, and two background workers.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use crate::support::{Engine, HeldPoint, Reply, TestApp};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn two_background_workers_finish_each_of_five_hundred_abandoned_attempts_once() {
    const COUNT: usize = 500;
    let app = TestApp::start(Engine::Postgres).await;
    let mut killed = app
        .service()
        .set("PROVIDER_MAX_RETRIES", "0")
        .set("RUST_LOG", "error")
        .start()
        .await;
    let ids: Vec<String> = (0..COUNT).map(|n| format!("inv_{n}")).collect();
    for some in ids.chunks(50) {
        join_all(some.iter().map(|id| killed.invoice(id))).await;
    }
    // No request arrives, so that each attempt is left without a verdict.
    app.mock.chaos(1, 1.0, &["drop_before"], 0);
    let told: Vec<Reply> = {
        let mut told = Vec::new();
        for some in ids.chunks(50) {
            told.extend(join_all(some.iter().map(|id| killed.charge(id))).await);
        }
        told
    };
    killed.kill().await;
    app.mock.chaos(1, 0.0, &["drop_before"], 0);
    assert!(app.mock.ledger().payments.is_empty());

    app.age_past_leases().await;
    // Neither begins before the other does: one alone would have the heap in seconds.
    let points = [HeldPoint::new(), HeldPoint::new()];
    let worker = |point| {
        app.service()
            .set("RECONCILE_INTERVAL", "100ms")
            .set("RECONCILE_BATCH", "50")
            .hold_at("round_begun", point)
            .start()
    };
    let workers = tokio::join!(worker(&points[0]), worker(&points[1]));
    for point in &points {
        point.reached().await;
    }
    for point in &points {
        point.let_go();
    }
    app.nothing_is_open().await;

    let mut sends: BTreeMap<String, usize> = BTreeMap::new();
    for key in app.sends() {
        *sends.entry(key).or_default() += 1;
    }
    assert_eq!(sends.len(), COUNT, "one key each");
    assert!(
        sends.values().all(|count| *count == 2),
        "once, and once more"
    );
    let takeovers =
        "SELECT DISTINCT takeovers::TEXT AS value FROM idempotency_keys WHERE operation = 'charge'";
    assert_eq!(app.database.words(takeovers).await, ["1"]);
    let both = [&workers.0, &workers.1].map(|worker| worker.stderr().contains("taken over"));
    assert_eq!(both, [true, true], "both had to work");
    let deadlocks =
        "SELECT deadlocks AS value FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(app.database.number(deadlocks).await, 0);
    app.check_oracles(&told).await;
}
