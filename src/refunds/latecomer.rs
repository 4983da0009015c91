//! A look at the provider before a refund of a charge, where a refund of it was given up without an answer of the provider:
//! its request may have come to life after all (Stripe may roll an operation forward hours later). Its room was given to
//! others by then, so it must get into the books before more is given back.

use std::time::{Duration, Instant};

use super::answer;
use super::model::{Portion, Refund, RefundStatus};
use super::reading::REFUNDS_LOOKED_AT_MAX;
use super::repository::{NewRefund, RefundFilter, RefundSnapshot};
use super::reserving::{new_refund_id, payment_of, refunds_since};
use super::service::{OPERATION, RefundsService};
use super::settlement::{Ours, gives_money};
use crate::charges::answer::RESOLVED_AS_FAILED;
use crate::charges::repository::{Evidence, EvidenceKind};
use crate::charges::reserving::PROVIDER_WAIT_SECONDS;
use crate::error::Problem;
use crate::idempotency::key::refund_part_key;
use crate::idempotency::repository::NewReservation;
use crate::idempotency::reservation::new_lease_token;
use crate::payments::outcome::FailureKind;
use crate::payments::provider::FrozenRequest;
use crate::payments::refund::{ProviderRefund, RefundQuery, RefundState};

/// How long the look may take; a caller is waiting, and nothing is reserved yet.
const LOOK_TIME: Duration = Duration::from_secs(20);

/// True for a refund whose failure was inferred. One that the provider answered needs no look: the answer stands for the
/// request.
fn was_given_up(refund: &Refund) -> bool {
    match &refund.status {
        RefundStatus::Failed(failure) => {
            failure.kind == FailureKind::NeverExecuted || was_judged(refund)
        }
        RefundStatus::Pending
        | RefundStatus::Processing
        | RefundStatus::NeedsReview
        | RefundStatus::Succeeded
        | RefundStatus::Returned(_) => false,
    }
}

/// True for a refund that an operator ended with the provider's view before them.
fn was_judged(refund: &Refund) -> bool {
    matches!(&refund.status, RefundStatus::Failed(failure) if failure.code == RESOLVED_AS_FAILED)
}

/// The refund at the provider that came to life after ours was given up, and that no refund of ours accounts for. What an
/// operator has judged is not judged again, but for money that was given back.
pub(super) fn latecomer<'a>(
    found: &'a [ProviderRefund],
    booked: &'a [Refund],
    (payment_id, installation_id): (&str, &str),
) -> Option<(&'a ProviderRefund, &'a Refund)> {
    let is_booked = |found: &ProviderRefund| {
        let id = Some(found.id.as_str());
        booked.iter().any(|refund| {
            refund.provider_refund_id.as_deref() == id
                && !matches!(refund.status, RefundStatus::Failed(_))
        })
    };
    let given_up = || booked.iter().filter(|refund| was_given_up(refund));
    found
        .iter()
        .filter(|found| gives_money(&found.status) && !is_booked(found))
        .find_map(|found| {
            let its = given_up().find(|refund| {
                let ours = Ours {
                    refund,
                    payment_id,
                    installation_id,
                };
                ours.is(found) && (found.status == RefundState::Succeeded || !was_judged(refund))
            });
            its.map(|refund| (found, refund))
        })
}

impl RefundsService {
    /// Looks for refunds of the charge that came to life late, and parks what it finds. True when the charge must be looked
    /// at again.
    ///
    /// # Errors
    /// When the provider or the store cannot be asked: then no refund may start. And when the books cannot take up what was
    /// found.
    pub(super) async fn meets_a_latecomer(
        &self,
        snapshot: &RefundSnapshot,
        now_ms: i64,
    ) -> Result<bool, Problem> {
        let charge = &snapshot.charge;
        let filter = RefundFilter {
            charge_id: Some(charge.id.clone()),
            limit: REFUNDS_LOOKED_AT_MAX,
            ..RefundFilter::default()
        };
        let booked = self.parts.refunds.list_refunds(&filter).await?;
        if !booked.iter().any(was_given_up) {
            return Ok(false);
        }
        let payment_id = payment_of(charge)?;
        let query = RefundQuery {
            payment_id: payment_id.clone(),
            refund_id: None,
            since_ms: refunds_since(charge),
        };
        let provider = self.parts.provider.refunds();
        let found = provider.find_refunds(&query, Instant::now() + LOOK_TIME);
        let found = found.await.map_err(|error| {
            tracing::warn!(%error, charge.id = %charge.id, "no refund before the provider can be asked for late ones");
            answer::provider_unavailable(PROVIDER_WAIT_SECONDS)
        })?;
        let marks = (
            payment_id.as_str(),
            self.parts.config.installation_id.as_str(),
        );
        let Some((late, given_up)) = latecomer(&found, &booked, marks) else {
            return Ok(false);
        };
        self.park(late, given_up, now_ms).await?;
        Ok(true)
    }

