//! Thousands of charges at once, with a provider that takes its time and a database with few connections.

use std::time::Duration;

use futures_util::future::join_all;

use crate::support::{
    Engine, Reply, Service, Session, TestApp, answer_on, eventually, real_time, report,
};

/// Charges at once.
const COUNT: usize = 5_000;

/// The files of one process that holds all their connections, and what it has open besides.
const FILES: usize = COUNT + 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn five_thousand_charges_in_flight_all_succeed_while_others_read() {
    let files = chargeonce::open_files::raise(FILES);
    if files < FILES {
        report(&format!(
            "NOT RUN: five thousand charges in flight: a process may have {files} open files here, and {FILES} are needed (ulimit -Hn)"
        ));
        return;
    }
    let app = TestApp::start(Engine::Postgres).await;
    let service = app
        .service()
        .set("PAYMENT_PROVIDER", "mock")
        .set("MOCK_LATENCY_MS", "2000")
        .set("DATABASE_POOL_SIZE", "8")
        // All of them at the same moment is more than a debug build reserves within the usual times.
        .set("DATABASE_TIMEOUT", "5m")
        .set("RESPONSE_WAIT", "10m")
        .set("RUST_LOG", "error")
        .start()
        .await;
    let ids: Vec<String> = (0..COUNT).map(|n| format!("inv_{n}")).collect();
    service.invoice("known").await;
    service.charge("known").await;
    let invoices = format!(
        "INSERT INTO invoices SELECT 'inv_' || n, 'cus_' || n, amount_cents, currency, description, payment_method_id, metadata, \
         'open', revision, created_at_ms, updated_at_ms FROM invoices, generate_series(0, {COUNT} - 1) AS n"
    );
    app.database.execute(&invoices).await;
    let idle = memory(&service);

    // Nothing is reserved until all of them are there, however long their connecting takes.
    let mut locker = Session::open(&app.database.url).await;
    locker.run("BEGIN").await;
    locker
        .run("LOCK TABLE idempotency_keys IN EXCLUSIVE MODE")
        .await;
    let mut callers = Vec::new();
    for some in ids.chunks(100) {
        callers.extend(join_all(some.iter().map(|id| service.charge_unread(id))).await);
    }
    eventually("all calls are in flight", async || {
        (gauge(&service, "requests_in_flight").await == COUNT).then_some(())
    })
    .await;
    locker.run("COMMIT").await;
    let answers = join_all(callers.into_iter().map(answer_on));
    let (answers, (peak, still, reads, replays)) = tokio::join!(answers, async {
        // Who comes now passes those who wait for the provider: each of these has its answer while most of the calls that were
        // there before have none.
        let reads = join_all((0..10).map(|_| service.get("/v1/invoices/known")));
        let replays = join_all((0..10).map(|_| service.charge("known")));
        let (reads, replays) = tokio::join!(reads, replays);
        let still = gauge(&service, "requests_in_flight").await;
        let mut peak = 0;
        while gauge(&service, "requests_in_flight").await > 0 {
            peak = peak.max(gauge(&service, "charges_in_flight").await);
            real_time(Duration::from_millis(200)).await;
        }
        (peak, still, reads, replays)
    });

    assert!(reads.iter().all(|reply| reply.status == 200), "{reads:#?}");
    assert!(replays.iter().all(Reply::is_replay), "{replays:#?}");
    assert!(still > COUNT / 2, "only {still} calls were still waiting");
    assert!(peak > 0, "there was never a charge in flight");
    let replies: Vec<Reply> = answers
        .into_iter()
        .map(|reply| reply.expect("no answer"))
        .collect();
    for reply in &replies {
        reply.assert(201, "", "yes", "not_needed");
        assert!(!reply.is_replay());
    }
    let paid = "SELECT count(DISTINCT invoice_id) AS value FROM charges WHERE status = 'succeeded' AND attempt = 1";
    let all = i64::try_from(COUNT).unwrap() + 1;
    assert_eq!(app.database.number(paid).await, all);
    assert_eq!(
        app.database
            .number("SELECT count(*) AS value FROM charges")
            .await,
        all
    );
    assert_eq!(gauge(&service, "charges_in_flight").await, 0);
    report(&format!(
        "{COUNT} calls at once, {peak} of them with the provider at the same moment; memory at most: {idle} before, {} after",
        memory(&service)
    ));
}

/// A gauge of the service's own.
async fn gauge(service: &Service, name: &str) -> usize {
    let metrics = service.get("/metrics").await.body;
    let series = format!("chargeonce_{name} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
    line.unwrap().parse().unwrap()
}

/// The most memory that the process has had, as the operating system counts it.
fn memory(service: &Service) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap().trim().to_owned()
}
