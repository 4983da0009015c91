//! Who may call what: every path, with every kind of key.

use std::collections::BTreeSet;
use std::path::Path;

use chargeonce::access::routes::line_of;
use serde_json::json;

use crate::support::{Engine, RawRequest, Reply, TestApp};

pub const ADMIN: &str = "secret-of-the-operators";
pub const AGENT: &str = "secret-of-an-agent-0001";
pub const OTHER: &str = "secret-of-an-agent-0002";
const FORMER: &str = "secret-of-an-agent-0000";

/// A service with keys, to which the test speaks as an operator.
pub async fn with_keys(engine: Engine, more: &[(&str, &str)]) -> TestApp {
    let mut app = TestApp::with(engine)
        .set("ADMIN_API_KEYS", &format!("ops={ADMIN}"))
        .set("AGENT_API_KEYS", &format!("bot={AGENT},other={OTHER}"))
        .key(ADMIN);
    for (name, value) in more {
        app = app.set(name, value);
    }
    app.start().await
}

/// Charges with this key.
pub async fn charge_as(app: &TestApp, key: &str, invoice_id: &str) -> Reply {
    let authorization = format!("Bearer {key}");
    let headers = [("Authorization", authorization.as_str())];
    app.post_with("/v1/charges", &json!({"invoiceId": invoice_id}), &headers)
        .await
}

/// One of each refusal, for the table of all codes.
pub async fn refusals(engine: Engine) -> Vec<Reply> {
    let limits = [
        ("AGENT_LIMITS", "bot: usd charge=1000; other: usd day=1249"),
        ("AGENT_RATE_LIMIT", "2/24h"),
    ];
    let app = with_keys(engine, &limits).await;
    app.invoice("inv_1").await;
    let void = RawRequest::json("POST", "/v1/invoices/inv_1/void", "{}");
    let agent = format!("Bearer {AGENT}");
    let replies = vec![
        charge_as(&app, FORMER, "inv_1").await,
        app.raw(&void.header("Authorization", agent)).await,
        charge_as(&app, AGENT, "inv_1").await,
        charge_as(&app, AGENT, "inv_1").await,
    ];
    app.check_oracles(&replies).await;
    replies
}

/// Method, path, its pattern, and the status with: no key, an agent's, an admin's, a wrong one, a revoked one.
type Row = (&'static str, &'static str, &'static str, [u16; 5]);

/// Every path that is mounted. `inv_1` is paid by the charge `CHARGE`.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("GET", "/health/live", "/health/live", [200, 200, 200, 200, 200]),
    ("GET", "/health/ready", "/health/ready", [200, 200, 200, 200, 200]),
    ("POST", "/v1/webhooks/stripe", "/v1/webhooks/stripe", [503, 503, 503, 503, 503]),
    ("GET", "/v1/invoices", "/v1/invoices", [401, 200, 200, 401, 401]),
    ("POST", "/v1/invoices", "/v1/invoices", [401, 403, 422, 401, 401]),
    ("GET", "/v1/invoices/inv_1", "/v1/invoices/{id}", [401, 200, 200, 401, 401]),
    ("PATCH", "/v1/invoices/inv_1", "/v1/invoices/{id}", [401, 403, 422, 401, 401]),
    ("POST", "/v1/invoices/inv_1/void", "/v1/invoices/{id}/void", [401, 403, 409, 401, 401]),
    ("GET", "/v1/invoices/inv_1/charge-status", "/v1/invoices/{id}/charge-status", [401, 200, 200, 401, 401]),
    ("GET", "/openapi.json", "/openapi.json", [200, 200, 200, 200, 200]),
    ("GET", "/docs", "/docs", [308, 308, 308, 308, 308]),
    ("GET", "/docs/index.html", "/docs/{file}", [200, 200, 200, 200, 200]),
    ("GET", "/v1/tools", "/v1/tools", [401, 200, 200, 401, 401]),
    ("POST", "/mcp", "/mcp", [401, 400, 400, 401, 401]),
    ("GET", "/v1/charges", "/v1/charges", [401, 200, 200, 401, 401]),
    ("POST", "/v1/charges", "/v1/charges", [401, 422, 422, 401, 401]),
    ("GET", "/v1/charges/CHARGE", "/v1/charges/{id}", [401, 200, 200, 401, 401]),
    ("GET", "/v1/charges/CHARGE/evidence", "/v1/charges/{id}/evidence", [401, 403, 200, 401, 401]),
    ("POST", "/v1/charges/CHARGE/resolve", "/v1/charges/{id}/resolve", [401, 403, 422, 401, 401]),
    ("GET", "/v1/refunds", "/v1/refunds", [401, 403, 200, 401, 401]),
    ("POST", "/v1/refunds", "/v1/refunds", [401, 403, 422, 401, 401]),
    ("GET", "/v1/refunds/rfd_1", "/v1/refunds/{id}", [401, 403, 404, 401, 401]),
    ("GET", "/v1/refunds/rfd_1/evidence", "/v1/refunds/{id}/evidence", [401, 403, 404, 401, 401]),
    ("POST", "/v1/refunds/rfd_1/resolve", "/v1/refunds/{id}/resolve", [401, 403, 422, 401, 401]),
    ("GET", "/metrics", "/metrics", [401, 403, 200, 401, 401]),
];

