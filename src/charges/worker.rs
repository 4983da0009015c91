//! Works on one attempt that this process holds the lease of: send or look up, decide, record.
//!
//! No transaction and no pooled connection is held while the provider is asked. Whatever happens here, the reservation
//! stays in the store, so that a successor finds the attempt, its frozen bytes and what is known of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::crash::{self, Step};
use super::gathering::Settling;
use super::journal::{self, Journal, Looked};
use super::lifecycle::RetryPolicy;
use super::model::{Charge, ChargeStatus};
use super::ownership::proves_success_alone;
use super::repository::{ChargeRepository, EvidenceKind};
use super::settlement::{
    LookUpContext, Plan, Verdict, after_cancel, after_look_up, after_send, all_sends_are_old,
};
use super::takeover::{FirstMove, earlier_send, first_move, settles_before_sending};
use crate::idempotency::decision::is_older_than;
use crate::idempotency::reservation::{HeldLease, Recovery, Reservation, StoredResponse};
use crate::metrics::Metrics;
use crate::payments::outcome::{
    NextStep, NotExecuted, NotExecutedReason, Outcome, ProviderPayment, Unknown,
};
use crate::payments::provider::{LookupError, PaymentProvider, PaymentQuery, SendLimits};
use crate::storage::StorageError;
use crate::together::Together;

/// Look-ups and cancels in one turn at most; what is still open after them waits for the next turn.
const ROUNDS_MAX: usize = 5;

/// How long a look-up or a cancel may take at most.
const LOOK_UP_TIME: Duration = Duration::from_secs(60);

/// How long fetching a payment by its id may take where the list failed.
const KNOWN_TIME: Duration = Duration::from_secs(15);

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
    /// No payment of the invoice is older than this (Unix milliseconds).
    pub payments_since_ms: i64,
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
    /// Where a verdict goes that has nothing more to tell than itself.
    pub settlements: Together<Settling>,
    /// Who is asked for the money.
    pub provider: Arc<dyn PaymentProvider>,
    /// The rules for the stored answers.
    pub policy: RetryPolicy,
    /// Marks this installation's payments.
    pub installation_id: String,
    /// How long a lease runs, in milliseconds.
    pub lease_ms: i64,
    /// Where verdicts are counted.
    pub metrics: Metrics,
}

impl Worker {
    /// One turn: from the lease to a record.
    pub async fn finish(&self, held: &HeldAttempt) -> Result<Ended, StorageError> {
        let now_ms = held.lease.now_ms();
        let first = first_move(&held.reservation, held.recovery, now_ms);
        let mut journal = Journal::begin(held.reservation.takeovers, held.recovery, now_ms);
        // What is rare or comes later is boxed: thousands of turns wait for the provider, and each would hold the room for it.
        let mut plan = match first {
            FirstMove::LookThenSend => Box::pin(self.look_before_sending(held, &mut journal)).await,
            FirstMove::Send => self.send(held, &mut journal).await,
            FirstMove::LookUp => Plan::LookUp(earlier_send(held.reservation.recovery)),
        };
        let mut canceled = None;
        let mut rounds = 0;
        let verdict = loop {
            let had_enough = rounds == ROUNDS_MAX;
            rounds += 1;
            plan = match plan {
                // A payment that was closed on the way is the better reason than "nothing found".
                Plan::Record(Verdict::Failed(failure)) => {
                    break canceled.unwrap_or(Verdict::Failed(failure));
                }
                Plan::Record(verdict) => break verdict,
                Plan::LookUp(_) | Plan::Cancel { .. } if had_enough => {
                    let open = "more payments than one turn can look at";
                    break Verdict::Unknown(Unknown::look_up(open));
                }
                Plan::LookUp(unknown) => Box::pin(self.look_up(held, unknown, &mut journal)).await,
                Plan::Cancel { payment_id } => {
                    match Box::pin(self.cancel(held, &payment_id, &mut journal)).await {
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
                    }
                }
            };
        };
        Box::pin(self.record(held, verdict, journal)).await
    }

    async fn look_before_sending(&self, held: &HeldAttempt, journal: &mut Journal) -> Plan {
        let found = self
            .look_up(held, earlier_send(Recovery::Resend), journal)
            .await;
        match settles_before_sending(found) {
            Some(plan) => plan,
            None => self.send(held, journal).await,
        }
    }

    async fn send(&self, held: &HeldAttempt, journal: &mut Journal) -> Plan {
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
        journal.looked = Looked::Not;
        journal.add(
            EvidenceKind::Send,
            journal::sent(&outcome, journal::found_one),
            held.lease.now_ms(),
        );
        after_send(outcome, &held.charge, &self.installation_id, sent_before)
    }

