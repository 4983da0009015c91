//! One charge as a story: look, decide, reserve or take over, work in a task of its own, answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use tracing::Instrument;
use uuid::Uuid;

use super::answer;
use super::crash::{self, Step};
use super::lifecycle::{NextStep, RetryPolicy, next_step, outlook, seconds_up};
use super::model::{Charge, ChargeStatus};
use super::repository::{
    AttemptRecord, ChargeFilter, ChargeRepository, ChargeSnapshot, NewAttempt, Resolution,
};
use super::running::{Running, Waiting};
use super::worker::{Ended, HeldAttempt, Worker};
use crate::error::{Code, Problem};
use crate::idempotency::fingerprint::fingerprint;
use crate::idempotency::key::charge_key;
use crate::idempotency::repository::{IdempotencyRepository, NewReservation, Reading};
use crate::idempotency::reservation::{
    HeldLease, Moment, Recovery, Reservation, ReservationState, StoredResponse, millis,
    new_lease_token,
};
use crate::payments::outcome::{Failure, FailureKind, NotExecutedReason};
use crate::payments::provider::{PaymentOrder, PaymentProvider, PrepareError};
use crate::tasks::Tasks;

/// The operation's name in fingerprints and rows.
pub const OPERATION: &str = "charge";

/// How often a lost race is looked at again before the caller is told that somebody is charging.
const ROUNDS_MAX: usize = 5;

/// How a caller that waits for another process's charge asks the store: first this long, then longer, up to the longest.
const POLL_FIRST: Duration = Duration::from_millis(100);
const POLL_LONGEST: Duration = Duration::from_secs(1);

/// How long a caller waits before it tries again when the provider is away, in seconds; and when our credentials are
/// refused, which takes an operator.
const PROVIDER_WAIT_SECONDS: i64 = 5;
const CREDENTIALS_WAIT_SECONDS: i64 = 60;

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

/// How long a caller waits for a result.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// The caller's own wish (`Prefer: wait=N`). With it, a call that meets a running charge waits for its result.
    pub preferred: Option<Duration>,
}

/// What the service is built from.
pub struct ChargesConfig {
    /// Rules after a failure, and the key's window.
    pub policy: RetryPolicy,
    /// How long a reservation's lease runs.
    pub reservation_ttl: Duration,
    /// How long a caller waits for its own charge at most.
    pub response_wait: Duration,
    /// Marks this installation's payments at the provider.
    pub installation_id: String,
}

/// Charges invoices. Cheap to clone.
#[derive(Clone)]
pub struct ChargesService {
    parts: Arc<Parts>,
}

struct Parts {
    charges: Arc<dyn ChargeRepository>,
    keys: Arc<dyn IdempotencyRepository>,
    provider: Arc<dyn PaymentProvider>,
    worker: Worker,
    config: ChargesConfig,
    running: Running,
    tasks: Tasks,
}

