//! The pool of connections is small, and all of it is taken; or its connections are gone and no file is left for new ones.

use futures_util::future::join_all;

use crate::support::{Engine, Reply, Session, TestApp, answer_on, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn a_pool_of_which_every_connection_is_held_is_a_503_and_nothing_is_sent() {
    let app = TestApp::start(Engine::Postgres).await;
    let service = app
        .service()
        .set("DATABASE_POOL_SIZE", "2")
        .set("DATABASE_TIMEOUT", "4s")
        .start()
        .await;
    let ids: Vec<String> = (0..20).map(|n| format!("inv_{n}")).collect();
    join_all(ids.iter().map(|id| service.invoice(id))).await;
    let mut locker = Session::open(&app.database.url).await;
    locker.run("BEGIN").await;
    locker
        .run("LOCK TABLE idempotency_keys IN EXCLUSIVE MODE")
        .await;

    let calls = join_all(ids.iter().map(|id| service.charge(id)));
    let (refused, ()) = tokio::join!(calls, async {
        eventually("both connections wait for the lock", async || {
            let waiting = "SELECT count(*) AS value FROM pg_stat_activity WHERE datname = current_database() \
                AND application_name = 'chargeonce' AND wait_event_type = 'Lock'";
            (app.database.number(waiting).await == 2).then_some(())
        })
        .await;
        assert_eq!(service.get("/health/live").await.status, 200);
    });
    for reply in &refused {
        reply.assert(503, "storage_unavailable", "unknown", "later");
        assert!(reply.header("retry-after").is_some());
    }
    let told = service.stderr();
    let in_vain = ["no connection in time", "waiting for a slot"];
    assert!(
        in_vain.iter().any(|words| told.contains(words)),
        "some had to wait for a connection in vain: {told}"
    );
    assert_eq!(app.sends(), Vec::<String>::new());
    locker.run("COMMIT").await;

    let charged: Vec<Reply> = join_all(ids.iter().map(|id| {
        eventually("the invoice is paid", async || {
            let reply = service.charge(id).await;
            assert_ne!(reply.status, 500, "{reply:#?}");
            (reply.status == 201).then_some(reply)
        })
    }))
    .await;
    let mut sends = app.sends();
    sends.sort_unstable();
    let mut right: Vec<String> = ids.iter().map(|id| format!("charge:{id}")).collect();
    right.sort_unstable();
    assert_eq!(sends, right, "once each");
    app.check_oracles(&charged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn without_a_file_for_a_new_connection_to_the_database_a_charge_is_a_503() {
    let app = TestApp::start(Engine::Postgres).await;
    let service = app.serve().await;
    service.invoice("inv_1").await;
    let early = service.connect().await;
    service.is_live_on(&mut service.connect().await).await;

    // The files of the pool's connections are free again, and nothing may take them.
    service.limit_open_files("3");
    let cut = "SELECT count(pg_terminate_backend(pid)) AS value FROM pg_stat_activity \
        WHERE datname = current_database() AND application_name = 'chargeonce'";
    assert!(app.database.number(cut).await >= 1);
    let refused = answer_on(service.charge_on(early, "inv_1").await)
        .await
        .expect("no answer");
    refused.assert(503, "storage_unavailable", "unknown", "later");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(app.sends(), Vec::<String>::new());
    service.limit_open_files("1024");

    let charged = service.charge("inv_1").await;
    charged.assert(201, "", "yes", "not_needed");
    assert_eq!(app.sends(), ["charge:inv_1"]);
    app.check_oracles(&[refused, charged]).await;
}
