//! A disk without room under the embedded store.

use std::process::Command;

use crate::support::{Engine, HeldPoint, TestApp, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_a_503_and_recovers_once_there_is_room() {
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
async fn a_disk_that_fills_while_the_provider_works_loses_no_outcome() {
    let app = TestApp::start(Engine::Sqlite).await;
    let point = HeldPoint::new();
    let service = app
        .service()
        .set("RESPONSE_WAIT", "2m")
        .hold_at("before_record", &point)
        .start()
        .await;
    service.invoice("inv_1").await;

    let (reply, ()) = tokio::join!(service.charge("inv_1"), async {
        point.reached().await;
        limit_file_size(service.id(), "1");
        point.let_go();
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
