//! One charge as a story: look, decide, reserve or take over, work in a task of its own, answer.

use std::sync::Arc;
use std::time::Instant;

use super::answer;
use super::config::ChargesConfig;
use super::crash::{self, Step};
use super::gathering::{Looking, Reserving, Settling};
use super::lifecycle::{NextStep, RetryPolicy, next_step, outlook, seconds_up};
use super::model::{Charge, ChargeStatus};
use super::recording::result_label;
use super::replays::Replays;
use super::repository::{ChargeRepository, ChargeSnapshot};
use super::reserving::{
    CREDENTIALS_WAIT_SECONDS, PROVIDER_WAIT_SECONDS, Start, charge_fingerprint,
};
use super::spending::Gates;
use super::worker::{Ended, HeldAttempt, Worker};
use crate::access::caller::Caller;
use crate::bound::Place;
use crate::error::Problem;
use crate::idempotency::repository::{IdempotencyRepository, Reading};
use crate::idempotency::reservation::{Claim, StoredResponse, millis};
use crate::idempotency::running::{Running, Wait, Waiting, within};
use crate::payments::outcome::NotExecutedReason;
use crate::payments::provider::PaymentProvider;
use crate::tasks::Tasks;
use crate::together::Together;

/// The operation's name in fingerprints and rows.
pub const OPERATION: &str = "charge";

/// How often a lost race is looked at again before the caller is told that somebody is charging.
const ROUNDS_MAX: usize = 5;

/// How long a caller waits after losing every race, in milliseconds.
const LOST_RACES_WAIT_MS: i64 = 1_000;

/// How long a caller waits whose call could not even begin in time, in seconds.
const BEGIN_WAIT_SECONDS: i64 = 2;

/// How long a caller waits where an operator has to put the settings right, in milliseconds.
const FOREIGN_WAIT_MS: i64 = 60_000;

/// What a caller gets about a charge.
pub type ChargeResult = Result<ChargeAnswer, Problem>;

/// An answer about a charge that is not a problem of the request.
#[derive(Debug, Clone)]
pub enum ChargeAnswer {
    /// The stored answer of a success or of a definitive failure.
    Stored {
        /// The answer.
        response: StoredResponse,
        /// True when it was given before.
        replayed: bool,
        /// With a failure that may be tried again later: when, in seconds.
        retry_after_seconds: Option<i64>,
    },
    /// No verdict yet: 202 with the charge.
    Undecided {
        /// The charge.
        charge: Box<Charge>,
        /// When it is worth asking again, in seconds.
        retry_after_seconds: i64,
    },
}

/// Charges invoices. Cheap to clone.
#[derive(Clone)]
pub struct ChargesService {
    pub(super) parts: Arc<Parts>,
}

pub(super) struct Parts {
    pub(super) charges: Arc<dyn ChargeRepository>,
    pub(super) looks: Together<Looking>,
    pub(super) reservations: Together<Reserving>,
    pub(super) keys: Arc<dyn IdempotencyRepository>,
    pub(super) provider: Arc<dyn PaymentProvider>,
    pub(super) worker: Worker,
    pub(super) config: ChargesConfig,
    pub(super) running: Running<ChargeResult>,
    pub(super) gates: Gates,
    pub(super) replays: Replays,
    pub(super) tasks: Tasks,
}

/// How the first look at an invoice ended.
pub(super) enum Begun {
    Answered(ChargeAnswer),
    /// This call works on it now.
    Started {
        held: Arc<HeldAttempt>,
        waiting: Waiting<ChargeResult>,
    },
    /// Somebody else does; in this process when `waiting` is there.
    Busy {
        waiting: Option<Waiting<ChargeResult>>,
        retry_after_ms: i64,
    },
}

impl ChargesService {
    /// Over its ports.
    pub fn new(
        charges: Arc<dyn ChargeRepository>,
        keys: Arc<dyn IdempotencyRepository>,
        provider: Arc<dyn PaymentProvider>,
        tasks: Tasks,
        config: ChargesConfig,
    ) -> Self {
        let worker = Worker {
            charges: Arc::clone(&charges),
            settlements: Together::new(Settling(Arc::clone(&charges))),
            provider: Arc::clone(&provider),
            policy: config.policy,
            installation_id: config.installation_id.clone(),
            lease_ms: millis(config.reservation_ttl),
            metrics: config.metrics.clone(),
        };
        let parts = Parts {
            looks: Together::new(Looking(Arc::clone(&charges))),
            reservations: Together::new(Reserving(Arc::clone(&charges))),
            charges,
            keys,
            provider,
            worker,
            running: Running::default(),
            gates: Gates::new(&config.room),
            replays: Replays::new(config.replay_cache_bytes),
            tasks,
            config,
        };
        Self {
            parts: Arc::new(parts),
        }
    }

