//! Bad requests. Whatever is sent: no 500, a problem document that says what to change, and nothing reserved or sent.

mod bodies;
mod fields;
mod headers;
mod paths;
mod protocol;

use crate::support::{RawRequest, Reply, TestApp};

/// Words that would show how the service is built.
const INTERNALS: &[&str] = &[
    "serde",
    "diesel",
    "sqlite",
    "postgres",
    "actix",
    ".rs",
    "panicked",
    "struct ",
    "i64",
    "SELECT",
    "deserialize",
    "`",
    "/tmp",
    "<script",
];

/// The longest detail that is still one or two plain sentences, in characters.
const DETAIL_LENGTH_MAX: usize = 300;

/// A bad request and its right answer.
struct Case {
    name: String,
    request: RawRequest,
    status: u16,
    code: &'static str,
    field: &'static str,
}

fn case(
    name: impl Into<String>,
    request: RawRequest,
    (status, code, field): (u16, &'static str, &'static str),
) -> Case {
    Case {
        name: name.into(),
        request,
        status,
        code,
        field,
    }
}

const MALFORMED: (u16, &str, &str) = (400, "malformed_json", "body");

fn invalid(field: &'static str) -> (u16, &'static str, &'static str) {
    (422, "invalid_request", field)
}

/// An otherwise right request to charge `inv_1`, which could be charged: a request that slips through leaves a trace.
fn charge(body: impl Into<Vec<u8>>) -> RawRequest {
    RawRequest::json("POST", "/v1/charges", body)
}

/// An otherwise right request to create an invoice, with one member as given, in JSON.
fn invoice(member: &str, json: &str) -> RawRequest {
    let mut members = vec![
        ("customerId", r#""cus_1""#),
        ("amountCents", "1250"),
        ("currency", r#""usd""#),
    ];
    match members.iter_mut().find(|(name, _)| *name == member) {
        Some(found) => found.1 = json,
        None => members.push((member, json)),
    }
    let members: Vec<String> = members
        .iter()
        .map(|(name, json)| format!("\"{name}\":{json}"))
        .collect();
    RawRequest::json("POST", "/v1/invoices", format!("{{{}}}", members.join(",")))
}

/// A service with the open invoice `inv_1`.
async fn service(engine: crate::support::Engine) -> TestApp {
    let app = TestApp::start(engine).await;
    app.invoice("inv_1").await;
    app
}

/// All that a bad request must not touch: rows of every table, the invoice's state, requests to the provider.
async fn traces(app: &TestApp) -> (i64, i64, i64, i64, usize) {
    let count = |table: &'static str| {
        let database = app.database.clone();
        async move {
            database
                .number(&format!("SELECT COUNT(*) AS value FROM {table}"))
                .await
        }
    };
    let untouched = "SELECT COUNT(*) AS value FROM invoices WHERE status = 'open' AND revision = 1";
    (
        count("invoices").await,
        count("charges").await,
        count("idempotency_keys").await,
        app.database.number(untouched).await,
        app.mock.requests().len(),
    )
}

/// Sends every case, and fails with all that went wrong.
async fn judge(app: &TestApp, cases: Vec<Case>) {
    let before = traces(app).await;
    let mut faults = Vec::new();
    for case in &cases {
        let reply = app.raw(&case.request).await;
        for fault in faults_of(case, &reply) {
            faults.push(format!("{}: {fault}\n    {}", case.name, reply.body));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert_eq!(before, traces(app).await, "a bad request left a trace");
    app.check_oracles(&[]).await;
}

fn faults_of(case: &Case, reply: &Reply) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |what: &str, found: String, right: &str| {
        if found != right {
            faults.push(format!("{what} is {found:?}, not {right:?}"));
        }
    };
    let header = |name| reply.header(name).unwrap_or_default().to_owned();
    expect("status", reply.status.to_string(), &case.status.to_string());
    expect(
        "Content-Type",
        header("content-type"),
        "application/problem+json",
    );
    let Ok(document) = serde_json::from_str::<serde_json::Value>(&reply.body) else {
        faults.push("no JSON".into());
        return faults;
    };
    let text = |member: &str| document[member].as_str().unwrap_or_default().to_owned();
    expect("code", text("code"), case.code);
    expect("field", text("field"), case.field);
    // A charge that is not there may have been given back, and its invoice charged by a later one.
    let charged = if case.code == "charge_not_found" {
        "unknown"
    } else {
        "no"
    };
    expect("customerCharged", text("customerCharged"), charged);
    expect("retry", text("retry"), "after_change");
    expect(
        "status member",
        document["status"].to_string(),
        &case.status.to_string(),
    );
    expect(
        "type",
        text("type"),
        &format!("urn:chargeonce:problem:{}", case.code),
    );
    let detail = text("detail");
    if !detail.ends_with('.') || detail.chars().count() > DETAIL_LENGTH_MAX {
        faults.push(format!("not a short sentence: {detail:?}"));
    }
    if header("x-request-id").is_empty() {
        faults.push("no X-Request-Id".into());
    }
    for word in INTERNALS {
        if reply.body.contains(word) {
            faults.push(format!("shows {word:?}"));
        }
    }
    faults
}