/// What is not mounted: paths that are not there, methods that a path does not have, and other spellings of paths that are.
#[rustfmt::skip]
const NOTHING_THERE: &[(&str, &str, [u16; 5])] = &[
    ("GET", "/", [401, 404, 404, 401, 401]),
    ("GET", "/v1/nothing", [401, 404, 404, 401, 401]),
    ("GET", "/v1/charges/", [401, 404, 404, 401, 401]),
    ("GET", "//v1/charges", [401, 404, 404, 401, 401]),
    ("GET", "/health/live/x", [401, 404, 404, 401, 401]),
    ("DELETE", "/v1/charges", [401, 403, 405, 401, 401]),
    ("PUT", "/v1/invoices/inv_1", [401, 403, 405, 401, 401]),
    ("OPTIONS", "/metrics", [401, 403, 405, 401, 401]),
    ("DELETE", "/health/live", [405, 405, 405, 405, 405]),
    ("GET", "/%6Detrics", [401, 403, 200, 401, 401]),
    ("GET", "/v1/%69nvoices", [401, 200, 200, 401, 401]),
    ("GET", "/v1/charges/CHARGE/%65vidence", [401, 403, 200, 401, 401]),
    ("GET", "/v1/charges/CHARGE%2Fevidence", [401, 404, 404, 401, 401]),
    ("GET", "/health/live?x=/metrics", [400, 400, 400, 400, 400]),
    ("GET", "/metrics?x=/health/live", [401, 403, 400, 401, 401]),
    ("GET", "/health/live/../../metrics", [401, 404, 404, 401, 401]),
];

