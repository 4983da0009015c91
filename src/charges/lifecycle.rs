//! What a call for an invoice may do, given what is stored. Pure: a snapshot, a policy and `now` in, one step out.
//!
//! ```text
//!                      +--> succeeded                       (for ever: every call replays it)
//!   pending --+--------+
//!     ^  |    |        +--> failed --> the next attempt, under the next key, if the retry policy allows it
//!     |  |    v        |
//!     |  |  processing-+           asynchronous methods: settled by webhook or look-up
//!     |  v             |
//!     | needs_review --+           a person decides
//!     +---- taken over, once the lease is past: same attempt, same key, same bytes
//! ```

use super::model::{Charge, ChargeStatus, CustomerCharged, Retry};
use super::repository::ChargeSnapshot;
use crate::idempotency::decision::{Decision, decide};
use crate::idempotency::reservation::{Recovery, Reservation, StoredResponse};
use crate::invoices::model::{Invoice, InvoiceStatus};
use crate::payments::declines::{DeclineClass, classify};
use crate::payments::outcome::{Failure, FailureKind};

/// How long a caller is asked to wait for a charge that is being worked on, in milliseconds.
pub(crate) const POLL_MS: i64 = 2_000;

/// How long a caller is advised to wait after a decline that time may cure, in seconds, where no cooldown is set.
const DECLINE_WAIT_SECONDS: i64 = 3_600;

/// How long a caller is asked to wait while the provider has no verdict or a person must decide, in seconds.
pub(crate) const VERDICT_WAIT_SECONDS: i64 = 60;

/// The rules after a failed attempt, and the provider's key window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts for an invoice at most.
    pub attempts_max: i32,
    /// After a failed attempt, a repeated call within this time replays the failure (milliseconds; 0: none).
    pub cooldown_ms: i64,
    /// How long after the first send the same key may be sent again (milliseconds).
    pub key_window_ms: i64,
}

/// What a call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Reserve this attempt and charge.
    Start {
        /// Its number.
        attempt: i32,
        /// The payment object that the last attempt left open.
        open_payment_id: Option<String>,
    },
    /// The owner of the running attempt went silent: finish it.
    TakeOver(Recovery),
    /// Repeat the answer of the success.
    Replay(StoredResponse),
    /// Within the cooldown: repeat the answer of the failure.
    ReplayFailure {
        /// The answer.
        response: StoredResponse,
        /// Milliseconds until another attempt may be made.
        retry_after_ms: i64,
    },
    /// A hard decline of the same payment method: another attempt would be refused and might be fined.
    NotAdvised,
    /// All attempts are used up.
    Exhausted,
    /// Somebody is charging it right now.
    InProgress {
        /// Milliseconds after which it is worth asking again.
        retry_after_ms: i64,
    },
    /// The provider has it and no verdict yet.
    Processing,
    /// A person must decide.
    NeedsReview,
    /// The invoice is void.
    NotChargeable,
    /// The tables contradict each other; nothing may be done.
    Inconsistent(&'static str),
}

/// Decides what a call for this invoice does, by the database's time.
pub fn next_step(
    snapshot: &ChargeSnapshot,
    fingerprint: &str,
    policy: &RetryPolicy,
    now_ms: i64,
) -> NextStep {
    let reservation = snapshot.latest.as_ref().map(|(_, reservation)| reservation);
    let decision = decide(reservation, fingerprint, now_ms, Some(policy.key_window_ms));
    match (&snapshot.latest, decision) {
        (Some(_), Decision::Replay(response)) => NextStep::Replay(response.clone()),
        (Some((charge, reservation)), Decision::InProgress { lease_left_ms }) => {
            in_progress(charge, reservation, lease_left_ms)
        }
        (Some((charge, _)), Decision::TakeOver(recovery)) => match charge.status {
            ChargeStatus::NeedsReview => NextStep::NeedsReview,
            ChargeStatus::Processing => NextStep::TakeOver(Recovery::LookUp),
            ChargeStatus::Pending => NextStep::TakeOver(recovery),
            ChargeStatus::Succeeded | ChargeStatus::Failed(_) => {
                NextStep::Inconsistent("a settled charge has a reservation in progress")
            }
        },
        (latest, decision) => match (snapshot.invoice.status, latest, decision) {
            (InvoiceStatus::Void, _, _) => NextStep::NotChargeable,
            (InvoiceStatus::Paid, _, _) => {
                NextStep::Inconsistent("the invoice is paid but no charge is done")
            }
            (InvoiceStatus::Open, None, Decision::Reserve) => NextStep::Start {
                attempt: 1,
                open_payment_id: None,
            },
            (InvoiceStatus::Open, Some((charge, _)), Decision::Failed(response)) => {
                match &charge.status {
                    ChargeStatus::Failed(failure) => {
                        after_failure(&snapshot.invoice, charge, failure, response, policy, now_ms)
                    }
                    ChargeStatus::Pending
                    | ChargeStatus::Processing
                    | ChargeStatus::NeedsReview
                    | ChargeStatus::Succeeded => NextStep::Inconsistent(
                        "a failed reservation has a charge that has not failed",
                    ),
                }
            }
            (InvoiceStatus::Open, _, _) => {
                NextStep::Inconsistent("the reservation is not this charge's")
            }
        },
    }
}

