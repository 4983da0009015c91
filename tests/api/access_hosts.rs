//! By what names a service without API keys is called: a page in a browser on the same machine can send it requests, too.

use serde_json::json;

use crate::access::{ADMIN, with_keys};
use crate::support::{Engine, RawRequest, Reply, TestApp};

/// The simple POST that a page may send anywhere without asking: no body, no content type.
fn void() -> RawRequest {
    RawRequest::new("POST", "/v1/invoices/inv_1/void")
}

fn charge() -> RawRequest {
    RawRequest::json(
        "POST",
        "/v1/charges",
        json!({"invoiceId": "inv_1"}).to_string(),
    )
}

/// One of each refusal that this door has.
pub async fn refusals(engine: Engine) -> Vec<Reply> {
    let app = TestApp::start(engine).await;
    let page = void().header("Origin", "https://evil.example.com");
    vec![app.raw(&page).await]
}

#[tokio::test]
async fn a_strangers_page_moves_nothing() {
    let app = TestApp::with(Engine::Sqlite)
        .set("ALLOWED_HOSTS", "billing.example.com")
        .start()
        .await;
    app.invoice("inv_1").await;
    let host = |request: RawRequest, name: &str| request.without("Host").header("Host", name);
    #[rustfmt::skip]
    let refused = [
        ("a form of another page", void().header("Origin", "https://evil.example.com")),
        ("a page that hides where it is from", void().header("Origin", "null")),
        ("a name that was made to resolve here", host(void(), "evil.example.com")),
        ("a script of another page", charge().header("Origin", "http://evil.example.com:3000")),
        ("a name that begins like ours", host(charge(), "localhost.evil.example.com")),
        ("a look at the invoices", host(RawRequest::new("GET", "/v1/invoices"), "evil.example.com")),
    ];
    for (what, request) in refused {
        let reply = app.raw(&request).await;
        assert_eq!(
            (reply.status, reply.text("code")),
            (403, "host_not_allowed".into()),
            "{what}: {reply:#?}"
        );
        assert_eq!(reply.text("customerCharged"), "unknown", "{what}");
    }
    assert_eq!(app.get("/v1/invoices/inv_1").await.text("status"), "open");
    assert_eq!(app.sends(), Vec::<String>::new());

    // Probes come under any name, and so do events, which are signed.
    for path in ["/health/live", "/health/ready", "/openapi.json"] {
        let reply = app
            .raw(&host(RawRequest::new("GET", path), "10.0.0.7:3000"))
            .await;
        assert_eq!(reply.status, 200, "{path}: {reply:#?}");
    }
    let page =
        host(charge(), "billing.example.com").header("Origin", "https://billing.example.com");
    let charged = app.raw(&page).await;
    charged.assert(201, "", "yes", "not_needed");
    app.check_oracles(&[charged]).await;
}

#[tokio::test]
async fn with_keys_it_is_the_key_that_counts() {
    let app = with_keys(Engine::Sqlite, &[]).await;
    app.invoice("inv_1").await;
    let bearer = format!("Bearer {ADMIN}");
    let elsewhere = || charge().without("Host").header("Host", "billing.internal");

    let without = app.raw(&elsewhere()).await;
    let with = app.raw(&elsewhere().header("Authorization", bearer)).await;

    without.assert(401, "unauthorized", "unknown", "after_change");
    with.assert(201, "", "yes", "not_needed");
    app.check_oracles(&[with]).await;
}
