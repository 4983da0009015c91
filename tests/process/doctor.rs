//! `chargeonce doctor`: what it finds, and that it changes nothing.

use crate::support::{Engine, Ran, ServiceBuilder, TestApp};

async fn doctor(service: ServiceBuilder) -> Ran {
    service.set("RUST_LOG", "error").run(&["doctor"]).await
}

/// The line about one thing.
fn line<'a>(ran: &'a Ran, what: &str) -> &'a str {
    let mut lines = ran.stdout.lines();
    let found = lines.find(|line| line.split_whitespace().nth(1) == Some(what));
    found.unwrap_or_else(|| panic!("nothing about {what}: {ran:?}"))
}

on_both_stores! {
    async fn a_store_is_looked_at_and_not_changed(engine) {
        let app = TestApp::start(engine).await;

        let before = doctor(app.service()).await;
        let service = app.serve().await;
        service.invoice("inv_1").await;
        let after = doctor(app.service()).await;

        assert!(line(&before, "settings").starts_with("ok"), "{before:?}");
        assert!(line(&before, "provider").contains("takes the secret key"), "{before:?}");
        assert!(line(&before, "access").starts_with("warning"), "{before:?}");
        // The server that tests use forgets what it wrote when its machine dies, and that is said.
        let fsync = "SELECT setting AS value FROM pg_settings WHERE name = 'fsync'";
        if engine == Engine::Sqlite || app.database.words(fsync).await == ["on"] {
            assert!(line(&before, "store").contains("made at the start"), "{before:?}");
            assert!(line(&after, "store").contains("schema is current"), "{after:?}");
            assert_eq!((before.code, after.code), (Some(0), Some(0)), "{before:?} {after:?}");
        } else {
            assert!(line(&before, "store").starts_with("FAILED") && line(&before, "store").contains("fsync"), "{before:?}");
            assert_eq!((before.code, after.code), (Some(1), Some(1)), "{before:?} {after:?}");
        }
        assert_eq!(before.stderr, "", "{before:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_told_and_ends_with_one() {
    let app = TestApp::start(Engine::Sqlite).await;
    #[rustfmt::skip]
    let table = [
        ("STRIPE_API_BASE", "http://127.0.0.1:9", "provider", "could not be asked"),
        ("PORT", "http", "settings", "PORT"),
        ("DATABASE_URL", "postgres://nobody@127.0.0.1:9/nothing", "store", "cannot be used"),
    ];
    for (name, value, what, words) in table {
        let ran = doctor(app.service().set(name, value)).await;
        let told = line(&ran, what);
        assert!(
            told.starts_with("FAILED") && told.contains(words),
            "{name}={value}: {ran:?}"
        );
        assert_eq!(ran.code, Some(1), "{name}={value}: {ran:?}");
        assert!(!ran.stdout.contains("sk_test"), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_not_there_is_not_made() {
    let app = TestApp::start(Engine::Sqlite).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let url = format!("sqlite://{}", path.display());

    let ran = doctor(app.service().set("DATABASE_URL", &url)).await;

    assert!(
        line(&ran, "store").contains("does not exist yet"),
        "{ran:?}"
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!path.exists());
}
