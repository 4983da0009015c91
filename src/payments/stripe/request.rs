//! Orders as form-encoded requests. PURE: the same order always gives the same bytes, which are then frozen.
//!
//! Only parameters that Stripe, stripe-mock and the common stand-ins all accept are sent.

use form_urlencoded::Serializer;

use super::StripeApi;
use crate::payments::provider::{FrozenRequest, PaymentOrder};

const INTENTS: &str = "/v1/payment_intents";
const CHARGES: &str = "/v1/charges";
/// The largest page that Stripe gives.
pub(super) const PAGE_SIZE: &str = "100";
/// Taken off the start of a look-up: our clock and Stripe's are not the same.
const LOOKUP_MARGIN_SECONDS: i64 = 24 * 60 * 60;

/// What a frozen path asks for. A path tells it for ever, whatever the settings say by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint<'a> {
    /// Make a PaymentIntent and confirm it at once.
    CreateIntent,
    /// Try again on this PaymentIntent.
    ConfirmIntent(&'a str),
    /// Make a legacy Charge.
    CreateCharge,
}

impl<'a> Endpoint<'a> {
    /// Reads a frozen path; `None` for a path that this adapter never makes.
    pub fn of_path(path: &'a str) -> Option<Self> {
        if path == INTENTS {
            return Some(Self::CreateIntent);
        }
        if path == CHARGES {
            return Some(Self::CreateCharge);
        }
        let id = path
            .strip_prefix(INTENTS)?
            .strip_prefix('/')?
            .strip_suffix("/confirm")?;
        is_plain_id(id).then_some(Self::ConfirmIntent(id))
    }
}

/// The order cannot be put into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// PaymentIntents need a payment method by name.
    NoPaymentMethod,
    /// The open payment's id cannot stand in a path.
    OddPaymentId,
}

/// The request of an attempt, charging `payment_method`.
///
/// PaymentIntents: one-shot confirm, off session, cards only, captured at once (Stripe docs, PaymentIntents: create).
/// `payment_method` is always named: Stripe does not use `invoice_settings.default_payment_method` here. A later
/// attempt confirms the PaymentIntent that the earlier one left open, so that Stripe's rule of one success a
/// PaymentIntent backs ours. Charges: with a customer only, Stripe charges the default source.
pub fn freeze(
    api: StripeApi,
    order: &PaymentOrder,
    payment_method: Option<&str>,
) -> Result<FrozenRequest, RequestError> {
    match (api, &order.open_payment_id) {
        (StripeApi::PaymentIntents, open) => {
            let method = payment_method.ok_or(RequestError::NoPaymentMethod)?;
            match open {
                Some(id) if is_plain_id(id) => Ok(confirm_intent(id, method)),
                Some(_) => Err(RequestError::OddPaymentId),
                None => Ok(create_intent(order, method)),
            }
        }
        (StripeApi::Charges, _) => Ok(create_charge(order, payment_method)),
    }
}

fn create_intent(order: &PaymentOrder, payment_method: &str) -> FrozenRequest {
    let mut form = Serializer::new(String::new());
    form.append_pair("amount", &order.amount_minor.to_string())
        .append_pair("currency", &order.currency)
        .append_pair("customer", &order.customer_id)
        .append_pair("payment_method", payment_method)
        .append_pair("confirm", "true")
        .append_pair("off_session", "true")
        .append_pair("payment_method_types[]", "card")
        .append_pair("capture_method", "automatic");
    append_metadata(&mut form, order);
    FrozenRequest {
        path: INTENTS.to_owned(),
        body: form.finish(),
    }
}

fn confirm_intent(id: &str, payment_method: &str) -> FrozenRequest {
    let body = Serializer::new(String::new())
        .append_pair("payment_method", payment_method)
        .append_pair("off_session", "true")
        .finish();
    FrozenRequest {
        path: format!("{INTENTS}/{}/confirm", encode_segment(id)),
        body,
    }
}

