//! What an answer of Stripe means for the money. PURE: the decision table of this adapter.
//!
//! By status first, then code, then type, as the official SDKs do (Stripe docs, Low-level error handling). Two rules
//! stand over the table: an answer settles only the send that it answers (`outcome::after_unknown` applies that), and
//! a failure is only said when it is certain that no money was taken. All else is unknown.

use super::objects::{
    error_kind, failure_of_error, intent_in, intent_status, payment_id_in, payment_of_charge,
    payment_of_intent,
};
use super::request::{Endpoint, is_plain_id};
use super::transport::{HttpAnswer, TransportResult};
use super::wire::{ApiError, Charge, ErrorEnvelope, PaymentIntent, read_json};
use crate::payments::outcome::{
    Failure, FailureKind, NextStep, NotExecuted, NotExecutedReason, Outcome, PaymentStatus,
    ProviderPayment, Unknown,
};

/// One kind of request: what it makes, and what its own answers say. What all kinds share is in [`read`].
pub trait Dialect: Copy {
    /// What the request makes.
    type Object;

    /// A 2xx.
    fn read_success(self, answer: &HttpAnswer) -> Outcome<Self::Object>;

    /// A 400, 402 or 404 with an error object in it, about neither the key nor the rate of requests.
    fn read_error(self, status: u16, error: &ApiError) -> Outcome<Self::Object>;

    /// The object that an error names, of the kind that the request makes.
    fn named_in(self, error: &ApiError) -> Option<String>;
}

/// Reads the result of one send.
pub fn read<D: Dialect>(dialect: D, result: &TransportResult) -> Outcome<D::Object> {
    match result {
        TransportResult::NotSent(reason) => {
            not_executed(NotExecutedReason::Unreachable, reason.clone())
        }
        TransportResult::Lost(lost) => {
            let status = lost.head.as_ref().map(|(status, _)| *status);
            read_cut(status, &result.summary())
        }
        TransportResult::Answer(answer) => read_answer(dialect, answer),
    }
}

/// A failure that is repeated to what we take for the first send of all: the provider remembers a send that our books have
/// forgotten (a restored backup), and more may have happened since. All payments of the invoice are looked up.
pub fn first_send<P>(said: Outcome<P>, result: &TransportResult) -> Outcome<P> {
    match said {
        Outcome::Failed(failure) if result.headers().is_some_and(|headers| headers.replayed) => {
            Outcome::Unknown(Unknown::look_up(format!(
                "the key was answered before it was first sent from here ({})",
                failure.code
            )))
        }
        Outcome::Failed(_)
        | Outcome::Succeeded(_)
        | Outcome::Processing(_)
        | Outcome::NotExecuted(_)
        | Outcome::Unknown(_) => said,
    }
}

/// Nothing came, or a head whose body was cut. Only heads that are sent before execution say something.
fn read_cut<P>(status: Option<u16>, summary: &str) -> Outcome<P> {
    match status {
        Some(401 | 403) => not_executed(NotExecutedReason::Credentials, summary),
        Some(429) => not_executed(NotExecutedReason::RateLimited, summary),
        Some(500) => Outcome::Unknown(Unknown::look_up(summary)),
        Some(_) | None => Outcome::Unknown(Unknown::resend(summary)),
    }
}

fn read_answer<D: Dialect>(dialect: D, answer: &HttpAnswer) -> Outcome<D::Object> {
    let status = answer.status;
    let named = || {
        error_of(answer)
            .as_ref()
            .and_then(|error| dialect.named_in(error))
    };
    match status {
        200..=299 => dialect.read_success(answer),
        // In front of execution; says nothing about the payment (Stripe docs, Low-level error handling).
        401 => not_executed(NotExecutedReason::Credentials, "the key is not accepted"),
        403 => not_executed(NotExecutedReason::Credentials, "the key lacks a permission"),
        // The limiter, or a lock that was not free in time (Stripe docs, Rate limits).
        429 => not_executed(NotExecutedReason::RateLimited, "rate limited"),
        400 | 402 | 404 => match error_of(answer) {
            Some(error) => read_error(dialect, status, &error),
            // A proxy's page, not Stripe's word.
            None => Outcome::Unknown(Unknown::resend(format!("status {status}, unreadable"))),
        },
        // The twin of this send may be running at this moment.
        409 => Outcome::Unknown(Unknown {
            payment_id: named(),
            ..Unknown::resend("status 409: the key or the payment is in use")
        }),
        // Stored and replayed for ever; Stripe may still roll the payment forward or back.
        500 => Outcome::Unknown(Unknown {
            payment_id: named(),
            ..Unknown::look_up("status 500: indeterminate")
        }),
        _ => Outcome::Unknown(Unknown::resend(format!("status {status}"))),
    }
}