/// The paths with their methods as the controllers mount them: `resource("path", "GET, POST")`.
fn mounted() -> BTreeSet<(String, String)> {
    fn read(folder: &Path, found: &mut BTreeSet<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, found);
            } else if path.file_name().is_some_and(|name| name == "controller.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                for call in text.split("resource(").skip(1) {
                    let mut words = call.split('"');
                    let (pattern, methods) = (words.nth(1).unwrap(), words.nth(1).unwrap());
                    for method in methods.split(", ") {
                        found.insert((method.to_owned(), pattern.to_owned()));
                    }
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    read(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    found
}

#[test]
fn every_path_that_is_mounted_has_its_line_in_the_table_of_access_and_in_this_one() {
    let mounted = mounted();
    assert!(mounted.len() >= 14, "{mounted:?}");
    let tried: BTreeSet<(String, String)> = TABLE
        .iter()
        .map(|(method, _, pattern, _)| ((*method).to_owned(), (*pattern).to_owned()))
        .collect();
    assert_eq!(tried, mounted, "TABLE in tests/api/access.rs");
    for (method, pattern) in &mounted {
        let line = line_of(method, pattern);
        assert!(
            line.is_some(),
            "{method} {pattern} is not in src/access/routes.rs"
        );
    }
}

on_both_stores! {
    async fn every_path_lets_in_whom_it_should_and_nobody_else(engine) {
        let former = with_keys(engine, &[]).await;
        former.invoice("inv_1").await;
        let charge = charge_as(&former, AGENT, "inv_1").await;
        charge.assert(201, "", "yes", "not_needed");
        // `FORMER` was the agent's secret once.
        let app = former.replica().set("AGENT_API_KEYS", &format!("bot={AGENT}")).start().await;
        let keys = [None, Some(AGENT), Some(ADMIN), Some("secret-of-nobody-at-all"), Some(FORMER)];
        let paths = TABLE.iter().map(|(method, path, _, statuses)| (method, path, statuses));
        let others = NOTHING_THERE.iter().map(|(method, path, statuses)| (method, path, statuses));
        for (method, path, statuses) in paths.chain(others) {
            for (key, status) in keys.iter().zip(statuses) {
                let path = path.replace("CHARGE", &charge.text("id"));
                let body = if path.ends_with("/void") { "{}" } else { r#"{"x":1}"# };
                let mut request = match *method {
                    "GET" | "DELETE" | "OPTIONS" => RawRequest::new(method, &path),
                    _ => RawRequest::json(method, &path, body),
                };
                if let Some(key) = key {
                    request = request.header("Authorization", format!("Bearer {key}"));
                }
                let reply = app.raw(&request).await;
                assert_eq!(reply.status, *status, "{method} {path} with {key:?}: {reply:#?}");
                match reply.status {
                    401 => {
                        reply.assert(401, "unauthorized", "unknown", "after_change");
                        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
                    }
                    403 => { reply.assert(403, "forbidden", "unknown", "after_change"); }
                    _ => {}
                }
                assert!(reply.header("x-request-id").is_some(), "{reply:#?}");
            }
        }
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[charge]).await;
    }

    async fn a_secret_works_until_it_is_taken_out_and_two_of_one_name_work_side_by_side(engine) {
        let before = with_keys(engine, &[("AGENT_API_KEYS", &format!("bot={FORMER}"))]).await;
        let both = before.replica().set("AGENT_API_KEYS", &format!("bot={FORMER},bot={AGENT}")).start().await;
        let after = before.replica().set("AGENT_API_KEYS", &format!("bot={AGENT}")).start().await;
        before.invoice("inv_1").await;
        let mut replies = Vec::new();
        for (app, former, now) in [(&before, 201, 401), (&both, 201, 201), (&after, 401, 201)] {
            for (key, status) in [(FORMER, former), (AGENT, now)] {
                let reply = charge_as(app, key, "inv_1").await;
                assert_eq!(reply.status, status, "{reply:#?}");
                replies.push(reply);
            }
        }
        before.check_oracles(&replies).await;
    }

    async fn whoever_is_not_let_in_gets_one_and_the_same_answer_before_the_body_is_read(engine) {
        let app = with_keys(engine, &[]).await;
        app.invoice("inv_1").await;
        let near = format!("{}2", &AGENT[..AGENT.len() - 1]);
        let wrong = [
            vec![], vec!["Bearer"], vec!["Bearer "], vec!["Bearer x"], vec!["Basic Ym90OnNlY3JldA=="], vec![AGENT], vec!["Bearer secret-of-nobody-at-all"],
            vec!["Bearer bot"], vec!["Bearer sha256:0000"],
        ];
        let mut replies = Vec::new();
        for values in wrong {
            // The body that is announced never comes.
            let mut request = RawRequest::new("POST", "/v1/charges").header("Content-Type", "application/json").header("Content-Length", "23");
            for value in values {
                request = request.header("Authorization", value);
            }
            replies.push(app.raw(&request).await);
        }
        let twice = RawRequest::json("POST", "/v1/charges", r#"{"invoiceId":"inv_1"}"#);
        let valid = format!("Bearer {AGENT}");
        replies.push(app.raw(&twice.header("Authorization", valid.clone()).header("Authorization", valid)).await);
        assert_ne!(near, AGENT);
        replies.push(charge_as(&app, &near, "inv_1").await.clone());

        for reply in &mut replies {
            reply.headers.retain(|(name, _)| !["x-request-id", "date", "connection", "content-length"].contains(&name.to_ascii_lowercase().as_str()));
            reply.headers.sort();
        }
        // The near miss is the other agent's secret: one character does not make a key near another.
        let other = replies.pop().unwrap();
        assert_eq!(other.status, 201);
        for reply in &replies {
            assert_eq!((reply.status, &reply.headers, &reply.body), (401, &replies[0].headers, &replies[0].body));
        }
        app.check_oracles(&replies).await;
    }

    async fn a_refused_call_reserves_nothing_and_asks_nobody(engine) {
        let app = with_keys(engine, &[]).await;
        app.invoice("inv_1").await;
        let before = app.database.number("SELECT COUNT(*) AS value FROM idempotency_keys").await;
        let refused = charge_as(&app, FORMER, "inv_1").await;
        refused.assert(401, "unauthorized", "unknown", "after_change");
        assert_eq!(app.database.number("SELECT COUNT(*) AS value FROM idempotency_keys").await, before);
        assert_eq!(app.attempts("inv_1").await, Vec::<String>::new());
        assert_eq!(app.mock.requests().len(), 0);
        app.check_oracles(&[refused]).await;
    }

    async fn the_scheme_may_be_spelled_in_any_case(engine) {
        let app = with_keys(engine, &[]).await;
        for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
            let request = RawRequest::new("GET", "/v1/charges").header("Authorization", format!("{scheme} {AGENT}"));
            assert_eq!(app.raw(&request).await.status, 200, "{scheme}");
        }
    }

    async fn who_asked_is_kept_with_the_attempt_and_told_to_admins_only(engine) {
        let app = with_keys(engine, &[]).await;
        app.invoice("inv_1").await;
        let authorization = format!("Bearer {AGENT}");
        let headers = [("Authorization", authorization.as_str()), ("X-Request-Id", "req-7"), ("X-Agent-Session", "task-7/step-3")];
        let first = app.post_with("/v1/charges", &json!({"invoiceId": "inv_1"}), &headers).await;
        first.assert(201, "", "yes", "not_needed");
        let second = charge_as(&app, OTHER, "inv_1").await;
        let third = app.charge("inv_1").await;
        assert_eq!([&second.body, &third.body], [&first.body, &first.body]);
        assert!(!first.body.contains("askedBy"), "{first:#?}");

        let asked = json!({"keyName": "bot", "requestId": "req-7", "session": "task-7/step-3"});
        let path = format!("/v1/charges/{}", first.text("id"));
        assert_eq!(app.get(&path).await.json()["askedBy"], asked);
        assert_eq!(app.get("/v1/charges").await.json()["data"][0]["askedBy"], asked);
        for path in [path.as_str(), "/v1/charges"] {
            let seen = app.raw(&RawRequest::new("GET", path).header("Authorization", authorization.clone())).await;
            assert!(seen.status == 200 && !seen.body.contains("askedBy"), "{seen:#?}");
        }
        app.check_oracles(&[first, second, third]).await;
    }

    async fn a_session_that_is_not_fit_for_the_books_is_refused(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let long = "s".repeat(129);
        let mut replies = Vec::new();
        for session in ["a b", "", long.as_str()] {
            let reply = app.post_with("/v1/charges", &json!({"invoiceId": "inv_1"}), &[("X-Agent-Session", session)]).await;
            reply.assert(422, "invalid_request", "no", "after_change");
            assert_eq!(reply.text("field"), "X-Agent-Session");
            replies.push(reply);
        }
        assert_eq!(app.attempts("inv_1").await, Vec::<String>::new());
        // Without keys everybody is an admin without a name.
        let charged = app.post_with("/v1/charges", &json!({"invoiceId": "inv_1"}), &[("X-Agent-Session", "s"), ("X-Request-Id", "r")]).await;
        let seen = app.get(&format!("/v1/charges/{}", charged.text("id"))).await.json();
        assert_eq!(seen["askedBy"], json!({"keyName": null, "requestId": "r", "session": "s"}));
        replies.push(charged);
        app.check_oracles(&replies).await;
    }

    async fn an_agent_that_calls_too_often_is_told_when_to_come_again_and_nobody_else_is(engine) {
        let app = with_keys(engine, &[("AGENT_RATE_LIMIT", "2/24h")]).await;
        app.invoice("inv_1").await;
        app.invoice("inv_2").await;
        let mut replies = vec![charge_as(&app, AGENT, "inv_1").await, charge_as(&app, AGENT, "inv_1").await];
        assert_eq!([replies[0].status, replies[1].status], [201, 201]);
        let refused = charge_as(&app, AGENT, "inv_2").await;
        refused.assert(429, "rate_limited", "unknown", "later");
        assert_eq!(refused.header("retry-after"), Some(refused.text("retryAfterSeconds").as_str()));
        assert_eq!(app.attempts("inv_2").await, Vec::<String>::new());
        replies.push(refused);
        for _ in 0..3 {
            replies.push(app.charge("inv_2").await);
        }
        replies.push(charge_as(&app, OTHER, "inv_2").await);
        assert!(replies[3..].iter().all(|reply| reply.status == 201), "{replies:#?}");
        app.check_oracles(&replies).await;
    }
}

#[test]
fn secrets_are_compared_in_constant_time() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/access/keys.rs"))
            .unwrap();
    let (_, from) = text.split_once("pub fn owner_of").unwrap();
    let (body, _) = from.split_once("\n    }\n").unwrap();
    assert!(body.contains(".ct_eq(") && body.contains("conditional_assign"));
    for early in ["==", "return", "break", ".find(", ".position(", ".any("] {
        assert!(!body.contains(early), "{early} in owner_of");
    }
}
