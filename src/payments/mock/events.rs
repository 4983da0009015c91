//! Events: what Stripe would send by webhook, kept to be listed. Each carries the object as it was at that moment.

use serde_json::{Value, json};

use super::errors::ApiError;
use super::form::Params;
use super::ledger::{Books, Context, Row, new_id, seconds};
use super::paging::{self, LIST_PARAMS};
use super::router::API_VERSION;

/// One event.
#[derive(Debug)]
pub(super) struct Event {
    id: String,
    created_ms: i64,
    kind: &'static str,
    /// As text, without room to grow: as a tree it would take ten times the memory, and hardly any event is ever looked at.
    object: Box<str>,
    request_id: Option<String>,
    key: Option<String>,
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
    pub(super) fn label(&self) -> (String, &'static str, Option<String>) {
        (self.id.clone(), self.kind, self.key.clone())
    }

    /// Stripe's JSON, which is what a webhook carries.
    pub(super) fn render(&self) -> Value {
        let object: Value = serde_json::from_str(&self.object).unwrap_or_default();
        json!({
            "id": self.id,
            "object": "event",
            "api_version": API_VERSION,
            "created": seconds(self.created_ms),
            "data": { "object": object },
            "livemode": false,
            "pending_webhooks": self.pending_webhooks,
            "request": { "id": self.request_id, "idempotency_key": self.key },
            "type": self.kind,
        })
    }
}

/// Records what has just happened to an object.
pub(super) fn emit(books: &mut Books, context: &Context, kind: &'static str, object: &Value) {
    let (request_id, key) = (context.request_id.clone(), context.key.clone());
    let event = Event {
        id: new_id("evt"),
        created_ms: context.now_ms,
        kind,
        // Its own way of displaying itself is the slower one.
        object: serde_json::to_string(object).unwrap_or_default().into(),
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
