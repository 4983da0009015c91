//! What is true of an invoice's charge now, for whoever asks without charging. Pure: a snapshot and a policy in, an answer out.

use serde::Serialize;
use utoipa::ToSchema;

use super::dto::ChargeBody;
use super::lifecycle::{NextStep, Outlook, RetryPolicy, method_changed, outlook, seconds_up};
use super::model::{Charge, ChargeStatus, CustomerCharged, Retry};
use super::repository::ChargeSnapshot;
use crate::openapi::schemas::{InvoiceId, InvoiceStatusWord, Seconds};

/// How long a caller is asked to wait for an attempt whose owner went silent: the background worker takes it over, in seconds.
const TAKEOVER_WAIT_SECONDS: i64 = 2;

/// `GET /v1/invoices/{id}/charge-status`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChargeStanding)]
pub struct StatusBody {
    #[schema(value_type = InvoiceId)]
    invoice_id: String,
    #[schema(value_type = InvoiceStatusWord)]
    invoice_status: &'static str,
    customer_charged: CustomerCharged,
    /// Whether it makes sense to charge the invoice (again).
    retry: Retry,
    /// There with `retry: later`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Seconds, required = false)]
    retry_after_seconds: Option<i64>,
    /// What is true and what to do, in a sentence or two.
    detail: String,
    /// Every attempt, newest first.
    attempts: Vec<ChargeBody>,
}

impl StatusBody {
    /// From an invoice with its latest attempt, the step that a charge of it would take at `now_ms` (Unix milliseconds), and all its
    /// attempts.
    ///
    /// `None` when the tables contradict each other.
    pub fn new(
        snapshot: &ChargeSnapshot,
        step: &NextStep,
        attempts: &[Charge],
        policy: &RetryPolicy,
        now_ms: i64,
    ) -> Option<Self> {
        let (now, detail) = standing(snapshot, step, policy, now_ms)?;
        Some(Self {
            invoice_id: snapshot.invoice.id.clone(),
            invoice_status: snapshot.invoice.status.as_str(),
            customer_charged: now.customer_charged,
            retry: now.retry,
            retry_after_seconds: now.retry_after_seconds,
            detail,
            attempts: attempts
                .iter()
                .map(|charge| ChargeBody::new(charge, policy))
                .collect(),
        })
    }
}

fn standing(
    snapshot: &ChargeSnapshot,
    step: &NextStep,
    policy: &RetryPolicy,
    now_ms: i64,
) -> Option<(Outlook, String)> {
    let charge = snapshot.latest.as_ref().map(|(charge, _)| charge);
    let of = |customer_charged, retry, retry_after_seconds| Outlook {
        customer_charged,
        retry,
        retry_after_seconds,
    };
    let no = |retry| of(CustomerCharged::No, retry, None);
    let says = |outlook, detail: &str| Some((outlook, detail.to_owned()));
    let running = |seconds: i64| {
        let seconds = seconds.max(1);
        let detail = format!(
            "The invoice is being charged and the outcome is not known yet. Charge it again with the same invoiceId in {seconds} seconds to get the result; do not charge the customer in any other way."
        );
        let outlook = of(CustomerCharged::Unknown, Retry::Later, Some(seconds));
        Some((outlook, detail))
    };
    match step {
        NextStep::Replay(_) => says(
            of(CustomerCharged::Yes, Retry::NotNeeded, None),
            "The customer has been charged for this invoice, once. There is nothing left to do.",
        ),
        NextStep::InProgress { retry_after_ms } => running(seconds_up(*retry_after_ms)),
        NextStep::TakeOver(_) if charge.is_some_and(|c| c.status == ChargeStatus::Pending) => {
            running(TAKEOVER_WAIT_SECONDS)
        }
        NextStep::TakeOver(_) | NextStep::Processing => {
            running(outlook(charge?, policy).retry_after_seconds.unwrap_or(1))
        }
        NextStep::NeedsReview => says(
            outlook(charge?, policy),
            "It is not certain whether the customer was charged, and an operator has to decide. Do not charge the customer in any other way.",
        ),
        NextStep::NotChargeable => says(
            no(Retry::Never),
            "This invoice is void and the customer was not charged for it. It will not be charged.",
        ),
        NextStep::Exhausted => says(
            no(Retry::Never),
            "The customer was not charged and all attempts for this invoice are used up. Ask the customer to pay another way.",
        ),
        NextStep::NotAdvised => says(
            no(Retry::AfterChange),
            "The last attempt was declined for good and the customer was not charged. Do not charge it again until the invoice has another payment method.",
        ),
        NextStep::ReplayFailure { retry_after_ms, .. } => {
            Some(waiting(seconds_up(*retry_after_ms)))
        }
        NextStep::Start { .. } => Some(match charge {
            None => (
                no(Retry::Now),
                "Nobody has charged this invoice yet, so the customer was not charged.".to_owned(),
            ),
            Some(charge) => after_failure(snapshot, charge, policy, now_ms),
        }),
        NextStep::Inconsistent(_) => None,
    }
}

