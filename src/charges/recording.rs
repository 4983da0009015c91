//! Writing down what became of an attempt.

use std::sync::Arc;
use std::time::Duration;

use super::answer;
use super::crash::{self, Step};
use super::journal::{Journal, Looked};
use super::model::{Charge, ChargeStatus};
use super::repository::{AttemptRecord, EvidenceKind, Settlement};
use super::service::{ChargeAnswer, ChargeResult};
use super::settlement::{Verdict, recovery_of};
use super::worker::{Ended, HeldAttempt, Worker};
use crate::idempotency::reservation::{HeldLease, Recovery, Reservation};
use crate::payments::outcome::{NextStep, NotExecutedReason};
use crate::reconciler::plan::wait_after_look_ms;
use crate::storage::StorageError;

/// The first wait before a record is written again, doubled each time up to the longest.
const RECORD_RETRY_FIRST: Duration = Duration::from_millis(100);
const RECORD_RETRY_LONGEST: Duration = Duration::from_secs(2);

/// An answer as a label: of a fixed set of words.
pub(super) fn result_label(result: &ChargeResult) -> &'static str {
    match result {
        Ok(ChargeAnswer::Stored {
            response, replayed, ..
        }) => match (response.status < 300, replayed) {
            (true, false) => "succeeded",
            (true, true) => "replayed",
            (false, false) => "failed",
            (false, true) => "replayed_failure",
        },
        Ok(ChargeAnswer::Undecided { .. }) => "undecided",
        Err(problem) => problem.code().as_str(),
    }
}

/// A verdict as a label.
fn label(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Succeeded(_) => "succeeded",
        Verdict::Failed(_) => "failed",
        Verdict::Processing(_) => "processing",
        Verdict::NeedsReview { .. } => "needs_review",
        Verdict::Unknown(_) => "unknown",
        Verdict::Released(_) => "released",
    }
}

impl Worker {
    pub(super) async fn record(
        &self,
        held: &HeldAttempt,
        verdict: Verdict,
        journal: Journal,
    ) -> Result<Ended, StorageError> {
        let refused = match self.record_as(held, verdict.clone(), journal.clone()).await {
            Err(StorageError::Inconsistent(why)) => why,
            ended => return ended,
        };
        // Else the same success would be found and refused again for ever, and nobody would hear of it.
        let Verdict::Succeeded(payment) = verdict else {
            return Err(StorageError::Inconsistent(refused));
        };
        tracing::error!(charge.key = %held.charge.idempotency_key, payment.id = %payment.id, why = refused, "a success contradicts the books");
        let parked = Verdict::NeedsReview {
            evidence: format!(
                "payment {} took the money, and the books cannot take it up: is it recorded elsewhere, or the invoice not open?",
                payment.id
            ),
            payment_id: Some(payment.id),
        };
        self.record_as(held, parked, journal).await
    }

    async fn record_as(
        &self,
        held: &HeldAttempt,
        verdict: Verdict,
        mut journal: Journal,
    ) -> Result<Ended, StorageError> {
        let (charge, record) = self.to_record(held, verdict.clone(), journal.looked)?;
        journal.add(
            EvidenceKind::Record,
            in_words(&verdict, |payment| &payment.id),
            held.lease.now_ms(),
        );
        crash::point(Step::BeforeRecord);
        if !self.write(held, &record, &journal).await? {
            self.log_lost_lease(&charge).await;
            return Ok(Ended::LeaseLost);
        }
        crash::point(Step::AfterRecord);
        self.metrics.verdict(label(&verdict));
        log_verdict(&charge, &verdict);
        Ok(match (record, verdict) {
            (
                AttemptRecord::Succeeded { response, .. } | AttemptRecord::Failed { response, .. },
                _,
            ) => Ended::Settled(charge, response),
            (AttemptRecord::Released, Verdict::Released(reason)) => Ended::Released(reason),
            (_, _) => Ended::Undecided(charge),
        })
    }

