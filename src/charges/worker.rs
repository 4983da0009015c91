//! Works on one attempt that this process holds the lease of: send or look up, decide, record.
//!
//! No transaction and no pooled connection is held while the provider is asked. Whatever happens here, the reservation
//! stays in the store, so that a successor finds the attempt, its frozen bytes and what is known of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answer;
use super::crash::{self, Step};
use super::lifecycle::RetryPolicy;
use super::model::{Charge, ChargeStatus};
use super::repository::{AttemptRecord, ChargeRepository};
use super::settlement::{
    FirstMove, LookUpContext, Plan, Verdict, after_cancel, after_look_up, after_send,
    all_sends_are_old, first_move, recovery_of, settles_before_sending,
};
use crate::idempotency::reservation::{HeldLease, Recovery, Reservation, StoredResponse};
use crate::payments::outcome::{NextStep, NotExecuted, NotExecutedReason, Outcome, Unknown};
use crate::payments::provider::{PaymentProvider, PaymentQuery, SendLimits};
use crate::storage::StorageError;

/// Look-ups and cancels in one turn at most; what is still open after them waits for the next turn.
const ROUNDS_MAX: usize = 5;

/// How long a look-up or a cancel may take at most.
const LOOK_UP_TIME: Duration = Duration::from_secs(60);

/// The first wait before a record is written again, doubled each time up to the longest.
const RECORD_RETRY_FIRST: Duration = Duration::from_millis(100);
const RECORD_RETRY_LONGEST: Duration = Duration::from_secs(2);

/// An attempt whose lease this process holds.
#[derive(Debug, Clone)]
pub struct HeldAttempt {
    /// The attempt, with its frozen request.
    pub charge: Charge,
    /// Its reservation, as it was when the lease was won.
    pub reservation: Reservation,
    /// This process's view of the lease.
    pub lease: HeldLease,
    /// How it is to be finished.
    pub recovery: Recovery,
}

/// How a turn ended.
#[derive(Debug)]
pub enum Ended {
    /// With a verdict: the charge as it is now, and the answer that is stored.
    Settled(Charge, StoredResponse),
    /// Without a verdict; the charge as it is now.
    Undecided(Charge),
    /// Nothing was executed and the reservation was given back.
    Released(NotExecuted),
    /// Somebody else had taken the attempt over; what is stored is theirs.
    LeaseLost,
}

/// Works on attempts.
pub struct Worker {
    /// Where verdicts are recorded.
    pub charges: Arc<dyn ChargeRepository>,
    /// Who is asked for the money.
    pub provider: Arc<dyn PaymentProvider>,
    /// The rules for the stored answers.
    pub policy: RetryPolicy,
    /// Marks this installation's payments.
    pub installation_id: String,
}

impl Worker {
    /// One turn: from the lease to a record.
    pub async fn finish(&self, held: &HeldAttempt) -> Result<Ended, StorageError> {
        let first = first_move(&held.reservation, held.recovery, held.lease.now_ms());
        let mut plan = match first {
            FirstMove::LookThenSend => self.look_before_sending(held).await,
            FirstMove::Send => self.send(held).await,
            FirstMove::LookUp => Plan::LookUp(Unknown::look_up(
                "the outcome of an earlier send is not known",
            )),
        };
        let mut canceled = None;
        for round in 0.. {
            plan = match plan {
                Plan::Record(Verdict::Failed(failure)) => {
                    // A payment that was closed on the way is the better reason than "nothing found".
                    return self
                        .record(held, canceled.unwrap_or(Verdict::Failed(failure)))
                        .await;
                }
                Plan::Record(verdict) => return self.record(held, verdict).await,
                Plan::LookUp(_) | Plan::Cancel { .. } if round >= ROUNDS_MAX => break,
                Plan::LookUp(unknown) => self.look_up(held, unknown).await,
                Plan::Cancel { payment_id } => match self.cancel(held, &payment_id).await {
                    // Others may be open besides it: look again until none is.
                    verdict @ Verdict::Failed(_) => {
                        canceled = Some(verdict);
                        Plan::LookUp(Unknown::look_up("an unfinished payment was cancelled"))
                    }
                    verdict @ (Verdict::Succeeded(_)
                    | Verdict::Processing(_)
                    | Verdict::NeedsReview { .. }
                    | Verdict::Unknown(_)
                    | Verdict::Released(_)) => Plan::Record(verdict),
                },
            };
        }
        self.record(
            held,
            Verdict::Unknown(Unknown::look_up("more payments than one turn can look at")),
        )
        .await
    }

    async fn look_before_sending(&self, held: &HeldAttempt) -> Plan {
        let unknown = Unknown::resend("the outcome of an earlier send is not known");
        match settles_before_sending(self.look_up(held, unknown).await) {
            Some(plan) => plan,
            None => self.send(held).await,
        }
    }

