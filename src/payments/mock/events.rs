//! Events: what Stripe would send by webhook, kept to be listed. Each carries the object as it was at that moment.

use std::sync::Arc;

use serde_json::{Value, json};

use super::charges::Charge;
use super::errors::ApiError;
use super::form::Params;
use super::intent::PaymentIntent;
use super::ledger::{Books, Context, Row, new_id, seconds};
use super::paging::{self, LIST_PARAMS};
use super::refunds::Refund;
use super::router::API_VERSION;

/// What an event tells of, as it was then. Hardly any event is ever looked at, so it is put into words only when one is.
#[derive(Debug, Clone)]
pub(super) enum Told {
    Intent(Arc<PaymentIntent>),
    Charge(Arc<Charge>),
    Refund(Arc<Refund>),
}

impl Told {
    fn render(&self) -> Value {
        match self {
            Self::Intent(intent) => intent.render(),
            Self::Charge(charge) => charge.render(),
            Self::Refund(refund) => refund.render(),
        }
    }
}

impl From<&Arc<PaymentIntent>> for Told {
    fn from(intent: &Arc<PaymentIntent>) -> Self {
        Self::Intent(Arc::clone(intent))
    }
}

impl From<&Arc<Charge>> for Told {
    fn from(charge: &Arc<Charge>) -> Self {
        Self::Charge(Arc::clone(charge))
    }
}

impl From<&Arc<Refund>> for Told {
    fn from(refund: &Arc<Refund>) -> Self {
        Self::Refund(Arc::clone(refund))
    }
}

/// One event.
#[derive(Debug, Clone)]
pub(super) struct Event {
    id: String,
    created_ms: i64,
    kind: &'static str,
    object: Told,
    request_id: Option<Arc<str>>,
    key: Option<Arc<str>>,
    /// How many endpoints have not taken it yet.
    pub(super) pending_webhooks: u32,
}

impl Row for Event {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_ms(&self) -> i64 {
        self.created_ms
    }
}

impl Event {
    /// Id, type and `Idempotency-Key` of the request that caused it.
    pub(super) fn label(&self) -> (String, &'static str, Option<Arc<str>>) {
        (self.id.clone(), self.kind, self.key.clone())
    }

    /// Stripe's JSON, which is what a webhook carries.
    pub(super) fn render(&self) -> Value {
        json!({
            "id": self.id,
            "object": "event",
            "api_version": API_VERSION,
            "created": seconds(self.created_ms),
            "data": { "object": self.object.render() },
            "livemode": false,
            "pending_webhooks": self.pending_webhooks,
            "request": { "id": self.request_id.as_deref(), "idempotency_key": self.key.as_deref() },
            "type": self.kind,
        })
    }
}

/// Records what has just happened to an object.
pub(super) fn emit(
    books: &mut Books,
    context: &Context,
    kind: &'static str,
    object: impl Into<Told>,
) {
    let (request_id, key) = (context.request_id.clone(), context.key.clone());
    let event = Event {
        id: new_id("evt"),
        created_ms: context.now_ms,
        kind,
        object: object.into(),
        request_id,
        key,
        pending_webhooks: 0,
    };
    books.events.add(event);
}

/// `GET /v1/events`
pub(super) fn list(books: &Books, params: &Params) -> Result<Value, ApiError> {
    params.only(&[LIST_PARAMS, &["type", "types[]", "delivery_success"]])?;
    let (kind, kinds) = (params.text("type"), params.list("types"));
    let delivered = params.one_of("delivery_success", &["true", "false"])?;
    let delivered = delivered.map(|word| word == "true");
    let keep = |event: &Event| {
        kind.is_none_or(|kind| kind == event.kind)
            && (kinds.is_empty() || kinds.contains(&event.kind))
            && delivered.is_none_or(|wanted| wanted == (event.pending_webhooks == 0))
    };
    paging::list(&books.events, params, "/v1/events", keep, Event::render)
}

/// `GET /v1/events/{id}`
pub(super) fn retrieve(books: &Books, id: &str, params: &Params) -> Result<Value, ApiError> {
    params.only(&[&["expand[]"]])?;
    books
        .events
        .get(id)
        .map(Event::render)
        .ok_or_else(|| ApiError::not_found("event", id, "id"))
}
