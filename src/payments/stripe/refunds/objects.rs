//! Stripe's Refund in our own words. PURE; used by the decision and by look-ups, so that both read a refund alike.

use super::super::decision::bare;
use super::super::objects::{MAX_CODE_CHARS, clean, mark};
use super::super::wire::{Identified, Reference, Refund};
use crate::payments::outcome::{Failure, FailureKind};
use crate::payments::refund::{ProviderRefund, RefundState};

/// The state of a Refund (Stripe docs, The Refund object).
pub fn refund_state(status: Option<&str>) -> RefundState {
    match status {
        Some("succeeded") => RefundState::Succeeded,
        Some("pending") => RefundState::Pending,
        Some("requires_action") => RefundState::RequiresAction,
        Some("failed") => RefundState::Failed,
        Some("canceled") => RefundState::Canceled,
        Some(other) => RefundState::Other(clean(other, MAX_CODE_CHARS)),
        None => RefundState::Other("no status".to_owned()),
    }
}

/// A Refund in our words; `None` when it lacks what a refund must have. `asked` is the payment that it was asked for
/// with: a Refund names the PaymentIntent and its Charge, and the two are one payment.
pub fn refund_of(refund: &Refund, asked: Option<&str>) -> Option<ProviderRefund> {
    let id = refund.id.clone()?;
    let status = refund_state(refund.status.as_deref());
    let failure = match status {
        RefundState::Failed => Some(failure(FailureKind::Declined, "refund_failed", refund)),
        RefundState::Canceled => Some(failure(FailureKind::Canceled, "refund_canceled", refund)),
        RefundState::Succeeded
        | RefundState::Pending
        | RefundState::RequiresAction
        | RefundState::Other(_) => None,
    };
    Some(ProviderRefund {
        id,
        payment_id: payment_of(refund, asked),
        status,
        amount_minor: refund.amount?,
        currency: refund.currency.as_deref()?.to_ascii_lowercase(),
        refund_key: mark(&refund.metadata, "refund_key"),
        charge_id: mark(&refund.metadata, "charge_id"),
        installation_id: mark(&refund.metadata, "installation_id"),
        failure,
    })
}

/// The failure with Stripe's reason for it (`expired_or_canceled_card`, `lost_or_stolen_card`, `unknown`), when given.
fn failure(kind: FailureKind, otherwise: &str, refund: &Refund) -> Failure {
    let reason = refund
        .failure_reason
        .as_deref()
        .map(|reason| clean(reason, MAX_CODE_CHARS))
        .filter(|reason| !reason.is_empty());
    Failure {
        decline_code: reason,
        payment_id: refund.id.clone(),
        ..bare(kind, otherwise)
    }
}

fn payment_of(refund: &Refund, asked: Option<&str>) -> Option<String> {
    fn id(reference: &Option<Reference<Identified>>) -> Option<&str> {
        reference.as_ref().and_then(Reference::<Identified>::id)
    }
    let named = [id(&refund.payment_intent), id(&refund.charge)];
    asked
        .filter(|asked| named.contains(&Some(*asked)))
        .or_else(|| named.into_iter().flatten().next())
        .map(str::to_owned)
}
