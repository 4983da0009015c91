//! Stripe's objects in our own words: PaymentIntent and Charge to [`ProviderPayment`], error object to [`Failure`].
//! PURE; used by the decision, by look-ups and by cancels, so that all of them read an object alike.

use std::collections::HashMap;

use super::request::is_plain_id;
use super::wire::{ApiError, Charge, PaymentIntent, Reference};
use crate::payments::declines::is_confidential;
use crate::payments::outcome::{Failure, FailureKind, PaymentStatus, ProviderPayment};

/// The longest message that is passed on, in characters.
pub const MAX_MESSAGE_CHARS: usize = 300;
/// The longest code that is passed on, in characters.
pub(super) const MAX_CODE_CHARS: usize = 100;
/// What is said instead of a reason that the customer must not learn.
const GENERIC_DECLINE: &str = "The payment was declined.";

/// The state of a PaymentIntent (Stripe docs, PaymentIntent lifecycle).
pub fn intent_status(status: &str) -> PaymentStatus {
    match status {
        "succeeded" => PaymentStatus::Succeeded,
        "processing" => PaymentStatus::Processing,
        "requires_action" => PaymentStatus::RequiresAction,
        "requires_confirmation" => PaymentStatus::RequiresConfirmation,
        "requires_payment_method" => PaymentStatus::RequiresPaymentMethod,
        "requires_capture" => PaymentStatus::RequiresCapture,
        "canceled" => PaymentStatus::Canceled,
        other => PaymentStatus::Other(clean(other, MAX_CODE_CHARS)),
    }
}

/// A PaymentIntent in our words; `None` when it lacks what a payment must have.
pub fn payment_of_intent(intent: &PaymentIntent) -> Option<ProviderPayment> {
    let id = intent.id.clone()?;
    // A PaymentIntent stays `succeeded` when it is refunded; only its Charge tells.
    let mut status = intent_status(intent.status.as_deref()?);
    if status == PaymentStatus::Succeeded && is_refunded(intent.latest_charge.as_ref()) {
        status = PaymentStatus::Refunded;
    }
    let asked = intent.amount?;
    let amount_minor = match status {
        // What was taken, not what was asked for: the two are compared later.
        PaymentStatus::Succeeded | PaymentStatus::Refunded => {
            intent.amount_received.filter(|n| *n != 0).unwrap_or(asked)
        }
        PaymentStatus::Processing
        | PaymentStatus::RequiresAction
        | PaymentStatus::RequiresConfirmation
        | PaymentStatus::RequiresPaymentMethod
        | PaymentStatus::RequiresCapture
        | PaymentStatus::Canceled
        | PaymentStatus::Failed
        | PaymentStatus::Other(_) => asked,
    };
    let failure = intent
        .last_payment_error
        .as_ref()
        .filter(|_| !matches!(status, PaymentStatus::Succeeded | PaymentStatus::Refunded))
        .map(|error| Failure {
            payment_id: Some(id.clone()),
            payment_open: status == PaymentStatus::RequiresPaymentMethod && is_plain_id(&id),
            ..failure_of_error(error_kind(error), error)
        });
    Some(ProviderPayment {
        id,
        status,
        amount_minor,
        currency: intent.currency.as_deref()?.to_ascii_lowercase(),
        invoice_id: mark(&intent.metadata, "invoice_id"),
        installation_id: mark(&intent.metadata, "installation_id"),
        charge_key: mark(&intent.metadata, "charge_key"),
        failure,
    })
}

fn is_refunded(charge: Option<&Reference<Charge>>) -> bool {
    match charge {
        Some(Reference::Object(charge)) => charge.refunded == Some(true),
        Some(Reference::Id(_) | Reference::Other(_)) | None => false,
    }
}

/// A Charge in our words; `None` when it lacks what a payment must have.
///
/// `captured` is not looked at: we never ask for a hold, and stripe-mock answers `captured: false` to everything.
pub fn payment_of_charge(charge: &Charge) -> Option<ProviderPayment> {
    let id = charge.id.clone()?;
    let status = match (charge.status.as_deref()?, charge.paid) {
        ("succeeded", Some(true) | None) if charge.refunded == Some(true) => {
            PaymentStatus::Refunded
        }
        ("succeeded", Some(true) | None) => PaymentStatus::Succeeded,
        ("succeeded", Some(false)) => PaymentStatus::Other("succeeded, not paid".to_owned()),
        ("pending", _) => PaymentStatus::Processing,
        ("failed", _) => PaymentStatus::Failed,
        (other, _) => PaymentStatus::Other(clean(other, MAX_CODE_CHARS)),
    };
    let failure = (status == PaymentStatus::Failed).then(|| failure_of_charge(charge));
    Some(ProviderPayment {
        id,
        status,
        amount_minor: charge.amount?,
        currency: charge.currency.as_deref()?.to_ascii_lowercase(),
        invoice_id: mark(&charge.metadata, "invoice_id"),
        installation_id: mark(&charge.metadata, "installation_id"),
        charge_key: mark(&charge.metadata, "charge_key"),
        failure,
    })
}

