//! What a provider's answer does to a refund. Pure: outcomes, look-ups and `now` in, what to record out.
//!
//! The two rules of the charges hold here: a refund is called failed only when it is certain that it gave nothing back and
//! never will, and money that was given back is recorded whatever else is wrong with it. What is simpler: a refund at the
//! provider carries the key of the one that made it, so that it is never another one's.

use super::model::Refund;
use crate::charges::settlement::{self, LookUpContext};
use crate::payments::outcome::{Failure, FailureKind, NextStep, Outcome, Unknown};
use crate::payments::refund::{ProviderRefund, RefundState};

/// What to do next about a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Record this.
    Record(Verdict),
    /// Ask the provider what became of it.
    LookUp(Unknown),
}

/// What to record.
pub type Verdict = settlement::Verdict<ProviderRefund>;

/// A refund of ours, and what one at the provider must have to be it.
#[derive(Debug, Clone, Copy)]
pub struct Ours<'a> {
    /// The refund.
    pub refund: &'a Refund,
    /// The provider's id of the payment that took the charge's money.
    pub payment_id: &'a str,
    /// This installation's id.
    pub installation_id: &'a str,
}

impl Ours<'_> {
    /// True for a refund at the provider that was made under this one's key, or that is known to be its own. One that was
    /// made by another installation, by another program or by hand is none of its business.
    pub fn is(&self, found: &ProviderRefund) -> bool {
        let is_anothers = found
            .installation_id
            .as_deref()
            .is_some_and(|id| id != self.installation_id);
        let has_key = found.refund_key.as_deref() == Some(self.refund.idempotency_key.as_str());
        let is_known = self.refund.provider_refund_id.as_deref() == Some(found.id.as_str());
        has_key && !is_anothers || is_known
    }

    /// What in it contradicts this one. The answer of our own key need not carry the metadata (a stand-in may leave them
    /// out); where it carries them, they must be ours.
    pub fn mismatch(&self, found: &ProviderRefund) -> Option<String> {
        self.other_money(found).or_else(|| {
            differs(&found.refund_key, &self.refund.idempotency_key)
                .then(|| format!("refund {} was made under another key", found.id))
        })
    }

    /// What in it says that it gives other money back than this one asks for.
    pub fn other_money(&self, found: &ProviderRefund) -> Option<String> {
        let refund = self.refund;
        if found.amount_minor != refund.amount_minor || found.currency != refund.currency {
            return Some(format!(
                "refund {} is over {} {} instead of {} {}",
                found.id, found.amount_minor, found.currency, refund.amount_minor, refund.currency
            ));
        }
        if differs(&found.payment_id, self.payment_id) {
            return Some(format!("refund {} gives another payment back", found.id));
        }
        let is_marked_otherwise = differs(&found.charge_id, &refund.charge_id)
            || differs(&found.installation_id, self.installation_id);
        is_marked_otherwise.then(|| {
            format!(
                "refund {} names another charge or another installation",
                found.id
            )
        })
    }

    /// True for one that settles this refund even where no other could be looked at.
    pub fn proves_success_alone(&self, found: &ProviderRefund) -> bool {
        found.status == RefundState::Succeeded && self.is(found)
    }
}

/// True for a mark that is there and is not ours.
fn differs(mark: &Option<String>, own: &str) -> bool {
    mark.as_deref().is_some_and(|mark| mark != own)
}

