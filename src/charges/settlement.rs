//! What a provider's answer does to an attempt. Pure: outcomes, look-ups and `now` in, what to record out.
//!
//! Two rules stand above all others: an attempt is called failed only when it is certain that it took no money and
//! never will, and money that the provider took is recorded whatever else is wrong with it.

use super::model::{Charge, ChargeStatus};
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

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The money was taken by this payment.
    Succeeded(ProviderPayment),
    /// No money was taken, and none will be.
    Failed(Failure),
    /// The provider has it and no verdict yet.
    Processing(ProviderPayment),
    /// Something is wrong that only a person can judge.
    NeedsReview {
        /// The payment object, when known.
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

/// From this age of the first send on, a takeover looks before it sends again, in milliseconds.
const LOOK_FIRST_AFTER_MS: i64 = 3_600_000;

/// What the holder of an attempt's lease does first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstMove {
    /// Send the frozen request.
    Send,
    /// Ask for the payment, and send only where [`settles_before_sending`] finds nothing to settle on.
    LookThenSend,
    /// Ask for the payment; nothing may be sent any more.
    LookUp,
}

/// What to do first. A late takeover asks before it sends: a resend relies on two clocks that nobody compares, the
/// database's and the provider's; what is found needs neither.
pub fn first_move(reservation: &Reservation, recovery: Recovery, now_ms: i64) -> FirstMove {
    let is_late = reservation.takeovers > 0
        && is_older_than(reservation.first_sent_at_ms, LOOK_FIRST_AFTER_MS, now_ms);
    match recovery {
        Recovery::Resend if is_late => FirstMove::LookThenSend,
        Recovery::Resend => FirstMove::Send,
        Recovery::LookUp => FirstMove::LookUp,
    }
}

/// After a look that comes before a send: the plan when it found a payment that took money or still may; nothing where
/// the request is to be sent, because there is no payment or nobody can tell.
pub fn settles_before_sending(plan: Plan) -> Option<Plan> {
    match plan {
        Plan::Record(
            Verdict::Succeeded(_) | Verdict::Processing(_) | Verdict::NeedsReview { .. },
        ) => Some(plan),
        Plan::Record(Verdict::Failed(_) | Verdict::Unknown(_) | Verdict::Released(_))
        | Plan::LookUp(_)
        | Plan::Cancel { .. } => None,
    }
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

/// True when the provider is still at work on a payment, or holds funds for one.
fn others_may_pay(found: &[ProviderPayment]) -> bool {
    found.iter().any(|payment| {
        matches!(
            payment.status,
            PaymentStatus::Processing | PaymentStatus::RequiresCapture
        )
    })
}

/// No payment of the invoice has taken money, as of now. What still may is looked at first: no failure beside it counts.
fn without_success(found: &[ProviderPayment], charge: &Charge, context: &LookUpContext) -> Plan {
    if let Some(plan) = found
        .iter()
        .find_map(|payment| while_it_may_pay(payment, context))
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
fn while_it_may_pay(payment: &ProviderPayment, context: &LookUpContext) -> Option<Plan> {
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
        (PaymentStatus::Processing, _) | (PaymentStatus::RequiresAction, false) => {
            Some(Plan::Record(Verdict::Processing(payment.clone())))
        }
        (PaymentStatus::RequiresCapture, _) => {
            review("the provider holds the funds without having captured them".into())
        }
        (PaymentStatus::RequiresAction | PaymentStatus::RequiresConfirmation, true) => cancel(),
        (PaymentStatus::Other(status), true) => review(format!(
            "the payment has a status that is not known here: {status}"
        )),
        (PaymentStatus::RequiresConfirmation | PaymentStatus::Other(_), false) => {
            Some(Plan::Record(Verdict::Unknown(context.unknown.clone())))
        }
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

/// True for a payment that this attempt made, or was made on.
fn is_its_own(payment: &ProviderPayment, charge: &Charge) -> bool {
    payment.charge_key.as_deref() == Some(charge.idempotency_key.as_str())
        || charge.provider_payment_id.as_deref() == Some(payment.id.as_str())
}

/// True when the failure that a payment carries can only be this attempt's: it was made under this attempt's own key,
/// which executes once, or it was seen in the provider's hands for this attempt. A payment that an earlier attempt made
/// may still carry that attempt's failure.
fn is_this_attempts(payment: &ProviderPayment, charge: &Charge) -> bool {
    let made_by_it = payment.charge_key.as_deref() == Some(charge.idempotency_key.as_str());
    let was_processing = charge.status == ChargeStatus::Processing
        && charge.provider_payment_id.as_deref() == Some(payment.id.as_str());
    made_by_it || was_processing
}

/// What to record after a cancel, by the state that the payment has now.
pub fn after_cancel(payment: ProviderPayment, charge: &Charge, installation_id: &str) -> Verdict {
    match payment.status {
        PaymentStatus::Canceled => Verdict::Failed(Failure {
            kind: FailureKind::Canceled,
            code: "canceled_unfinished".into(),
            decline_code: None,
            advice_code: None,
            message: Some(
                "The payment was never completed and has been cancelled at the provider.".into(),
            ),
            payment_id: Some(payment.id),
            payment_open: false,
        }),
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

/// What in a payment contradicts the attempt. The answer of our own key need not carry the metadata (a stand-in may leave
/// them out); where it carries them, they must be ours.
fn mismatch(payment: &ProviderPayment, charge: &Charge, installation_id: &str) -> Option<String> {
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
    let contradicts =
        |found: &Option<String>, right: &str| found.as_deref().is_some_and(|found| found != right);
    if contradicts(&payment.invoice_id, &charge.invoice_id)
        || contradicts(&payment.installation_id, installation_id)
    {
        return Some(format!(
            "payment {} names another invoice or another installation",
            payment.id
        ));
    }
    None
}

/// What forbids to adopt a payment that was found, not answered: it must carry our metadata.
fn adoptable(payment: &ProviderPayment, charge: &Charge, installation_id: &str) -> Option<String> {
    let is = |found: &Option<String>, right: &str| found.as_deref() == Some(right);
    if !is(&payment.invoice_id, &charge.invoice_id)
        || !is(&payment.installation_id, installation_id)
    {
        return Some(format!(
            "payment {} does not carry this invoice's metadata",
            payment.id
        ));
    }
    mismatch(payment, charge, installation_id)
}

/// What is not known at the start of a takeover, and how the next one would find out. A look-up that was only brought
/// forward by a notice takes nobody's right to send again.
pub fn earlier_send(recovery: Recovery) -> Unknown {
    let reason = "the outcome of an earlier send is not known";
    match recovery {
        Recovery::Resend => Unknown::resend(reason),
        Recovery::LookUp => Unknown::look_up(reason),
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
