//! Whose a payment is: this attempt's, another attempt's of the invoice, or somebody else's; and what in it contradicts the
//! attempt. Pure.

use super::model::{Charge, ChargeStatus};
use crate::payments::outcome::{PaymentStatus, ProviderPayment};

/// True for a payment that settles its attempt even where no other payment of the invoice could be looked at: the money that
/// the attempt's own payment took is recorded, whatever else there may be.
pub fn proves_success_alone(payment: &ProviderPayment, charge: &Charge) -> bool {
    payment.status == PaymentStatus::Succeeded && is_its_own(payment, charge)
}

/// True while the attempt's own request may still take money, although no payment of it is to be seen: it was sent not long
/// ago, and what was found neither was made by it nor is what it confirms. An attempt that was parked without naming a
/// payment has lost its key to another request, and can execute nothing.
pub fn may_still_arrive(
    charge: &Charge,
    found: &[ProviderPayment],
    all_sends_are_old: bool,
) -> bool {
    let is_seen = found.iter().any(|payment| {
        payment.charge_key.as_deref() == Some(charge.idempotency_key.as_str())
            || charge.request.path.contains(&payment.id)
    });
    let has_request = !charge.request.path.is_empty();
    has_request && charge.provider_payment_id.is_some() && !all_sends_are_old && !is_seen
}

/// True for a payment that this attempt made, or was made on.
pub fn is_its_own(payment: &ProviderPayment, charge: &Charge) -> bool {
    payment.charge_key.as_deref() == Some(charge.idempotency_key.as_str())
        || charge.provider_payment_id.as_deref() == Some(payment.id.as_str())
}

/// True when the failure that a payment carries can only be this attempt's: it was made under this attempt's own key,
/// which executes once, or it was seen in the provider's hands for this attempt. A payment that an earlier attempt made
/// may still carry that attempt's failure.
pub fn is_this_attempts(payment: &ProviderPayment, charge: &Charge) -> bool {
    let made_by_it = payment.charge_key.as_deref() == Some(charge.idempotency_key.as_str());
    let was_processing = charge.status == ChargeStatus::Processing
        && charge.provider_payment_id.as_deref() == Some(payment.id.as_str());
    made_by_it || was_processing
}

/// True for a payment that carries the marks of this invoice and this installation.
pub fn is_marked(payment: &ProviderPayment, invoice_id: &str, installation_id: &str) -> bool {
    payment.invoice_id.as_deref() == Some(invoice_id)
        && payment.installation_id.as_deref() == Some(installation_id)
}

/// True for a payment whose marks say that it is another invoice's or another installation's. One without marks says nothing.
pub fn names_another(payment: &ProviderPayment, invoice_id: &str, installation_id: &str) -> bool {
    let differs = |mark: &Option<String>, own: &str| mark.as_deref().is_some_and(|m| m != own);
    differs(&payment.invoice_id, invoice_id) || differs(&payment.installation_id, installation_id)
}

/// What in a payment contradicts the attempt. The answer of our own key need not carry the metadata (a stand-in may leave
/// them out); where it carries them, they must be ours.
pub fn mismatch(
    payment: &ProviderPayment,
    charge: &Charge,
    installation_id: &str,
) -> Option<String> {
    if payment.amount_minor != charge.amount_minor || payment.currency != charge.currency {
        return Some(format!(
            "payment {} is over {} {} instead of {} {}",
            payment.id,
            payment.amount_minor,
            payment.currency,
            charge.amount_minor,
            charge.currency
        ));
    }
    if names_another(payment, &charge.invoice_id, installation_id) {
        return Some(format!(
            "payment {} names another invoice or another installation",
            payment.id
        ));
    }
    None
}

/// What forbids to adopt a payment that was found, not answered: it must carry our metadata.
pub fn adoptable(
    payment: &ProviderPayment,
    charge: &Charge,
    installation_id: &str,
) -> Option<String> {
    if !is_marked(payment, &charge.invoice_id, installation_id) {
        return Some(format!(
            "payment {} does not carry this invoice's metadata",
            payment.id
        ));
    }
    mismatch(payment, charge, installation_id)
}
