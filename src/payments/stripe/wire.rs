//! Stripe's JSON, as far as we read it. Lenient: unknown fields, codes and statuses are accepted (Stripe docs, API
//! upgrades: monthly releases add them), everything but what a reader insists on is optional. No rules here but one: no
//! text that comes in has a NUL.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A NUL in JSON; bare, it is not allowed there.
const NUL: &[u8] = br"\u0000";
/// U+FFFD, which stands where a character was that could not be kept.
const REPLACEMENT: &[u8] = br"\ufffd";

/// A body as JSON; `None` for anything that is not what it should be. Every text of the provider's comes in by this door.
pub fn read_json<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(&without_nul(body)).ok()
}

/// PostgreSQL stores no NUL in a text: a verdict with one in it, in whichever of its fields, could never be recorded. It is
/// replaced and not left out, so that an id or a mark that has one does not turn into somebody else's.
fn without_nul(body: &[u8]) -> Cow<'_, [u8]> {
    if !body.windows(NUL.len()).any(|bytes| bytes == NUL) {
        return Cow::Borrowed(body);
    }
    let mut clean = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(NUL) {
            clean.extend_from_slice(REPLACEMENT);
            rest = after;
            continue;
        }
        // A backslash goes with what it escapes: an escaped backslash before `u0000` makes no NUL.
        let length = if *first == b'\\' { 2 } else { 1 };
        let (taken, after) = rest.split_at(length.min(rest.len()));
        clean.extend_from_slice(taken);
        rest = after;
    }
    Cow::Owned(clean)
}

/// `{"error": {...}}`.
#[derive(Debug, Clone, Deserialize)]
pub struct ErrorEnvelope {
    /// The error.
    pub error: ApiError,
}

/// The error object (Stripe docs, Errors). `last_payment_error` of a PaymentIntent has the same shape.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ApiError {
    /// `card_error`, `invalid_request_error`, `idempotency_error`, `api_error`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// For some errors: what went wrong, for programs.
    pub code: Option<String>,
    /// The issuer's reason.
    pub decline_code: Option<String>,
    /// The network's advice.
    pub advice_code: Option<String>,
    /// What went wrong, for people.
    pub message: Option<String>,
    /// The parameter that is at fault.
    pub param: Option<String>,
    /// The failed charge.
    pub charge: Option<Reference<Charge>>,
    /// The PaymentIntent that the request made or touched.
    pub payment_intent: Option<Reference<PaymentIntent>>,
}

/// A field that is an id, or the whole object when it was expanded.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Reference<T> {
    /// Only the id.
    Id(String),
    /// The object itself.
    Object(Box<T>),
    /// Something else; nothing is concluded from it.
    Other(Value),
}

/// A PaymentIntent.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PaymentIntent {
    /// `pi_…`
    pub id: Option<String>,
    /// See Stripe docs, PaymentIntent lifecycle.
    pub status: Option<String>,
    /// Minor units asked for.
    pub amount: Option<i64>,
    /// Minor units taken.
    pub amount_received: Option<i64>,
    /// Lower case.
    pub currency: Option<String>,
    /// Unix seconds.
    pub created: Option<i64>,
    /// Our own marks.
    pub metadata: Option<HashMap<String, String>>,
    /// Why the last try failed.
    pub last_payment_error: Option<ApiError>,
    /// The last try's Charge; an object where it was asked for.
    pub latest_charge: Option<Reference<Charge>>,
}

/// A legacy Charge.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Charge {
    /// `ch_…`
    pub id: Option<String>,
    /// `succeeded`, `pending`, `failed`.
    pub status: Option<String>,
    /// Minor units.
    pub amount: Option<i64>,
    /// Lower case.
    pub currency: Option<String>,
    /// False on a Charge that took and will take nothing.
    pub paid: Option<bool>,
    /// True when all of it was given back.
    pub refunded: Option<bool>,
    /// Unix seconds.
    pub created: Option<i64>,
    /// Our own marks.
    pub metadata: Option<HashMap<String, String>>,
    /// Why it failed, for programs.
    pub failure_code: Option<String>,
    /// Why it failed, for people.
    pub failure_message: Option<String>,
    /// The network's verdict.
    pub outcome: Option<ChargeOutcome>,
}

/// A Refund.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Refund {
    /// `re_…`
    pub id: Option<String>,
    /// `succeeded`, `pending`, `requires_action`, `failed`, `canceled`; null on some old ones.
    pub status: Option<String>,
    /// Minor units.
    pub amount: Option<i64>,
    /// Lower case.
    pub currency: Option<String>,
    /// The Charge whose money it gives back.
    pub charge: Option<Reference<Identified>>,
    /// That Charge's PaymentIntent, when it has one.
    pub payment_intent: Option<Reference<Identified>>,
    /// Our own marks.
    pub metadata: Option<HashMap<String, String>>,
    /// Why it failed, for programs.
    pub failure_reason: Option<String>,
}

/// `charge.outcome`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ChargeOutcome {
    /// The issuer's reason, or Radar's.
    pub reason: Option<String>,
    /// The network's advice.
    pub advice_code: Option<String>,
}

/// A page of a list.
#[derive(Debug, Clone, Deserialize)]
pub struct Page<T> {
    /// The objects.
    pub data: Vec<T>,
    /// Whether more follow.
    pub has_more: bool,
}

/// A customer, as far as it says what can be charged.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Customer {
    /// `cus_…`
    pub id: Option<String>,
    /// A deleted customer still answers 200, with this.
    pub deleted: Option<bool>,
    /// What the legacy API charges.
    pub default_source: Option<Reference<Identified>>,
    /// Where the default payment method lives.
    pub invoice_settings: Option<InvoiceSettings>,
}

/// `customer.invoice_settings`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct InvoiceSettings {
    /// The default payment method.
    pub default_payment_method: Option<Reference<Identified>>,
}

/// Any object of which only the id matters.
#[derive(Debug, Clone, Deserialize)]
pub struct Identified {
    /// Its id.
    pub id: String,
}

impl Reference<Identified> {
    /// The id, however it is given.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Id(id) => Some(id),
            Self::Object(object) => Some(&object.id),
            Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_in_any_text_is_replaced_and_all_else_stays_as_it_came() {
        #[rustfmt::skip]
        let table = [
            ("none", r#""pi_1""#, Some("pi_1")),
            ("alone", r#""\u0000""#, Some("\u{fffd}")),
            ("at both ends and within", r#""\u0000a\u0000b\u0000""#, Some("\u{fffd}a\u{fffd}b\u{fffd}")),
            ("after an escaped backslash", r#""\\\u0000""#, Some("\\\u{fffd}")),
            ("no NUL but its spelling", r#""\\u0000""#, Some("\\u0000")),
            ("beside another control", r#""\u0001\u0000\n""#, Some("\u{1}\u{fffd}\n")),
            ("beside an umlaut and a pair", r#""ü\ud83d\ude00\u0000""#, Some("ü😀\u{fffd}")),
            ("in half of a pair", r#""\ud83d\u0000""#, None),
            ("bare", "\"a\0\"", None),
            ("cut off", r#""\u0000\"#, None),
            ("outside of a text", r"\u0000", None),
        ];
        for (case, json, right) in table {
            let text = read_json::<String>(json.as_bytes());
            assert_eq!(text.as_deref(), right, "{case}");
        }
    }
}
