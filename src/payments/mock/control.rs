//! The control paths under `/_mock/`: faults, chaos, clock, latency, ledger, settlement. JSON in, JSON out, no API key.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::chaos::ChaosPlan;
use super::control_webhooks;
use super::engine::MockStripe;
use super::fault::FaultRule;
use super::message::{MockRequest, MockResponse};
use super::webhooks::WebhookFaultRule;

/// The path under which the mock is controlled; nothing of Stripe's begins so.
pub(super) const PREFIX: &str = "/_mock/";

/// What there is, for people: method, name under the prefix, what it does.
const CONTROLS: &[(&str, &str, &str)] = &[
    (
        "GET",
        "ledger",
        "every payment and refund, the truth to audit against",
    ),
    ("GET", "requests", "every request that was seen"),
    ("GET", "health", "whether the mock is up"),
    (
        "POST",
        "faults",
        "script a failure of a call or of a webhook",
    ),
    ("POST", "chaos", "let failures strike by chance"),
    ("GET", "chaos", "which failures struck, and how often"),
    (
        "POST",
        "clock",
        "move the clock forward; keys end after 24 h",
    ),
    ("POST", "latency", "delay every POST"),
    (
        "POST",
        "settle",
        "give the late verdict on a payment or refund",
    ),
    ("POST", "authenticate", "pass or fail a 3D Secure check"),
    ("POST", "customers", "make sure that a customer exists"),
    ("POST", "webhooks", "send events to a URL"),
    (
        "GET",
        "webhooks",
        "the deliveries, with attempts and statuses",
    ),
    ("DELETE", "webhooks", "send events no more"),
    (
        "POST",
        "events/{id}/redeliver",
        "deliver an event once more",
    ),
    ("POST", "reset", "forget everything but the webhook URL"),
];

/// The control paths, for people: method, path, purpose.
pub fn controls() -> impl Iterator<Item = (&'static str, String, &'static str)> {
    let rows = CONTROLS.iter();
    rows.map(|(method, name, purpose)| (*method, format!("{PREFIX}{name}"), *purpose))
}

/// A scripted failure, of a call or of a webhook.
enum AnyRule {
    Call(FaultRule),
    Webhook(WebhookFaultRule),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Latency {
    ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Clock {
    advance_seconds: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settlement {
    payment_id: String,
    outcome: Outcome,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Succeeded,
    Failed,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewCustomer {
    id: String,
    default_payment_method: Option<String>,
}

/// Status and message of a refusal.
pub(super) type Refusal = (u16, String);

/// Serves one control request.
pub(super) fn serve(mock: &MockStripe, request: &MockRequest) -> MockResponse {
    let (status, body) = match dispatch(mock, request) {
        Ok(body) => (200, body),
        Err((status, message)) => (status, json!({ "error": { "message": message } })),
    };
    let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    MockResponse {
        status,
        headers,
        body: format!("{body:#}\n").into_bytes(),
    }
}

fn dispatch(mock: &MockStripe, request: &MockRequest) -> Result<Value, Refusal> {
    let name = request.path.strip_prefix(PREFIX).unwrap_or_default();
    let done = json!({ "ok": true });
    match (request.method.as_str(), name) {
        ("GET", "health") => {}
        ("GET", "") => return Ok(index()),
        ("GET", "ledger") => return to_json(&mock.ledger()),
        ("GET", "requests") => return to_json(&json!({ "requests": mock.requests() })),
        ("POST", "faults") => {
            // All or none: a list with a mistake in it adds nothing.
            for rule in fault_rules(request)? {
                match rule {
                    AnyRule::Call(rule) => mock.add_fault(rule),
                    AnyRule::Webhook(rule) => mock.add_webhook_fault(rule),
                }
            }
        }
        ("GET", "chaos") => return to_json(&mock.chaos()),
        ("POST", "chaos") => {
            let plan = parse::<ChaosPlan>(request)?;
            mock.set_chaos(plan).map_err(|message| (400, message))?;
            return to_json(&mock.chaos());
        }
        ("POST", "clock") => mock.advance_clock(Duration::from_secs(
            parse::<Clock>(request)?.advance_seconds,
        )),
        ("POST", "latency") => {
            mock.set_latency(Duration::from_millis(parse::<Latency>(request)?.ms))
        }
        ("POST", "settle" | "authenticate") => give_verdict(mock, name, request)?,
        ("POST", "customers") => {
            let NewCustomer {
                id,
                default_payment_method,
            } = parse(request)?;
            return Ok(mock.ensure_customer(&id, default_payment_method));
        }
        ("POST", "reset") => mock.reset(),
        (method, name) => match control_webhooks::dispatch(mock, method, name, request) {
            Some(answer) => return answer,
            None => {
                let message = format!(
                    "No control at {method} {}; GET {PREFIX} lists them",
                    request.path
                );
                return Err((404, message));
            }
        },
    }
    Ok(done)
}

/// Settles what has no verdict yet, or ends an authentication.
fn give_verdict(mock: &MockStripe, name: &str, request: &MockRequest) -> Result<(), Refusal> {
    let Settlement {
        payment_id,
        outcome,
    } = parse(request)?;
    let success = outcome == Outcome::Succeeded;
    let (given, missing) = if name == "authenticate" {
        let given = mock.authenticate(&payment_id, success);
        (given, "No payment in requires_action")
    } else {
        let given = mock.settle_processing(&payment_id, success);
        (given, "No payment in processing and no refund to settle")
    };
    if given {
        Ok(())
    } else {
        Err((404, format!("{missing}: '{payment_id}'")))
    }
}

fn index() -> Value {
    let rows = controls().map(
        |(method, path, purpose)| json!({ "method": method, "path": path, "purpose": purpose }),
    );
    json!({ "controls": rows.collect::<Vec<_>>() })
}

/// One rule or a list of them. Which kind a rule is shows in the name of its fault.
fn fault_rules(request: &MockRequest) -> Result<Vec<AnyRule>, Refusal> {
    let body = parse::<Value>(request)?;
    let rules = if body.is_array() {
        parse::<Vec<Value>>(request)?
    } else {
        vec![body]
    };
    let rules = rules.into_iter().map(|rule| {
        let name = rule["fault"].as_str().unwrap_or_default();
        let rule = if name.starts_with("webhook_") {
            serde_json::from_value(rule).map(AnyRule::Webhook)
        } else {
            serde_json::from_value(rule).map(AnyRule::Call)
        };
        rule.map_err(|error| (400, error.to_string()))
    });
    rules.collect()
}

pub(super) fn parse<T: DeserializeOwned>(request: &MockRequest) -> Result<T, Refusal> {
    serde_json::from_slice(&request.body).map_err(|error| (400, error.to_string()))
}

pub(super) fn to_json(value: &impl serde::Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| (500, error.to_string()))
}
