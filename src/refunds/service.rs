//! One refund as a story: look, decide, reserve or take over, work in a task of its own, answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answer;
use super::asking::{Ask, name_of};
use super::dto::RefundRequest;
use super::latecomer::was_given_up;
use super::lifecycle::{NextStep, Wanted, next_step, outlook};
use super::model::{Refund, RefundStatus};
use super::repository::{RefundRepository, RefundSnapshot};
use super::reserving::Start;
use super::worker::{Ended, HeldRefund, Worker};
use crate::access::caller::Caller;
use crate::bound::{Bound, Place};
use crate::charges::crash::{self, Step};
use crate::charges::lifecycle::{POLL_MS, VERDICT_WAIT_SECONDS, seconds_up};
use crate::charges::reserving::{CREDENTIALS_WAIT_SECONDS, PROVIDER_WAIT_SECONDS};
use crate::error::Problem;
use crate::idempotency::key::HeaderKey;
use crate::idempotency::repository::{IdempotencyRepository, Reading};
use crate::idempotency::reservation::{Claim, StoredResponse, millis};
use crate::idempotency::running::{Running, Wait, Waiting, within};
use crate::idempotency::service::KeyedError;
use crate::payments::outcome::NotExecutedReason;
use crate::payments::provider::PaymentProvider;
use crate::tasks::Tasks;

/// The operation's name in fingerprints, header keys and rows.
pub const OPERATION: &str = "refund";

/// How often a lost race is looked at again before the caller is told that somebody is at it.
const ROUNDS_MAX: usize = 5;

/// How long a caller waits after losing every race, in milliseconds.
const LOST_RACES_WAIT_MS: i64 = 1_000;

/// How long a caller waits where an operator has to put the settings right, in milliseconds.
const FOREIGN_WAIT_MS: i64 = 60_000;

/// What a caller gets about a refund.
pub type RefundResult = Result<RefundAnswer, Problem>;

/// An answer about a refund that is not a problem of the request.
#[derive(Debug, Clone)]
pub enum RefundAnswer {
    /// The stored answer of a success or of a definitive failure.
    Stored {
        /// The answer.
        response: StoredResponse,
        /// True when it was given before.
        replayed: bool,
    },
    /// No verdict yet: 202 with the refund.
    Undecided {
        /// The refund.
        refund: Box<Refund>,
        /// When it is worth asking again, in seconds.
        retry_after_seconds: i64,
    },
}

/// What the service is built from.
pub struct RefundsConfig {
    /// How long after the first send a key may be sent again (milliseconds).
    pub key_window_ms: i64,
    /// How long a reservation's lease runs.
    pub reservation_ttl: Duration,
    /// How long a caller waits for its own refund at most.
    pub response_wait: Duration,
    /// Marks this installation's refunds at the provider.
    pub installation_id: String,
    /// How many attempts are worked on at once, charges and refunds together.
    pub room: Bound,
}

/// Gives money back. Cheap to clone.
#[derive(Clone)]
pub struct RefundsService {
    pub(super) parts: Arc<Parts>,
}

pub(super) struct Parts {
    pub(super) refunds: Arc<dyn RefundRepository>,
    pub(super) keys: Arc<dyn IdempotencyRepository>,
    pub(super) provider: Arc<dyn PaymentProvider>,
    pub(super) worker: Worker,
    pub(super) config: RefundsConfig,
    pub(super) running: Running<RefundResult>,
    pub(super) tasks: Tasks,
}

/// How the first look ended.
pub(super) enum Begun {
    Answered(RefundAnswer),
    /// This call works on it now.
    Started {
        refund: Box<Refund>,
        waiting: Waiting<RefundResult>,
    },
    /// Somebody else does; in this process when `waiting` is there.
    Busy {
        waiting: Option<Waiting<RefundResult>>,
        retry_after_ms: i64,
    },
}

impl RefundsService {
    /// Over its ports.
    pub fn new(
        refunds: Arc<dyn RefundRepository>,
        keys: Arc<dyn IdempotencyRepository>,
        provider: Arc<dyn PaymentProvider>,
        tasks: Tasks,
        config: RefundsConfig,
    ) -> Self {
        let worker = Worker {
            refunds: Arc::clone(&refunds),
            provider: Arc::clone(&provider),
            key_window_ms: config.key_window_ms,
            installation_id: config.installation_id.clone(),
            lease_ms: millis(config.reservation_ttl),
        };
        let parts = Parts {
            refunds,
            keys,
            provider,
            worker,
            config,
            running: Running::default(),
            tasks,
        };
        Self {
            parts: Arc::new(parts),
        }
    }