    /// A lease that was lost over a payment is nothing as long as the record that stands names the same payment. Another one
    /// may be a second payment, which nobody but this owner knows of.
    async fn log_lost_lease(&self, mine: &Charge) {
        let stored = self.charges.find_charge(&mine.id).await.ok().flatten();
        let stands = stored.and_then(|charge| charge.provider_payment_id);
        let (key, payment) = (&mine.idempotency_key, &mine.provider_payment_id);
        if payment.is_some() && *payment != stands {
            tracing::error!(
                invoice.id = %mine.invoice_id, charge.key = %key, payment.mine = ?payment, payment.recorded = ?stands,
                "the lease was lost, and the record that stands names another payment: look at both"
            );
        } else {
            tracing::warn!(
                invoice.id = %mine.invoice_id, charge.key = %key, attempt.number = mine.attempt,
                "the lease was lost; another owner's record stands"
            );
        }
    }

    /// The record of a verdict, and the charge as it will be with it.
    fn to_record(
        &self,
        held: &HeldAttempt,
        verdict: Verdict,
        looked: Looked,
    ) -> Result<(Charge, AttemptRecord), StorageError> {
        let wait_ms = wait_ms(looked, held.reservation.takeovers, self.lease_ms);
        let mut charge = held.charge.clone();
        let settled_at_ms = held.lease.now_ms();
        let record = match verdict {
            Verdict::Succeeded(payment) => {
                charge.status = ChargeStatus::Succeeded;
                charge.provider_payment_id = Some(payment.id.clone());
                charge.settled_at_ms = Some(settled_at_ms);
                let response = answer::succeeded(&charge, &self.policy)
                    .map_err(|error| StorageError::Inconsistent(error.to_string()))?;
                AttemptRecord::Succeeded {
                    payment_id: payment.id,
                    settled_at_ms,
                    response,
                }
            }
            Verdict::Failed(failure) => {
                charge.provider_payment_id =
                    failure.payment_id.clone().or(charge.provider_payment_id);
                charge.status = ChargeStatus::Failed(failure.clone());
                charge.settled_at_ms = Some(settled_at_ms);
                let response = answer::failed(&charge, &failure, &self.policy);
                AttemptRecord::Failed {
                    failure,
                    settled_at_ms,
                    response,
                }
            }
            Verdict::Processing(payment) => {
                charge.status = ChargeStatus::Processing;
                charge.provider_payment_id = Some(payment.id.clone());
                AttemptRecord::Processing {
                    payment_id: payment.id,
                    wait_ms,
                }
            }
            Verdict::NeedsReview {
                payment_id,
                evidence,
            } => {
                charge.status = ChargeStatus::NeedsReview;
                charge.provider_payment_id = payment_id.clone().or(charge.provider_payment_id);
                charge.evidence = Some(evidence.clone());
                AttemptRecord::NeedsReview {
                    payment_id,
                    evidence,
                }
            }
            // A payment that is in the provider's hands stays so in our books until there is a verdict.
            Verdict::Unknown(unknown) => {
                charge.provider_payment_id =
                    unknown.payment_id.clone().or(charge.provider_payment_id);
                charge.evidence = Some(unknown.reason.clone());
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
        Ok((charge, record))
    }

    /// Writes the record, again and again while the store is away and the lease runs: the provider's answer is worth it.
    /// What is not written in the end is found again by whoever takes the attempt over.
    async fn write(
        &self,
        held: &HeldAttempt,
        record: &AttemptRecord,
        journal: &Journal,
    ) -> Result<bool, StorageError> {
        let evidence = journal.lines_to_keep(record, held.reservation.takeovers);
        let (charge, token) = (&held.charge, &held.reservation.lease_token);
        let key = &charge.idempotency_key;
        if !(evidence.is_empty() && record.is_verdict()) {
            return again_while_away(&held.lease, key, || {
                self.charges.record_attempt(charge, token, record, evidence)
            })
            .await;
        }
        let settlement = Arc::new(Settlement {
            charge: charge.clone(),
            lease_token: token.clone(),
            record: record.clone(),
        });
        again_while_away(&held.lease, key, || {
            self.settlements.run(Arc::clone(&settlement))
        })
        .await
    }
}

/// Writes again and again while the store is away and the lease runs.
pub(crate) async fn again_while_away<W, F>(
    lease: &HeldLease,
    key: &str,
    mut write: W,
) -> Result<bool, StorageError>
where
    W: FnMut() -> F,
    F: Future<Output = Result<bool, StorageError>>,
{
    let mut wait = RECORD_RETRY_FIRST;
    loop {
        match write().await {
            Ok(written) => return Ok(written),
            Err(error @ StorageError::Unavailable(_)) if !lease.is_over() => {
                tracing::warn!(%error, key, "the outcome could not be recorded yet");
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RECORD_RETRY_LONGEST);
    }
}

/// How long the background worker leaves what has no verdict alone, in milliseconds.
pub(crate) fn wait_ms(looked: Looked, takeovers: i32, lease_ms: i64) -> i64 {
    match looked {
        Looked::Answered => wait_after_look_ms(takeovers, lease_ms, rand::random::<f64>()),
        // The end of the lease is wait enough.
        Looked::Not | Looked::Unanswered => 0,
    }
}

/// Since when the provider could not be asked (Unix milliseconds).
pub(crate) fn unanswered_since(
    looked: Looked,
    reservation: &Reservation,
    now_ms: i64,
) -> Option<i64> {
    match looked {
        Looked::Not => reservation.unanswered_since_ms,
        Looked::Answered => None,
        Looked::Unanswered => Some(reservation.unanswered_since_ms.unwrap_or(now_ms)),
    }
}

/// The right to send again is lost for good once a look-up was called for.
pub(crate) fn weaker(before: Recovery, now: Recovery) -> Recovery {
    match (before, now) {
        (Recovery::Resend, Recovery::Resend) => Recovery::Resend,
        (Recovery::LookUp, _) | (_, Recovery::LookUp) => Recovery::LookUp,
    }
}

/// A verdict as a line of the journal; `id` tells the id of an object at the provider.
pub(crate) fn in_words<P>(verdict: &Verdict<P>, id: fn(&P) -> &str) -> String {
    match verdict {
        Verdict::Succeeded(found) => format!("succeeded by {}", id(found)),
        Verdict::Failed(failure) => format!("failed: {}", failure.code),
        Verdict::Processing(found) => format!("no verdict yet on {}", id(found)),
        Verdict::NeedsReview { evidence, .. } => format!("needs review: {evidence}"),
        Verdict::Unknown(unknown) => format!("unknown: {}", unknown.reason),
        Verdict::Released(reason) => format!("given back: {}", reason.detail),
    }
}

/// One line a verdict, at the level of who must act: people look at `error`, nobody needs to at `info`.
fn log_verdict(charge: &Charge, verdict: &Verdict) {
    macro_rules! line {
        ($level:ident, $outcome:expr, $detail:expr) => {
            tracing::$level!(
                invoice.id = %charge.invoice_id, charge.id = %charge.id, charge.key = %charge.idempotency_key,
                attempt.number = charge.attempt, outcome = $outcome, detail = %$detail, "charge"
            )
        };
    }
    match verdict {
        Verdict::Succeeded(payment) => line!(info, "succeeded", payment.id),
        Verdict::Failed(failure) => line!(info, "failed", failure.code),
        Verdict::Processing(payment) => line!(info, "processing", payment.id),
        Verdict::NeedsReview { evidence, .. } => line!(error, "needs_review", evidence),
        Verdict::Unknown(unknown) => match unknown.next {
            NextStep::Resend | NextStep::LookUp => line!(warn, "unknown", unknown.reason),
            NextStep::LookUpElseReview => line!(error, "unknown", unknown.reason),
        },
        Verdict::Released(reason) => match reason.reason {
            NotExecutedReason::Credentials => line!(error, "released", reason.detail),
            NotExecutedReason::Unreachable
            | NotExecutedReason::RateLimited
            | NotExecutedReason::OutOfTime => {
                line!(warn, "released", reason.detail)
            }
        },
    }
}
