//! What a provider's answer does to an attempt. Pure: outcomes, look-ups and `now` in, what to record out.
//!
//! Two rules stand above all others: an attempt is called failed only when it is certain that it took no money and
//! never will, and money that the provider took is recorded whatever else is wrong with it.

use super::model::Charge;
use super::ownership::{adoptable, is_its_own, is_this_attempts, mismatch};
use crate::idempotency::decision::is_older_than;
use crate::idempotency::reservation::{Recovery, Reservation};
use crate::payments::outcome::{
    Failure, FailureKind, NextStep, NotExecuted, Outcome, PaymentStatus, ProviderPayment, Unknown,
};

/// What to do next about an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Record this.
    Record(Verdict),
    /// Ask the provider what became of the attempt.
    LookUp(Unknown),
    /// Close this payment, which nobody completed, and judge by its state after that.
    Cancel {
        /// The payment object.
        payment_id: String,
    },
}

/// What to record of an attempt: to take money by a payment, or to give it back by a refund; `P` is that object at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<P = ProviderPayment> {
    /// The money was moved by this object.
    Succeeded(P),
    /// No money was moved, and none will be.
    Failed(Failure),
    /// The provider has it and no verdict yet.
    Processing(P),
    /// Something is wrong that only a person can judge.
    NeedsReview {
        /// The object, when known: the payment, or the refund.
        payment_id: Option<String>,
        /// What is wrong.
        evidence: String,
    },
    /// No verdict: the attempt stays in progress for the next look.
    Unknown(Unknown),
    /// Nothing was executed and no earlier send of the attempt can have been: give the reservation back.
    Released(NotExecuted),
}

/// How a look-up came about, which decides what finding nothing means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookUpContext {
    /// Why the outcome was not known.
    pub unknown: Unknown,
    /// True when every send of the attempt is older than the provider's key window, so that none can still be executed
    /// and none will be made again.
    pub all_sends_are_old: bool,
    /// This installation's id.
    pub installation_id: String,
}

/// True when every send of the attempt is older than the key's window.
pub fn all_sends_are_old(reservation: &Reservation, window_ms: i64, now_ms: i64) -> bool {
    is_older_than(reservation.last_sent_at_ms, window_ms, now_ms)
}

/// What to do after a send. `sent_before` is true when an earlier owner may have sent the request.
pub fn after_send(
    outcome: Outcome,
    charge: &Charge,
    installation_id: &str,
    sent_before: bool,
) -> Plan {
    match outcome {
        Outcome::Succeeded(payment) => Plan::Record(accept(payment, charge, installation_id)),
        Outcome::Processing(payment) => {
            Plan::Record(match mismatch(&payment, charge, installation_id) {
                None => Verdict::Processing(payment),
                Some(evidence) => Verdict::NeedsReview {
                    payment_id: Some(payment.id),
                    evidence,
                },
            })
        }
        Outcome::Failed(failure) => Plan::Record(Verdict::Failed(failure)),
        Outcome::NotExecuted(reason) if sent_before => Plan::Record(Verdict::Unknown(
            Unknown::resend(format!("not executed this time: {}", reason.detail)),
        )),
        Outcome::NotExecuted(reason) => Plan::Record(Verdict::Released(reason)),
        Outcome::Unknown(unknown) => match unknown.next {
            NextStep::Resend => Plan::Record(Verdict::Unknown(unknown)),
            NextStep::LookUp | NextStep::LookUpElseReview => Plan::LookUp(unknown),
        },
    }
}