    /// Gives a charge's money back, or says what became of it. Safe to call again at any time, by anybody: all that is left
    /// is given back once, and a part once for each header key.
    ///
    /// The refund runs in a task of its own: dropping this future stops the waiting and nothing else.
    pub async fn refund(
        &self,
        request: RefundRequest,
        key: Option<&HeaderKey>,
        wait: Wait,
        caller: &Caller,
    ) -> RefundResult {
        crash::point(Step::Arrival);
        let ask = Ask::new(request, caller, key)?;
        let result = self.refund_or_wait(ask, wait, caller).await;
        crash::point(Step::BeforeAnswer);
        result
    }

    async fn refund_or_wait(&self, ask: Ask, wait: Wait, caller: &Caller) -> RefundResult {
        let deadline = Instant::now() + wait.patience(self.parts.config.response_wait);
        let service = self.clone();
        let (asked, caller) = (ask.clone(), caller.clone());
        let begin = async move { service.begin(&asked, &caller).await };
        let begun = self.parts.tasks.run(begin).await;
        match begun.map_err(|_| Problem::internal())?? {
            Begun::Answered(answer) => Ok(answer),
            Begun::Started { refund, waiting } => match within(deadline, waiting.result()).await {
                Some(Some(result)) => result,
                Some(None) => Err(Problem::internal()),
                None => Ok(undecided(*refund, None)),
            },
            Begun::Busy {
                waiting,
                retry_after_ms,
            } => match wait.preferred {
                None => Err(answer::in_progress(seconds_up(retry_after_ms).max(1))),
                Some(_) => self.join(ask, waiting, retry_after_ms, deadline).await,
            },
        }
    }

    /// Looks at the charge and its refund and does the next step. Runs in a task: no storage call of it is cut off half way.
    async fn begin(&self, ask: &Ask, caller: &Caller) -> Result<Begun, Problem> {
        let busy = |retry_after_ms| Begun::Busy {
            waiting: None,
            retry_after_ms,
        };
        for _ in 0..ROUNDS_MAX {
            if let Some(waiting) = self
                .parts
                .running
                .find(&name_of(&ask.charge_id, &ask.portion))
            {
                return Ok(Begun::Busy {
                    waiting: Some(waiting),
                    retry_after_ms: POLL_MS,
                });
            }
            let read = self
                .parts
                .refunds
                .refund_snapshot(&ask.charge_id, &ask.portion);
            let Some(Reading {
                value: snapshot,
                now_ms,
            }) = read.await?
            else {
                return Err(answer::charge_not_found());
            };
            let window_ms = self.parts.config.key_window_ms;
            let step = next_step(&snapshot, &ask.wanted, &ask.fingerprint, window_ms, now_ms);
            tracing::debug!(charge.id = %ask.charge_id, step = ?std::mem::discriminant(&step), "decided");
            let place = self.place_for(&step)?;
            let held = match step {
                NextStep::Start { .. } if self.is_anothers(&snapshot) => {
                    return Err(answer::of_another_provider(&snapshot.charge));
                }
                NextStep::Start {
                    attempt,
                    amount_minor,
                } => {
                    if self
                        .meets_a_latecomer(&snapshot, &ask.wanted, now_ms)
                        .await?
                    {
                        continue;
                    }
                    let start = Start {
                        attempt,
                        amount_minor,
                        now_ms,
                    };
                    self.reserve(snapshot, ask, start, caller).await?
                }
                NextStep::TakeOver(_) if self.is_anothers(&snapshot) => {
                    return Ok(busy(FOREIGN_WAIT_MS));
                }
                NextStep::TakeOver(recovery) => {
                    self.take_over(snapshot, recovery, Claim::Expired).await?
                }
                NextStep::InProgress { retry_after_ms } => return Ok(busy(retry_after_ms)),
                settled @ (NextStep::Replay(_)
                | NextStep::Processing
                | NextStep::NeedsReview
                | NextStep::Returned
                | NextStep::KeyReused
                | NextStep::NotRefundable
                | NextStep::Exceeds { .. }
                | NextStep::Inconsistent(_)) => {
                    let answer = self.answer(settled, snapshot, &ask.wanted).await;
                    return answer.map(Begun::Answered);
                }
            };
            if let Some((held, place)) = held.zip(place) {
                return Ok(self.start(held, place));
            }
        }
        Ok(busy(LOST_RACES_WAIT_MS))
    }

    /// True when the charge was made with another provider than the one that is set now, which knows nothing of it: neither
    /// sending there nor asking there would tell the truth.
    pub(super) fn is_anothers(&self, snapshot: &RefundSnapshot) -> bool {
        let is_anothers = snapshot.charge.provider != self.parts.provider.name();
        if is_anothers {
            tracing::error!(
                charge.id = %snapshot.charge.id, provider = %snapshot.charge.provider,
                "a refund of another provider's charge: set PAYMENT_PROVIDER back for it"
            );
        }
        is_anothers
    }

