//! `chargeonce audit`: what it prints, what it ends with, and that it never mistakes "could not look" for an answer.

use std::process::Command;

use serde_json::Value;

use crate::support::{Engine, Process, Ran, Service, TestApp};

/// The audit beside the services of a test; its log says only what goes wrong.
async fn audit(app: &TestApp, arguments: &[&str]) -> Ran {
    let arguments = [&["audit"], arguments].concat();
    app.service().set("RUST_LOG", "error").run(&arguments).await
}

async fn paid(service: &Service, invoice_id: &str) {
    service.invoice(invoice_id).await;
    service
        .charge(invoice_id)
        .await
        .assert(201, "", "yes", "not_needed");
}

async fn paid_by_hand(app: &TestApp, invoice_id: &str) {
    let installation = app
        .database
        .words("SELECT id AS value FROM installation")
        .await;
    app.mock.payment_by_hand(invoice_id, &installation[0]);
}

on_both_stores! {
    async fn a_clean_audit_ends_with_zero_and_says_what_it_compared(engine) {
        let app = TestApp::start(engine).await;
        let service = app.serve().await;
        paid(&service, "inv_1").await;
        paid(&service, "inv_2").await;

        let clean = audit(&app, &[]).await;
        assert_eq!(clean.code, Some(0), "{clean:?}");
        assert!(clean.stdout.contains("2 charges here, 2 payments there"), "{clean:?}");
        assert!(clean.stdout.contains("no differences"), "{clean:?}");
        assert_eq!(clean.stderr, "", "no progress where nobody watches");
        let json = audit(&app, &["--json", "--since", "12h"]).await;
        assert_eq!(json.code, Some(0), "{json:?}");
        let report: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(report["clean"], true);
        assert_eq!(report["findings"], serde_json::json!([]));
        assert_eq!((&report["charges"], &report["payments"], &report["inFlight"]), (&2.into(), &2.into(), &0.into()));
    }

    async fn findings_end_with_one_as_a_table_and_as_json(engine) {
        let app = TestApp::start(engine).await;
        let service = app.serve().await;
        paid(&service, "inv_1").await;
        service.invoice("inv_2").await;
        paid_by_hand(&app, "inv_1").await;

        let table = audit(&app, &[]).await;
        assert_eq!(table.code, Some(1), "{table:?}");
        for part in ["1 paid_twice", "┌", "inv_1", "USD 12.50", "more than once"] {
            assert!(table.stdout.contains(part), "{part}: {table:?}");
        }
        assert!(!table.stdout.contains("inv_2"), "{table:?}");
        let json = audit(&app, &["--json"]).await;
        assert_eq!(json.code, Some(1), "{json:?}");
        let report: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(report["clean"], false);
        let finding = &report["findings"][0];
        assert_eq!((&finding["kind"], &finding["invoiceId"]), (&"paid_twice".into(), &"inv_1".into()));
        assert_eq!(finding["theirs"], serde_json::json!({"amountCents": 1250, "currency": "usd"}));
        assert_eq!(report["findings"].as_array().map(Vec::len), Some(1));
    }

    async fn what_could_not_be_looked_at_ends_with_two_and_prints_no_report(engine) {
        let app = TestApp::start(engine).await;
        let service = app.serve().await;
        paid(&service, "inv_1").await;
        // Something is there to be found, had it been looked at.
        paid_by_hand(&app, "inv_1").await;
        #[rustfmt::skip]
        let table: [(&str, &[(&str, &str)], &[&str], &str); 6] = [
            ("the provider is away", &[("STRIPE_API_BASE", "http://127.0.0.1:1")], &["audit"], "the provider could not be asked"),
            ("the store is away", &[("DATABASE_URL", "postgres://me:hunter2@127.0.0.1:1/billing")], &["audit", "--json"], "not available"),
            ("a setting is wrong", &[("PROVIDER_KEY_WINDOW", "24h")], &["audit"], "PROVIDER_KEY_WINDOW"),
            ("the mock is in another process", &[("PAYMENT_PROVIDER", "mock")], &["audit"], "PAYMENT_PROVIDER=mock"),
            ("the time cannot be read", &[], &["audit", "--since", "soon"], "--since"),
            ("an unknown option", &[], &["audit", "--fix"], "--fix"),
        ];
        for (name, variables, arguments, says) in table {
            let mut command = app.service().set("PROVIDER_TIMEOUT", "100ms").set("PROVIDER_MAX_RETRIES", "0");
            for (variable, value) in variables {
                command = command.set(variable, value);
            }
            let ran = command.run(arguments).await;
            assert_eq!(ran.code, Some(2), "{name}: {ran:?}");
            assert_eq!(ran.stdout, "", "{name}");
            assert!(ran.stderr.contains(says), "{name}: {ran:?}");
            assert!(!ran.stderr.contains("hunter2"), "{name}: {ran:?}");
        }
        assert_eq!(audit(&app, &[]).await.code, Some(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_shown_on_a_terminal() {
    let app = TestApp::start(Engine::Sqlite).await;
    let service = app.serve().await;
    paid(&service, "inv_1").await;
    paid_by_hand(&app, "inv_1").await;

    // `script` gives its command a terminal.
    let mut command = Command::new("script");
    let audit = format!("{} audit --json", env!("CARGO_BIN_EXE_chargeonce"));
    let folder = tempfile::tempdir().unwrap();
    command
        .args(["-q", "-e", "-c", &audit, "/dev/null"])
        .envs(app.service().set("RUST_LOG", "error").variables())
        .env("TERM", "xterm")
        .current_dir(folder.path());
    let ran = Process::spawn(command, folder).ran().await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("reading"), "{ran:?}");
    assert!(ran.stdout.contains("\"paid_twice\""), "{ran:?}");
}