    async fn send(&self, held: &HeldAttempt) -> Plan {
        let sent_before = held.reservation.takeovers > 0;
        let outcome = if held.lease.is_over() {
            Outcome::NotExecuted(NotExecuted {
                reason: NotExecutedReason::OutOfTime,
                detail: "the lease was over before the request could be sent".into(),
            })
        } else {
            let limits = SendLimits {
                deadline: held.lease.deadline(),
                wall_deadline: held.lease.wall_deadline(),
                sent_before,
            };
            self.provider
                .send(&held.charge.idempotency_key, &held.charge.request, limits)
                .await
        };
        crash::point(Step::AfterSend);
        after_send(outcome, &held.charge, &self.installation_id, sent_before)
    }

    async fn look_up(&self, held: &HeldAttempt, unknown: Unknown) -> Plan {
        let query = PaymentQuery {
            payment_id: unknown
                .payment_id
                .clone()
                .or_else(|| held.charge.provider_payment_id.clone()),
            customer_id: held.charge.customer_id.clone(),
            invoice_id: held.charge.invoice_id.clone(),
            installation_id: self.installation_id.clone(),
            since_ms: held.reservation.first_sent_at_ms,
        };
        let all_sends_are_old = all_sends_are_old(
            &held.reservation,
            self.policy.key_window_ms,
            held.lease.now_ms(),
        );
        let found = self.provider.find(&query, look_up_deadline()).await;
        crash::point(Step::AfterLookUp);
        match found {
            Ok(found) => {
                let context = LookUpContext {
                    unknown,
                    all_sends_are_old,
                    installation_id: self.installation_id.clone(),
                };
                after_look_up(&found, &held.charge, &context)
            }
            Err(error) if self.is_beyond_hope(held) => Plan::Record(Verdict::NeedsReview {
                payment_id: query.payment_id,
                evidence: format!("{}; it cannot be looked up: {error}", unknown.reason),
            }),
            Err(error) => Plan::Record(Verdict::Unknown(Unknown {
                reason: format!("{}; look-up failed: {error}", unknown.reason),
                ..unknown
            })),
        }
    }

    /// True when the look-ups of an attempt have failed for as long again as its key was good for.
    fn is_beyond_hope(&self, held: &HeldAttempt) -> bool {
        let twice_ms = self.policy.key_window_ms.saturating_mul(2);
        all_sends_are_old(&held.reservation, twice_ms, held.lease.now_ms())
    }

    async fn cancel(&self, held: &HeldAttempt, payment_id: &str) -> Verdict {
        // A key of the payment, not of the attempt: an attempt may have to close several.
        let key = format!("cancel:{payment_id}");
        let canceled = self
            .provider
            .cancel(payment_id, &key, look_up_deadline())
            .await;
        crash::point(Step::AfterCancel);
        match canceled {
            Ok(payment) => after_cancel(payment, &held.charge, &self.installation_id),
            Err(error) => Verdict::Unknown(Unknown {
                payment_id: Some(payment_id.to_owned()),
                ..Unknown::look_up(format!("the cancel failed: {error}"))
            }),
        }
    }

    async fn record(&self, held: &HeldAttempt, verdict: Verdict) -> Result<Ended, StorageError> {
        let (charge, record) = self.to_record(held, verdict.clone())?;
        if !self.write(held, &record).await? {
            self.log_lost_lease(&charge).await;
            return Ok(Ended::LeaseLost);
        }
        crash::point(Step::AfterRecord);
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
    ) -> Result<(Charge, AttemptRecord), StorageError> {
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
                let recovery = match (held.reservation.recovery, recovery_of(&unknown)) {
                    (Recovery::Resend, Recovery::Resend) => Recovery::Resend,
                    (Recovery::LookUp, _) | (_, Recovery::LookUp) => Recovery::LookUp,
                };
                AttemptRecord::Unknown {
                    payment_id: unknown.payment_id,
                    evidence: unknown.reason,
                    recovery,
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
    ) -> Result<bool, StorageError> {
        let mut wait = RECORD_RETRY_FIRST;
        loop {
            match self
                .charges
                .record_attempt(&held.charge, &held.reservation.lease_token, record)
                .await
            {
                Ok(written) => return Ok(written),
                Err(error @ StorageError::Unavailable(_)) if !held.lease.is_over() => {
                    tracing::warn!(%error, charge.key = %held.charge.idempotency_key, "the outcome could not be recorded yet");
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RECORD_RETRY_LONGEST);
        }
    }
}

fn look_up_deadline() -> Instant {
    Instant::now() + LOOK_UP_TIME
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
