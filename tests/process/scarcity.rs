//! Connections, files and disk space are few. Slow charges hold none of them, and without them nothing is sent.

use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::net::TcpStream;

use crate::support::{Engine, TestApp, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn postgres_charges_that_wait_for_the_provider_hold_no_connection() {
    const COUNT: usize = 50;
    let app = TestApp::start(Engine::Postgres).await;
    let service = app.service().set("DATABASE_POOL_SIZE", "5").start().await;
    let ids: Vec<String> = (0..COUNT).map(|n| format!("inv_{n}")).collect();
    join_all(ids.iter().map(|id| service.invoice(id))).await;
    app.mock.set_latency(Duration::from_secs(2));

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

    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    for reply in &replies {
        reply.assert(201, "", "yes", "not_needed");
    }
    app.check_oracles(&replies).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_a_full_disk_is_a_503_and_recovers_once_there_is_room() {
    let app = TestApp::start(Engine::Sqlite).await;
    let service = app.serve().await;
    service.invoice("inv_1").await;

    // No file may grow: to the store that is a full disk.
    limit_file_size(service.id(), "1");
    let refused = service.charge("inv_1").await;
    refused.assert(503, "storage_unavailable", "unknown", "later");
    assert!(refused.header("retry-after").is_some());
    let creation = service
        .post(
            "/v1/invoices",
            &serde_json::json!({"customerId": "cus_1", "amountCents": 1250, "currency": "usd"}),
        )
        .await;
    assert_eq!(creation.status, 503, "{creation:#?}");
    assert_eq!(service.get("/v1/invoices/inv_1").await.status, 200);
    assert_eq!(app.sends(), Vec::<String>::new());
    limit_file_size(service.id(), "unlimited");
    let charged = service.charge("inv_1").await;

    charged.assert(201, "", "yes", "not_needed");
    app.check_oracles(&[charged]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_a_disk_that_fills_while_the_provider_works_loses_no_outcome() {
    let app = TestApp::start(Engine::Sqlite).await;
    let service = app.serve().await;
    service.invoice("inv_1").await;
    app.mock.set_latency(Duration::from_millis(500));

    let (reply, ()) = tokio::join!(service.charge("inv_1"), async {
        app.sent(1).await;
        limit_file_size(service.id(), "1");
        eventually("a record has failed", async || {
            service
                .stderr()
                .contains("the outcome could not be recorded yet")
                .then_some(())
        })
        .await;
        limit_file_size(service.id(), "unlimited");
    });

    reply.assert(201, "", "yes", "not_needed");
    app.check_oracles(&[reply]).await;
}

on_both_stores! {
    async fn without_open_files_nothing_is_sent_that_is_not_reserved(engine) {
        let app = TestApp::start(engine).await;
        let service = app.service().open_files(64).start().await;
        for n in 0..5 {
            service.invoice(&format!("inv_{n}")).await;
        }
        let address = service.url.strip_prefix("http://").unwrap();

        let mut idle = Vec::new();
        for _ in 0..200 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        eventually("the files are used up", async || {
            let open = std::fs::read_dir(format!("/proc/{}/fd", service.id())).unwrap().count();
            (open >= 64).then_some(())
        })
        .await;
        // This one goes over a connection that was there before.
        let scarce = service.charge("inv_0").await;
        app.check_truth("inv_0", &scarce);
        assert!([201, 202, 503].contains(&scarce.status), "{scarce:#?}");
        let sent = app.sends();
        let reserved = app.database.words("SELECT key AS value FROM idempotency_keys WHERE operation = 'charge'").await;
        assert!(sent.iter().all(|key| reserved.contains(key)), "{sent:?} {reserved:?}");
        drop(idle);

        let mut replies = Vec::new();
        for n in 0..5 {
            let id = format!("inv_{n}");
            let paid = eventually("the invoice is paid", async || {
                let reply = service.charge(&id).await;
                app.check_truth(&id, &reply);
                (reply.status == 201).then_some(reply)
            });
            replies.push(paid.await);
        }
        app.check_oracles(&replies).await;
    }
}

/// How large a file of a process may grow, in bytes; changed while it runs.
fn limit_file_size(id: u32, limit: &str) {
    let changed = Command::new("prlimit")
        .args([
            "--pid",
            &id.to_string(),
            &format!("--fsize={limit}:unlimited"),
        ])
        .status()
        .unwrap();
    assert!(changed.success());
}