fn in_progress(charge: &Charge, reservation: &Reservation, lease_left_ms: i64) -> NextStep {
    match charge.status {
        ChargeStatus::Processing => NextStep::Processing,
        ChargeStatus::NeedsReview => NextStep::NeedsReview,
        // Its outcome is already known to be unknown: nothing will change before the lease is over.
        ChargeStatus::Pending if charge.evidence.is_some() => NextStep::InProgress {
            retry_after_ms: lease_left_ms,
        },
        ChargeStatus::Pending => NextStep::InProgress {
            retry_after_ms: lease_left_ms.min(POLL_MS),
        },
        ChargeStatus::Succeeded | ChargeStatus::Failed(_) => {
            debug_assert_eq!(charge.idempotency_key, reservation.key);
            NextStep::Inconsistent("a settled charge has a reservation in progress")
        }
    }
}

/// The retry policy. A changed payment method lifts the cooldown and a hard decline, never the limit of attempts.
fn after_failure(
    invoice: &Invoice,
    charge: &Charge,
    failure: &Failure,
    response: &StoredResponse,
    policy: &RetryPolicy,
    now_ms: i64,
) -> NextStep {
    if charge.attempt >= policy.attempts_max {
        return NextStep::Exhausted;
    }
    let start = NextStep::Start {
        attempt: charge.attempt + 1,
        open_payment_id: failure.payment_id.clone().filter(|_| failure.payment_open),
    };
    if method_changed(invoice, charge) {
        return start;
    }
    if is_hard(failure) {
        return NextStep::NotAdvised;
    }
    let settled_at_ms = charge.settled_at_ms.unwrap_or(charge.created_at_ms);
    let retry_after_ms = settled_at_ms
        .saturating_add(policy.cooldown_ms)
        .saturating_sub(now_ms);
    if failure.kind == FailureKind::Declined && retry_after_ms > 0 {
        return NextStep::ReplayFailure {
            response: response.clone(),
            retry_after_ms,
        };
    }
    start
}

/// True when the invoice was given another payment method after the attempt was made.
pub fn method_changed(invoice: &Invoice, charge: &Charge) -> bool {
    invoice.revision != charge.invoice_revision
        && invoice.payment_method_id != charge.payment_method_id
}

/// True when the same payment method must not be tried again for this invoice.
fn is_hard(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Declined => match decline_class(failure) {
            DeclineClass::StopThisPaymentMethod | DeclineClass::CustomerMustAuthenticate => true,
            DeclineClass::CustomerMustFix | DeclineClass::RetryLater => false,
        },
        FailureKind::Refused | FailureKind::Canceled | FailureKind::NeverExecuted => false,
    }
}

fn decline_class(failure: &Failure) -> DeclineClass {
    classify(
        &failure.code,
        failure.decline_code.as_deref(),
        failure.advice_code.as_deref(),
    )
}

/// The two answers that every caller gets about a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlook {
    /// Was the customer charged?
    pub customer_charged: CustomerCharged,
    /// Should the call be repeated?
    pub retry: Retry,
    /// When, in seconds; only with [`Retry::Later`].
    pub retry_after_seconds: Option<i64>,
}

/// What a charge's state means for its caller, as far as the attempt alone tells.
pub fn outlook(charge: &Charge, policy: &RetryPolicy) -> Outlook {
    let later = |customer_charged, seconds| Outlook {
        customer_charged,
        retry: Retry::Later,
        retry_after_seconds: Some(seconds),
    };
    let settled = |customer_charged, retry| Outlook {
        customer_charged,
        retry,
        retry_after_seconds: None,
    };
    match &charge.status {
        ChargeStatus::Pending => later(CustomerCharged::Unknown, POLL_MS / 1_000),
        ChargeStatus::Processing | ChargeStatus::NeedsReview => {
            later(CustomerCharged::Unknown, VERDICT_WAIT_SECONDS)
        }
        ChargeStatus::Succeeded => settled(CustomerCharged::Yes, Retry::NotNeeded),
        ChargeStatus::Failed(_) if charge.attempt >= policy.attempts_max => {
            settled(CustomerCharged::No, Retry::Never)
        }
        ChargeStatus::Failed(failure) => match failure.kind {
            FailureKind::Canceled | FailureKind::NeverExecuted => {
                settled(CustomerCharged::No, Retry::Now)
            }
            FailureKind::Refused => settled(CustomerCharged::No, Retry::AfterChange),
            FailureKind::Declined => match decline_class(failure) {
                DeclineClass::StopThisPaymentMethod
                | DeclineClass::CustomerMustAuthenticate
                | DeclineClass::CustomerMustFix => settled(CustomerCharged::No, Retry::AfterChange),
                DeclineClass::RetryLater => {
                    let cooldown_seconds = seconds_up(policy.cooldown_ms);
                    let wait = if cooldown_seconds > 0 {
                        cooldown_seconds
                    } else {
                        DECLINE_WAIT_SECONDS
                    };
                    later(CustomerCharged::No, wait)
                }
            },
        },
    }
}

/// Milliseconds in whole seconds, rounded up, as `Retry-After` wants them.
pub fn seconds_up(milliseconds: i64) -> i64 {
    milliseconds.max(0).saturating_add(999) / 1_000
}

#[cfg(test)]
mod tests;
