//! What a caller is told about a refund: the stored answers and the problems. Pure: a refund in, text out.

use super::dto::RefundBody;
use super::lifecycle::{ALREADY_REFUNDED, RefundOutlook, outlook};
use super::model::{Portion, Refund, RefundStatus, Refunded};
use super::service::{RefundAnswer, RefundResult};
use crate::charges::answer::RESOLVED_AS_FAILED;
use crate::charges::model::{Charge, ChargeStatus, CustomerCharged, Retry};
use crate::error::{Code, Problem};
use crate::idempotency::reservation::StoredResponse;
use crate::money::words;
use crate::payments::outcome::{Failure, FailureKind};

/// The code of a refund over more than is left at the provider.
const EXCEEDS_PAYMENT: &str = "refund_exceeds_payment";

/// A problem of a refund whose charge took the money.
fn problem(code: Code, detail: impl Into<String>, outlook: RefundOutlook) -> Problem {
    Problem::new(code, detail)
        .customer_charged(CustomerCharged::Yes)
        .refund_outlook(outlook)
}

/// The answer that is stored with a success and repeated byte for byte.
pub fn succeeded(refund: &Refund) -> Result<StoredResponse, serde_json::Error> {
    Ok(StoredResponse {
        status: 201,
        location: Some(format!("/v1/refunds/{}", refund.id)),
        body: serde_json::to_string(&RefundBody::new(refund))?,
    })
}

/// The answer that is stored with a definitive failure.
pub fn failed(refund: &Refund, failure: &Failure) -> StoredResponse {
    let problem = refund_failed(refund, failure);
    StoredResponse {
        status: problem.code().status(),
        location: None,
        body: problem.to_body(),
    }
}

/// The problem of a refund that failed, or whose money came back.
pub fn refund_failed(refund: &Refund, failure: &Failure) -> Problem {
    let outlook = outlook(refund);
    let detail = format!(
        "{} {}",
        what_happened(refund, failure),
        advice(refund, failure, outlook)
    );
    problem(Code::RefundFailed, detail, outlook).refund(RefundBody::new(refund))
}

fn what_happened(refund: &Refund, failure: &Failure) -> &'static str {
    if matches!(refund.status, RefundStatus::Returned(_)) {
        return "The refund had succeeded, and the customer's bank sent the money back.";
    }
    if failure.code == ALREADY_REFUNDED {
        return "All of this payment was given back at the payment provider before, so this refund gave back nothing more.";
    }
    if failure.code == EXCEEDS_PAYMENT {
        return "Less is left of the payment at the payment provider than in these books, because part of it was given back past them; this refund gave back nothing.";
    }
    match failure.kind {
        FailureKind::Declined => "The payment provider could not give the money back.",
        FailureKind::Refused => "The payment provider refused the refund and gave nothing back.",
        FailureKind::Canceled if failure.code == RESOLVED_AS_FAILED => {
            "An operator has looked at this refund and ended it: nothing was given back."
        }
        FailureKind::Canceled => "The refund was cancelled and gave nothing back.",
        FailureKind::NeverExecuted => {
            "The payment provider has no trace of the refund, so nothing was given back."
        }
    }
}

fn advice(refund: &Refund, failure: &Failure, outlook: RefundOutlook) -> &'static str {
    if failure.code == EXCEEDS_PAYMENT {
        return "Ask for what is left there: amountCents, with a new Idempotency-Key.";
    }
    match (outlook.retry, &refund.portion) {
        (Retry::Never, _) => "Do not call again.",
        (Retry::Now, _) => "Call again with the same chargeId to start a new attempt.",
        (Retry::AfterChange, Portion::Rest) => {
            "Do not call again until an operator has looked at the cause; then the same call is a new attempt."
        }
        (Retry::AfterChange, Portion::Part { .. }) => {
            "The same Idempotency-Key repeats this answer; once the cause is mended, a new refund needs a new key."
        }
        (Retry::Later | Retry::NotNeeded, _) => "",
    }
}