/// How the first look at an invoice ended.
enum Begun {
    Answered(ChargeAnswer),
    /// This call works on it now.
    Started {
        charge: Box<Charge>,
        waiting: Waiting,
    },
    /// Somebody else does; in this process when `waiting` is there.
    Busy {
        waiting: Option<Waiting>,
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
            provider: Arc::clone(&provider),
            policy: config.policy,
            installation_id: config.installation_id.clone(),
        };
        let parts = Parts {
            charges,
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

    /// The rules that answers are made by.
    pub fn policy(&self) -> &RetryPolicy {
        &self.parts.config.policy
    }

    /// Charges an invoice, or says what became of its charge. Safe to call again at any time, by anybody.
    ///
    /// The charge runs in a task of its own: dropping this future stops the waiting and nothing else.
    pub async fn charge_invoice(&self, invoice_id: String, wait: Wait) -> ChargeResult {
        let response_wait = self.parts.config.response_wait;
        let patience = wait
            .preferred
            .map_or(response_wait, |preferred| preferred.min(response_wait));
        let deadline = Instant::now() + patience;
        let service = self.clone();
        let id = invoice_id.clone();
        let begun = self
            .parts
            .tasks
            .run(async move { service.begin(&id).await })
            .await;
        match begun.map_err(|_| Problem::internal())?? {
            Begun::Answered(answer) => Ok(answer),
            Begun::Started { charge, waiting } => match within(deadline, waiting.result()).await {
                Some(Some(result)) => result,
                Some(None) => Err(Problem::internal()),
                None => Ok(self.undecided(*charge, None)),
            },
            Begun::Busy {
                waiting,
                retry_after_ms,
            } => match wait.preferred {
                None => Err(answer::in_progress(seconds_up(retry_after_ms).max(1))),
                Some(_) => {
                    self.join(&invoice_id, waiting, retry_after_ms, deadline)
                        .await
                }
            },
        }
    }

    /// Waits for a charge that somebody else works on.
    async fn join(
        &self,
        invoice_id: &str,
        waiting: Option<Waiting>,
        retry_after_ms: i64,
        deadline: Instant,
    ) -> ChargeResult {
        let busy = || Err(answer::in_progress(seconds_up(retry_after_ms).max(1)));
        if let Some(waiting) = waiting {
            return match within(deadline, waiting.result()).await {
                Some(Some(Ok(ChargeAnswer::Stored {
                    response,
                    retry_after_seconds,
                    ..
                }))) => Ok(ChargeAnswer::Stored {
                    response,
                    replayed: true,
                    retry_after_seconds,
                }),
                Some(Some(result)) => result,
                Some(None) | None => busy(),
            };
        }
        let mut pause = POLL_FIRST;
        while Instant::now() + pause < deadline {
            // Not all at the same moment: a crowd may be waiting.
            tokio::time::sleep(pause.mul_f64(rand::rng().random_range(0.5..1.0))).await;
            pause = (pause * 2).min(POLL_LONGEST);
            let service = self.clone();
            let id = invoice_id.to_owned();
            let peeked = self
                .parts
                .tasks
                .run(async move { service.peek(&id).await })
                .await;
            if let Some(result) = peeked.map_err(|_| Problem::internal())?? {
                return Ok(result);
            }
        }
        busy()
    }

    /// The stored answer of an invoice's latest attempt, if it has one by now.
    async fn peek(&self, invoice_id: &str) -> Result<Option<ChargeAnswer>, Problem> {
        let snapshot = self.parts.charges.charge_snapshot(invoice_id).await?;
        let latest = snapshot.and_then(|reading| reading.value.latest);
        Ok(match latest {
            Some((charge, reservation)) => match reservation.state {
                ReservationState::Done(response) | ReservationState::Failed(response) => {
                    Some(ChargeAnswer::Stored {
                        response,
                        replayed: true,
                        retry_after_seconds: outlook(&charge, self.policy()).retry_after_seconds,
                    })
                }
                ReservationState::InProgress => None,
            },
            None => None,
        })
    }

    /// Looks at the invoice and does the next step. Runs in a task: no storage call of it is cut off half way.
    async fn begin(&self, invoice_id: &str) -> Result<Begun, Problem> {
        let mut retry_after_ms = 1_000;
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
            }) = self.parts.charges.charge_snapshot(invoice_id).await?
            else {
                return Err(answer::invoice_not_found());
            };
            let fingerprint = charge_fingerprint(invoice_id)?;
            let step = next_step(&snapshot, &fingerprint, self.policy(), now_ms);
            tracing::debug!(invoice.id = %invoice_id, step = ?std::mem::discriminant(&step), "decided");
            let held = match step {
                NextStep::Start {
                    attempt,
                    open_payment_id,
                } => {
                    self.reserve(&snapshot, attempt, open_payment_id, fingerprint, now_ms)
                        .await?
                }
                NextStep::TakeOver(recovery) => self.take_over(snapshot, recovery).await?,
                NextStep::InProgress {
                    retry_after_ms: left,
                } => {
                    retry_after_ms = left;
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
            if let Some(held) = held {
                return Ok(self.start(held));
            }
        }
        Ok(Begun::Busy {
            waiting: None,
            retry_after_ms,
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

    fn undecided(&self, charge: Charge, lease_left_ms: Option<i64>) -> ChargeAnswer {
        let advised = outlook(&charge, self.policy())
            .retry_after_seconds
            .unwrap_or(1);
        let retry_after_seconds = lease_left_ms.map_or(advised, |left| seconds_up(left).max(1));
        ChargeAnswer::Undecided {
            charge: Box::new(charge),
            retry_after_seconds,
        }
    }

    /// Freezes the request and reserves the attempt with it, before anything is sent that could move money.
    async fn reserve(
        &self,
        snapshot: &ChargeSnapshot,
        attempt: i32,
        open_payment_id: Option<String>,
        fingerprint: String,
        now_ms: i64,
    ) -> Result<Option<HeldAttempt>, Problem> {
        let config = &self.parts.config;
        let invoice = &snapshot.invoice;
        let order = PaymentOrder {
            invoice_id: invoice.id.clone(),
            charge_key: charge_key(&invoice.id, attempt),
            attempt,
            installation_id: config.installation_id.clone(),
            amount_minor: invoice.money.amount_minor(),
            currency: invoice.money.currency().as_str().to_owned(),
            customer_id: invoice.customer_id.clone(),
            payment_method_id: invoice.payment_method_id.clone(),
            open_payment_id,
        };
        let prepared = self
            .parts
            .provider
            .prepare(&order)
            .await
            .map_err(not_prepared)?;
        let charge = Charge {
            id: format!("chg_{}", Uuid::now_v7().simple()),
            invoice_id: order.invoice_id,
            attempt,
            idempotency_key: order.charge_key.clone(),
            status: ChargeStatus::Pending,
            amount_minor: order.amount_minor,
            currency: order.currency,
            customer_id: order.customer_id,
            payment_method_id: prepared.payment_method_id,
            invoice_revision: invoice.revision,
            provider: self.parts.provider.name().to_owned(),
            request: prepared.request,
            provider_payment_id: order.open_payment_id,
            evidence: None,
            created_at_ms: now_ms,
            settled_at_ms: None,
        };
        let reservation = NewReservation {
            key: order.charge_key,
            operation: OPERATION,
            attempt,
            fingerprint,
            lease_token: new_lease_token(),
            lease_ms: millis(config.reservation_ttl),
        };
        crash::point(Step::BeforeReserve);
        let new = NewAttempt {
            reservation,
            charge,
        };
        let asked = Moment::now();
        let Some(reading) = self.parts.charges.begin_attempt(&new).await? else {
            return Ok(None);
        };
        crash::point(Step::AfterReserve);
        Ok(Some(self.held(
            new.charge,
            reading,
            Recovery::Resend,
            asked,
        )))
    }

    async fn take_over(
        &self,
        snapshot: ChargeSnapshot,
        recovery: Recovery,
    ) -> Result<Option<HeldAttempt>, Problem> {
        let Some((charge, expired)) = snapshot.latest else {
            return Ok(None);
        };
        let lease_ms = millis(self.parts.config.reservation_ttl);
        let asked = Moment::now();
        let won = self
            .parts
            .keys
            .take_over(&expired, &new_lease_token(), lease_ms, recovery)
            .await?;
        let Some(reading) = won else { return Ok(None) };
        tracing::warn!(
            invoice.id = %charge.invoice_id, charge.key = %charge.idempotency_key, attempt.number = charge.attempt,
            takeovers = reading.value.takeovers, ?recovery, "taken over"
        );
        crash::point(Step::AfterTakeOver);
        Ok(Some(self.held(charge, reading, recovery, asked)))
    }

    fn held(
        &self,
        charge: Charge,
        reading: Reading<Reservation>,
        recovery: Recovery,
        asked: Moment,
    ) -> HeldAttempt {
        let window = Duration::from_millis(self.policy().key_window_ms.unsigned_abs());
        // A look-up sends nothing, so the key's window does not bound it.
        let window = (recovery == Recovery::Resend).then_some(window);
        let lease = HeldLease::new(&reading.value, reading.now_ms, window, asked);
        HeldAttempt {
            charge,
            reservation: reading.value,
            lease,
            recovery,
        }
    }

    /// Hands a held attempt to a task of its own.
    fn start(&self, held: HeldAttempt) -> Begun {
        let (entry, waiting) = self.parts.running.enter(&held.charge.invoice_id);
        let charge = Box::new(held.charge.clone());
        let service = self.clone();
        self.parts.tasks.spawn(
            async move {
                let result = service.work(held).await;
                entry.finish(result);
            }
            .in_current_span(),
        );
        Begun::Started { charge, waiting }
    }

    async fn work(&self, held: HeldAttempt) -> ChargeResult {
        let ended = match self.parts.worker.finish(&held).await {
            Ok(ended) => ended,
            // The provider may have been asked already: "nothing was sent" would be a guess.
            Err(error) => {
                tracing::error!(%error, charge.key = %held.charge.idempotency_key, "the outcome could not be recorded");
                return Ok(self.undecided(held.charge, None));
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
            Ended::LeaseLost => match self.peek(&held.charge.invoice_id).await? {
                Some(answer) => Ok(answer),
                None => Ok(self.undecided(held.charge, None)),
            },
        }
    }

    /// One charge.
    pub async fn find(&self, id: String) -> Result<Charge, Problem> {
        let charges = Arc::clone(&self.parts.charges);
        let found = self
            .parts
            .tasks
            .run(async move { charges.find_charge(&id).await })
            .await;
        found
            .map_err(|_| Problem::internal())??
            .ok_or_else(charge_not_found)
    }

    /// A page of charges, newest first.
    pub async fn list(&self, filter: ChargeFilter) -> Result<Vec<Charge>, Problem> {
        let charges = Arc::clone(&self.parts.charges);
        let listed = self
            .parts
            .tasks
            .run(async move { charges.list_charges(&filter).await })
            .await;
        Ok(listed.map_err(|_| Problem::internal())??)
    }

    /// Ends a charge in `needs_review` by an operator's verdict: with the payment that proves a success, or as failed.
    pub async fn resolve(
        &self,
        id: String,
        paid_by: Option<String>,
        note: String,
    ) -> Result<Charge, Problem> {
        let service = self.clone();
        let resolved = self
            .parts
            .tasks
            .run(async move { service.resolve_in_task(&id, paid_by, &note).await })
            .await;
        resolved.map_err(|_| Problem::internal())?
    }

    async fn resolve_in_task(
        &self,
        id: &str,
        paid_by: Option<String>,
        note: &str,
    ) -> Result<Charge, Problem> {
        let charges = &self.parts.charges;
        let mut charge = charges
            .find_charge(id)
            .await?
            .ok_or_else(charge_not_found)?;
        let Some(reading) = charges.charge_snapshot(&charge.invoice_id).await? else {
            return Err(charge_not_found());
        };
        let settled_at_ms = reading.now_ms;
        let evidence = format!(
            "{}\nresolved: {note}",
            charge.evidence.clone().unwrap_or_default()
        );
        let before = charge.clone();
        charge.settled_at_ms = Some(settled_at_ms);
        let record = match paid_by {
            Some(payment_id) => {
                charge.status = ChargeStatus::Succeeded;
                charge.provider_payment_id = Some(payment_id.clone());
                let response =
                    answer::succeeded(&charge, self.policy()).map_err(|_| Problem::internal())?;
                AttemptRecord::Succeeded {
                    payment_id,
                    settled_at_ms,
                    response,
                }
            }
            None => {
                let failure = Failure {
                    kind: FailureKind::Canceled,
                    code: "resolved_as_failed".into(),
                    decline_code: None,
                    advice_code: None,
                    message: Some(
                        "An operator has found that the customer was not charged.".into(),
                    ),
                    payment_id: None,
                    payment_open: false,
                };
                charge.status = ChargeStatus::Failed(failure.clone());
                let response = answer::failed(&charge, &failure, self.policy());
                AttemptRecord::Failed {
                    failure,
                    settled_at_ms,
                    response,
                }
            }
        };
        let resolution = Resolution {
            charge: before,
            record,
            evidence: evidence.trim().to_owned(),
        };
        if !charges.resolve_review(&resolution).await? {
            return Err(Problem::new(
                Code::ChargeNotInReview,
                "This charge is not waiting for a decision. Read it to see how it ended.",
            )
            .never(outlook(&resolution.charge, self.policy()).customer_charged));
        }
        tracing::warn!(charge.id = %id, outcome = charge.status.as_str(), "a review was resolved by an operator");
        Ok(charge)
    }
}

/// What the natural key stands for. The same for every call on an invoice, so that it never mismatches.
fn charge_fingerprint(invoice_id: &str) -> Result<String, Problem> {
    fingerprint(OPERATION, &serde_json::json!({ "invoiceId": invoice_id })).map_err(|error| {
        tracing::error!(%error, "a fingerprint could not be made");
        Problem::internal()
    })
}

fn charge_not_found() -> Problem {
    Problem::new(
        Code::ChargeNotFound,
        "There is no charge with this id. Check the id.",
    )
    .field("id")
}

fn not_prepared(error: PrepareError) -> Problem {
    match error {
        PrepareError::Unavailable(detail) => {
            tracing::warn!(%detail, "the provider is not available");
            answer::provider_unavailable(PROVIDER_WAIT_SECONDS)
        }
        PrepareError::Credentials(detail) => {
            tracing::error!(%detail, "the provider does not accept our credentials");
            answer::provider_unavailable(CREDENTIALS_WAIT_SECONDS)
        }
        PrepareError::NoPaymentMethod(detail) => {
            tracing::info!(%detail, "the customer cannot be charged");
            answer::no_payment_method()
        }
    }
}

async fn within<F: Future>(deadline: Instant, future: F) -> Option<F::Output> {
    tokio::time::timeout_at(deadline.into(), future).await.ok()
}