    /// The answer to a step that moves nothing.
    async fn answer(
        &self,
        step: NextStep,
        snapshot: RefundSnapshot,
        wanted: &Wanted,
    ) -> RefundResult {
        let refund = snapshot.own.map(|(refund, _)| refund);
        match (step, refund) {
            (NextStep::Replay(response), refund) => {
                // What came late of it is truer than what was said before.
                if let Some(given_up) = refund.filter(was_given_up)
                    && let Some(late) = self.late_of(&given_up).await?
                {
                    return answer::of_late(&late);
                }
                tracing::info!(charge.id = %snapshot.charge.id, outcome = "replayed", "refund");
                Ok(RefundAnswer::Stored {
                    response,
                    replayed: true,
                })
            }
            (NextStep::Returned, Some(refund)) => match refund.status.clone() {
                RefundStatus::Returned(failure) => Err(answer::refund_failed(&refund, &failure)),
                RefundStatus::Pending
                | RefundStatus::Processing
                | RefundStatus::NeedsReview
                | RefundStatus::Succeeded
                | RefundStatus::Failed(_) => Err(Problem::internal()),
            },
            (NextStep::NeedsReview, Some(refund)) => Err(answer::needs_review(&refund)),
            (NextStep::Processing, Some(refund)) => Ok(undecided(refund, None)),
            (NextStep::KeyReused, _) => Err(KeyedError::Reused.into()),
            (NextStep::NotRefundable, _) => Err(answer::not_refundable(
                &snapshot.charge,
                VERDICT_WAIT_SECONDS,
            )),
            (NextStep::Exceeds { rest_minor }, _) => match wanted {
                Wanted::Rest => Err(self.nothing_left(&snapshot.charge).await?),
                Wanted::Part(_) => Err(answer::exceeds(rest_minor, &snapshot.charge.currency)),
            },
            (NextStep::Inconsistent(what), _) => {
                tracing::error!(charge.id = %snapshot.charge.id, what, "the tables contradict each other");
                Err(Problem::internal())
            }
            (step, _) => {
                tracing::error!(charge.id = %snapshot.charge.id, ?step, "a step without an answer");
                Err(Problem::internal())
            }
        }
    }

    /// Hands a held refund to a task of its own, which keeps its place to the end.
    pub(super) fn start(&self, held: HeldRefund, place: Place) -> Begun {
        let name = name_of(&held.refund.charge_id, &held.refund.portion);
        let (entry, waiting) = self.parts.running.enter(&name);
        let refund = Box::new(held.refund.clone());
        let service = self.clone();
        self.parts.tasks.spawn(async move {
            let result = service.work(held).await;
            drop(place);
            entry.finish(result);
        });
        Begun::Started { refund, waiting }
    }

    async fn work(&self, held: HeldRefund) -> RefundResult {
        let ended = match self.parts.worker.finish(&held).await {
            Ok(ended) => ended,
            // The provider may have been asked already: "nothing was sent" would be a guess.
            Err(error) => {
                tracing::error!(%error, refund.key = %held.refund.idempotency_key, "the outcome could not be recorded");
                return Ok(undecided(held.refund, None));
            }
        };
        match ended {
            Ended::Settled(response) => Ok(RefundAnswer::Stored {
                response,
                replayed: false,
            }),
            Ended::Undecided(refund) if refund.status == RefundStatus::NeedsReview => {
                Err(answer::needs_review(&refund))
            }
            Ended::Undecided(refund) => {
                let lease_end_ms = held.reservation.lease_expires_at_ms;
                let left_ms = lease_end_ms.saturating_sub(held.lease.now_ms());
                Ok(undecided(refund, Some(left_ms)))
            }
            Ended::Released(reason) => Err(answer::provider_unavailable(match reason.reason {
                NotExecutedReason::Credentials => CREDENTIALS_WAIT_SECONDS,
                NotExecutedReason::Unreachable
                | NotExecutedReason::RateLimited
                | NotExecutedReason::OutOfTime => PROVIDER_WAIT_SECONDS,
            })),
            Ended::LeaseLost => {
                let refund = held.refund;
                let ask = Ask::of(&refund, held.reservation.fingerprint);
                match self.peek(&ask).await {
                    Ok(Some(answer)) => Ok(answer),
                    Ok(None) | Err(_) => Ok(undecided(refund, None)),
                }
            }
        }
    }
}

/// No verdict yet. What is left of the lease tells when it is worth asking again, where that is known.
pub(super) fn undecided(refund: Refund, lease_left_ms: Option<i64>) -> RefundAnswer {
    let advised = outlook(&refund).retry_after_seconds.unwrap_or(1);
    RefundAnswer::Undecided {
        retry_after_seconds: lease_left_ms.map_or(advised, |left| seconds_up(left).max(1)),
        refund: Box::new(refund),
    }
}