/// What to do after a send. `sent_before` is true when an earlier owner may have sent the request.
pub fn after_send(outcome: Outcome<ProviderRefund>, ours: Ours<'_>, sent_before: bool) -> Plan {
    let unless_mismatched = |found: ProviderRefund, verdict: fn(ProviderRefund) -> Verdict| {
        Plan::Record(match ours.mismatch(&found) {
            None => verdict(found),
            Some(evidence) => review(&found, evidence),
        })
    };
    match outcome {
        Outcome::Succeeded(found) => unless_mismatched(found, Verdict::Succeeded),
        Outcome::Processing(found) => unless_mismatched(found, Verdict::Processing),
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

/// What to record after a look-up that was answered to the end. `found` holds the payment's refunds, newest first.
pub fn after_look_up(found: &[ProviderRefund], ours: Ours<'_>, context: &LookUpContext) -> Verdict {
    let own: Vec<&ProviderRefund> = found.iter().filter(|found| ours.is(found)).collect();
    let live: Vec<&ProviderRefund> = own
        .iter()
        .copied()
        .filter(|found| gives_money(&found.status))
        .collect();
    match (live.as_slice(), own.as_slice()) {
        ([one], _) => judged(one, ours, context),
        ([first, ..], _) => {
            let ids: Vec<&str> = live.iter().map(|found| found.id.as_str()).collect();
            let evidence = format!(
                "the provider gave money back for this refund more than once: {}",
                ids.join(", ")
            );
            review(first, evidence)
        }
        ([], [newest, ..]) => judged(newest, ours, context),
        ([], []) => nothing_found(ours.refund, context),
    }
}

/// True for one that gave money back, or may without anybody's doing.
pub fn gives_money(state: &RefundState) -> bool {
    match state {
        RefundState::Succeeded
        | RefundState::Pending
        | RefundState::RequiresAction
        | RefundState::Other(_) => true,
        RefundState::Failed | RefundState::Canceled => false,
    }
}

/// By the state of the one that is its own.
fn judged(found: &ProviderRefund, ours: Ours<'_>, context: &LookUpContext) -> Verdict {
    let checked = |verdict: fn(ProviderRefund) -> Verdict| match ours.mismatch(found) {
        None => verdict(found.clone()),
        Some(evidence) => review(found, evidence),
    };
    match &found.status {
        RefundState::Succeeded => checked(Verdict::Succeeded),
        RefundState::Pending | RefundState::RequiresAction => checked(Verdict::Processing),
        RefundState::Failed => Verdict::Failed(failure_of(found, FailureKind::Declined)),
        RefundState::Canceled => Verdict::Failed(failure_of(found, FailureKind::Canceled)),
        RefundState::Other(state) if context.all_sends_are_old => review(
            found,
            format!("the refund has a state that is not known here: {state}"),
        ),
        RefundState::Other(_) => Verdict::Unknown(Unknown {
            payment_id: Some(found.id.clone()),
            ..context.unknown.clone()
        }),
    }
}

fn nothing_found(refund: &Refund, context: &LookUpContext) -> Verdict {
    if context.all_sends_are_old && refund.provider_refund_id.is_some() {
        return Verdict::NeedsReview {
            payment_id: refund.provider_refund_id.clone(),
            evidence: "the provider had told of this refund, and shows it no more".to_owned(),
        };
    }
    if context.all_sends_are_old {
        return Verdict::Failed(Failure {
            message: Some(
                "The provider has no trace of this refund, and its key is too old to be used again."
                    .into(),
            ),
            ..bare(FailureKind::NeverExecuted, "never_executed", refund.provider_refund_id.clone())
        });
    }
    if context.unknown.next == NextStep::LookUpElseReview {
        return Verdict::NeedsReview {
            payment_id: context.unknown.payment_id.clone(),
            evidence: format!(
                "{}; the provider has no such refund of this payment",
                context.unknown.reason
            ),
        };
    }
    // An empty list proves nothing while a send may still be under way.
    Verdict::Unknown(context.unknown.clone())
}

/// The failure that a refund at the provider carries, in our words where it says none.
pub fn failure_of(found: &ProviderRefund, kind: FailureKind) -> Failure {
    let code = match kind {
        FailureKind::Canceled => "refund_canceled",
        FailureKind::Declined | FailureKind::Refused | FailureKind::NeverExecuted => {
            "refund_failed"
        }
    };
    let told = found.failure.clone();
    Failure {
        payment_id: Some(found.id.clone()),
        ..told.unwrap_or_else(|| bare(kind, code, None))
    }
}

/// A failure without the provider's words.
pub fn bare(kind: FailureKind, code: &str, refund_id: Option<String>) -> Failure {
    Failure {
        kind,
        code: code.into(),
        decline_code: None,
        advice_code: None,
        message: None,
        payment_id: refund_id,
        payment_open: false,
    }
}

fn review(found: &ProviderRefund, evidence: String) -> Verdict {
    Verdict::NeedsReview {
        payment_id: Some(found.id.clone()),
        evidence,
    }
}

#[cfg(test)]
mod tests;