/// The problem for a refund that somebody is working on.
pub fn in_progress(retry_after_seconds: i64) -> Problem {
    problem(
        Code::RefundInProgress,
        format!(
            "This refund is being made right now and the outcome is not known yet. Do not change the request; send it again in {retry_after_seconds} seconds to get the result."
        ),
        RefundOutlook::later(Refunded::Unknown, retry_after_seconds),
    )
}

/// The problem for a refund that a person must judge.
pub fn needs_review(refund: &Refund) -> Problem {
    problem(
        Code::RefundNeedsReview,
        "It is not certain whether the money was given back, and an operator has to decide. Do not give it back in any other way; call again later for the decision.",
        outlook(refund),
    )
    .refund(RefundBody::new(refund))
}

/// The problem for a part, while an earlier refund that had been given up has come to life and waits for a person: this call may
/// be meant to make up for that one.
pub fn came_late(held: &Refund) -> Problem {
    problem(
        Code::RefundNeedsReview,
        "An earlier refund of this charge was given up and has come to life at the payment provider since, so nothing was given back by this call. If this one was to replace it, do not send it again: call with the earlier key instead, once an operator has decided.",
        RefundOutlook::settled(Refunded::Unknown, Retry::AfterChange),
    )
    .refund(RefundBody::new(held))
}

/// The answer to a call for a refund that had been given up, and came to life after all.
pub fn of_late(late: &Refund) -> RefundResult {
    match &late.status {
        RefundStatus::Succeeded => Ok(RefundAnswer::Stored {
            response: succeeded(late).map_err(|error| {
                tracing::error!(%error, "an answer could not be written");
                Problem::internal()
            })?,
            replayed: true,
        }),
        RefundStatus::Failed(failure) | RefundStatus::Returned(failure) => {
            Err(refund_failed(late, failure))
        }
        RefundStatus::Pending | RefundStatus::Processing | RefundStatus::NeedsReview => {
            Err(needs_review(late))
        }
    }
}

/// The problem for a charge that is not there.
pub fn charge_not_found() -> Problem {
    Problem::new(
        Code::ChargeNotFound,
        "There is no charge with this id, so nothing was given back. Check the id; the charges of an invoice are listed at /v1/charges.",
    )
    .field("chargeId")
    .customer_charged(CustomerCharged::Unknown)
    .refund_outlook(RefundOutlook::settled(Refunded::No, Retry::AfterChange))
}

/// The problem for a charge that took no money, or not yet.
pub fn not_refundable(charge: &Charge, retry_after_seconds: i64) -> Problem {
    let (detail, charged, outlook) = match charge.status {
        ChargeStatus::Failed(_) => (
            "This charge has failed and took no money, so there is nothing to give back. Do not call again.",
            CustomerCharged::No,
            RefundOutlook::settled(Refunded::No, Retry::Never),
        ),
        ChargeStatus::Pending
        | ChargeStatus::Processing
        | ChargeStatus::NeedsReview
        | ChargeStatus::Succeeded => (
            "It is not known yet whether this charge took money, so nothing was given back. Call again once the charge has succeeded.",
            CustomerCharged::Unknown,
            RefundOutlook::later(Refunded::No, retry_after_seconds),
        ),
    };
    Problem::new(Code::ChargeNotRefundable, detail)
        .field("chargeId")
        .customer_charged(charged)
        .refund_outlook(outlook)
}

/// The problem for a charge that another provider took.
pub fn of_another_provider(charge: &Charge) -> Problem {
    problem(
        Code::ChargeNotRefundable,
        format!(
            "This charge was made with the payment provider {}, which is not the one that is set now, so nothing was given back. Ask the operator.",
            charge.provider
        ),
        RefundOutlook::settled(Refunded::No, Retry::AfterChange),
    )
    .field("chargeId")
}

