//! The MCP server as a client of it sees it, and its answers held against the schemas that it publishes.

use std::sync::atomic::{AtomicU64, Ordering};

use chargeonce::tools::arguments::ToolCall;
use chargeonce::tools::backend::{Backend, CallContext};
use chargeonce::tools::remote::RemoteBackend;
use serde_json::{Value, json};

use super::{Reply, TestApp};

/// The newest revision with a handshake; requests of it need no metadata of their own.
pub const REVISION: &str = "2025-11-25";

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// What a tool answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The sentence.
    pub text: String,
    /// The structure.
    pub body: Value,
    pub is_error: bool,
}

impl Answer {
    /// Takes the result of `tools/call` apart, and checks what every answer of a tool keeps: it fits the tool's schema, its
    /// text is a sentence, and the structure is there as text, too.
    #[track_caller]
    pub fn read(tool: &str, result: &Value) -> Self {
        let answer = Self {
            text: result["content"][0]["text"].as_str().unwrap().to_owned(),
            body: result["structuredContent"].clone(),
            is_error: result["isError"].as_bool().unwrap(),
        };
        assert!(answer.text.ends_with(['.', ')']), "{result:#}");
        let as_text = result["content"][1]["text"].as_str().unwrap();
        let as_text: Value = serde_json::from_str(as_text).unwrap();
        assert_eq!(as_text, answer.body);
        check_schema(tool, &answer.body);
        answer
    }

    /// Fails with the whole answer when these are not what it says. A success has no code: "".
    #[track_caller]
    pub fn assert(&self, is_error: bool, code: &str, charged: &str, retry: &str) -> &Self {
        let word = |member: &str| self.body[member].as_str().unwrap_or_default();
        let found = (
            self.is_error,
            word("code"),
            word("customerCharged"),
            word("retry"),
        );
        assert_eq!(found, (is_error, code, charged, retry), "{self:#?}");
        self
    }
}

/// Holds a structure against the tool's output schema, closed: whatever an answer has, the schema must name.
#[track_caller]
pub fn check_schema(tool: &str, body: &Value) {
    let published = chargeonce::tools::render::Format::Mcp.render().unwrap();
    let tools = published["tools"].as_array().unwrap();
    let tool = tools.iter().find(|found| found["name"] == tool).unwrap();
    let mut schema = tool["outputSchema"].clone();
    close(&mut schema);
    let errors: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(body)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(errors, Vec::<String>::new(), "{body:#}");
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.contains_key("properties") {
                members.insert("additionalProperties".into(), json!(false));
            }
            members.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A message as it goes over the wire, with a request id that no other has.
pub fn message(method: &str, params: Value) -> Value {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// The message that calls a tool.
pub fn tool_call(name: &str, arguments: &Value) -> Value {
    message("tools/call", json!({"name": name, "arguments": arguments}))
}

/// What `chargeonce mcp` says of a service that is not there, as if over HTTP.
pub async fn service_away() -> Reply {
    let closed = super::closed();
    let url = format!("http://{}", closed.local_addr().unwrap());
    let call = ToolCall::ChargeCustomer {
        invoice_id: "inv_1".into(),
    };
    let away = RemoteBackend::new(&url, None, None).unwrap();
    let answer = away.answer(call, CallContext::default()).await;
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Reply {
        status: answer.status,
        headers: vec![
            header("content-type", "application/problem+json"),
            header("retry-after", &answer.body["retryAfterSeconds"].to_string()),
        ],
        body: answer.body.to_string(),
    }
}

impl TestApp {
    /// Posts a message and returns the HTTP answer.
    pub async fn post_mcp(&self, message: &Value, headers: &[(&str, &str)]) -> Reply {
        let mut all = vec![
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", REVISION),
        ];
        all.retain(|(name, _)| headers.iter().all(|(given, _)| given != name));
        all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
        self.post_with("/mcp", message, &all).await
    }

    /// Sends a request and returns its result or its error, whole.
    pub async fn rpc(&self, method: &str, params: Value) -> Value {
        let message = message(method, params);
        let reply = self.post_mcp(&message, &[]).await;
        let answer = reply.json();
        assert_eq!(answer["id"], message["id"], "{reply:#?}");
        answer
    }

    /// Calls a tool.
    pub async fn tool(&self, name: &str, arguments: Value) -> Answer {
        self.tool_with(name, arguments, &[]).await
    }

    /// The same with headers of one's own.
    pub async fn tool_with(
        &self,
        name: &str,
        arguments: Value,
        headers: &[(&str, &str)],
    ) -> Answer {
        let message = tool_call(name, &arguments);
        let reply = self.post_mcp(&message, headers).await;
        assert_eq!(reply.status, 200, "{reply:#?}");
        Answer::read(name, &reply.json()["result"])
    }

    /// Calls `charge_customer`.
    pub async fn tool_charge(&self, invoice_id: &str) -> Answer {
        self.tool("charge_customer", json!({"invoiceId": invoice_id}))
            .await
    }
}
