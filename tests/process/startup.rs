//! The start: what stops it, what it says, and what never shows.

use serde_json::json;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Engine, TestApp, answer_on};

/// `jane`, as a driver prints a value that it sends.
const JANE_IN_BYTES: &str = "106, 97, 110, 101";

/// `topsecret`, likewise.
const TOPSECRET_IN_BYTES: &str = "116, 111, 112, 115";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_setting_stops_the_start_and_is_named() {
    let app = TestApp::start(Engine::Sqlite).await;
    #[rustfmt::skip]
    let table = [
        ("HOST", "0.0.0.0"),
        ("PORT", "http"),
        ("DATABASE_URL", "mysql://x"),
        ("PAYMENT_PROVIDER", "paypal"),
        ("STRIPE_SECRET_KEY", ""),
        ("PROVIDER_KEY_WINDOW", "24h"),
        ("RESERVATION_TTL", "6h"),
        ("LOG_FORMAT", "xml"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:hunter2@collector:4318"),
        ("AGENT_API_KEYS", "bot=hunter2"),
        ("AGENT_LIMITS", "bot: usd day=1"),
    ];
    for (name, value) in table {
        let mut refused = app.service().set(name, value).spawn();
        let status = refused.ended().await;
        assert!(!status.success(), "{name}={value}");
        refused.written_to_stderr(&format!("{name}:")).await;
        assert!(!refused.stderr().contains("hunter2"), "{name}={value}");
        assert!(!refused.stdout().contains("listens"), "{name}={value}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_cannot_be_reached_stops_the_start_and_no_password_shows() {
    let app = TestApp::start(Engine::Sqlite).await;
    let urls = [
        "postgres://me:hunter2@127.0.0.1:1/billing",
        "postgres://me:hunter2@127.0.0.1:1/billing?sslmode=nonsense",
        "postgres://me:hunter2@127.0.0.1:port/billing",
        "sqlite:///nowhere/at/all/billing.db",
    ];
    for url in urls {
        let mut refused = app
            .service()
            .set("DATABASE_URL", url)
            .set("RUST_LOG", "trace")
            .spawn();
        let status = refused.ended().await;
        assert!(!status.success(), "{url}");
        refused.written_to_stderr("chargeonce cannot go on:").await;
        let said = format!("{}{}", refused.stdout(), refused.stderr());
        assert!(!said.contains("hunter2"), "{said}");
    }
}

on_both_stores! {
    async fn the_first_lines_tell_a_newcomer_where_everything_is(engine) {
        let app = TestApp::start(engine).await;
        let mut service = app.service().set("STRIPE_SECRET_KEY", "sk_test_topsecret").start().await;
        let url = service.url.clone();

        let provider = service.announced("  provider  ").await;
        assert_eq!(provider, format!("stripe at {}", app.mock.url()));
        let store = service.announced("  store     ").await;
        let name = if engine == Engine::Sqlite { "SQLite" } else { "PostgreSQL" };
        assert!(store.starts_with(name), "{store}");
        for path in ["v1/invoices", "v1/charges"] {
            let command = service.announced(&format!("  curl -s {url}/{path}").replace("-s", if path == "v1/charges" { "-is" } else { "-s" })).await;
            assert!(command.contains("-d '{"), "{command}");
        }
        assert!(!service.stdout().contains("topsecret"));
    }

    async fn no_api_key_shows_in_the_logs_right_or_wrong(engine) {
        let app = TestApp::start(engine).await;
        let admins = "ops=topsecret-of-the-operator";
        for (level, format) in [("trace", "json"), ("trace", "pretty")] {
            let service = app.service().set("ADMIN_API_KEYS", admins).set("RUST_LOG", level).set("LOG_FORMAT", format).start().await;
            let mut seen = Vec::new();
            for key in ["topsecret-of-the-operator", "topsecret-of-nobody-at-all"] {
                let mut stream = service.connect().await;
                let request = format!("GET /v1/charges HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\r\n");
                stream.write_all(request.as_bytes()).await.unwrap();
                seen.push(answer_on(stream).await.unwrap().status);
            }
            assert_eq!(seen, [200, 401]);
            service.written_to_stderr("answered").await;
            let said = format!("{}{}", service.stdout(), service.stderr());
            assert!(said.contains("ops"), "the log has the key's name");
            let line = said.lines().find(|line| line.contains("topsecret") || line.contains(TOPSECRET_IN_BYTES));
            assert_eq!(line, None, "{level} {format}");
        }
    }

    async fn no_secret_and_no_content_shows_in_the_logs_however_loud_they_are(engine) {
        let app = TestApp::start(engine).await;
        // The test server trusts everybody, so that any password may stand in the URL.
        let url = app.database.url.replacen("postgres@", "postgres:hunter2@", 1);
        for (level, format) in [("trace", "json"), ("debug", "pretty"), ("trace", "pretty")] {
            let service = app
                .service()
                .set("DATABASE_URL", &url)
                .set("STRIPE_SECRET_KEY", "sk_test_topsecret")
                .set("RUST_LOG", level)
                .set("LOG_FORMAT", format)
                .start()
                .await;
            let id = format!("inv_{level}_{format}");
            let invoice = json!({
                "id": id, "customerId": "cus_1", "amountCents": 1250, "currency": "usd",
                "description": "for jane@example.org", "metadata": {"note": "a-private-note"},
                "paymentMethodId": "pm_card_visa_chargeDeclined"
            });
            let mut seen = Vec::new();
            seen.push(service.post("/v1/invoices", &invoice).await);
            seen.push(service.charge(&id).await);
            seen.push(service.post("/v1/invoices", &json!({"description": "for jane@example.org", "customerId": 7})).await);
            seen.push(service.get("/v1/invoices?customerId=jane@example.org").await);
            assert_eq!(seen[1].status, 402);

            let said = format!("{}{}", service.stdout(), service.stderr());
            assert!(said.contains("charge"), "the log says something");
            for secret in ["topsecret", "hunter2", "jane@example.org", "jane%40example.org", "a-private-note", JANE_IN_BYTES, "amountCents\\\":1250"] {
                let line = said.lines().find(|line| line.contains(secret));
                assert_eq!(line, None, "{level} {format}: {secret}");
            }
            if format == "json" {
                for line in service.stderr().lines() {
                    assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
                }
            }
        }
    }

    async fn what_a_stranger_sends_is_no_error_in_the_log_and_does_not_show_there(engine) {
        let app = TestApp::start(engine).await;
        for format in ["json", "pretty"] {
            // The log as it is where nobody has chosen a filter.
            let service = app.service().unset("RUST_LOG").set("LOG_FORMAT", format).start().await;
            let message = r#"{"jsonrpc":"2.0","id":"from-a-stranger\n\n ERROR","method":"nothing/from-a-stranger"}"#;
            let length = message.len();
            for request in [
                "GET /health/live HTTP/1.1\r\nHost: localhost\r\nfrom-a-stranger: \0\r\n\r\n".to_owned(),
                "from-a-stranger\r\n\r\n".to_owned(),
                format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{message}"),
            ] {
                let mut stream = service.connect().await;
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await.unwrap();
                assert!(answer.starts_with(b"HTTP/1.1 "), "{request}");
            }
            service.written_to_stderr("answered").await;
            let said = service.stderr();
            assert!(!said.contains("from-a-stranger") && !said.contains("ERROR"), "{said}");
        }
    }
}

/// Two megabytes for a few bytes, and idle connections would take twice their memory.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_takes_no_huge_pages() {
    let app = TestApp::start(Engine::Sqlite).await;
    let service = app.service().start().await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
    // A kernel without huge pages says nothing.
    if let Some(line) = status.lines().find(|line| line.starts_with("THP_enabled")) {
        assert_eq!(line, "THP_enabled:\t0");
    }
}
