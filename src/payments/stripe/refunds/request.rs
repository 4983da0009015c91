//! Refund orders as form-encoded requests. PURE: the same order always gives the same bytes, which are then frozen.

use form_urlencoded::Serializer;

use super::super::StripeApi;
use super::super::request::{PAGE_SIZE, encode_segment, is_plain_id, since_seconds};
use crate::payments::provider::FrozenRequest;
use crate::payments::refund::{ProviderRefund, RefundOrder, RefundState};

const REFUNDS: &str = "/v1/refunds";
const REFUND_KEY: &str = "metadata[refund_key]";
const INSTALLATION_ID: &str = "metadata[installation_id]";

/// The request of a refund (Stripe docs, Refunds: create). The amount is always named: Stripe's default is all that is
/// left, which another refund may have changed.
pub fn freeze(api: StripeApi, order: &RefundOrder) -> FrozenRequest {
    let mut form = Serializer::new(String::new());
    form.append_pair(payment_parameter(api, &order.payment_id), &order.payment_id)
        .append_pair("amount", &order.amount_minor.to_string());
    if let Some(reason) = order.reason {
        form.append_pair("reason", reason.as_str());
    }
    // Marks by which a refund whose answer was lost is found again. None of them differs between two reservations of
    // one attempt.
    form.append_pair("metadata[invoice_id]", &order.invoice_id)
        .append_pair("metadata[charge_id]", &order.charge_id)
        .append_pair(REFUND_KEY, &order.refund_key)
        .append_pair("metadata[attempt]", &order.attempt.to_string())
        .append_pair(INSTALLATION_ID, &order.installation_id);
    FrozenRequest {
        path: REFUNDS.to_owned(),
        body: form.finish(),
    }
}

/// The parameter that names a payment. Its id tells of which kind it is, also after STRIPE_API was changed; prefixes are
/// not a contract, so the settings have the last word on any other.
pub fn payment_parameter(api: StripeApi, payment_id: &str) -> &'static str {
    let kind = match payment_id.split_once('_') {
        Some(("pi", _)) => StripeApi::PaymentIntents,
        Some(("ch" | "py", _)) => StripeApi::Charges,
        Some(_) | None => api,
    };
    match kind {
        StripeApi::PaymentIntents => "payment_intent",
        StripeApi::Charges => "charge",
    }
}

/// What frozen bytes ask for, as far as their answer is measured by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The payment that is given back.
    pub payment_id: String,
    /// The refund's key, as its metadata carry it.
    pub refund_key: String,
    /// The installation, as the metadata carry it.
    pub installation_id: String,
}

impl Asked {
    /// Reads a frozen request; `None` for one that [`freeze`] never makes.
    pub fn of(request: &FrozenRequest) -> Option<Self> {
        if request.path != REFUNDS {
            return None;
        }
        let value = |names: &[&str]| {
            form_urlencoded::parse(request.body.as_bytes())
                .find(|(name, _)| names.contains(&name.as_ref()))
                .map(|(_, value)| value.into_owned())
        };
        Some(Self {
            payment_id: value(&["payment_intent", "charge"])?,
            refund_key: value(&[REFUND_KEY])?,
            installation_id: value(&[INSTALLATION_ID])?,
        })
    }

    /// True when this refund carries the marks of the request, and gives money back or still may.
    pub fn is_given_by(&self, refund: &ProviderRefund) -> bool {
        let ours = refund.refund_key.as_deref() == Some(&self.refund_key)
            && refund.installation_id.as_deref() == Some(&self.installation_id);
        ours && match refund.status {
            RefundState::Succeeded | RefundState::Pending | RefundState::RequiresAction => true,
            RefundState::Failed | RefundState::Canceled => false,
            RefundState::Other(_) => true,
        }
    }
}

/// Where one refund is read; `None` for an id that cannot stand in a path.
pub fn refund_path(id: &str) -> Option<String> {
    is_plain_id(id).then(|| format!("{REFUNDS}/{}", encode_segment(id)))
}