/// A 400, 402 or 404 with an error object in it.
fn read_error<D: Dialect>(dialect: D, status: u16, error: &ApiError) -> Outcome<D::Object> {
    if error.kind.as_deref() == Some("idempotency_error") {
        // The key is known there with other parameters: that first request may have moved money.
        return Outcome::Unknown(Unknown {
            next: NextStep::LookUpElseReview,
            ..Unknown::look_up("the key was used for another request")
        });
    }
    if status == 400 && error.code.as_deref() == Some("rate_limit") {
        return not_executed(NotExecutedReason::RateLimited, "rate limited");
    }
    dialect.read_error(status, error)
}

impl Dialect for Endpoint<'_> {
    type Object = ProviderPayment;

    fn read_success(self, answer: &HttpAnswer) -> Outcome {
        read_payment(self, answer)
    }

    fn read_error(self, status: u16, error: &ApiError) -> Outcome {
        read_payment_error(self, status, error)
    }

    fn named_in(self, error: &ApiError) -> Option<String> {
        payment_id_in(error)
    }
}

fn read_payment(endpoint: Endpoint<'_>, answer: &HttpAnswer) -> Outcome {
    let payment = match endpoint {
        Endpoint::CreateIntent | Endpoint::ConfirmIntent(_) => {
            parse::<PaymentIntent>(answer).and_then(|intent| payment_of_intent(&intent))
        }
        Endpoint::CreateCharge => {
            parse::<Charge>(answer).and_then(|charge| payment_of_charge(&charge))
        }
    };
    let Some(payment) = payment else {
        return unreadable(answer);
    };
    match endpoint {
        Endpoint::ConfirmIntent(id) if id != payment.id => Outcome::Unknown(Unknown::look_up(
            "the answer is about another payment than the one asked for",
        )),
        Endpoint::ConfirmIntent(_) | Endpoint::CreateIntent | Endpoint::CreateCharge => {
            of_payment(payment)
        }
    }
}

/// A 200 is nothing without the object's own status (Stripe docs, PaymentIntent lifecycle).
fn of_payment(payment: ProviderPayment) -> Outcome {
    match payment.status {
        PaymentStatus::Succeeded => Outcome::Succeeded(payment),
        PaymentStatus::Processing | PaymentStatus::RequiresAction => Outcome::Processing(payment),
        PaymentStatus::RequiresPaymentMethod => sibling_first(Outcome::Failed(left_open(payment))),
        PaymentStatus::Canceled => Outcome::Failed(canceled(Some(payment.id))),
        PaymentStatus::Failed => {
            let id = payment.id;
            let failure = payment.failure.unwrap_or_else(|| Failure {
                payment_id: Some(id),
                ..bare(FailureKind::Declined, "card_declined")
            });
            sibling_first(Outcome::Failed(failure))
        }
        // Held, not confirmed, given back, or a state that did not exist when this was written: nothing may be concluded.
        PaymentStatus::RequiresConfirmation
        | PaymentStatus::Refunded
        | PaymentStatus::RequiresCapture
        | PaymentStatus::Other(_) => look_up(&payment.status, Some(payment.id)),
    }
}

/// A PaymentIntent that waits for a payment method: a decline when the last error is one, else a refusal. A refusal
/// resolves no earlier send, so a stand-in that always answers this can never talk a real payment away.
fn left_open(payment: ProviderPayment) -> Failure {
    let declined = payment
        .failure
        .filter(|failure| failure.kind == FailureKind::Declined);
    declined.unwrap_or_else(|| Failure {
        payment_open: is_plain_id(&payment.id),
        payment_id: Some(payment.id),
        ..bare(FailureKind::Refused, "requires_payment_method")
    })
}

fn read_payment_error(endpoint: Endpoint<'_>, status: u16, error: &ApiError) -> Outcome {
    let kind = error.kind.as_deref();
    let code = error.code.as_deref();
    if status == 402 && error_kind(error) == FailureKind::Declined {
        return sibling_first(of_embedded(endpoint, status, error, FailureKind::Declined));
    }
    if code == Some("payment_intent_unexpected_state") {
        return unexpected_state(error);
    }
    match (status, kind) {
        // A confirm of a payment that has already succeeded answers this way at some stand-ins.
        (400, _) if code.is_none() && matches!(endpoint, Endpoint::ConfirmIntent(_)) => {
            Outcome::Unknown(Unknown {
                payment_id: payment_id_in(error),
                ..Unknown::look_up("the confirm was refused without a code")
            })
        }
        (_, Some("invalid_request_error")) => {
            of_embedded(endpoint, status, error, FailureKind::Refused)
        }
        (_, _) => of_unknown_type(status, payment_id_in(error)),
    }
}

/// An error of a type that did not exist when this was written.
pub(super) fn of_unknown_type<P>(status: u16, payment_id: Option<String>) -> Outcome<P> {
    Outcome::Unknown(Unknown {
        payment_id,
        ..Unknown::resend(format!("status {status} with an error of unknown type"))
    })
}

/// A 2xx whose body is not what it should be: the same key says it again.
pub(super) fn unreadable<P>(answer: &HttpAnswer) -> Outcome<P> {
    Outcome::Unknown(Unknown::resend(format!(
        "status {}, unreadable",
        answer.status
    )))
}