    async fn look_up(&self, held: &HeldAttempt, unknown: Unknown, journal: &mut Journal) -> Plan {
        let query = PaymentQuery {
            payment_id: unknown
                .payment_id
                .clone()
                .or_else(|| held.charge.provider_payment_id.clone()),
            customer_id: held.charge.customer_id.clone(),
            invoice_id: held.charge.invoice_id.clone(),
            installation_id: self.installation_id.clone(),
            since_ms: held.payments_since_ms,
        };
        let all_sends_are_old = all_sends_are_old(
            &held.reservation,
            self.policy.key_window_ms,
            held.lease.now_ms(),
        );
        // Not beyond the lease: a successor would find the same, and its record would stand.
        let deadline = look_up_deadline().min(held.lease.deadline());
        let found = match self.provider.find(&query, deadline).await {
            Err(error) => self.at_least_the_known(held, &query, error).await,
            found => found,
        };
        crash::point(Step::AfterLookUp);
        journal.looked = match &found {
            Ok(_) => Looked::Answered,
            Err(_) => Looked::Unanswered,
        };
        let detail = match &found {
            Ok(payments) => journal::found(payments),
            Err(error) => error.to_string(),
        };
        journal.add(EvidenceKind::LookUp, detail, held.lease.now_ms());
        match found {
            Ok(found) => {
                let context = LookUpContext {
                    unknown,
                    all_sends_are_old,
                    installation_id: self.installation_id.clone(),
                };
                after_look_up(&found, &held.charge, &context)
            }
            // A conflict over the key is parked at once: a later look-up would not know of it any more.
            Err(error)
                if unknown.next == NextStep::LookUpElseReview || self.is_beyond_hope(held) =>
            {
                Plan::Record(Verdict::NeedsReview {
                    payment_id: query.payment_id,
                    evidence: format!("{}; it cannot be looked up: {error}", unknown.reason),
                })
            }
            Err(error) => Plan::Record(Verdict::Unknown(Unknown {
                reason: format!("{}; look-up failed: {error}", unknown.reason),
                ..unknown
            })),
        }
    }

    /// Where the list cannot be read, the payment that is known by its id may still be told to have taken the money; nothing
    /// else follows from it alone.
    async fn at_least_the_known(
        &self,
        held: &HeldAttempt,
        query: &PaymentQuery,
        error: LookupError,
    ) -> Result<Vec<ProviderPayment>, LookupError> {
        let Some(id) = query.payment_id.as_deref() else {
            return Err(error);
        };
        let deadline = (Instant::now() + KNOWN_TIME).min(held.lease.deadline());
        let known = self.provider.retrieve(id, deadline).await.ok().flatten();
        let known = known.filter(|payment| proves_success_alone(payment, &held.charge));
        known.map(|payment| vec![payment]).ok_or(error)
    }

    /// True when nothing can be sent any more and the provider could not be asked for as long again as the key was good for. What
    /// is in the provider's hands for certain is never given to a person for that.
    fn is_beyond_hope(&self, held: &HeldAttempt) -> bool {
        let (window_ms, now_ms) = (self.policy.key_window_ms, held.lease.now_ms());
        let since_ms = held.reservation.unanswered_since_ms;
        held.charge.status != ChargeStatus::Processing
            && all_sends_are_old(&held.reservation, window_ms, now_ms)
            && since_ms.is_some_and(|since_ms| is_older_than(since_ms, window_ms, now_ms))
    }

    async fn cancel(&self, held: &HeldAttempt, payment_id: &str, journal: &mut Journal) -> Verdict {
        // A key of the payment, because an attempt may have to close several; and of the takeover, because a stored error
        // would be repeated for a day.
        let takeovers = held.reservation.takeovers;
        let key = format!("cancel:{payment_id}:{takeovers}");
        let canceled = self
            .provider
            .cancel(payment_id, &key, look_up_deadline())
            .await;
        crash::point(Step::AfterCancel);
        let detail = match &canceled {
            Ok(payment) => journal::found(std::slice::from_ref(payment)),
            Err(error) => format!("{payment_id}: {error}"),
        };
        journal.add(EvidenceKind::Cancel, detail, held.lease.now_ms());
        match canceled {
            Ok(payment) => after_cancel(payment, &held.charge, &self.installation_id),
            Err(error) => Verdict::Unknown(Unknown {
                payment_id: Some(payment_id.to_owned()),
                ..Unknown::look_up(format!("the cancel failed: {error}"))
            }),
        }
    }
}

fn look_up_deadline() -> Instant {
    Instant::now() + LOOK_UP_TIME
}