    /// The rules that answers are made by.
    pub fn policy(&self) -> &RetryPolicy {
        &self.parts.config.policy
    }

    /// Charges an invoice, or says what became of its charge. Safe to call again at any time, by anybody.
    ///
    /// The charge runs in a task of its own: dropping this future stops the waiting and nothing else. `caller` decides nothing
    /// but whether a new attempt is within its limits, and is kept with the attempt.
    pub async fn charge_invoice(
        &self,
        invoice_id: String,
        wait: Wait,
        caller: &Caller,
    ) -> ChargeResult {
        crash::point(Step::Arrival);
        let result = match self.parts.replays.find(&invoice_id) {
            Some(answer) => Ok(answer),
            None => {
                let result = self.charge_or_wait(&invoice_id, wait, caller).await;
                self.parts.replays.keep(&invoice_id, &result);
                result
            }
        };
        self.parts.config.metrics.charge_call(result_label(&result));
        crash::point(Step::BeforeAnswer);
        result
    }

    async fn charge_or_wait(&self, invoice_id: &str, wait: Wait, caller: &Caller) -> ChargeResult {
        let response_wait = self.parts.config.response_wait;
        let now = Instant::now();
        let deadline = now + wait.patience(response_wait);
        let service = self.clone();
        let id = invoice_id.to_owned();
        let caller = caller.clone();
        let begin = self
            .parts
            .tasks
            .run(async move { service.begin(&id, &caller).await });
        // Looking at the provider before anything is reserved may take longer than a caller waits; it goes on without it.
        let Some(begun) = within(now + response_wait, begin).await else {
            return Err(answer::in_progress(BEGIN_WAIT_SECONDS));
        };
        match begun.map_err(|_| Problem::internal())?? {
            Begun::Answered(answer) => Ok(answer),
            Begun::Started { held, waiting } => match within(deadline, waiting.result()).await {
                Some(Some(result)) => result,
                Some(None) => Err(Problem::internal()),
                None => Ok(self.undecided(held.charge.clone(), None)),
            },
            Begun::Busy {
                waiting,
                retry_after_ms,
            } => match wait.preferred {
                None => Err(answer::in_progress(seconds_up(retry_after_ms).max(1))),
                Some(_) => {
                    self.join(invoice_id, waiting, retry_after_ms, deadline)
                        .await
                }
            },
        }
    }

    /// Looks at the invoice and does the next step. Runs in a task: no storage call of it is cut off half way. What follows the look is
    /// boxed, for thousands may wait for their look.
    async fn begin(&self, invoice_id: &str, caller: &Caller) -> Result<Begun, Problem> {
        for _ in 0..ROUNDS_MAX {
            if let Some(waiting) = self.parts.running.find(invoice_id) {
                return Ok(Begun::Busy {
                    waiting: Some(waiting),
                    retry_after_ms: 2_000,
                });
            }
            let Some(Reading {
                value: snapshot,
                now_ms,
            }) = self
                .parts
                .looks
                .run(Arc::new(invoice_id.to_owned()))
                .await?
            else {
                return Err(answer::invoice_not_found());
            };
            let fingerprint = charge_fingerprint(invoice_id)?;
            let step = next_step(&snapshot, &fingerprint, self.policy(), now_ms);
            tracing::debug!(invoice.id = %invoice_id, step = ?std::mem::discriminant(&step), "decided");
            let place = self.place_for(&step)?;
            let held = match step {
                NextStep::Start {
                    attempt,
                    open_payment_id,
                } => {
                    if self.meets_a_latecomer(&snapshot, now_ms).await? {
                        continue;
                    }
                    let start = Start {
                        attempt,
                        open_payment_id,
                        fingerprint,
                        now_ms,
                    };
                    match Box::pin(self.reserve(&snapshot, start, caller)).await {
                        Ok(held) => held,
                        // It may have taken a while to find out: somebody else may have charged meanwhile.
                        Err(_) if Box::pin(self.has_moved_on(&snapshot)).await? => None,
                        Err(problem) => return Err(problem),
                    }
                }
                NextStep::TakeOver(_) if self.is_anothers(&snapshot) => {
                    return Ok(Begun::Busy {
                        waiting: None,
                        retry_after_ms: FOREIGN_WAIT_MS,
                    });
                }
                NextStep::TakeOver(recovery) => {
                    Box::pin(self.take_over(snapshot, recovery, Claim::Expired)).await?
                }
                NextStep::InProgress { retry_after_ms } => {
                    return Ok(Begun::Busy {
                        waiting: None,
                        retry_after_ms,
                    });
                }
                settled @ (NextStep::Replay(_)
                | NextStep::ReplayFailure { .. }
                | NextStep::NotAdvised
                | NextStep::Exhausted
                | NextStep::Processing
                | NextStep::NeedsReview
                | NextStep::NotChargeable
                | NextStep::Inconsistent(_)) => {
                    return self.answer(settled, snapshot).map(Begun::Answered);
                }
            };
            if let Some((held, place)) = held.zip(place) {
                return Ok(self.start(held, place));
            }
        }
        Ok(Begun::Busy {
            waiting: None,
            retry_after_ms: LOST_RACES_WAIT_MS,
        })
    }