fn create_charge(order: &PaymentOrder, source: Option<&str>) -> FrozenRequest {
    let mut form = Serializer::new(String::new());
    form.append_pair("amount", &order.amount_minor.to_string())
        .append_pair("currency", &order.currency)
        .append_pair("customer", &order.customer_id);
    if let Some(source) = source {
        form.append_pair("source", source);
    }
    append_metadata(&mut form, order);
    FrozenRequest {
        path: CHARGES.to_owned(),
        body: form.finish(),
    }
}

/// Marks by which a payment whose answer was lost is found again (Stripe docs, Low-level error handling). None of them
/// differs between two reservations of one attempt: its key goes with the same bytes, always.
fn append_metadata(form: &mut Serializer<'_, String>, order: &PaymentOrder) {
    form.append_pair("metadata[invoice_id]", &order.invoice_id)
        .append_pair("metadata[charge_key]", &order.charge_key)
        .append_pair("metadata[attempt]", &order.attempt.to_string())
        .append_pair("metadata[installation_id]", &order.installation_id);
}

/// Where one payment is read, with the Charge that tells whether it was refunded; `None` for an id that cannot stand in a path.
pub fn payment_path(api: StripeApi, id: &str) -> Option<String> {
    is_plain_id(id).then(|| {
        let expanded = match api {
            StripeApi::PaymentIntents => "?expand%5B%5D=latest_charge",
            StripeApi::Charges => "",
        };
        format!("{}/{}{expanded}", collection(api), encode_segment(id))
    })
}

/// Where a PaymentIntent is canceled; `None` for an id that cannot stand in a path.
pub fn cancel_path(id: &str) -> Option<String> {
    is_plain_id(id).then(|| format!("{INTENTS}/{}/cancel", encode_segment(id)))
}

/// Where a customer is read; `None` for an id that cannot stand in a path.
pub fn customer_path(id: &str) -> Option<String> {
    // Stripe lets accounts choose customer ids, so more than plain ids is allowed; dot segments change the path.
    let usable = !id.is_empty() && id.len() <= 255 && id != "." && id != "..";
    usable.then(|| format!("/v1/customers/{}", encode_segment(id)))
}

/// One page of a customer's payments, from a day before the moment asked for (Stripe docs, Pagination). There is no
/// metadata filter on lists, and search has no read-after-write consistency: the caller filters.
///
/// Without a customer it is a page of the whole account.
pub fn list_path(
    api: StripeApi,
    customer_id: Option<&str>,
    since_ms: i64,
    after: Option<&str>,
) -> String {
    let mut form = Serializer::new(String::new());
    if let Some(customer_id) = customer_id {
        form.append_pair("customer", customer_id);
    }
    form.append_pair("created[gte]", &since_seconds(since_ms).to_string())
        .append_pair("limit", PAGE_SIZE);
    match api {
        StripeApi::PaymentIntents => {
            form.append_pair("expand[]", "data.latest_charge");
        }
        StripeApi::Charges => {}
    }
    if let Some(after) = after {
        form.append_pair("starting_after", after);
    }
    format!("{}?{}", collection(api), form.finish())
}

fn collection(api: StripeApi) -> &'static str {
    match api {
        StripeApi::PaymentIntents => INTENTS,
        StripeApi::Charges => CHARGES,
    }
}

/// True for an id that may stand in a path. Prefixes are not a contract, so none is asked for.
pub fn is_plain_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 255
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// The start of a look-up in Unix seconds, with its margin taken off.
pub(super) fn since_seconds(since_ms: i64) -> i64 {
    (since_ms.div_euclid(1_000) - LOOKUP_MARGIN_SECONDS).max(0)
}

