//! The database is paused, stopped, read-only, or cuts its connections. Nothing is sent to the provider without a
//! reservation, callers hear of it soon, and all works again by itself.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::support::{
    Engine, HeldPoint, PostgresServer, Reply, Service, ServiceBuilder, Session, TestApp,
    TestDatabase, eventually, real_time,
};

/// Ends every session on the test's database but the one that asks.
const CUT: &str = "SELECT count(pg_terminate_backend(pid)) AS value FROM pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// Sooner than callers are answered who wait for a provider.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn a_paused_database_is_a_quick_503_and_recovers() {
    let mut server = PostgresServer::start().await;
    let app = TestApp::on(TestDatabase::create_on(server.url.clone()).await).await;
    let service = app.service().set("DATABASE_TIMEOUT", "2s").start().await;
    let ids = invoices(&service, 20).await;
    // The pool is full of connections that worked a moment ago.
    join_all((0..40).map(|_| service.get("/health/ready"))).await;

    server.pause();
    // All by itself, so that every connection of the pool could be tried for it.
    let begun = Instant::now();
    service
        .charge("inv_0")
        .await
        .assert(503, "storage_unavailable", "unknown", "later");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let calls = (0..100).map(|n| {
        let (service, id) = (&service, &ids[n % ids.len()]);
        async move {
            let begun = Instant::now();
            (service.charge(id).await, begun.elapsed())
        }
    });
    let refused = join_all(calls).await;

    for (reply, took) in &refused {
        reply.assert(503, "storage_unavailable", "unknown", "later");
        assert!(reply.header("retry-after").is_some());
        assert!(*took < SOON, "{took:?}");
    }
    assert_eq!(app.sends(), Vec::<String>::new());
    assert_eq!(service.get("/health/live").await.status, 200);
    server.resume();
    let charged = charge_all_in_the_end(&service, &ids).await;
    app.check_oracles(&charged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn a_database_that_is_paused_while_the_provider_works_loses_no_outcome() {
    let mut server = PostgresServer::start().await;
    let app = TestApp::on(TestDatabase::create_on(server.url.clone()).await).await;
    let point = HeldPoint::new();
    let service = patient(&app).hold_at("before_record", &point).start().await;
    let ids = invoices(&service, 2).await;

    let (reply, refused) = tokio::join!(service.charge("inv_0"), async {
        point.reached().await;
        server.pause();
        point.let_go();
        eventually("a record has failed", async || {
            service
                .stderr()
                .contains("the outcome could not be recorded yet")
                .then_some(())
        })
        .await;
        let refused = service.charge("inv_1").await;
        assert_eq!(service.get("/health/ready").await.status, 503);
        assert_eq!(app.mock.paid("inv_0"), 1);
        assert_eq!(app.sends(), ["charge:inv_0"]);
        server.resume();
        refused
    });

    reply.assert(201, "", "yes", "not_needed");
    refused.assert(503, "storage_unavailable", "unknown", "later");
    let charged = charge_all_in_the_end(&service, &ids).await;
    assert_eq!(app.sends(), ["charge:inv_0", "charge:inv_1"]);
    app.check_oracles(&charged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn a_stopped_database_is_a_503_and_an_outcome_is_recorded_when_it_is_back() {
    let mut server = PostgresServer::start().await;
    let app = TestApp::on(TestDatabase::create_on(server.url.clone()).await).await;
    let point = HeldPoint::open();
    let service = patient(&app).hold_at("before_record", &point).start().await;
    let ids = invoices(&service, 3).await;

    server.stop().await;
    let refused = service.charge("inv_0").await;
    refused.assert(503, "storage_unavailable", "unknown", "later");
    assert_eq!(service.get("/health/ready").await.status, 503);
    assert_eq!(app.sends(), Vec::<String>::new());
    server.start_again().await;
    charge_all_in_the_end(&service, &ids[..1]).await;

    // Away exactly when the outcome is to be recorded.
    point.close();
    let (reply, ()) = tokio::join!(service.charge("inv_1"), async {
        point.reached().await;
        assert_eq!(app.mock.paid("inv_1"), 1);
        server.stop().await;
        point.let_go();
        eventually("a record has failed", async || {
            service
                .stderr()
                .contains("the outcome could not be recorded yet")
                .then_some(())
        })
        .await;
        server.start_again().await;
    });
    reply.assert(201, "", "yes", "not_needed");
    let charged = charge_all_in_the_end(&service, &ids).await;
    assert_eq!(
        app.sends(),
        ["charge:inv_0", "charge:inv_1", "charge:inv_2"]
    );
    app.check_oracles(&charged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn cut_connections_in_the_middle_of_charges_lose_nothing() {
    let app = TestApp::start(Engine::Postgres).await;
    let service = app.service().set("DATABASE_TIMEOUT", "2s").start().await;
    let ids = invoices(&service, 30).await;
    app.mock.set_latency(Duration::from_millis(200));

    let calls = join_all(ids.iter().map(|id| service.charge(id)));
    let (replies, ()) = tokio::join!(calls, async {
        for _ in 0..15 {
            app.database.number(CUT).await;
            real_time(Duration::from_millis(30)).await;
        }
    });
    for (id, reply) in ids.iter().zip(&replies) {
        app.check_truth(id, reply);
        assert!([201, 202, 409, 503].contains(&reply.status), "{reply:#?}");
    }
    app.mock.set_latency(Duration::ZERO);
    app.age_past_leases().await;
    let charged = charge_all_in_the_end(&service, &ids).await;

    app.check_oracles(&[replies, charged].concat()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn a_read_only_database_is_a_503_and_nothing_is_sent() {
    let app = TestApp::start(Engine::Postgres).await;
    let service = app.serve().await;
    let ids = invoices(&service, 1).await;
    let name = app.database.url.rsplit('/').next().unwrap().to_owned();
    let set = async |value: &str| {
        app.database
            .execute(&format!(
                "ALTER DATABASE {name} SET default_transaction_read_only = {value}"
            ))
            .await;
        app.database.number(CUT).await;
    };

    set("on").await;
    let refused = service.charge("inv_0").await;
    refused.assert(503, "storage_unavailable", "unknown", "later");
    assert_eq!(service.get("/v1/invoices/inv_0").await.status, 200);
    assert_eq!(app.sends(), Vec::<String>::new());
    let mut admin = Session::open(&app.database.url).await;
    admin.run("SET default_transaction_read_only = off").await;
    admin
        .run(&format!(
            "ALTER DATABASE {name} RESET default_transaction_read_only"
        ))
        .await;
    drop(admin);
    app.database.number(CUT).await;

    let charged = charge_all_in_the_end(&service, &ids).await;
    app.check_oracles(&charged).await;
}

async fn invoices(service: &Service, count: usize) -> Vec<String> {
    let ids: Vec<String> = (0..count).map(|n| format!("inv_{n}")).collect();
    join_all(ids.iter().map(|id| service.invoice(id))).await;
    ids
}

/// Calls until every invoice is paid, as a caller that obeys `retry` does; the store has to come back by itself.
async fn charge_all_in_the_end(service: &Service, ids: &[String]) -> Vec<Reply> {
    join_all(ids.iter().map(|id| {
        eventually("the invoice is paid", async || {
            let reply = service.charge(id).await;
            assert_ne!(reply.status, 500, "{reply:#?}");
            (reply.status == 201).then_some(reply)
        })
    }))
    .await
}

/// A service that gives the database up soon, and has its callers wait for as long as it is away.
fn patient(app: &TestApp) -> ServiceBuilder {
    app.service()
        .set("DATABASE_TIMEOUT", "2s")
        .set("RESPONSE_WAIT", "2m")
}