    /// The answer to a step that moves nothing.
    fn answer(&self, step: NextStep, snapshot: ChargeSnapshot) -> ChargeResult {
        let policy = self.policy();
        let charge = snapshot.latest.map(|(charge, _)| charge);
        match (step, charge) {
            (NextStep::Replay(response), _) => {
                tracing::info!(invoice.id = %snapshot.invoice.id, outcome = "replayed", "charge");
                Ok(ChargeAnswer::Stored {
                    response,
                    replayed: true,
                    retry_after_seconds: None,
                })
            }
            (
                NextStep::ReplayFailure {
                    response,
                    retry_after_ms,
                },
                _,
            ) => Ok(ChargeAnswer::Stored {
                response,
                replayed: true,
                retry_after_seconds: Some(seconds_up(retry_after_ms)),
            }),
            (NextStep::NotChargeable, _) => Err(answer::not_chargeable()),
            (NextStep::NotAdvised, Some(charge)) => Err(answer::retry_not_advised(&charge, policy)),
            (NextStep::Exhausted, Some(charge)) => Err(answer::attempts_exhausted(&charge, policy)),
            (NextStep::NeedsReview, Some(charge)) => Err(answer::needs_review(&charge, policy)),
            (NextStep::Processing, Some(charge)) => Ok(self.undecided(charge, None)),
            (NextStep::Inconsistent(what), _) => {
                tracing::error!(invoice.id = %snapshot.invoice.id, what, "the tables contradict each other");
                Err(Problem::internal())
            }
            (step, _) => {
                tracing::error!(invoice.id = %snapshot.invoice.id, ?step, "a step without an answer");
                Err(Problem::internal())
            }
        }
    }

    pub(super) fn undecided(&self, charge: Charge, lease_left_ms: Option<i64>) -> ChargeAnswer {
        let advised = outlook(&charge, self.policy())
            .retry_after_seconds
            .unwrap_or(1);
        let retry_after_seconds = lease_left_ms.map_or(advised, |left| seconds_up(left).max(1));
        ChargeAnswer::Undecided {
            charge: Box::new(charge),
            retry_after_seconds,
        }
    }

    /// Hands a held attempt to a task of its own, which keeps its place to the end.
    pub(super) fn start(&self, held: Arc<HeldAttempt>, place: Place) -> Begun {
        let (entry, waiting) = self.parts.running.enter(&held.charge.invoice_id);
        let service = self.clone();
        let worked_on = Arc::clone(&held);
        self.parts.tasks.spawn(async move {
            let result = service.work(worked_on).await;
            drop(place);
            entry.finish(result);
        });
        Begun::Started { held, waiting }
    }

    async fn work(&self, held: Arc<HeldAttempt>) -> ChargeResult {
        let ended = match self.parts.worker.finish(&held).await {
            Ok(ended) => ended,
            // The provider may have been asked already: "nothing was sent" would be a guess.
            Err(error) => {
                tracing::error!(%error, charge.key = %held.charge.idempotency_key, "the outcome could not be recorded");
                return Ok(self.undecided(held.charge.clone(), None));
            }
        };
        match ended {
            Ended::Settled(charge, response) => Ok(ChargeAnswer::Stored {
                response,
                replayed: false,
                retry_after_seconds: outlook(&charge, self.policy()).retry_after_seconds,
            }),
            Ended::Undecided(charge) if charge.status == ChargeStatus::NeedsReview => {
                Err(answer::needs_review(&charge, self.policy()))
            }
            Ended::Undecided(charge) => {
                let left_ms = held
                    .reservation
                    .lease_expires_at_ms
                    .saturating_sub(held.lease.now_ms());
                Ok(self.undecided(charge, Some(left_ms)))
            }
            Ended::Released(reason) => Err(match reason.reason {
                NotExecutedReason::Credentials => {
                    answer::provider_unavailable(CREDENTIALS_WAIT_SECONDS)
                }
                NotExecutedReason::Unreachable
                | NotExecutedReason::RateLimited
                | NotExecutedReason::OutOfTime => {
                    answer::provider_unavailable(PROVIDER_WAIT_SECONDS)
                }
            }),
            Ended::LeaseLost => match Box::pin(self.peek(&held.charge.invoice_id)).await {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) | Err(_) => Ok(self.undecided(held.charge.clone(), None)),
            },
        }
    }
}