/// A failed attempt that may be followed by another one. What was advised after it holds until the payment method is changed.
fn after_failure(
    snapshot: &ChargeSnapshot,
    charge: &Charge,
    policy: &RetryPolicy,
    now_ms: i64,
) -> (Outlook, String) {
    let at_once = Outlook {
        customer_charged: CustomerCharged::No,
        retry: Retry::Now,
        retry_after_seconds: None,
    };
    let advised = if method_changed(&snapshot.invoice, charge) {
        at_once
    } else {
        outlook(charge, policy)
    };
    let (advised, left_seconds) = match advised.retry_after_seconds {
        // The wait runs from the failure on.
        Some(seconds) => match wait_left(charge, seconds, now_ms) {
            0 => (at_once, None),
            left => (advised, Some(left)),
        },
        None => (advised, None),
    };
    let detail = match (advised.retry, left_seconds) {
        (Retry::Later, Some(seconds)) => return waiting(seconds),
        (Retry::AfterChange, _) => {
            "The last attempt failed and the customer was not charged. Do not charge it again until the payment method, the customer or the request has been corrected."
        }
        (Retry::Now | Retry::Later | Retry::Never | Retry::NotNeeded, _) => {
            "The last attempt failed and the customer was not charged. Charging it again with the same invoiceId makes a new attempt."
        }
    };
    (advised, detail.to_owned())
}

/// What is left of a wait that began with the attempt's failure, in seconds, rounded up; 0 once it is over.
fn wait_left(charge: &Charge, seconds: i64, now_ms: i64) -> i64 {
    let failed_at_ms = charge.settled_at_ms.unwrap_or(charge.created_at_ms);
    let until_ms = failed_at_ms.saturating_add(seconds.saturating_mul(1_000));
    seconds_up(until_ms.saturating_sub(now_ms)).min(seconds)
}

