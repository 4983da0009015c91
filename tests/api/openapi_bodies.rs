//! What the document allows in a body is what the service takes, where the body is somebody else's: MCP's and Stripe's.

use serde_json::{Value, json};

use crate::openapi::{operations, resolved};
use crate::support::document::document;
use crate::support::{Engine, SECRET, TestApp, seconds_now, sign};

/// True when the document allows this as the body of an operation.
fn allows(id: &str, body: &Value) -> bool {
    let found = operations()
        .into_iter()
        .find(|(_, _, operation)| operation["operationId"] == id);
    let mut schema =
        found.unwrap().2["requestBody"]["content"]["application/json"]["schema"].clone();
    schema["components"] = document()["components"].clone();
    jsonschema::draft202012::new(&schema)
        .unwrap()
        .is_valid(body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mcp_server_takes_the_messages_that_the_document_allows_and_no_others() {
    let app = TestApp::start(Engine::Sqlite).await;
    let mut messages: Vec<Value> =
        resolved(&document()["components"]["schemas"]["McpMessage"])["examples"]
            .as_array()
            .unwrap()
            .clone();
    assert_eq!(messages.len(), 3);
    #[rustfmt::skip]
    messages.extend([
        json!({}),
        json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]),
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "more": 1}),
        json!({"jsonrpc": "2.0", "id": 1, "method": ""}),
        json!({"jsonrpc": "2.0", "id": "", "method": "nothing"}),
        json!({"jsonrpc": "2.0", "id": i64::MIN, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": i64::MAX, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": u64::MAX, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": [1], "method": "ping"}),
        json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}),
        json!({"id": 1, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1}),
        json!({"jsonrpc": "2.0", "id": 1, "method": 1}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": null}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": null}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}),
        json!({"jsonrpc": "2.0", "method": "notifications/nothing", "params": "x"}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
    ]);
    for message in messages {
        let reply = app.post_mcp(&message, &[]).await;
        let right = if allows("mcp", &message) {
            &[200, 202][..]
        } else {
            &[400]
        };
        assert!(right.contains(&reply.status), "{message}: {reply:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_webhook_takes_the_signed_events_that_the_document_allows_and_no_others() {
    let app = TestApp::with_webhooks(Engine::Sqlite).await;
    let event = |id: &str, kind: &str, object: Value| {
        json!({
            "id": id, "object": "event", "type": kind, "created": 1_796_000_000, "data": {"object": object}
        })
    };
    let payment = || json!({"id": "pi_1", "object": "payment_intent"});
    #[rustfmt::skip]
    let mut events = vec![
        event("evt_1", "payment_intent.succeeded", payment()),
        event("evt_2", "customer.created", json!({"id": "cus_1", "object": "customer"})),
        event("evt_3", "x", json!({})),
        event("evt_4", "x", json!({"id": null, "object": null})),
        event(&"e".repeat(255), "x", payment()),
        event(&"e".repeat(256), "x", json!({})),
        event("", "x", json!({})),
        event("evt 5", "x", json!({})),
        event("evt_6", "", json!({})),
        event("evt_7", "ü", json!({})),
        event("evt_8", "x", Value::Null),
        event("evt_9", "x", json!({"id": 1})),
        json!({}),
        json!([]),
    ];
    for member in ["id", "object", "type", "created", "data"] {
        let mut lacking = event("evt_1", "x", payment());
        lacking.as_object_mut().unwrap().remove(member);
        events.push(lacking);
    }
    let parameters = operations()
        .into_iter()
        .find(|(_, path, _)| path == "/v1/webhooks/stripe")
        .unwrap()
        .2["parameters"]
        .as_array()
        .unwrap();
    let signature = parameters
        .iter()
        .find(|parameter| parameter["name"] == "Stripe-Signature");
    let signature = jsonschema::draft202012::new(resolved(&signature.unwrap()["schema"])).unwrap();
    for event in events {
        let body = event.to_string();
        let header = sign(SECRET, seconds_now(), body.as_bytes());
        assert!(signature.is_valid(&header.as_str().into()), "{header}");
        let reply = app.webhook(body.as_bytes(), Some(&header)).await;
        let right = if allows("receiveStripeEvent", &event) {
            200
        } else {
            422
        };
        assert_eq!(reply.status, right, "{event}: {reply:#?}");
    }
}
