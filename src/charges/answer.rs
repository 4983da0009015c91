//! What a caller is told about a charge: the stored answers and the problems. Pure: a charge and a policy in, text out.

use super::dto::ChargeBody;
use super::lifecycle::{Outlook, RetryPolicy, outlook, seconds_up};
use super::model::{Charge, CustomerCharged, Retry};
use crate::access::limits::OverLimit;
use crate::error::{Code, Problem};
use crate::idempotency::reservation::StoredResponse;
use crate::money::words;
use crate::payments::outcome::{Failure, FailureKind};

/// The failure's code of a charge that an operator has ended as failed.
pub const RESOLVED_AS_FAILED: &str = "resolved_as_failed";

/// The answer that is stored with a success and repeated byte for byte.
pub fn succeeded(
    charge: &Charge,
    policy: &RetryPolicy,
) -> Result<StoredResponse, serde_json::Error> {
    Ok(StoredResponse {
        status: 201,
        location: Some(format!("/v1/charges/{}", charge.id)),
        body: serde_json::to_string(&ChargeBody::new(charge, policy))?,
    })
}

/// The answer that is stored with a definitive failure.
pub fn failed(charge: &Charge, failure: &Failure, policy: &RetryPolicy) -> StoredResponse {
    let (code, sentence) = match failure.kind {
        FailureKind::Declined => (
            Code::ChargeDeclined,
            "The payment was declined and the customer was not charged.",
        ),
        FailureKind::Refused => (
            Code::ChargeRefused,
            "The payment provider refused the request and the customer was not charged.",
        ),
        FailureKind::Canceled if failure.code == RESOLVED_AS_FAILED => (
            Code::ChargeCanceled,
            "An operator has looked at this payment and ended it: the customer was not charged, or has the money back.",
        ),
        FailureKind::Canceled => (
            Code::ChargeCanceled,
            "The payment was cancelled before it took money, so the customer was not charged.",
        ),
        FailureKind::NeverExecuted => (
            Code::ChargeNeverExecuted,
            "The payment provider has no trace of the attempt, so the customer was not charged.",
        ),
    };
    let outlook = outlook(charge, policy);
    let detail = format!("{sentence} {}", advice(failure.kind, outlook));
    let problem = Problem::new(code, detail)
        .outlook(outlook)
        .charge(ChargeBody::new(charge, policy));
    StoredResponse {
        status: code.status(),
        location: None,
        body: problem.to_body(),
    }
}

fn advice(kind: FailureKind, outlook: Outlook) -> String {
    match (outlook.retry, kind) {
        (Retry::Never, _) => "All attempts for this invoice are used up; do not call again.".into(),
        (Retry::AfterChange, FailureKind::Declined) => {
            "Do not call again until the customer has corrected or changed the payment method."
                .into()
        }
        (Retry::AfterChange, _) => {
            "Do not call again until the operator has corrected the customer or the request.".into()
        }
        (Retry::Now, _) => "Call again with the same invoiceId to start a new attempt.".into(),
        (Retry::Later, _) => match outlook.retry_after_seconds {
            Some(seconds) => {
                format!("A new attempt makes sense in {seconds} seconds at the earliest.")
            }
            None => "A new attempt makes sense later.".into(),
        },
        (Retry::NotNeeded, _) => String::new(),
    }
}

/// The problem for a hard decline whose payment method has not been changed.
pub fn retry_not_advised(charge: &Charge, policy: &RetryPolicy) -> Problem {
    Problem::new(
        Code::RetryNotAdvised,
        "The last attempt was declined for good and the customer was not charged. Do not call again until the invoice has another payment method.",
    )
    .charge(ChargeBody::new(charge, policy))
}

/// The problem for an invoice without attempts left.
pub fn attempts_exhausted(charge: &Charge, policy: &RetryPolicy) -> Problem {
    Problem::new(
        Code::AttemptsExhausted,
        "The customer was not charged and all attempts for this invoice are used up. Do not call again; ask the customer to pay another way.",
    )
    .never(CustomerCharged::No)
    .charge(ChargeBody::new(charge, policy))
}

/// The problem for a charge that somebody is working on.
pub fn in_progress(retry_after_seconds: i64) -> Problem {
    Problem::new(
        Code::ChargeInProgress,
        format!(
            "This invoice is being charged right now and the outcome is not known yet. Do not change the request; send it again in {retry_after_seconds} seconds to get the result."
        ),
    )
    .later(CustomerCharged::Unknown, retry_after_seconds)
}

/// The problem for a charge that a person must judge.
pub fn needs_review(charge: &Charge, policy: &RetryPolicy) -> Problem {
    Problem::new(
        Code::ChargeNeedsReview,
        "It is not certain whether the customer was charged, and an operator has to decide. Do not charge the customer in any other way; call again later for the decision.",
    )
    .outlook(outlook(charge, policy))
    .charge(ChargeBody::new(charge, policy))
}

