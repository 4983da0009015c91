//! What a call for a refund may do, given what is stored. Pure: a snapshot and `now` in, one step out.
//!
//! ```text
//!                      +--> succeeded ----> returned        (the bank sent it back)
//!   pending --+--------+
//!     ^  |    |        +--> failed                          (of the rest: the next attempt, under the next key;
//!     |  |    v        |                                     of a part: for ever, under the caller's key)
//!     |  |  processing-+           settled by webhook or look-up
//!     |  v             |
//!     | needs_review --+           a person decides
//!     +---- taken over, once the lease is past: same attempt, same key, same bytes
//! ```

use super::model::{Portion, Refund, RefundStatus, Refunded};
use super::repository::RefundSnapshot;
use crate::charges::lifecycle::{POLL_MS, VERDICT_WAIT_SECONDS};
use crate::charges::model::{ChargeStatus, Retry};
use crate::idempotency::decision::{Decision, decide};
use crate::idempotency::reservation::{Recovery, Reservation, StoredResponse};
use crate::payments::outcome::{Failure, FailureKind};

/// The provider's code for a payment of which nothing is left to give back (Stripe docs, Error codes).
pub const ALREADY_REFUNDED: &str = "charge_already_refunded";

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// All that is left.
    Rest,
    /// So much, in minor units.
    Part(i64),
}

/// What a call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Reserve this attempt and give money back.
    Start {
        /// Its number.
        attempt: i32,
        /// Minor units.
        amount_minor: i64,
    },
    /// The owner of the running attempt went silent: finish it.
    TakeOver(Recovery),
    /// Repeat the answer: of the success, or of the definitive failure of a part.
    Replay(StoredResponse),
    /// Somebody is at it right now.
    InProgress {
        /// Milliseconds after which it is worth asking again.
        retry_after_ms: i64,
    },
    /// The provider has it and no verdict yet.
    Processing,
    /// A person must decide.
    NeedsReview,
    /// The part had been given back, and the bank sent it back since.
    Returned,
    /// The header key was used for another refund.
    KeyReused,
    /// The charge took no money, or not yet.
    NotRefundable,
    /// More is asked for than is left.
    Exceeds {
        /// What is left, in minor units.
        rest_minor: i64,
    },
    /// The tables contradict each other; nothing may be done.
    Inconsistent(&'static str),
}

/// Decides what a call for a refund does, by the database's time. The key may be sent again for `key_window_ms` after its
/// first send.
pub fn next_step(
    snapshot: &RefundSnapshot,
    wanted: &Wanted,
    fingerprint: &str,
    key_window_ms: i64,
    now_ms: i64,
) -> NextStep {
    let reservation = snapshot.own.as_ref().map(|(_, reservation)| reservation);
    let decision = decide(reservation, fingerprint, now_ms, Some(key_window_ms));
    match (&snapshot.own, decision) {
        (None, Decision::Reserve) => start(snapshot, wanted, 1),
        (Some(_), Decision::Mismatch) if *wanted != Wanted::Rest => NextStep::KeyReused,
        (Some((refund, _)), Decision::Replay(response)) => match (&refund.status, wanted) {
            (RefundStatus::Succeeded, _) => NextStep::Replay(response.clone()),
            (RefundStatus::Returned(_), Wanted::Rest) => {
                start(snapshot, wanted, refund.attempt + 1)
            }
            (RefundStatus::Returned(_), Wanted::Part(_)) => NextStep::Returned,
            (
                RefundStatus::Pending
                | RefundStatus::Processing
                | RefundStatus::NeedsReview
                | RefundStatus::Failed(_),
                _,
            ) => NextStep::Inconsistent("a finished reservation has a refund that is not"),
        },
        (Some((refund, _)), Decision::Failed(response)) => match (&refund.status, wanted) {
            (RefundStatus::Failed(_), Wanted::Rest) => start(snapshot, wanted, refund.attempt + 1),
            (RefundStatus::Failed(_), Wanted::Part(_)) => NextStep::Replay(response.clone()),
            (
                RefundStatus::Pending
                | RefundStatus::Processing
                | RefundStatus::NeedsReview
                | RefundStatus::Succeeded
                | RefundStatus::Returned(_),
                _,
            ) => NextStep::Inconsistent("a failed reservation has a refund that has not failed"),
        },
        (Some((refund, _)), Decision::InProgress { lease_left_ms }) => {
            in_progress(refund, lease_left_ms)
        }
        (Some((refund, _)), Decision::TakeOver(recovery)) => take_over(refund, recovery),
        (_, _) => NextStep::Inconsistent("the reservation is not this refund's"),
    }
}

