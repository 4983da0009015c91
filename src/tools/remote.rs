//! Tools that are answered by a running service, over its REST API.
//!
//! As everywhere where charges are asked for: no redirect is followed, no proxy is used, and nothing is sent twice by itself.
//! What cannot be reached is told as unknown: an earlier call may have charged, and only the service knows.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, redirect, retry};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::arguments::{ListArguments, ToolCall};
use super::backend::{Backend, CallContext, ToolReply};
use crate::access::caller::SESSION_HEADER;
use crate::charges::model::CustomerCharged;
use crate::error::{Code, Problem};
use crate::http::respond::REPLAYED;
use crate::payments::stripe::http::{HttpSetupError, checked_base_url, tls_for};

/// The service bounds a wait by its RESPONSE_WAIT; an agent wants the result, so it asks for all of it.
const WAIT: &str = "wait=3600";

/// Below the 60 seconds after which the usual clients of MCP give up.
const PATIENCE: Duration = Duration::from_secs(55);

/// Below it, so that a slow connect is known as such.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// When it is worth calling a service again that is away, in seconds.
const AWAY_SECONDS: i64 = 5;

/// More than any answer of the service: a page of invoices with all their metadata.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Over HTTP.
pub struct RemoteBackend {
    client: Client,
    base_url: String,
}

/// Why there is no answer.
enum Away {
    /// No connection: surely nothing was sent.
    NotConnected,
    /// The request may have arrived.
    NoAnswer,
    /// Something answered that is not this service.
    Stranger(u16),
}

/// A request of the REST API.
struct RestCall {
    method: Method,
    path: String,
    body: Option<Value>,
}

impl RemoteBackend {
    /// The service at `url` (scheme and host), called with `api_key` as a bearer token where there is one, and with `session` as
    /// the name of the caller's session, which the service keeps with each attempt.
    pub fn new(
        url: &str,
        api_key: Option<&SecretString>,
        session: Option<&str>,
    ) -> Result<Self, HttpSetupError> {
        let base = checked_base_url(url)?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls_for(base.as_str())?)
            .http1_only()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .connect_timeout(CONNECT_PATIENCE)
            .timeout(PATIENCE)
            .user_agent(concat!("chargeonce-mcp/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(api_key, session)?)
            .build()
            .map_err(|error| HttpSetupError::Client(error.without_url().to_string()))?;
        Ok(Self {
            client,
            base_url: base.as_str().trim_end_matches('/').to_owned(),
        })
    }

    async fn send(&self, call: ToolCall) -> Result<ToolReply, Away> {
        let asked = call.clone();
        let call = rest_call(call);
        let url = format!("{}{}", self.base_url, call.path);
        let mut request = self.client.request(call.method, url);
        if let Some(body) = call.body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .header("Prefer", WAIT)
                .body(body.to_string());
        }
        match request.send().await {
            Ok(response) => read(response, &asked).await,
            Err(error) => {
                // There is no proxy, so an error of connecting is surely from before the request.
                let away = if error.is_connect() {
                    Away::NotConnected
                } else {
                    Away::NoAnswer
                };
                tracing::warn!(error = %error.without_url(), "the service did not answer");
                Err(away)
            }
        }
    }
}

#[async_trait]
impl Backend for RemoteBackend {
    async fn answer(&self, call: ToolCall, _context: CallContext) -> ToolReply {
        match self.send(call).await {
            Ok(reply) => reply,
            Err(away) => away.problem().into(),
        }
    }
}

/// The one call of the REST API that a tool is.
fn rest_call(call: ToolCall) -> RestCall {
    let get = |path| RestCall {
        method: Method::GET,
        path,
        body: None,
    };
    match call {
        ToolCall::ChargeCustomer { invoice_id } => RestCall {
            method: Method::POST,
            path: "/v1/charges".into(),
            body: Some(json!({ "invoiceId": invoice_id })),
        },
        // The ids have been checked: nothing in them means anything in a path.
        ToolCall::GetInvoice { invoice_id } => get(format!("/v1/invoices/{invoice_id}")),
        ToolCall::GetChargeStatus { invoice_id } => {
            get(format!("/v1/invoices/{invoice_id}/charge-status"))
        }
        ToolCall::ListOpenInvoices(arguments) => get(list_path(arguments)),
    }
}