    /// Opens a refund that only holds the one at the provider, until a person has looked.
    pub(super) async fn park(
        &self,
        late: &ProviderRefund,
        given_up: &Refund,
        now_ms: i64,
    ) -> Result<(), Problem> {
        let evidence = format!(
            "refund {} ({}) came after its attempt was given up: {}",
            late.id,
            late.status.as_str(),
            given_up.idempotency_key
        );
        let name = format!("late:{}", late.id);
        let key = refund_part_key(&given_up.charge_id, &name);
        let refund = Refund {
            id: new_refund_id(),
            portion: Portion::Part { header_key: name },
            attempt: 1,
            idempotency_key: key.clone(),
            status: RefundStatus::NeedsReview,
            amount_minor: late.amount_minor,
            currency: late.currency.clone(),
            // Nothing was ever sent for it, and nothing can be.
            request: FrozenRequest {
                path: String::new(),
                body: String::new(),
            },
            provider_refund_id: Some(late.id.clone()),
            evidence: Some(evidence.clone()),
            created_at_ms: now_ms,
            settled_at_ms: None,
            asked_by: None,
            ..given_up.clone()
        };
        let reservation = NewReservation {
            fingerprint: key.clone(),
            key,
            operation: OPERATION,
            attempt: 1,
            lease_token: new_lease_token(),
            lease_ms: 0,
        };
        let new = NewRefund {
            reservation,
            refund,
            rest_beside_minor: None,
        };
        let lines = [Evidence {
            at_ms: now_ms,
            what: EvidenceKind::Notice,
            detail: evidence.clone(),
        }];
        let parked = self.parts.refunds.park_refund(&new, &lines).await?;
        let charge_id = &new.refund.charge_id;
        if parked {
            tracing::error!(charge.id = %charge_id, refund.id = %new.refund.id, outcome = "needs_review", evidence, "a refund that came late is parked");
            return Ok(());
        }
        // Either somebody else has parked it by now, or others have taken its room.
        let known = self.parts.refunds.refunds_given_by(&late.id).await?;
        if known
            .iter()
            .any(|refund| refund.idempotency_key == new.refund.idempotency_key)
        {
            return Ok(());
        }
        tracing::error!(charge.id = %charge_id, evidence, "a refund that came late has no room in the books: look at all of the charge's");
        Err(answer::nothing_left_yet(PROVIDER_WAIT_SECONDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payments::outcome::Failure;
    use crate::refunds::fixtures::{INSTALLATION, PAYMENT, failure, found, refund};

    fn failed(failure: Failure) -> RefundStatus {
        RefundStatus::Failed(failure)
    }

    #[test]
    fn only_what_was_given_up_without_an_answer_can_come_late_and_only_once() {
        let never = || failed(failure(FailureKind::NeverExecuted, "never_executed"));
        let judged = || failed(failure(FailureKind::Canceled, RESOLVED_AS_FAILED));
        let told = || failed(failure(FailureKind::Declined, "refund_failed"));
        let canceled = || failed(failure(FailureKind::Canceled, "refund_canceled"));
        #[rustfmt::skip]
        let table = [
            ("given back", never(), RefundState::Succeeded, true),
            ("on its way", never(), RefundState::Pending, true),
            ("nobody knows", never(), RefundState::Other("new".into()), true),
            ("came to nothing", never(), RefundState::Failed, false),
            ("canceled there", never(), RefundState::Canceled, false),
            ("judged, and given back", judged(), RefundState::Succeeded, true),
            ("judged, and on its way", judged(), RefundState::Pending, false),
            ("the provider said so", told(), RefundState::Succeeded, false),
            ("the provider canceled it", canceled(), RefundState::Succeeded, false),
            ("still running", RefundStatus::Pending, RefundState::Succeeded, false),
            ("known", RefundStatus::Succeeded, RefundState::Succeeded, false),
        ];
        for (case, status, state, is_late) in table {
            let ours = refund(status);
            let there = [found("re_1", state)];
            let marks = (PAYMENT, INSTALLATION);
            let booked = [ours.clone()];
            assert_eq!(
                latecomer(&there, &booked, marks).is_some(),
                is_late,
                "{case}"
            );
            let mut parked = refund(RefundStatus::NeedsReview);
            parked.provider_refund_id = Some("re_1".into());
            let booked = [ours, parked];
            assert_eq!(latecomer(&there, &booked, marks), None, "{case}, parked");
        }
    }

    #[test]
    fn another_programs_refund_is_nobodys_latecomer() {
        let ours = refund(failed(failure(
            FailureKind::NeverExecuted,
            "never_executed",
        )));
        let by_hand = ProviderRefund {
            refund_key: None,
            ..found("re_1", RefundState::Succeeded)
        };
        let elsewhere = ProviderRefund {
            installation_id: Some("ins_2".into()),
            ..found("re_2", RefundState::Succeeded)
        };
        let marks = (PAYMENT, INSTALLATION);
        assert_eq!(latecomer(&[by_hand, elsewhere], &[ours], marks), None);
    }
}
