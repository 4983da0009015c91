//! What an answer of Stripe to a refund means for the money. PURE: the refunds' own part of the decision table; the
//! statuses that say nothing about refunds are in the table of the payments.
//!
//! The rule stands here, too: a failure is only said when it is certain that this refund gave nothing back.

use super::super::decision::{Dialect, bare, of_unknown_type, parse, unreadable};
use super::super::objects::{error_kind, failure_of_error};
use super::super::transport::HttpAnswer;
use super::super::wire::{ApiError, Refund};
use super::objects::refund_of;
use super::request::Asked;
use crate::payments::outcome::{Failure, FailureKind, Outcome, Unknown};
use crate::payments::refund::{ProviderRefund, RefundState};

/// All of the payment's money was given back before (Stripe docs, Error codes).
const ALREADY_REFUNDED: &str = "charge_already_refunded";
/// Our word for Stripe's 400 about `amount` that has no code: less is left than was asked for.
const EXCEEDS_REST: &str = "refund_exceeds_payment";

/// How the answers to a refund are read.
#[derive(Debug, Clone, Copy)]
pub struct RefundAnswer<'a> {
    /// What was asked for.
    pub asked: &'a Asked,
}

impl Dialect for RefundAnswer<'_> {
    type Object = ProviderRefund;

    fn read_success(self, answer: &HttpAnswer) -> Outcome<ProviderRefund> {
        let asked = Some(self.asked.payment_id.as_str());
        match parse::<Refund>(answer).and_then(|refund| refund_of(&refund, asked)) {
            Some(refund) => of_refund(refund),
            None => unreadable(answer),
        }
    }

    fn read_error(self, status: u16, error: &ApiError) -> Outcome<ProviderRefund> {
        let kind = error.kind.as_deref();
        let code = error.code.as_deref();
        if status == 400 && code.is_none() && error.param.as_deref() == Some("amount") {
            return Outcome::Failed(Failure {
                code: EXCEEDS_REST.to_owned(),
                ..failure_of_error(FailureKind::Declined, error)
            });
        }
        if code.is_some_and(is_verdict) || error_kind(error) == FailureKind::Declined {
            return Outcome::Failed(failure_of_error(FailureKind::Declined, error));
        }
        match kind {
            Some("invalid_request_error") => {
                Outcome::Failed(failure_of_error(FailureKind::Refused, error))
            }
            Some(_) | None => of_unknown_type(status, None),
        }
    }

    /// An error about a refund names the payment at most, and that is no refund.
    fn named_in(self, _error: &ApiError) -> Option<String> {
        None
    }
}

/// True for the codes that Stripe's books give while they execute a refund, and its key will give again. Any other code
/// may come from the check of the parameters, which says nothing about an earlier send.
fn is_verdict(code: &str) -> bool {
    matches!(
        code,
        ALREADY_REFUNDED
            | "charge_disputed"
            | "refund_disputed_payment"
            | "charge_not_refundable"
            | "balance_insufficient"
    )
}

/// True when the refund failed because the payment's money is already given back, by whomever.
pub fn was_given_back(failure: &Failure) -> bool {
    matches!(failure.code.as_str(), ALREADY_REFUNDED | EXCEEDS_REST)
}

/// A 200 is nothing without the object's own status (Stripe docs, The Refund object).
pub fn of_refund(refund: ProviderRefund) -> Outcome<ProviderRefund> {
    match refund.status {
        RefundState::Succeeded => Outcome::Succeeded(refund),
        RefundState::Pending | RefundState::RequiresAction => Outcome::Processing(refund),
        RefundState::Failed => ended(refund, FailureKind::Declined, "refund_failed"),
        RefundState::Canceled => ended(refund, FailureKind::Canceled, "refund_canceled"),
        // A state that did not exist when this was written: nothing may be concluded.
        RefundState::Other(state) => Outcome::Unknown(Unknown {
            payment_id: Some(refund.id),
            ..Unknown::look_up(format!("the refund is in the state {state}"))
        }),
    }
}

fn ended(refund: ProviderRefund, kind: FailureKind, code: &str) -> Outcome<ProviderRefund> {
    let id = refund.id;
    Outcome::Failed(refund.failure.unwrap_or_else(|| Failure {
        payment_id: Some(id),
        ..bare(kind, code)
    }))
}