fn list_path(arguments: ListArguments) -> String {
    let path = String::from("/v1/invoices?");
    let begins_at = path.len();
    let mut query = form_urlencoded::Serializer::for_suffix(path, begins_at);
    query.append_pair("status", "open");
    let limit = arguments.limit.map(|limit| limit.to_string());
    for (name, value) in [
        ("customerId", arguments.customer_id),
        ("limit", limit),
        ("cursor", arguments.cursor),
    ] {
        if let Some(value) = value {
            query.append_pair(name, &value);
        }
    }
    query.finish()
}

async fn read(mut response: Response, asked: &ToolCall) -> Result<ToolReply, Away> {
    let status = response.status().as_u16();
    let header = |name: &str| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let replayed = header(REPLAYED).as_deref() == Some("true");
    let retry_after_seconds = header("retry-after").and_then(|text| text.parse().ok());
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= ANSWER_BYTES_MAX => {
                body.extend_from_slice(&chunk);
            }
            Ok(Some(_)) => return Err(Away::Stranger(status)),
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(error = %error.without_url(), "the service's answer was cut off");
                return Err(Away::NoAnswer);
            }
        }
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(body) if is_ours(status, &body, asked) => {
            Ok(ToolReply::new(status, body).replayed(replayed, retry_after_seconds))
        }
        Ok(_) | Err(_) => {
            tracing::warn!(http.status = status, "not an answer of chargeonce");
            Err(Away::Stranger(status))
        }
    }
}

/// A success of ours is about the invoice that was asked for and says what a success must; a problem of ours has its code and
/// the two answers. A gateway's own `{"status":"ok"}` is nobody's charge.
fn is_ours(status: u16, body: &Value, asked: &ToolCall) -> bool {
    let says = |member: &str, value: &str| body[member] == value;
    match status {
        200..300 => match asked {
            ToolCall::ChargeCustomer { invoice_id } => {
                let charged = if status == 202 { "unknown" } else { "yes" };
                says("invoiceId", invoice_id) && says("customerCharged", charged)
            }
            ToolCall::GetInvoice { invoice_id } => {
                says("id", invoice_id) && body["status"].is_string()
            }
            ToolCall::GetChargeStatus { invoice_id } => {
                says("invoiceId", invoice_id) && body["customerCharged"].is_string()
            }
            ToolCall::ListOpenInvoices(_) => body["data"].is_array(),
        },
        400.. => ["code", "detail", "customerCharged", "retry"]
            .iter()
            .all(|member| body[member].is_string()),
        _ => false,
    }
}

impl Away {
    fn problem(&self) -> Problem {
        let what = match self {
            Self::NotConnected => {
                "The chargeonce service cannot be reached, so this call did nothing.".to_owned()
            }
            Self::NoAnswer => {
                "The chargeonce service did not answer, so the outcome of this call is not known."
                    .to_owned()
            }
            Self::Stranger(status) => format!(
                "What answered (HTTP status {status}) is not chargeonce, so the outcome of this call is not known."
            ),
        };
        let advice = format!(
            "Call again with the same arguments in {AWAY_SECONDS} seconds: an invoice is charged once however often you ask. If it goes on, tell the operator."
        );
        Problem::new(Code::ServiceUnreachable, format!("{what} {advice}"))
            .later(CustomerCharged::Unknown, AWAY_SECONDS)
    }
}

fn headers(
    api_key: Option<&SecretString>,
    session: Option<&str>,
) -> Result<HeaderMap, HttpSetupError> {
    let mut headers = HeaderMap::new();
    if let Some(session) = session.and_then(|session| HeaderValue::from_str(session).ok()) {
        headers.insert(SESSION_HEADER, session);
    }
    if let Some(key) = api_key {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
            .map_err(|_| HttpSetupError::SecretKey)?;
        // Keeps it out of every Debug output of the client and its requests.
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}
