//! Works on one refund that this process holds the lease of: send or look up, decide, record. As the charges' worker does,
//! it holds no transaction and no pooled connection while the provider is asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::model::{Refund, RefundStatus};
use super::repository::RefundRepository;
use super::reserving::EVER;
use super::settlement::{Ours, Plan, Verdict, after_look_up, after_send};
use crate::charges::crash::{self, Step};
use crate::charges::journal::{self, Journal, Looked};
use crate::charges::repository::EvidenceKind;
use crate::charges::settlement::{LookUpContext, all_sends_are_old};
use crate::charges::takeover::{FirstMove, earlier_send, first_move};
use crate::idempotency::decision::is_older_than;
use crate::idempotency::reservation::{HeldLease, Recovery, Reservation, StoredResponse};
use crate::payments::outcome::{NextStep, NotExecuted, NotExecutedReason, Outcome, Unknown};
use crate::payments::provider::{LookupError, PaymentProvider, SendLimits};
use crate::payments::refund::{ProviderRefund, RefundQuery};
use crate::storage::StorageError;

/// How long a look-up may take at most.
const LOOK_UP_TIME: Duration = Duration::from_secs(60);

/// How long fetching a refund by its id may take where the list failed.
const KNOWN_TIME: Duration = Duration::from_secs(15);

/// A refund whose lease this process holds.
#[derive(Debug, Clone)]
pub struct HeldRefund {
    /// The refund, with its frozen request.
    pub refund: Refund,
    /// Its reservation, as it was when the lease was won.
    pub reservation: Reservation,
    /// This process's view of the lease.
    pub lease: HeldLease,
    /// How it is to be finished.
    pub recovery: Recovery,
    /// The payment whose money it gives back.
    pub payment_id: String,
}

/// How a turn ended.
#[derive(Debug)]
pub enum Ended {
    /// With a verdict, and the answer that is stored.
    Settled(StoredResponse),
    /// Without a verdict; the refund as it is now.
    Undecided(Refund),
    /// Nothing was executed and the reservation was given back.
    Released(NotExecuted),
    /// Somebody else had taken the refund over; what is stored is theirs.
    LeaseLost,
}

/// Works on refunds.
pub struct Worker {
    /// Where verdicts are recorded.
    pub refunds: Arc<dyn RefundRepository>,
    /// Who is asked to give the money back.
    pub provider: Arc<dyn PaymentProvider>,
    /// How long after the first send a key may be sent again (milliseconds).
    pub key_window_ms: i64,
    /// Marks this installation's refunds.
    pub installation_id: String,
    /// How long a lease runs, in milliseconds.
    pub lease_ms: i64,
}

impl Worker {
    /// One turn: from the lease to a record.
    pub async fn finish(&self, held: &HeldRefund) -> Result<Ended, StorageError> {
        let now_ms = held.lease.now_ms();
        let first = first_move(&held.reservation, held.recovery, now_ms);
        let mut journal = Journal::begin(held.reservation.takeovers, held.recovery, now_ms);
        let plan = match first {
            FirstMove::LookThenSend => self.look_before_sending(held, &mut journal).await,
            FirstMove::Send => self.send(held, &mut journal).await,
            FirstMove::LookUp => Plan::LookUp(earlier_send(held.reservation.recovery)),
        };
        let verdict = match plan {
            Plan::Record(verdict) => verdict,
            Plan::LookUp(unknown) => self.look_up(held, unknown, &mut journal).await,
        };
        self.record(held, verdict, journal).await
    }

    /// A late takeover asks before it sends, and sends only where nothing is there to settle on, or nobody can tell.
    async fn look_before_sending(&self, held: &HeldRefund, journal: &mut Journal) -> Plan {
        let unknown = earlier_send(Recovery::Resend);
        match self.look_up(held, unknown, journal).await {
            found @ (Verdict::Succeeded(_)
            | Verdict::Processing(_)
            | Verdict::NeedsReview { .. }) => Plan::Record(found),
            Verdict::Failed(_) | Verdict::Unknown(_) | Verdict::Released(_) => {
                self.send(held, journal).await
            }
        }
    }