/// The problem for a part that is larger than what is left.
pub fn exceeds(rest_minor: i64, currency: &str) -> Problem {
    let rest = words(rest_minor, currency);
    problem(
        Code::RefundExceedsCharge,
        format!(
            "Only {rest} (amountCents {rest_minor}) of this charge is left to give back, so nothing was given back by this call. Ask for no more than that, or look at the charge's refunds."
        ),
        RefundOutlook::settled(Refunded::No, Retry::AfterChange),
    )
    .field("amountCents")
}

/// The problem for a charge of which nothing is left: all of it was given back.
pub fn nothing_left() -> Problem {
    problem(
        Code::RefundExceedsCharge,
        "All of this charge has been given back by other refunds, so there is nothing left. Do not call again.",
        RefundOutlook::settled(Refunded::Yes, Retry::Never),
    )
    .field("chargeId")
}

/// The problem for a charge of which nothing is left as long as other refunds of it have no outcome.
pub fn nothing_left_yet(retry_after_seconds: i64) -> Problem {
    problem(
        Code::RefundInProgress,
        format!(
            "Other refunds of this charge are being made and nothing is left beside them. Call again in {retry_after_seconds} seconds to learn what became of them."
        ),
        RefundOutlook::later(Refunded::Unknown, retry_after_seconds),
    )
}

/// The problem for a part without the key that names it.
pub fn key_required() -> Problem {
    Problem::new(
        Code::IdempotencyKeyRequired,
        "A refund of a part needs an Idempotency-Key header, or a repetition could not be told from a second refund; nothing was given back. Send a key that is unique to this refund, such as the id of the task and its step.",
    )
    .field("Idempotency-Key")
}

/// The problem for a refund that is not there. A reservation that was given back is not there either.
pub fn refund_not_found() -> Problem {
    Problem::new(
        Code::RefundNotFound,
        "There is no refund with this id. Check the id, or list the refunds of the charge.",
    )
    .field("id")
    .customer_charged(CustomerCharged::Unknown)
    .refund_outlook(RefundOutlook::settled(
        Refunded::Unknown,
        Retry::AfterChange,
    ))
}

/// The problem for a provider that cannot be reached, when surely nothing was sent.
pub fn provider_unavailable(retry_after_seconds: i64) -> Problem {
    problem(
        Code::ProviderUnavailable,
        format!(
            "The payment provider could not be reached, nothing was sent and nothing was given back. Send the same request again in {retry_after_seconds} seconds."
        ),
        RefundOutlook::later(Refunded::No, retry_after_seconds),
    )
}

/// The problem for a decision about a refund that waits for none.
pub fn not_in_review(refund: &Refund) -> Problem {
    problem(
        Code::RefundNotInReview,
        "This refund is not waiting for a decision. Read it to see how it stands.",
        RefundOutlook::settled(outlook(refund).refunded, Retry::Never),
    )
}

/// The problem for a decision that contradicts what the provider shows.
pub fn resolution_contradicted(what: &str) -> Problem {
    problem(
        Code::ResolutionContradicted,
        format!(
            "{what} Look at the provider's dashboard; with force the decision is recorded all the same."
        ),
        RefundOutlook::settled(Refunded::Unknown, Retry::AfterChange),
    )
}

/// The problem for a decision that nothing was given back, over a refund that gave money back.
pub fn resolution_over_money(provider_refund_id: &str) -> Problem {
    problem(
        Code::ResolutionContradicted,
        format!(
            "Refund {provider_refund_id} has given the money back at the provider. Resolve the refund as succeeded by it."
        ),
        RefundOutlook::settled(Refunded::Yes, Retry::AfterChange),
    )
}

/// The problem for a decision that the provider could not be asked about.
pub fn resolution_unconfirmed(retry_after_seconds: i64) -> Problem {
    problem(
        Code::ProviderUnavailable,
        "The payment provider could not be asked whether this decision is right, so nothing was recorded. Send it again later; with force it is recorded without asking.",
        RefundOutlook::later(Refunded::Unknown, retry_after_seconds),
    )
}