/// What to do after a look-up that was answered to the end. `found` holds the invoice's payments, newest first.
pub fn after_look_up(found: &[ProviderPayment], charge: &Charge, context: &LookUpContext) -> Plan {
    let paid: Vec<&ProviderPayment> = found
        .iter()
        .filter(|payment| payment.status == PaymentStatus::Succeeded)
        .collect();
    match paid.as_slice() {
        [] => without_success(found, charge, context),
        [payment] if others_may_pay(found) => Plan::Record(Verdict::NeedsReview {
            payment_id: Some(payment.id.clone()),
            evidence: format!(
                "payment {} took the money, and another payment of this invoice still may",
                payment.id
            ),
        }),
        // Its own send may take money yet, for all that is known.
        [payment] if !context.all_sends_are_old && !is_its_own(payment, charge) => {
            Plan::Record(Verdict::NeedsReview {
                payment_id: Some(payment.id.clone()),
                evidence: format!(
                    "payment {} of another attempt took the money, and what became of this attempt is not known",
                    payment.id
                ),
            })
        }
        [payment] => Plan::Record(match adoptable(payment, charge, &context.installation_id) {
            None => Verdict::Succeeded((*payment).clone()),
            Some(evidence) => Verdict::NeedsReview {
                payment_id: Some(payment.id.clone()),
                evidence,
            },
        }),
        [first, ..] => {
            let ids: Vec<&str> = paid.iter().map(|payment| payment.id.as_str()).collect();
            Plan::Record(Verdict::NeedsReview {
                payment_id: Some(first.id.clone()),
                evidence: format!(
                    "the provider took money for this invoice more than once: {}",
                    ids.join(", ")
                ),
            })
        }
    }
}

/// True when the provider is still at work on a payment, holds funds for one, or waits for the customer's consent.
fn others_may_pay(found: &[ProviderPayment]) -> bool {
    found.iter().any(|payment| {
        matches!(
            payment.status,
            PaymentStatus::Processing
                | PaymentStatus::RequiresCapture
                | PaymentStatus::RequiresAction
                | PaymentStatus::Other(_)
        )
    })
}

/// No payment of the invoice has taken money, as of now. What still may is looked at first: no failure beside it counts.
fn without_success(found: &[ProviderPayment], charge: &Charge, context: &LookUpContext) -> Plan {
    if let Some(plan) = found
        .iter()
        .find_map(|payment| while_it_may_pay(payment, charge, context))
    {
        return plan;
    }
    if let Some(payment) = found.iter().find(|payment| was_given_back(payment, charge)) {
        return Plan::Record(Verdict::NeedsReview {
            payment_id: Some(payment.id.clone()),
            evidence: format!(
                "payment {} took the money, and all of it was given back",
                payment.id
            ),
        });
    }
    let failed = found
        .iter()
        .filter(|payment| {
            let may_carry_one = matches!(
                payment.status,
                PaymentStatus::Failed | PaymentStatus::RequiresPaymentMethod
            );
            may_carry_one && is_this_attempts(payment, charge)
        })
        .find_map(|payment| payment.failure.clone());
    if let Some(failure) = failed {
        return Plan::Record(Verdict::Failed(failure));
    }
    // Its key stands for this payment, or its request confirms it: neither can take money any more.
    let is_closed = |payment: &&ProviderPayment| {
        payment.status == PaymentStatus::Canceled && is_its_own(payment, charge)
    };
    if let Some(closed) = found.iter().find(is_closed) {
        return Plan::Record(Verdict::Failed(canceled_unfinished(closed.id.clone())));
    }
    if context.all_sends_are_old
        && let Some(open) = found
            .iter()
            .find(|payment| payment.status == PaymentStatus::RequiresPaymentMethod)
    {
        return Plan::Cancel {
            payment_id: open.id.clone(),
        };
    }
    if context.all_sends_are_old {
        return Plan::Record(Verdict::Failed(never_executed(charge)));
    }
    if context.unknown.next == NextStep::LookUpElseReview {
        return Plan::Record(Verdict::NeedsReview {
            payment_id: context.unknown.payment_id.clone(),
            evidence: format!(
                "{}; the provider has no payment of this invoice",
                context.unknown.reason
            ),
        });
    }
    // An empty list proves nothing while a send may still be under way.
    Plan::Record(Verdict::Unknown(context.unknown.clone()))
}

