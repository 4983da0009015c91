//! The control paths of webhooks: where events go, what was delivered, and one more delivery.

use serde::Deserialize;
use serde_json::{Value, json};

use super::control::{Refusal, parse, to_json};
use super::engine::MockStripe;
use super::message::MockRequest;
use super::webhooks::WebhookEndpoint;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewEndpoint {
    url: String,
    #[serde(default)]
    secrets: Vec<String>,
}

/// Serves one of these paths; `None` if it is not one of them.
pub(super) fn dispatch(
    mock: &MockStripe,
    method: &str,
    name: &str,
    request: &MockRequest,
) -> Option<Result<Value, Refusal>> {
    match (method, name) {
        ("GET", "webhooks") => Some(show(mock)),
        ("POST", "webhooks") => Some(set(mock, request)),
        ("DELETE", "webhooks") => {
            let gone = mock.set_webhook_endpoint(None);
            Some(gone.map_or_else(
                |message| Err((400, message)),
                |()| Ok(json!({ "ok": true })),
            ))
        }
        ("POST", name) => {
            let event_id = name.strip_prefix("events/")?.strip_suffix("/redeliver")?;
            Some(redeliver(mock, event_id))
        }
        _ => None,
    }
}

/// The secrets are shown once, in the answer that sets them, as Stripe does.
fn show(mock: &MockStripe) -> Result<Value, Refusal> {
    let endpoint = mock.webhook_endpoint();
    to_json(&json!({
        "url": endpoint.as_ref().map(|endpoint| &endpoint.url),
        "secrets": endpoint.as_ref().map_or(0, |endpoint| endpoint.secrets.len()),
        "deliveries": mock.deliveries(),
    }))
}

fn set(mock: &MockStripe, request: &MockRequest) -> Result<Value, Refusal> {
    let NewEndpoint { url, secrets } = parse(request)?;
    let refuse = |message| (400, message);
    let endpoint = WebhookEndpoint::new(url, secrets).map_err(refuse)?;
    let answer = json!({ "url": endpoint.url, "secrets": endpoint.secrets });
    mock.set_webhook_endpoint(Some(endpoint)).map_err(refuse)?;
    Ok(answer)
}

fn redeliver(mock: &MockStripe, event_id: &str) -> Result<Value, Refusal> {
    if mock.webhook_endpoint().is_none() {
        let message = "Events go nowhere: POST /_mock/webhooks with a url first".to_owned();
        return Err((409, message));
    }
    let missing = || (404, format!("No event '{event_id}'"));
    let delivery_id = mock.redeliver(event_id).ok_or_else(missing)?;
    Ok(json!({ "deliveryId": delivery_id }))
}
