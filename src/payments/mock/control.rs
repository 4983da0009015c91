//! The control paths under `/_mock/`: faults, clock, latency, ledger, settlement. JSON in, JSON out, no API key.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::engine::MockStripe;
use super::fault::FaultRule;
use super::message::{MockRequest, MockResponse};

/// The path under which the mock is controlled; nothing of Stripe's begins so.
pub(super) const PREFIX: &str = "/_mock/";

/// One rule or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Faults {
    Many(Vec<FaultRule>),
    One(FaultRule),
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

/// Status and body of a refusal.
type Refusal = (u16, String);

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
        ("GET", "ledger") => return to_json(&mock.ledger()),
        ("GET", "requests") => return to_json(&json!({ "requests": mock.requests() })),
        ("POST", "faults") => {
            let rules = match parse::<Faults>(request)? {
                Faults::Many(rules) => rules,
                Faults::One(rule) => vec![rule],
            };
            rules.into_iter().for_each(|rule| mock.add_fault(rule));
        }
        ("POST", "clock") => mock.advance_clock(Duration::from_secs(
            parse::<Clock>(request)?.advance_seconds,
        )),
        ("POST", "latency") => {
            mock.set_latency(Duration::from_millis(parse::<Latency>(request)?.ms))
        }
        ("POST", "settle") => {
            let Settlement {
                payment_id,
                outcome,
            } = parse(request)?;
            if !mock.settle_processing(&payment_id, outcome == Outcome::Succeeded) {
                return Err((404, format!("No payment in processing: '{payment_id}'")));
            }
        }
        ("POST", "customers") => {
            let NewCustomer {
                id,
                default_payment_method,
            } = parse(request)?;
            return Ok(mock.ensure_customer(&id, default_payment_method));
        }
        ("POST", "reset") => mock.reset(),
        _ => {
            return Err((
                404,
                format!("No control at {} {}", request.method, request.path),
            ));
        }
    }
    Ok(done)
}

fn parse<T: DeserializeOwned>(request: &MockRequest) -> Result<T, Refusal> {
    serde_json::from_slice(&request.body).map_err(|error| (400, error.to_string()))
}

fn to_json(value: &impl serde::Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| (500, error.to_string()))
}
