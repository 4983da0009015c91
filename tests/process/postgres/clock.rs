//! One clock decides leases: the database's.

use std::os::unix::process::ExitStatusExt;

use crate::support::{Engine, TestApp};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn leases_follow_the_databases_clock_and_no_processs_own() {
    let app = TestApp::start(Engine::Postgres).await;
    // The schema must be there before its clock can be replaced.
    drop(app.serve().await);
    shift_clock(&app, -5).await;
    let mut dying = app
        .service()
        .set("CHARGEONCE_CRASH_AT", "after_reserve")
        .start()
        .await;
    dying.invoice("inv_1").await;
    assert!(dying.try_charge("inv_1").await.is_none());
    assert_eq!(dying.ended().await.signal(), Some(6));
    let lease_hours = "SELECT round((lease_expires_at_ms - extract(epoch FROM clock_timestamp()) * 1000) / 3600000)::BIGINT \
        AS value FROM idempotency_keys";
    assert_eq!(app.database.number(lease_hours).await, -5);

    // By every process's clock the lease was over hours ago; by the database's it has just begun.
    let service = app.serve().await;
    let busy = service.charge("inv_1").await;
    busy.assert(409, "charge_in_progress", "unknown", "later");
    shift_clock(&app, -4).await;
    let taken_over = service.charge("inv_1").await;

    taken_over.assert(201, "", "yes", "not_needed");
    assert_eq!(app.sends(), ["charge:inv_1"]);
    app.check_oracles(&[busy, taken_over]).await;
}

/// Sets the database's clock so many hours from the true time.
async fn shift_clock(app: &TestApp, hours: i64) {
    let offset_ms = hours * 3_600_000;
    app.database
        .execute(&format!(
            "CREATE OR REPLACE FUNCTION clock_ms(offset_ms BIGINT) RETURNS BIGINT LANGUAGE sql VOLATILE AS $$ \
             SELECT (extract(epoch FROM clock_timestamp()) * 1000)::BIGINT + offset_ms + ({offset_ms}) $$"
        ))
        .await;
}