/// What the background worker, or whoever took notice of something, does about a refund: as a caller would, but nothing is
/// begun.
pub fn recovery_step(
    refund: &Refund,
    reservation: &Reservation,
    key_window_ms: i64,
    now_ms: i64,
) -> Option<NextStep> {
    let fingerprint = &reservation.fingerprint;
    match decide(Some(reservation), fingerprint, now_ms, Some(key_window_ms)) {
        Decision::InProgress { lease_left_ms } => Some(in_progress(refund, lease_left_ms)),
        Decision::TakeOver(recovery) => Some(take_over(refund, recovery)),
        Decision::Reserve | Decision::Mismatch | Decision::Replay(_) | Decision::Failed(_) => None,
    }
}

const UNSETTLED: &str = "a settled refund has a reservation in progress";

fn in_progress(refund: &Refund, lease_left_ms: i64) -> NextStep {
    match refund.status {
        RefundStatus::NeedsReview => NextStep::NeedsReview,
        RefundStatus::Processing => NextStep::Processing,
        // Its outcome is already known to be unknown: nothing will change before the lease is over.
        RefundStatus::Pending if refund.evidence.is_some() => NextStep::InProgress {
            retry_after_ms: lease_left_ms,
        },
        RefundStatus::Pending => NextStep::InProgress {
            retry_after_ms: lease_left_ms.min(POLL_MS),
        },
        RefundStatus::Succeeded | RefundStatus::Failed(_) | RefundStatus::Returned(_) => {
            NextStep::Inconsistent(UNSETTLED)
        }
    }
}

fn take_over(refund: &Refund, recovery: Recovery) -> NextStep {
    match refund.status {
        RefundStatus::NeedsReview => NextStep::NeedsReview,
        RefundStatus::Processing => NextStep::TakeOver(Recovery::LookUp),
        RefundStatus::Pending => NextStep::TakeOver(recovery),
        RefundStatus::Succeeded | RefundStatus::Failed(_) | RefundStatus::Returned(_) => {
            NextStep::Inconsistent(UNSETTLED)
        }
    }
}

/// A refund may begin on a charge that took the money, as long as there is room for it.
fn start(snapshot: &RefundSnapshot, wanted: &Wanted, attempt: i32) -> NextStep {
    match snapshot.charge.status {
        ChargeStatus::Succeeded => {}
        ChargeStatus::Pending
        | ChargeStatus::Processing
        | ChargeStatus::NeedsReview
        | ChargeStatus::Failed(_) => return NextStep::NotRefundable,
    }
    let rest_minor = snapshot.charge.amount_minor - snapshot.refunded_minor;
    let amount_minor = match wanted {
        Wanted::Rest => rest_minor,
        Wanted::Part(amount_minor) => *amount_minor,
    };
    if amount_minor <= 0 || amount_minor > rest_minor {
        return NextStep::Exceeds { rest_minor };
    }
    NextStep::Start {
        attempt,
        amount_minor,
    }
}

/// The two answers that every caller gets about a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefundOutlook {
    /// Was the money given back?
    pub refunded: Refunded,
    /// Should the call be repeated?
    pub retry: Retry,
    /// When, in seconds; only with [`Retry::Later`].
    pub retry_after_seconds: Option<i64>,
}

impl RefundOutlook {
    /// Nothing more is to come, or not by waiting.
    pub fn settled(refunded: Refunded, retry: Retry) -> Self {
        Self {
            refunded,
            retry,
            retry_after_seconds: None,
        }
    }

    /// The same call again after so many seconds.
    pub fn later(refunded: Refunded, seconds: i64) -> Self {
        Self {
            refunded,
            retry: Retry::Later,
            retry_after_seconds: Some(seconds),
        }
    }
}

/// What a refund's state means for its caller.
pub fn outlook(refund: &Refund) -> RefundOutlook {
    match &refund.status {
        RefundStatus::Pending => RefundOutlook::later(Refunded::Unknown, POLL_MS / 1_000),
        RefundStatus::Processing | RefundStatus::NeedsReview => {
            RefundOutlook::later(Refunded::Unknown, VERDICT_WAIT_SECONDS)
        }
        RefundStatus::Succeeded => RefundOutlook::settled(Refunded::Yes, Retry::NotNeeded),
        RefundStatus::Failed(failure) | RefundStatus::Returned(failure) => {
            after_failure(failure, &refund.portion)
        }
    }
}

/// The same call for a part repeats its failure; for the rest it is the next attempt.
fn after_failure(failure: &Failure, portion: &Portion) -> RefundOutlook {
    // Somebody gave it back at the provider, past our books.
    if failure.code == ALREADY_REFUNDED {
        return RefundOutlook::settled(Refunded::Yes, Retry::Never);
    }
    let retry = match (portion, failure.kind) {
        (Portion::Rest, FailureKind::Canceled | FailureKind::NeverExecuted) => Retry::Now,
        (Portion::Rest, FailureKind::Declined | FailureKind::Refused)
        | (Portion::Part { .. }, _) => Retry::AfterChange,
    };
    RefundOutlook::settled(Refunded::No, retry)
}

#[cfg(test)]
mod tests;