/// The problem for a void invoice.
pub fn not_chargeable() -> Problem {
    Problem::new(
        Code::InvoiceNotChargeable,
        "This invoice is void and will not be charged. Do not call again.",
    )
    .never(CustomerCharged::No)
}

/// The problem for an invoice that is not there.
pub fn invoice_not_found() -> Problem {
    Problem::new(
        Code::InvoiceNotFound,
        "There is no invoice with this id. Check the id, or create the invoice first.",
    )
    .field("invoiceId")
}

/// The problem for a charge that is not there. A reservation that was given back is not there either, and its invoice may
/// have been charged by a later one.
pub fn charge_not_found() -> Problem {
    Problem::new(
        Code::ChargeNotFound,
        "There is no charge with this id. Check the id, or charge the invoice again to learn what became of it.",
    )
    .field("id")
    .outlook(Outlook {
        customer_charged: CustomerCharged::Unknown,
        retry: Retry::AfterChange,
        retry_after_seconds: None,
    })
}

/// The problem for a provider that cannot be reached, when surely nothing was sent.
pub fn provider_unavailable(retry_after_seconds: i64) -> Problem {
    Problem::new(
        Code::ProviderUnavailable,
        format!(
            "The payment provider could not be reached, nothing was sent and the customer was not charged. Send the same request again in {retry_after_seconds} seconds."
        ),
    )
    .later(CustomerCharged::No, retry_after_seconds)
}

/// The problem for an invoice whose earlier attempt was given up without the provider's answer, while the provider cannot be asked
/// for its payment: whether it took money after all is not known.
pub fn cannot_be_looked_for(retry_after_seconds: i64) -> Problem {
    Problem::new(
        Code::ProviderUnavailable,
        format!(
            "The payment provider could not be asked whether an earlier attempt was paid after all, so nothing was sent by this call. Send the same request again in {retry_after_seconds} seconds; do not charge the customer in any other way."
        ),
    )
    .later(CustomerCharged::Unknown, retry_after_seconds)
}

/// The problem for a customer without a chargeable payment method.
pub fn no_payment_method() -> Problem {
    Problem::new(
        Code::NoPaymentMethod,
        "The customer is not known to the payment provider or has no payment method, so nothing was charged. Set a payment method on the invoice, then call again.",
    )
}

/// The problem for a charge that is over a limit of the caller's key. Its invoice has no charge that took money or may.
pub fn limit_exceeded(currency: &str, over: OverLimit) -> Problem {
    let problem = |detail: String| Problem::new(Code::LimitExceeded, detail);
    let code = currency.to_ascii_uppercase();
    match over {
        OverLimit::Currency => problem(format!(
            "This API key has no limit for {code} and may not charge in it, so nothing was charged. Do not call again; ask the operator to charge this invoice."
        )),
        OverLimit::Charge { limit_minor } => problem(format!(
            "This charge is over the limit of {} for this API key, so nothing was charged. Do not call again; ask the operator to charge this invoice.",
            words(limit_minor, currency)
        )),
        OverLimit::Day {
            limit_minor,
            left_ms,
        } => {
            let seconds = seconds_up(left_ms).max(1);
            problem(format!(
                "With this charge the API key would be over its limit of {} a day, so nothing was charged. Call again in {seconds} seconds, when the next day (UTC) begins, or ask the operator.",
                words(limit_minor, currency)
            ))
            .later(CustomerCharged::No, seconds)
        }
    }
}

/// The problem for a decision that contradicts what the provider shows.
pub fn resolution_contradicted(what: &str) -> Problem {
    Problem::new(
        Code::ResolutionContradicted,
        format!(
            "{what} Look at the provider's dashboard; with force the decision is recorded all the same."
        ),
    )
    .outlook(Outlook {
        customer_charged: CustomerCharged::Unknown,
        retry: Retry::AfterChange,
        retry_after_seconds: None,
    })
}

/// The problem for a decision that the customer was not charged, over a payment that took the money and kept it.
pub fn resolution_over_money(payment_id: &str) -> Problem {
    Problem::new(
        Code::ResolutionContradicted,
        format!(
            "Payment {payment_id} of this invoice has taken the money. Refund it at the provider first, or resolve the charge as succeeded by it."
        ),
    )
    .outlook(Outlook {
        customer_charged: CustomerCharged::Yes,
        retry: Retry::AfterChange,
        retry_after_seconds: None,
    })
}

/// The problem for a decision that the provider could not be asked about.
pub fn resolution_unconfirmed(retry_after_seconds: i64) -> Problem {
    Problem::new(
        Code::ProviderUnavailable,
        "The payment provider could not be asked whether this decision is right, so nothing was recorded. Send it again later; with force it is recorded without asking.",
    )
    .later(CustomerCharged::Unknown, retry_after_seconds)
}
