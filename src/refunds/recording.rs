//! Writing down what became of a refund.

use super::answer;
use super::model::{Refund, RefundStatus};
use super::settlement::Verdict;
use super::worker::{Ended, HeldRefund, Worker};
use crate::charges::crash::{self, Step};
use crate::charges::journal::{Journal, Looked};
use crate::charges::recording::{again_while_away, in_words, unanswered_since, wait_ms, weaker};
use crate::charges::repository::{AttemptRecord, EvidenceKind};
use crate::charges::settlement::recovery_of;
use crate::payments::outcome::{NextStep, NotExecutedReason};
use crate::storage::StorageError;

impl Worker {
    pub(super) async fn record(
        &self,
        held: &HeldRefund,
        verdict: Verdict,
        journal: Journal,
    ) -> Result<Ended, StorageError> {
        let refused = match self.record_as(held, verdict.clone(), journal.clone()).await {
            Err(StorageError::Inconsistent(why)) => why,
            ended => return ended,
        };
        // Else the same success would be found and refused again for ever, and nobody would hear of it.
        let Verdict::Succeeded(found) = verdict else {
            return Err(StorageError::Inconsistent(refused));
        };
        tracing::error!(refund.key = %held.refund.idempotency_key, refund.found = %found.id, why = refused, "a success contradicts the books");
        let parked = Verdict::NeedsReview {
            evidence: format!(
                "refund {} gave the money back, and the books cannot take it up: is it recorded elsewhere?",
                found.id
            ),
            payment_id: Some(found.id),
        };
        self.record_as(held, parked, journal).await
    }

    async fn record_as(
        &self,
        held: &HeldRefund,
        verdict: Verdict,
        mut journal: Journal,
    ) -> Result<Ended, StorageError> {
        let (refund, record) = self.to_record(held, verdict.clone(), journal.looked)?;
        let now_ms = held.lease.now_ms();
        journal.add(
            EvidenceKind::Record,
            in_words(&verdict, |found| &found.id),
            now_ms,
        );
        crash::point(Step::BeforeRecord);
        if !self.write(held, &record, &journal).await? {
            self.log_lost_lease(&refund).await;
            return Ok(Ended::LeaseLost);
        }
        crash::point(Step::AfterRecord);
        log_verdict(&refund, &verdict);
        Ok(match (record, verdict) {
            (
                AttemptRecord::Succeeded { response, .. } | AttemptRecord::Failed { response, .. },
                _,
            ) => Ended::Settled(response),
            (AttemptRecord::Released, Verdict::Released(reason)) => Ended::Released(reason),
            (_, _) => Ended::Undecided(refund),
        })
    }

    /// A lease that was lost is nothing as long as the record that stands names the same refund. Another one may have given
    /// the money back a second time, which nobody but this owner knows of.
    async fn log_lost_lease(&self, mine: &Refund) {
        let stored = self.refunds.find_refund(&mine.id).await.ok().flatten();
        let stands = stored.and_then(|refund| refund.provider_refund_id);
        let (key, found) = (&mine.idempotency_key, &mine.provider_refund_id);
        if found.is_some() && *found != stands {
            tracing::error!(
                charge.id = %mine.charge_id, refund.key = %key, refund.mine = ?found, refund.recorded = ?stands,
                "the lease was lost, and the record that stands names another refund: look at both"
            );
        } else {
            tracing::warn!(
                charge.id = %mine.charge_id, refund.key = %key, "the lease was lost; another owner's record stands"
            );
        }
    }