fn waiting(seconds: i64) -> (Outlook, String) {
    let outlook = Outlook {
        customer_charged: CustomerCharged::No,
        retry: Retry::Later,
        retry_after_seconds: Some(seconds),
    };
    let detail = format!(
        "The last attempt was declined and the customer was not charged. A new attempt makes sense in {seconds} seconds at the earliest."
    );
    (outlook, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charges::fixtures;
    use crate::idempotency::reservation::{Recovery, ReservationState};
    use crate::payments::outcome::FailureKind;

    const POLICY: RetryPolicy = RetryPolicy {
        attempts_max: 8,
        cooldown_ms: 0,
        key_window_ms: 72_000_000,
    };

    /// When the fixtures' attempt was made.
    const AT_MS: i64 = 0;

    fn failure(code: &str) -> ChargeStatus {
        ChargeStatus::Failed(fixtures::failure(FailureKind::Declined, code))
    }

    #[test]
    fn each_step_that_a_charge_would_take_is_told_as_it_is() {
        use CustomerCharged::{No, Unknown, Yes};
        let start = || NextStep::Start {
            attempt: 1,
            open_payment_id: None,
        };
        let replayed_failure = NextStep::ReplayFailure {
            response: fixtures::answer(402),
            retry_after_ms: 2_500,
        };
        let busy = NextStep::InProgress {
            retry_after_ms: 1_001,
        };
        #[rustfmt::skip]
        let table = [
            (NextStep::Replay(fixtures::answer(201)), Some(ChargeStatus::Succeeded), Yes, Retry::NotNeeded, None),
            (busy, Some(ChargeStatus::Pending), Unknown, Retry::Later, Some(2)),
            (NextStep::TakeOver(Recovery::Resend), Some(ChargeStatus::Pending), Unknown, Retry::Later, Some(2)),
            (NextStep::TakeOver(Recovery::LookUp), Some(ChargeStatus::Processing), Unknown, Retry::Later, Some(60)),
            (NextStep::Processing, Some(ChargeStatus::Processing), Unknown, Retry::Later, Some(60)),
            (NextStep::NeedsReview, Some(ChargeStatus::NeedsReview), Unknown, Retry::Later, Some(60)),
            (NextStep::NotChargeable, None, No, Retry::Never, None),
            (NextStep::Exhausted, Some(failure("insufficient_funds")), No, Retry::Never, None),
            (NextStep::NotAdvised, Some(failure("stolen_card")), No, Retry::AfterChange, None),
            (replayed_failure, Some(failure("insufficient_funds")), No, Retry::Later, Some(3)),
            (start(), None, No, Retry::Now, None),
            (start(), Some(failure("insufficient_funds")), No, Retry::Later, Some(3_600)),
            (start(), Some(failure("incorrect_cvc")), No, Retry::AfterChange, None),
        ];
        for (step, status, customer_charged, retry, retry_after_seconds) in table {
            let right = Outlook {
                customer_charged,
                retry,
                retry_after_seconds,
            };
            let snapshot = snapshot(status);
            let (told, detail) = standing(&snapshot, &step, &POLICY, AT_MS).unwrap();
            assert_eq!(told, right, "{step:?}");
            assert!(detail.ends_with('.') && detail.len() < 300, "{detail}");
        }
    }

    #[test]
    fn a_changed_payment_method_lifts_what_was_advised() {
        let mut snapshot = snapshot(Some(failure("incorrect_cvc")));
        snapshot.invoice.revision = 2;
        snapshot.invoice.payment_method_id = Some("pm_2".into());
        let step = NextStep::Start {
            attempt: 2,
            open_payment_id: None,
        };
        let (told, _) = standing(&snapshot, &step, &POLICY, AT_MS).unwrap();
        assert_eq!(told.retry, Retry::Now);
    }

    #[test]
    fn the_wait_after_a_soft_decline_runs_down() {
        let snapshot = snapshot(Some(failure("insufficient_funds")));
        let step = NextStep::Start {
            attempt: 2,
            open_payment_id: None,
        };
        #[rustfmt::skip]
        let table = [
            (0, Retry::Later, Some(3_600)),
            (1, Retry::Later, Some(3_600)),
            (1_000, Retry::Later, Some(3_599)),
            (3_599_001, Retry::Later, Some(1)),
            (3_600_000, Retry::Now, None),
            (90_000_000, Retry::Now, None),
            // A database's clock that was set back makes nobody wait longer than was advised.
            (-60_000, Retry::Later, Some(3_600)),
        ];
        for (passed_ms, retry, retry_after_seconds) in table {
            let (told, detail) = standing(&snapshot, &step, &POLICY, AT_MS + passed_ms).unwrap();
            let right = (retry, retry_after_seconds);
            assert_eq!(
                (told.retry, told.retry_after_seconds),
                right,
                "{passed_ms}: {detail}"
            );
        }
    }

    fn snapshot(status: Option<ChargeStatus>) -> ChargeSnapshot {
        ChargeSnapshot {
            invoice: fixtures::invoice(),
            latest: status.map(|status| {
                let charge = fixtures::charge(status);
                (charge, fixtures::reservation(ReservationState::InProgress))
            }),
        }
    }
}