/// One page of a payment's refunds, from a day before the moment asked for (Stripe docs, Pagination). `of_payment` is the
/// parameter's name and its value; without it the page is one of the whole account.
pub fn list_path(of_payment: Option<(&str, &str)>, since_ms: i64, after: Option<&str>) -> String {
    let mut form = Serializer::new(String::new());
    if let Some((name, payment_id)) = of_payment {
        form.append_pair(name, payment_id);
    }
    form.append_pair("created[gte]", &since_seconds(since_ms).to_string())
        .append_pair("limit", PAGE_SIZE);
    if let Some(after) = after {
        form.append_pair("starting_after", after);
    }
    format!("{REFUNDS}?{}", form.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payments::refund::RefundReason;

    fn order(payment_id: &str, reason: Option<RefundReason>) -> RefundOrder {
        RefundOrder {
            charge_id: "chg_1".to_owned(),
            invoice_id: "inv & co".to_owned(),
            refund_key: "refund:chg_1".to_owned(),
            attempt: 1,
            installation_id: "inst".to_owned(),
            payment_id: payment_id.to_owned(),
            amount_minor: 1999,
            currency: "eur".to_owned(),
            reason,
        }
    }

    const METADATA: &str = "metadata%5Binvoice_id%5D=inv+%26+co&metadata%5Bcharge_id%5D=chg_1\
        &metadata%5Brefund_key%5D=refund%3Achg_1&metadata%5Battempt%5D=1&metadata%5Binstallation_id%5D=inst";

    #[test]
    fn a_refund_names_its_payment_its_amount_and_whose_it_is() {
        let intents = StripeApi::PaymentIntents;
        let plain = freeze(intents, &order("pi_1", None));
        assert_eq!(plain.path, "/v1/refunds");
        let right = format!("payment_intent=pi_1&amount=1999&{METADATA}");
        assert_eq!(plain.body, right);
        for reason in RefundReason::ALL {
            let word = reason.as_str();
            let body = freeze(StripeApi::Charges, &order("ch_1", Some(reason))).body;
            let right = format!("charge=ch_1&amount=1999&reason={word}&{METADATA}");
            assert_eq!(body, right);
            assert_eq!(RefundReason::parse(word), Some(reason));
        }
        assert_eq!(RefundReason::parse("boredom"), None);
    }

    #[test]
    fn a_payments_id_tells_of_which_kind_it_is_and_the_settings_judge_the_rest() {
        use StripeApi::{Charges, PaymentIntents};
        let table = [
            ("pi_1", PaymentIntents, "payment_intent"),
            ("pi_1", Charges, "payment_intent"),
            ("ch_1", PaymentIntents, "charge"),
            ("ch_1", Charges, "charge"),
            ("py_1", PaymentIntents, "charge"),
            ("odd", PaymentIntents, "payment_intent"),
            ("odd", Charges, "charge"),
        ];
        for (id, api, name) in table {
            assert_eq!(payment_parameter(api, id), name, "{id} {api:?}");
        }
    }

    #[test]
    fn frozen_bytes_tell_what_they_ask_for() {
        for payment_id in ["pi_1", "ch_1"] {
            let frozen = freeze(StripeApi::PaymentIntents, &order(payment_id, None));
            let asked = Asked {
                payment_id: payment_id.to_owned(),
                refund_key: "refund:chg_1".to_owned(),
                installation_id: "inst".to_owned(),
            };
            assert_eq!(Asked::of(&frozen), Some(asked));
        }
        let frozen = freeze(StripeApi::Charges, &order("ch_1", None));
        for (path, body) in [
            ("/v1/charges", frozen.body.as_str()),
            ("/v1/refunds", "charge=ch_1&amount=1"),
            ("/v1/refunds", METADATA),
            ("/v1/refunds", ""),
        ] {
            let other = FrozenRequest {
                path: path.to_owned(),
                body: body.to_owned(),
            };
            assert_eq!(Asked::of(&other), None, "{path} {body}");
        }
    }

    #[test]
    fn a_look_up_starts_a_day_early_and_an_odd_id_is_not_looked_up() {
        assert_eq!(
            list_path(
                Some(("payment_intent", "pi_1")),
                1_700_000_000_999,
                Some("re_1")
            ),
            "/v1/refunds?payment_intent=pi_1&created%5Bgte%5D=1699913600&limit=100&starting_after=re_1"
        );
        assert_eq!(
            list_path(None, 0, None),
            "/v1/refunds?created%5Bgte%5D=0&limit=100"
        );
        assert_eq!(refund_path("re_1").as_deref(), Some("/v1/refunds/re_1"));
        for odd in ["", "..", "re_1/../x", "re 1", "re_1?x"] {
            assert_eq!(refund_path(odd), None, "{odd}");
        }
    }
}