/// What a payment that may still take money asks for; nothing for one that cannot by itself.
fn while_it_may_pay(
    payment: &ProviderPayment,
    charge: &Charge,
    context: &LookUpContext,
) -> Option<Plan> {
    let review = |evidence: String| {
        Some(Plan::Record(Verdict::NeedsReview {
            payment_id: Some(payment.id.clone()),
            evidence,
        }))
    };
    let cancel = || {
        Some(Plan::Cancel {
            payment_id: payment.id.clone(),
        })
    };
    match (&payment.status, context.all_sends_are_old) {
        (PaymentStatus::Processing, _) | (PaymentStatus::RequiresAction, false)
            if is_its_own(payment, charge) =>
        {
            Some(Plan::Record(Verdict::Processing(payment.clone())))
        }
        (PaymentStatus::RequiresCapture, _) => {
            review("the provider holds the funds without having captured them".into())
        }
        (PaymentStatus::RequiresAction | PaymentStatus::RequiresConfirmation, true) => cancel(),
        (PaymentStatus::Other(status), true) => review(format!(
            "the payment has a status that is not known here: {status}"
        )),
        // One that another attempt made is not taken for this one's: with it, its failure would be.
        (PaymentStatus::Processing, _)
        | (
            PaymentStatus::RequiresAction
            | PaymentStatus::RequiresConfirmation
            | PaymentStatus::Other(_),
            false,
        ) => Some(Plan::Record(Verdict::Unknown(context.unknown.clone()))),
        (
            PaymentStatus::RequiresPaymentMethod
            | PaymentStatus::Canceled
            | PaymentStatus::Failed
            | PaymentStatus::Refunded
            | PaymentStatus::Succeeded,
            _,
        ) => None,
    }
}

/// True when the attempt's own payment was refunded before anybody had recorded that it took the money. One of an earlier
/// attempt is none of this one's business: whoever refunded it knew why.
fn was_given_back(payment: &ProviderPayment, charge: &Charge) -> bool {
    payment.status == PaymentStatus::Refunded && is_its_own(payment, charge)
}

/// What to record after a cancel, by the state that the payment has now.
pub fn after_cancel(payment: ProviderPayment, charge: &Charge, installation_id: &str) -> Verdict {
    match payment.status {
        PaymentStatus::Canceled => Verdict::Failed(canceled_unfinished(payment.id)),
        PaymentStatus::Succeeded => accept(payment, charge, installation_id),
        PaymentStatus::Processing => Verdict::Processing(payment),
        PaymentStatus::RequiresAction
        | PaymentStatus::RequiresConfirmation
        | PaymentStatus::RequiresPaymentMethod
        | PaymentStatus::RequiresCapture
        | PaymentStatus::Failed
        | PaymentStatus::Refunded
        | PaymentStatus::Other(_) => Verdict::Unknown(Unknown {
            payment_id: Some(payment.id),
            ..Unknown::look_up("the provider did not confirm the cancel")
        }),
    }
}

fn canceled_unfinished(payment_id: String) -> Failure {
    Failure {
        kind: FailureKind::Canceled,
        code: "canceled_unfinished".into(),
        decline_code: None,
        advice_code: None,
        message: Some(
            "The payment was never completed and has been cancelled at the provider.".into(),
        ),
        payment_id: Some(payment_id),
        payment_open: false,
    }
}

fn never_executed(charge: &Charge) -> Failure {
    Failure {
        kind: FailureKind::NeverExecuted,
        code: "never_executed".into(),
        decline_code: None,
        advice_code: None,
        message: Some(
            "The provider has no trace of this attempt, and its key is too old to be used again."
                .into(),
        ),
        payment_id: charge.provider_payment_id.clone(),
        payment_open: false,
    }
}

/// A success that answers our own send.
fn accept(payment: ProviderPayment, charge: &Charge, installation_id: &str) -> Verdict {
    match mismatch(&payment, charge, installation_id) {
        None => Verdict::Succeeded(payment),
        Some(evidence) => Verdict::NeedsReview {
            payment_id: Some(payment.id),
            evidence,
        },
    }
}

/// How the next owner of an attempt without a verdict is to finish it.
pub fn recovery_of(unknown: &Unknown) -> Recovery {
    match unknown.next {
        NextStep::Resend => Recovery::Resend,
        NextStep::LookUp | NextStep::LookUpElseReview => Recovery::LookUp,
    }
}

#[cfg(test)]
mod tests;
