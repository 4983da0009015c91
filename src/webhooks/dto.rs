//! The event on the wire (Stripe docs, The Event object), as far as it is read.

use serde::Deserialize;
use serde::de::IgnoredAny;

use utoipa::ToSchema;

use super::model::ProviderEvent;
use crate::openapi::schemas::{EventText, EventWord};
use crate::payments::stripe::is_plain_id;

/// The longest id or type of an event, in bytes; Stripe's ids have at most 255 characters.
pub const EVENT_TEXT_BYTES_MAX: usize = 255;

/// A snapshot event.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = StripeEvent)]
pub struct EventBody {
    #[schema(value_type = EventText)]
    id: String,
    /// `event`: the payload style is snapshot.
    #[schema(value_type = EventWord)]
    object: String,
    #[serde(rename = "type")]
    #[schema(value_type = EventText)]
    kind: String,
    /// Unix seconds.
    created: i64,
    data: EventData,
}

/// What the event is about.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = StripeEventData)]
struct EventData {
    object: EventObject,
}

/// A payment, or what belongs to one.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = StripeObject)]
struct EventObject {
    id: Option<String>,
    object: Option<String>,
    /// Its id, or all of it.
    #[schema(value_type = serde_json::Value, required = false)]
    payment_intent: Option<Named>,
    /// Its id, or all of it.
    #[schema(value_type = serde_json::Value, required = false)]
    charge: Option<Named>,
}

/// A reference: the id, or the whole object where it was expanded.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Named {
    Id(String),
    Object {
        id: String,
    },
    /// Something else; nothing is concluded from it.
    Other(IgnoredAny),
}

impl Named {
    fn into_id(self) -> Option<String> {
        match self {
            Self::Id(id) | Self::Object { id } => Some(id),
            Self::Other(_) => None,
        }
    }
}

/// What a body turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// An event about a payment.
    Payment(ProviderEvent),
    /// An event about something that is not our business.
    Other,
    /// Not an event that can be read: a thin one, or none at all.
    Unreadable,
}

/// Reads a body whose signature is right. `by_intent` is true when payments are PaymentIntents, false when they are legacy
/// Charges: it decides which id an event about both is about.
pub fn read(body: &[u8], by_intent: bool) -> Received {
    let Ok(event) = serde_json::from_slice::<EventBody>(body) else {
        return Received::Unreadable;
    };
    // Thin events (`v2.core.event`) carry no object and have another life cycle.
    let is_fit = |text: &str| {
        (1..=EVENT_TEXT_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if event.object != "event" || !is_fit(&event.id) || !is_fit(&event.kind) {
        return Received::Unreadable;
    }
    let object = event.data.object;
    let payment_id = match (object.object.as_deref(), by_intent) {
        (Some("payment_intent"), true) | (Some("charge"), false) => object.id,
        (Some("payment_intent"), false) => None,
        // Charges, refunds and disputes name the payment that they belong to.
        (Some(_), true) => object.payment_intent.and_then(Named::into_id),
        (Some(_), false) => object.charge.and_then(Named::into_id),
        (None, _) => None,
    };
    // An id that cannot stand in a path names no payment that could be fetched.
    let Some(payment_id) = payment_id.filter(|id| is_plain_id(id)) else {
        return Received::Other;
    };
    Received::Payment(ProviderEvent {
        id: event.id,
        kind: event.kind,
        payment_id,
        created_at_ms: event.created.saturating_mul(1_000),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(object: &Value) -> Vec<u8> {
        let event = json!({
            "id": "evt_1", "object": "event", "type": "some.event", "created": 1_700_000_000, "livemode": false, "more": [1],
            "data": {"object": object, "previous_attributes": {}}
        });
        event.to_string().into_bytes()
    }

    #[test]
    fn an_event_is_about_the_payment_that_it_belongs_to() {
        #[rustfmt::skip]
        let table = [
            ("a payment", json!({"id": "pi_1", "object": "payment_intent", "amount": 1}), true, Some("pi_1")),
            ("its charge", json!({"id": "ch_1", "object": "charge", "payment_intent": "pi_1"}), true, Some("pi_1")),
            ("its charge, expanded", json!({"id": "ch_1", "object": "charge", "payment_intent": {"id": "pi_1"}}), true, Some("pi_1")),
            ("its refund", json!({"id": "re_1", "object": "refund", "payment_intent": "pi_1", "charge": "ch_1"}), true, Some("pi_1")),
            ("its dispute", json!({"id": "du_1", "object": "dispute", "payment_intent": "pi_1"}), true, Some("pi_1")),
            ("a charge without a payment intent", json!({"id": "ch_1", "object": "charge", "payment_intent": null}), true, None),
            ("a charge of an odd shape", json!({"id": "ch_1", "object": "charge", "payment_intent": [1]}), true, None),
            ("an id that is no path", json!({"id": "pi/../1", "object": "payment_intent"}), true, None),
            ("an endless id", json!({"id": "x".repeat(300), "object": "payment_intent"}), true, None),
            ("an id with a NUL", json!({"id": "pi_1\0", "object": "payment_intent"}), true, None),
            ("a reference with a NUL", json!({"id": "re_1", "object": "refund", "payment_intent": {"id": "pi_\u{0}1"}}), true, None),
            ("a customer", json!({"id": "cus_1", "object": "customer"}), true, None),
            ("nothing", json!({}), true, None),
            ("a legacy charge", json!({"id": "ch_1", "object": "charge", "payment_intent": null}), false, Some("ch_1")),
            ("a legacy charge's refund", json!({"id": "re_1", "object": "refund", "charge": "ch_1"}), false, Some("ch_1")),
            ("a payment intent beside legacy charges", json!({"id": "pi_1", "object": "payment_intent"}), false, None),
        ];
        for (case, object, by_intent, right) in table {
            let right = right.map_or(Received::Other, |payment_id| {
                Received::Payment(ProviderEvent {
                    id: "evt_1".into(),
                    kind: "some.event".into(),
                    payment_id: payment_id.into(),
                    created_at_ms: 1_700_000_000_000,
                })
            });
            assert_eq!(read(&event(&object), by_intent), right, "{case}");
        }
    }

    #[test]
    fn what_is_no_snapshot_event_is_not_read() {
        let about = |id: &str, kind: &str, object: &str| {
            let event = format!(
                r#"{{"id":"{id}","object":"event","type":"{kind}","created":1,"data":{{"object":{object}}}}}"#
            );
            event.into_bytes()
        };
        let payment = r#"{"id":"pi_1","object":"payment_intent"}"#;
        let table: [(&str, Vec<u8>); 11] = [
            ("nothing", vec![]),
            ("no JSON", b"{".to_vec()),
            ("no object", b"[]".to_vec()),
            ("a payment", br#"{"id":"pi_1","object":"payment_intent"}"#.to_vec()),
            (
                "a thin event",
                br#"{"id":"evt_1","object":"v2.core.event","type":"v1.charge.updated","created":1,"data":{"object":{}}}"#.to_vec(),
            ),
            ("an event without an id", about("", "x", payment)),
            ("the same about something else", about("", "x", "{}")),
            ("an event of no type", about("evt_1", "", "{}")),
            ("an endless id", about(&"e".repeat(256), "x", "{}")),
            ("an id with a NUL", about(r"evt_\u0000", "x", payment)),
            ("a type with a NUL", about("evt_1", r"x\u0000", payment)),
        ];
        for (case, body) in table {
            assert_eq!(read(&body, true), Received::Unreadable, "{case}");
        }
    }
}
