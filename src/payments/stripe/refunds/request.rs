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
    let is_charge = ["ch_", "py_"]
        .iter()
        .any(|prefix| payment_id.starts_with(prefix));
    match api {
        _ if payment_id.starts_with("pi_") => "payment_intent",
        _ if is_charge => "charge",
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