/// Percent-encodes all but unreserved characters (RFC 3986, 2.3). A form encoder would turn a space into `+`.
pub(super) fn encode_segment(segment: &str) -> String {
    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> PaymentOrder {
        PaymentOrder {
            invoice_id: "inv_1".to_owned(),
            charge_key: "charge:inv_1".to_owned(),
            attempt: 1,
            installation_id: "inst & co".to_owned(),
            amount_minor: 1999,
            currency: "eur".to_owned(),
            customer_id: "cus_1".to_owned(),
            payment_method_id: None,
            open_payment_id: None,
        }
    }

    const METADATA: &str = "metadata%5Binvoice_id%5D=inv_1&metadata%5Bcharge_key%5D=charge%3Ainv_1&metadata%5Battempt%5D=1\
        &metadata%5Binstallation_id%5D=inst+%26+co";

    #[test]
    fn a_first_attempt_makes_and_confirms_a_payment_intent() {
        let frozen = freeze(StripeApi::PaymentIntents, &order(), Some("pm_1")).expect("a request");
        assert_eq!(frozen.path, "/v1/payment_intents");
        assert_eq!(
            frozen.body,
            format!(
                "amount=1999&currency=eur&customer=cus_1&payment_method=pm_1&confirm=true&off_session=true\
                 &payment_method_types%5B%5D=card&capture_method=automatic&{METADATA}"
            )
        );
    }

    #[test]
    fn a_later_attempt_confirms_the_open_payment_intent() {
        let order = PaymentOrder {
            open_payment_id: Some("pi_9".to_owned()),
            ..order()
        };
        let frozen = freeze(StripeApi::PaymentIntents, &order, Some("pm_2")).expect("a request");
        assert_eq!(frozen.path, "/v1/payment_intents/pi_9/confirm");
        assert_eq!(frozen.body, "payment_method=pm_2&off_session=true");
    }

    #[test]
    fn a_charge_names_its_source_or_leaves_it_to_the_customers_default() {
        let named = freeze(StripeApi::Charges, &order(), Some("card_1")).expect("a request");
        assert_eq!(named.path, "/v1/charges");
        assert_eq!(
            named.body,
            format!("amount=1999&currency=eur&customer=cus_1&source=card_1&{METADATA}")
        );
        let default = freeze(StripeApi::Charges, &order(), None).expect("a request");
        assert_eq!(
            default.body,
            format!("amount=1999&currency=eur&customer=cus_1&{METADATA}")
        );
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        assert_eq!(
            freeze(StripeApi::PaymentIntents, &order(), None),
            Err(RequestError::NoPaymentMethod)
        );
        for odd in ["", "..", "pi_1/../x", "pi 1", "pi_1?x", "pi_ü", "pi%2F1"] {
            let order = PaymentOrder {
                open_payment_id: Some(odd.to_owned()),
                ..order()
            };
            assert_eq!(
                freeze(StripeApi::PaymentIntents, &order, Some("pm_1")),
                Err(RequestError::OddPaymentId),
                "{odd}"
            );
            assert_eq!(payment_path(StripeApi::PaymentIntents, odd), None);
            assert_eq!(cancel_path(odd), None);
        }
        assert_eq!(customer_path(".."), None);
        assert_eq!(
            customer_path("a/b c").as_deref(),
            Some("/v1/customers/a%2Fb%20c")
        );
    }

    #[test]
    fn a_frozen_path_tells_what_it_asks_for() {
        let rows = [
            ("/v1/payment_intents", Some(Endpoint::CreateIntent)),
            (
                "/v1/payment_intents/pi_1/confirm",
                Some(Endpoint::ConfirmIntent("pi_1")),
            ),
            ("/v1/charges", Some(Endpoint::CreateCharge)),
            ("/v1/payment_intents/pi_1/cancel", None),
            ("/v1/payment_intents//confirm", None),
            ("/v1/refunds", None),
            ("", None),
        ];
        for (path, expected) in rows {
            assert_eq!(Endpoint::of_path(path), expected, "{path}");
        }
    }

    #[test]
    fn a_look_up_starts_a_day_early() {
        let since_ms = 1_700_000_000_999;
        let api = StripeApi::PaymentIntents;
        assert_eq!(
            list_path(api, None, since_ms, None),
            "/v1/payment_intents?created%5Bgte%5D=1699913600&limit=100&expand%5B%5D=data.latest_charge"
        );
        assert_eq!(
            list_path(api, Some("cus_1"), since_ms, Some("pi_1")),
            "/v1/payment_intents?customer=cus_1&created%5Bgte%5D=1699913600&limit=100&expand%5B%5D=data.latest_charge&starting_after=pi_1"
        );
    }
}