    /// The record of a verdict, and the refund as it will be with it.
    fn to_record(
        &self,
        held: &HeldRefund,
        verdict: Verdict,
        looked: Looked,
    ) -> Result<(Refund, AttemptRecord), StorageError> {
        let mut refund = held.refund.clone();
        let settled_at_ms = held.lease.now_ms();
        let wait_ms = wait_ms(looked, held.reservation.takeovers, self.lease_ms);
        let record = match verdict {
            Verdict::Succeeded(found) => {
                refund.status = RefundStatus::Succeeded;
                refund.provider_refund_id = Some(found.id.clone());
                refund.settled_at_ms = Some(settled_at_ms);
                let response = answer::succeeded(&refund)
                    .map_err(|error| StorageError::Inconsistent(error.to_string()))?;
                AttemptRecord::Succeeded {
                    payment_id: found.id,
                    settled_at_ms,
                    response,
                }
            }
            Verdict::Failed(failure) => {
                let known = refund.provider_refund_id;
                refund.provider_refund_id = failure.payment_id.clone().or(known);
                refund.status = RefundStatus::Failed(failure.clone());
                refund.settled_at_ms = Some(settled_at_ms);
                let response = answer::failed(&refund, &failure);
                AttemptRecord::Failed {
                    failure,
                    settled_at_ms,
                    response,
                }
            }
            Verdict::Processing(found) => {
                refund.status = RefundStatus::Processing;
                refund.provider_refund_id = Some(found.id.clone());
                AttemptRecord::Processing {
                    payment_id: found.id,
                    wait_ms,
                }
            }
            Verdict::NeedsReview {
                payment_id,
                evidence,
            } => {
                refund.status = RefundStatus::NeedsReview;
                refund.provider_refund_id = payment_id.clone().or(refund.provider_refund_id);
                refund.evidence = Some(evidence.clone());
                AttemptRecord::NeedsReview {
                    payment_id,
                    evidence,
                }
            }
            // A refund that is in the provider's hands stays so in our books until there is a verdict.
            Verdict::Unknown(unknown) => {
                let known = refund.provider_refund_id;
                refund.provider_refund_id = unknown.payment_id.clone().or(known);
                refund.evidence = Some(unknown.reason.clone());
                AttemptRecord::Unknown {
                    recovery: weaker(held.reservation.recovery, recovery_of(&unknown)),
                    payment_id: unknown.payment_id,
                    evidence: unknown.reason,
                    wait_ms,
                    unanswered_since_ms: unanswered_since(looked, &held.reservation, settled_at_ms),
                }
            }
            Verdict::Released(_) => AttemptRecord::Released,
        };
        Ok((refund, record))
    }

    /// Writes the record, again and again while the store is away and the lease runs.
    async fn write(
        &self,
        held: &HeldRefund,
        record: &AttemptRecord,
        journal: &Journal,
    ) -> Result<bool, StorageError> {
        let evidence = journal.lines_to_keep(record, held.reservation.takeovers);
        let (refund, token) = (&held.refund, &held.reservation.lease_token);
        again_while_away(&held.lease, &refund.idempotency_key, || {
            self.refunds.record_refund(refund, token, record, evidence)
        })
        .await
    }
}

/// One line a verdict, at the level of who must act: people look at `error`, nobody needs to at `info`.
fn log_verdict(refund: &Refund, verdict: &Verdict) {
    macro_rules! line {
        ($level:ident, $outcome:expr, $detail:expr) => {
            tracing::$level!(
                charge.id = %refund.charge_id, refund.id = %refund.id, refund.key = %refund.idempotency_key,
                attempt.number = refund.attempt, outcome = $outcome, detail = %$detail, "refund"
            )
        };
    }
    match verdict {
        Verdict::Succeeded(found) => line!(info, "succeeded", found.id),
        Verdict::Failed(failure) => line!(warn, "failed", failure.code),
        Verdict::Processing(found) => line!(info, "processing", found.id),
        Verdict::NeedsReview { evidence, .. } => line!(error, "needs_review", evidence),
        Verdict::Unknown(unknown) => match unknown.next {
            NextStep::Resend | NextStep::LookUp => line!(warn, "unknown", unknown.reason),
            NextStep::LookUpElseReview => line!(error, "unknown", unknown.reason),
        },
        Verdict::Released(reason) => match reason.reason {
            NotExecutedReason::Credentials => line!(error, "released", reason.detail),
            NotExecutedReason::Unreachable
            | NotExecutedReason::RateLimited
            | NotExecutedReason::OutOfTime => line!(warn, "released", reason.detail),
        },
    }
}
