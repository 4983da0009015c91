//! A store that cannot be reached, that others hold up, or whose caller is gone.

use std::time::{Duration, Instant};

use chargeonce::storage::{StorageError, StoreSettings, connect};
use futures_util::future::join_all;

use crate::support::{Engine, Fixture, TestDatabase, closed, reservation};

on_both_stores! {
    async fn a_caller_that_goes_away_in_the_middle_leaves_nothing_held(engine) {
        let store = Fixture::open(engine).await;
        store.invoice("inv_1").await;
        store.reserve(&reservation("k")).await.unwrap();

        // Cut off at ever later points of the way, from the first poll to the end; seen from beside the store, so that no
        // look into its pool can tidy up first.
        let begun = Instant::now();
        store.set_payment_method("inv_1", Some("pm_whole")).await.unwrap();
        let whole = begun.elapsed();
        for step in 0..150 {
            let cut = whole * step / 100;
            if step % 3 > 0 {
                tokio::time::timeout(cut, store.set_payment_method("inv_1", Some(&format!("pm_{step}")))).await.ok();
            } else {
                tokio::time::timeout(cut, store.condition()).await.ok();
            }
            let mut other = store.database.session().await;
            if engine == Engine::Postgres {
                other.run("SET lock_timeout = '1min'").await;
            }
            other.run("UPDATE invoices SET updated_at_ms = updated_at_ms + 1").await;
        }

        let outcomes = join_all((0..20).map(|_| store.set_payment_method("inv_1", Some("pm_last")))).await;
        for outcome in outcomes {
            outcome.unwrap();
        }
        assert_eq!(store.reload("inv_1").await.payment_method_id.as_deref(), Some("pm_last"));
    }

    async fn a_failed_transaction_does_not_spoil_the_connection_for_the_next(engine) {
        let store = Fixture::open(engine).await;
        let invoice = store.invoice("inv_1").await;
        for round in 0..30 {
            let twice = store.insert_invoice(&crate::support::insertion(&invoice)).await;
            assert!(matches!(twice, Err(StorageError::Inconsistent(_))), "{twice:?}");
            let stale = crate::support::attempt(&crate::support::invoice("inv_unknown"), 1);
            assert_eq!(store.begin_attempt(&stale).await.unwrap(), None);

            assert!(store.reserve(&reservation(&format!("k{round}"))).await.unwrap().is_some());
            assert_eq!(store.count("idempotency_keys").await, round + 1, "written and committed, not left in a dead transaction");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_unavailable_in_time_and_its_password_is_not_told() {
    let refusing = closed();
    let closed = refusing.local_addr().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let urls = [
        format!("postgres://someone:s3cret-word@{closed}/billing"),
        format!(
            "postgres://someone:s3cret-word@{}/billing",
            silent.local_addr().unwrap()
        ),
        "postgres://someone:s3cret-word@127.0.0.1:notaport/billing".to_owned(),
        "postgres://someone:s3cret-word@127.0.0.1:1/billing?unheard_of=1".to_owned(),
    ];
    for url in urls {
        let mut settings = StoreSettings::new(&url);
        settings.timeout = Duration::from_millis(500);
        let begun = Instant::now();
        let error = connect(&settings).await.err().unwrap();

        assert!(matches!(error, StorageError::Unavailable(_)), "{error:?}");
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
        for text in [
            error.to_string(),
            format!("{error:?}"),
            settings.describe(),
            format!("{settings:?}"),
        ] {
            assert!(!text.contains("s3cret-word"), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_names_no_known_database_makes_no_file() {
    for url in [
        "mysql://localhost/x",
        "sqlite://",
        "chargeonce.db",
        "",
        "sqlite:chargeonce.db",
    ] {
        let error = connect(&StoreSettings::new(url)).await.err().unwrap();
        assert!(
            matches!(error, StorageError::Unavailable(_)),
            "{url}: {error:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_sqlite_file_in_a_folder_that_is_not_there_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/missing/test.db", folder.path().display());
    let error = connect(&StoreSettings::new(url)).await.err().unwrap();
    assert!(matches!(error, StorageError::Unavailable(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_sqlite_file_that_another_process_keeps_locked_is_unavailable_and_never_empty() {
    let database = TestDatabase::create(Engine::Sqlite).await;
    let store = connect(&StoreSettings::new(&database.url)).await.unwrap();
    store.reserve(&reservation("k")).await.unwrap().unwrap();
    let mut other = database.session().await;
    other.run("BEGIN IMMEDIATE").await;

    let found = store.find_reservation("k").await;
    assert!(found.unwrap().is_some(), "what is committed can be read");
    let refused = store.reserve(&reservation("other")).await;
    assert!(
        matches!(refused, Err(StorageError::Unavailable(_))),
        "{refused:?}"
    );
    other.run("ROLLBACK").await;
    assert!(store.find_reservation("k").await.unwrap().is_some());
    assert!(store.find_reservation("other").await.unwrap().is_none());
}