    async fn send(&self, held: &HeldRefund, journal: &mut Journal) -> Plan {
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
            let (key, request) = (&held.refund.idempotency_key, &held.refund.request);
            let provider = self.provider.refunds();
            provider.send_refund(key, request, limits).await
        };
        crash::point(Step::AfterSend);
        journal.looked = Looked::Not;
        let detail = journal::sent(&outcome, found_one);
        journal.add(EvidenceKind::Send, detail, held.lease.now_ms());
        after_send(outcome, self.ours(held), sent_before)
    }

    async fn look_up(&self, held: &HeldRefund, unknown: Unknown, journal: &mut Journal) -> Verdict {
        let known = held.refund.provider_refund_id.clone();
        let query = RefundQuery {
            payment_id: held.payment_id.clone(),
            refund_id: unknown.payment_id.clone().or(known),
            since_ms: EVER,
        };
        let now_ms = held.lease.now_ms();
        let all_sends_are_old = all_sends_are_old(&held.reservation, self.key_window_ms, now_ms);
        // Not beyond the lease: a successor would find the same, and its record would stand.
        let deadline = (Instant::now() + LOOK_UP_TIME).min(held.lease.deadline());
        let found = match self.provider.refunds().find_refunds(&query, deadline).await {
            Err(error) => self.at_least_the_known(held, &query, error).await,
            found => found,
        };
        crash::point(Step::AfterLookUp);
        journal.looked = match &found {
            Ok(_) => Looked::Answered,
            Err(_) => Looked::Unanswered,
        };
        let detail = match &found {
            Ok(refunds) => found_in_words(refunds),
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
                after_look_up(&found, self.ours(held), &context)
            }
            // A conflict over the key is parked at once: a later look-up would not know of it any more.
            Err(error)
                if unknown.next == NextStep::LookUpElseReview || self.is_beyond_hope(held) =>
            {
                Verdict::NeedsReview {
                    payment_id: query.refund_id,
                    evidence: format!("{}; it cannot be looked up: {error}", unknown.reason),
                }
            }
            Err(error) => Verdict::Unknown(Unknown {
                reason: format!("{}; look-up failed: {error}", unknown.reason),
                ..unknown
            }),
        }
    }

    /// Where the list cannot be read, the refund that is known by its id may still be told to have given the money back;
    /// nothing else follows from it alone.
    async fn at_least_the_known(
        &self,
        held: &HeldRefund,
        query: &RefundQuery,
        error: LookupError,
    ) -> Result<Vec<ProviderRefund>, LookupError> {
        let Some(id) = query.refund_id.as_deref() else {
            return Err(error);
        };
        let deadline = (Instant::now() + KNOWN_TIME).min(held.lease.deadline());
        let provider = self.provider.refunds();
        let known = provider.retrieve_refund(id, deadline).await.ok().flatten();
        let known = known.filter(|found| self.ours(held).proves_success_alone(found));
        known.map(|found| vec![found]).ok_or(error)
    }

    /// True when nothing can be sent any more and the provider could not be asked for as long again as the key was good for.
    /// What is in the provider's hands for certain is never given to a person for that.
    fn is_beyond_hope(&self, held: &HeldRefund) -> bool {
        let (window_ms, now_ms) = (self.key_window_ms, held.lease.now_ms());
        let since_ms = held.reservation.unanswered_since_ms;
        held.refund.status != RefundStatus::Processing
            && all_sends_are_old(&held.reservation, window_ms, now_ms)
            && since_ms.is_some_and(|since_ms| is_older_than(since_ms, window_ms, now_ms))
    }

    fn ours<'a>(&'a self, held: &'a HeldRefund) -> Ours<'a> {
        Ours {
            refund: &held.refund,
            payment_id: &held.payment_id,
            installation_id: &self.installation_id,
        }
    }
}

/// What a look-up found.
fn found_in_words(refunds: &[ProviderRefund]) -> String {
    if refunds.is_empty() {
        return "the provider has no refund of this payment".to_owned();
    }
    let each: Vec<String> = refunds.iter().map(found_one).collect();
    each.join("; ")
}

fn found_one(refund: &ProviderRefund) -> String {
    let (id, status) = (&refund.id, refund.status.as_str());
    format!("{id} {status}, {} {}", refund.amount_minor, refund.currency)
}