/// A dead Charge's failure. It is named for the record and never tried again.
fn failure_of_charge(charge: &Charge) -> Failure {
    let outcome = charge.outcome.as_ref();
    let error = ApiError {
        code: charge.failure_code.clone(),
        decline_code: outcome.and_then(|o| o.reason.clone()),
        advice_code: outcome.and_then(|o| o.advice_code.clone()),
        message: charge.failure_message.clone(),
        ..ApiError::default()
    };
    Failure {
        code: error.code.clone().map_or_else(
            || "card_declined".to_owned(),
            |code| clean(&code, MAX_CODE_CHARS),
        ),
        payment_id: charge.id.clone(),
        ..failure_of_error(FailureKind::Declined, &error)
    }
}

/// Whether an error is the bank's or Stripe's word on the payment, or on the request.
pub fn error_kind(error: &ApiError) -> FailureKind {
    // Some stand-ins send a decline as `invalid_request_error` with the code of a decline.
    let declined = error.kind.as_deref() == Some("card_error")
        || error.code.as_deref() == Some("card_declined");
    if declined {
        FailureKind::Declined
    } else {
        FailureKind::Refused
    }
}

/// An error object as a failure that names no payment yet.
pub fn failure_of_error(kind: FailureKind, error: &ApiError) -> Failure {
    let code = |text: &Option<String>| text.as_deref().map(|text| clean(text, MAX_CODE_CHARS));
    Failure {
        kind,
        code: code(&error.code)
            .or_else(|| code(&error.kind))
            .unwrap_or_else(|| "unknown_error".to_owned()),
        decline_code: code(&error.decline_code),
        advice_code: code(&error.advice_code),
        message: safe_message(error),
        payment_id: None,
        payment_open: false,
    }
}

/// Stripe's sentence, unless it could tell a thief what the bank knows.
fn safe_message(error: &ApiError) -> Option<String> {
    let confidential = [&error.code, &error.decline_code]
        .into_iter()
        .flatten()
        .any(|code| is_confidential(code));
    if confidential {
        return Some(GENERIC_DECLINE.to_owned());
    }
    error
        .message
        .as_deref()
        .map(|text| clean(text, MAX_MESSAGE_CHARS))
        .filter(|text| !text.is_empty())
}

/// The PaymentIntent inside an error, when it came as an object.
pub fn intent_in(error: &ApiError) -> Option<&PaymentIntent> {
    match error.payment_intent.as_ref()? {
        Reference::Object(intent) => Some(intent),
        Reference::Id(_) | Reference::Other(_) => None,
    }
}

/// The id of the payment that an error names: its PaymentIntent, else its Charge.
pub fn payment_id_in(error: &ApiError) -> Option<String> {
    let intent = match &error.payment_intent {
        Some(Reference::Object(intent)) => intent.id.clone(),
        Some(Reference::Id(id)) => Some(id.clone()),
        Some(Reference::Other(_)) | None => None,
    };
    intent.or_else(|| match &error.charge {
        Some(Reference::Object(charge)) => charge.id.clone(),
        Some(Reference::Id(id)) => Some(id.clone()),
        Some(Reference::Other(_)) | None => None,
    })
}

pub(super) fn mark(metadata: &Option<HashMap<String, String>>, name: &str) -> Option<String> {
    metadata.as_ref()?.get(name).cloned()
}

/// Text from outside, bounded and without control characters: it goes into rows, answers and logs.
pub(super) fn clean(text: &str, max_chars: usize) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(max_chars)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str, decline_code: Option<&str>, message: &str) -> ApiError {
        ApiError {
            kind: Some("card_error".to_owned()),
            code: Some(code.to_owned()),
            decline_code: decline_code.map(str::to_owned),
            message: Some(message.to_owned()),
            ..ApiError::default()
        }
    }

    #[test]
    fn fraud_reasons_are_replaced_by_a_generic_sentence() {
        for reason in [
            "fraudulent",
            "stolen_card",
            "lost_card",
            "merchant_blacklist",
        ] {
            let error = error("card_declined", Some(reason), "Your card was stolen.");
            let failure = failure_of_error(FailureKind::Declined, &error);
            assert_eq!(failure.message.as_deref(), Some(GENERIC_DECLINE));
            assert_eq!(failure.decline_code.as_deref(), Some(reason));
        }
    }

    #[test]
    fn messages_are_bounded_and_lose_their_control_characters() {
        let long = format!("No\u{7} funds\r\n{}", "x".repeat(1_000));
        let failure = failure_of_error(
            FailureKind::Declined,
            &error("card_declined", Some("insufficient_funds"), &long),
        );
        let message = failure.message.expect("a message");
        assert!(message.starts_with("No fundsx"), "{message}");
        assert_eq!(message.chars().count(), MAX_MESSAGE_CHARS);
    }

    #[test]
    fn a_charge_that_is_not_paid_is_no_success() {
        let charge = Charge {
            id: Some("ch_1".to_owned()),
            status: Some("succeeded".to_owned()),
            paid: Some(false),
            amount: Some(5),
            currency: Some("USD".to_owned()),
            ..Charge::default()
        };
        let payment = payment_of_charge(&charge).expect("a payment");
        assert_eq!(
            payment.status,
            PaymentStatus::Other("succeeded, not paid".to_owned())
        );
        assert_eq!(payment.currency, "usd");
    }
}