/// A failure, provided that the PaymentIntent inside the error, when there is one, agrees that no money was taken.
fn of_embedded(
    endpoint: Endpoint<'_>,
    status: u16,
    error: &ApiError,
    kind: FailureKind,
) -> Outcome {
    let failure = |payment_id, payment_open| {
        Outcome::Failed(Failure {
            payment_id,
            payment_open,
            ..failure_of_error(kind, error)
        })
    };
    let found = intent_in(error).and_then(|intent| intent.status.as_deref());
    let Some(state) = found.map(intent_status) else {
        return match endpoint {
            // The payment that was confirmed is still there; a 404 may mean that it never was.
            Endpoint::ConfirmIntent(id) if status != 404 => failure(Some(id.to_owned()), true),
            Endpoint::ConfirmIntent(_) | Endpoint::CreateIntent | Endpoint::CreateCharge => {
                failure(payment_id_in(error), false)
            }
        };
    };
    let id = payment_id_in(error);
    match state {
        PaymentStatus::RequiresPaymentMethod => {
            let open = id.as_deref().is_some_and(is_plain_id);
            failure(id, open)
        }
        PaymentStatus::Canceled | PaymentStatus::Failed => failure(id, false),
        // An error beside a payment that took money, or still may: neither of the two is believed.
        PaymentStatus::RequiresConfirmation
        | PaymentStatus::Succeeded
        | PaymentStatus::Refunded
        | PaymentStatus::Processing
        | PaymentStatus::RequiresAction
        | PaymentStatus::RequiresCapture
        | PaymentStatus::Other(_) => look_up(&state, id),
    }
}

/// `payment_intent_unexpected_state` carries the PaymentIntent. One that has succeeded is a "paid", not a failure.
fn unexpected_state(error: &ApiError) -> Outcome {
    let doubt = || {
        Outcome::Unknown(Unknown {
            payment_id: payment_id_in(error),
            ..Unknown::look_up("the payment is in a state that the request did not expect")
        })
    };
    let Some(intent) = intent_in(error) else {
        return doubt();
    };
    match intent.status.as_deref().map(intent_status) {
        Some(PaymentStatus::Canceled) => Outcome::Failed(canceled(intent.id.clone())),
        Some(PaymentStatus::Succeeded) => {
            payment_of_intent(intent).map_or_else(doubt, Outcome::Succeeded)
        }
        Some(PaymentStatus::Processing) => {
            payment_of_intent(intent).map_or_else(doubt, Outcome::Processing)
        }
        Some(
            PaymentStatus::RequiresAction
            | PaymentStatus::RequiresConfirmation
            | PaymentStatus::RequiresPaymentMethod
            | PaymentStatus::RequiresCapture
            | PaymentStatus::Failed
            | PaymentStatus::Refunded
            | PaymentStatus::Other(_),
        )
        | None => doubt(),
    }
}

/// `duplicate_transaction`: the bank has seen the same amount on the same card a moment ago (Stripe docs, Decline
/// codes). That may be a payment of this very invoice, so all of the invoice's payments are looked up, which is why
/// no payment is named here but in the text.
fn sibling_first(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(failure)
            if failure.decline_code.as_deref() == Some("duplicate_transaction")
                || failure.code == "duplicate_transaction" =>
        {
            Outcome::Unknown(Unknown::look_up(format!(
                "declined as a duplicate transaction ({})",
                failure.payment_id.as_deref().unwrap_or("no payment named")
            )))
        }
        Outcome::Failed(_)
        | Outcome::Succeeded(_)
        | Outcome::Processing(_)
        | Outcome::NotExecuted(_)
        | Outcome::Unknown(_) => outcome,
    }
}

fn look_up(status: &PaymentStatus, payment_id: Option<String>) -> Outcome {
    Outcome::Unknown(Unknown {
        reason: format!("the payment is in the state {status:?}"),
        payment_id,
        next: NextStep::LookUp,
    })
}

fn not_executed<P>(reason: NotExecutedReason, detail: impl Into<String>) -> Outcome<P> {
    Outcome::NotExecuted(NotExecuted {
        reason,
        detail: detail.into(),
    })
}

fn canceled(payment_id: Option<String>) -> Failure {
    Failure {
        payment_id,
        ..bare(FailureKind::Canceled, "payment_canceled")
    }
}

pub(super) fn bare(kind: FailureKind, code: &str) -> Failure {
    Failure {
        kind,
        code: code.to_owned(),
        decline_code: None,
        advice_code: None,
        message: None,
        payment_id: None,
        payment_open: false,
    }
}

fn error_of(answer: &HttpAnswer) -> Option<ApiError> {
    parse::<ErrorEnvelope>(answer).map(|envelope| envelope.error)
}

/// A body as JSON; `None` for anything that is not what it should be.
pub fn parse<T: serde::de::DeserializeOwned>(answer: &HttpAnswer) -> Option<T> {
    read_json(&answer.body)
}
