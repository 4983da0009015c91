//! What is and is not a message of the protocol, and who may send one.

use serde_json::{Value, json};

use crate::support::{Engine, RawRequest, Reply, TestApp, message, tool_call};

const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");

fn raw(body: impl Into<Vec<u8>>) -> RawRequest {
    RawRequest::json("POST", "/mcp", body).header(ACCEPT.0, ACCEPT.1)
}

fn error(reply: &Reply) -> (u16, i64, String) {
    let body = reply.json();
    let error = &body["error"];
    (
        reply.status,
        error["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("{reply:#?}")),
        error["message"].as_str().unwrap().to_owned(),
    )
}

fn initialize(revision: &str) -> Value {
    message(
        "initialize",
        json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
    )
}

#[tokio::test]
async fn each_revision_with_a_handshake_is_spoken_and_an_unknown_one_gets_the_newest() {
    let app = TestApp::start(Engine::Sqlite).await;
    for (asked, got) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let reply = app
            .post_mcp(&initialize(asked), &[("MCP-Protocol-Version", "")])
            .await;
        assert_eq!(reply.status, 200, "{reply:#?}");
        let result = &reply.json()["result"];
        assert_eq!(result["protocolVersion"], got, "{reply:#?}");
        assert_eq!(result["serverInfo"]["name"], "chargeonce");
        assert_eq!(result["capabilities"], json!({"tools": {}}));
        let told = result["instructions"].as_str().unwrap();
        assert!(told.contains("call it again with the same invoiceId"));
        assert_eq!(reply.header("mcp-session-id"), None, "it has no sessions");
    }
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(app.post_mcp(&initialized, &[]).await.status, 202);
}

#[tokio::test]
async fn the_newest_revision_needs_no_handshake() {
    let app = TestApp::start(Engine::Sqlite).await;
    app.invoice("inv_1").await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let post = async |method: &str, mut params: Value, name: &str| {
        params["_meta"] = meta.clone();
        let mut headers = vec![
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
        ];
        if !name.is_empty() {
            headers.push(("Mcp-Name", name));
        }
        let reply = app.post_mcp(&message(method, params), &headers).await;
        assert_eq!(reply.status, 200, "{reply:#?}");
        reply.json()["result"].clone()
    };

    let discovered = post("server/discover", json!({}), "").await;
    let listed = post("tools/list", json!({}), "").await;
    let call = json!({"name": "charge_customer", "arguments": {"invoiceId": "inv_1"}});
    let charged = post("tools/call", call, "charge_customer").await;

    assert!(
        discovered["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!("2026-07-28")),
        "{discovered:#}"
    );
    assert_eq!(listed["tools"].as_array().unwrap().len(), 4);
    assert_eq!(charged["structuredContent"]["customerCharged"], "yes");
    app.check_oracles(&[]).await;
}

#[tokio::test]
async fn what_is_no_message_is_refused_as_the_protocol_says() {
    let app = TestApp::start(Engine::Sqlite).await;
    app.invoice("inv_1").await;
    let call = |params: Value| message("tools/call", params).to_string();
    let batch = json!([tool_call("charge_customer", &json!({"invoiceId": "inv_1"}))]);
    #[rustfmt::skip]
    let table = [
        ("not JSON", "{".to_owned(), 400, -32_700),
        ("nothing", String::new(), 400, -32_700),
        ("deep nesting", "[".repeat(30_000), 400, -32_700),
        ("a batch", batch.to_string(), 400, -32_600),
        ("no JSON-RPC", r#"{"invoiceId":"inv_1"}"#.into(), 400, -32_600),
        ("JSON-RPC 1", r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#.into(), 400, -32_600),
        ("an answer", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into(), 400, -32_600),
        ("an unknown method", message("invoices/charge", json!({})).to_string(), 200, -32_601),
        ("an unknown tool", call(json!({"name": "refund_customer", "arguments": {}})), 200, -32_602),
        ("no name", call(json!({"arguments": {}})), 200, -32_602),
        ("arguments in a list", call(json!({"name": "charge_customer", "arguments": ["inv_1"]})), 200, -32_602),
        ("arguments as text", call(json!({"name": "charge_customer", "arguments": "{\"invoiceId\":\"inv_1\"}"})), 200, -32_602),
    ];
    for (what, body, status, code) in table {
        let reply = app.raw(&raw(body)).await;
        let (found_status, found_code, told) = error(&reply);
        assert_eq!(
            (found_status, found_code),
            (status, code),
            "{what}: {reply:#?}"
        );
        assert!((10..300).contains(&told.len()), "{what}: {told}");
        assert_eq!(
            reply.header("content-type"),
            Some("application/json"),
            "{what}"
        );
    }
    assert_eq!(app.sends(), Vec::<String>::new());
    app.check_oracles(&[]).await;
}

#[tokio::test]
async fn an_argument_that_is_there_twice_charges_nobody() {
    let app = TestApp::start(Engine::Sqlite).await;
    app.invoice("inv_1").await;
    app.invoice("inv_2").await;
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge_customer","arguments":{"invoiceId":"inv_1","invoiceId":"inv_2"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_invoice","name":"charge_customer","arguments":{"invoiceId":"inv_1"}}}"#,
    ] {
        let reply = app.raw(&raw(body)).await;
        assert_eq!(
            (error(&reply).0, error(&reply).1),
            (400, -32_600),
            "{reply:#?}"
        );
    }
    assert_eq!(app.sends(), Vec::<String>::new());
    app.check_oracles(&[]).await;
}

#[tokio::test]
async fn the_bounds_of_a_request_hold_here_as_elsewhere() {
    let app = TestApp::with(Engine::Sqlite)
        .set("REQUEST_BODY_TIME", "1s")
        .start()
        .await;
    let large = message("tools/list", json!({"x": "y".repeat(70_000)})).to_string();
    let slow = raw("")
        .without("Content-Length")
        .header("Content-Length", "9")
        .bytes();

    let too_large = app.raw(&raw(large.clone())).await;
    let too_large_in_chunks = app.raw(&raw(large).chunked()).await;
    let too_slow = app.drip(&slow, b"", std::time::Duration::ZERO).await;

    for reply in [too_large, too_large_in_chunks] {
        reply.assert(413, "payload_too_large", "no", "after_change");
    }
    let too_slow = crate::support::parse(&too_slow).unwrap();
    too_slow.assert(408, "request_timeout", "no", "now");
    for method in ["GET", "DELETE", "PUT", "OPTIONS"] {
        let reply = app
            .raw(&RawRequest::new(method, "/mcp").header(ACCEPT.0, ACCEPT.1))
            .await;
        reply.assert(405, "method_not_allowed", "no", "after_change");
        assert_eq!(reply.header("allow"), Some("POST"), "{method}");
    }
}

#[tokio::test]
async fn a_page_in_a_browser_cannot_call_the_tools() {
    let app = TestApp::with(Engine::Sqlite)
        .set("ALLOWED_HOSTS", "billing.example.com")
        .start()
        .await;
    let elsewhere = TestApp::with(Engine::Sqlite)
        .set("HOST", "127.0.0.2")
        .start()
        .await;
    let list = || raw(message("tools/list", json!({})).to_string());
    let host = |name: &str| list().without("Host").header("Host", name);
    #[rustfmt::skip]
    let table = [
        ("localhost", list(), 200),
        ("a loopback address and a port", host("127.0.0.1:3000"), 200),
        ("loopback of IPv6", host("[::1]:3000"), 200),
        ("the configured name", host("billing.example.com"), 200),
        ("another name", host("attacker.example.com"), 403),
        ("a name that begins like ours", host("localhost.attacker.example.com"), 403),
        ("a page of this machine", list().header("Origin", "http://localhost:6274"), 200),
        ("a page of the configured name", list().header("Origin", "https://billing.example.com"), 200),
        ("another page", list().header("Origin", "https://attacker.example.com"), 403),
        ("a page without an origin", list().header("Origin", "null"), 403),
        ("an answer that may not be JSON", RawRequest::json("POST", "/mcp", message("tools/list", json!({})).to_string()).header("Accept", "text/html"), 406),
        ("no JSON", list().without("Content-Type").header("Content-Type", "text/plain"), 415),
        ("a revision that nobody knows", list().header("MCP-Protocol-Version", "1999-01-01"), 400),
    ];
    for (what, request, status) in table {
        let reply = app.raw(&request).await;
        assert_eq!(reply.status, status, "{what}: {reply:#?}");
        assert!(reply.json().is_object(), "{what}: {reply:#?}");
    }
    for (app, status) in [(&app, 403), (&elsewhere, 200)] {
        let reply = app.raw(&host("127.0.0.2:3000")).await;
        assert_eq!(reply.status, status, "its own address, and only its own");
    }
    // No proper HTTP at all, and two who may be meant.
    for request in [list().without("Host"), list().header("Host", "localhost")] {
        assert_eq!(app.raw(&request).await.status, 400);
    }
}
