//! One round of the background worker, and the loop around it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::stream::{self, StreamExt};

use super::repository::{Backlog, DueAttempt, RecoveryRepository, Work};
use crate::charges::crash::{self, Step};
use crate::charges::recovery::Recovered;
use crate::charges::service::ChargesService;
use crate::error::{Code, Problem};
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::{Claim, millis};
use crate::metrics::Metrics;
use crate::refunds::service::RefundsService;
use crate::storage::StorageError;
use crate::tasks::Tasks;
use crate::webhooks::service::WebhooksService;

/// How long an attempt that this process can do nothing about is left alone, in milliseconds: one of another provider, or one
/// whose rows contradict each other. Else such attempts would be read again and again and stand before all others.
const HELPLESS_WAIT_MS: i64 = 600_000;

/// How long a round begins new work. While the provider hangs a round would else never end, and nobody would hear of what is
/// open. A batch of events has its turn all the same.
const ROUND_TIME: Duration = Duration::from_secs(60);

/// How long an attempt is left alone that could not be finished because the store was away, in milliseconds: long enough that
/// one round does not read it again and again, and nothing beside a lease.
const STORE_WAIT_MS: i64 = 1_000;

/// Header keys that one transaction forgets.
const KEYS_FORGOTTEN_AT_A_TIME: i64 = 500;

/// From this age on an unsettled charge or refund is worth a warning each round, in milliseconds. A lease and a round are shorter.
const WORRYING_AGE_MS: i64 = 3_600_000;

/// How the background worker works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconcilerSettings {
    /// The time between two rounds, give or take a quarter; zero switches the loop off.
    pub interval: Duration,
    /// Attempts that are read from the store at a time.
    pub batch: i64,
    /// Attempts that are worked on at a time.
    pub concurrency: usize,
    /// How long finished header keys are kept; `None`: for ever.
    pub key_retention: Option<Duration>,
}

/// What a round did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sweep {
    /// How many attempts to charge came to what.
    pub attempts: BTreeMap<&'static str, usize>,
    /// How many refunds came to what.
    pub refunds: BTreeMap<&'static str, usize>,
    /// How many webhook events were dealt with.
    pub events: usize,
    /// How many header keys were forgotten.
    pub forgotten_keys: usize,
    /// What is open after it, by the database's time.
    pub backlog: Option<Reading<Backlog>>,
    /// How long it took.
    pub took: Duration,
}

/// Who finishes what is left behind.
pub struct Finishers {
    /// Charges.
    pub charges: ChargesService,
    /// Refunds.
    pub refunds: RefundsService,
    /// Webhooks.
    pub webhooks: WebhooksService,
}

/// The background worker. Cheap to clone.
#[derive(Clone)]
pub struct Reconciler {
    charges: ChargesService,
    refunds: RefundsService,
    webhooks: WebhooksService,
    store: Arc<dyn RecoveryRepository>,
    metrics: Metrics,
    tasks: Tasks,
    settings: ReconcilerSettings,
}

impl Reconciler {
    /// Over its ports: those who finish what is left behind, and where it is read.
    pub fn new(
        finishers: Finishers,
        store: Arc<dyn RecoveryRepository>,
        metrics: Metrics,
        tasks: Tasks,
        settings: ReconcilerSettings,
    ) -> Self {
        let Finishers {
            charges,
            refunds,
            webhooks,
        } = finishers;
        Self {
            charges,
            refunds,
            webhooks,
            store,
            metrics,
            tasks,
            settings,
        }
    }

    /// Works round after round until the process is told to stop. The first round begins at once: what the process before
    /// this one left behind may be due already. The round that runs at the stop begins no further attempt.
    pub async fn run(&self) {
        if self.settings.interval.is_zero() {
            tracing::info!("no background worker in this process: RECONCILE_INTERVAL is 0");
            return;
        }
        let stop = self.tasks.stopping();
        while !stop.is_cancelled() {
            let worker = self.clone();
            // In a task of its own: a defect in a round ends the round, not the worker.
            let round = self.tasks.run(async move { worker.sweep().await }).await;
            match round {
                Ok(Ok(sweep)) => log(&sweep),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a round of the background worker was cut short")
                }
                Err(error) => {
                    tracing::error!(%error, "a round of the background worker has failed")
                }
            }
            // Replicas that were started together do not come together for ever.
            let wait = self
                .settings
                .interval
                .mul_f64(0.75 + 0.5 * rand::random::<f64>());
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// One round: finishes all attempts that are due, deals with the events that are due, and says what is still open.
    ///
    /// # Errors
    /// When the store cannot be asked. What was done until then stays done.
    pub async fn sweep(&self) -> Result<Sweep, StorageError> {
        let begun = Instant::now();
        let mut sweep = Sweep::default();
        let outcome = self.work(&mut sweep).await;
        self.metrics.sweep(outcome.is_ok(), SystemTime::now());
        sweep.took = begun.elapsed();
        outcome.map(|()| sweep)
    }

    async fn work(&self, sweep: &mut Sweep) -> Result<(), StorageError> {
        let stop = self.tasks.stopping();
        let until = Instant::now() + ROUND_TIME;
        let goes_on = || !stop.is_cancelled() && Instant::now() < until;
        // In turns, so that none waits for the end of a heap of another: each is read anew after a batch of the others.
        while goes_on() {
            let due = self.store.due_attempts(self.settings.batch).await?;
            let more_attempts = self.finish_some(due, sweep, &goes_on).await?;
            let due = self.store.due_refunds(self.settings.batch).await?;
            let more_refunds = self.finish_some(due, sweep, &goes_on).await?;
            let more_events = !stop.is_cancelled() && self.deal_with_some(sweep).await?;
            if !more_attempts && !more_refunds && !more_events {
                break;
            }
        }
        if !stop.is_cancelled()
            && let Err(error) = self.webhooks.forget_old().await
        {
            tracing::warn!(%error, "old events could not be forgotten");
        }
        if let Err(error) = self.forget_keys(sweep, &goes_on).await {
            tracing::warn!(%error, "old header keys could not be forgotten");
        }
        let backlog = self.store.backlog().await?;
        self.metrics.backlog(&backlog.value, backlog.now_ms);
        sweep.backlog = Some(backlog);
        Ok(())
    }

    /// Forgets header keys that are old enough, in small batches, so that no transaction is long.
    async fn forget_keys(
        &self,
        sweep: &mut Sweep,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), StorageError> {
        let Some(retention) = self.settings.key_retention else {
            return Ok(());
        };
        while goes_on() {
            let forgotten = self
                .store
                .forget_header_keys(millis(retention), KEYS_FORGOTTEN_AT_A_TIME)
                .await?;
            sweep.forgotten_keys += forgotten;
            if forgotten == 0 {
                break;
            }
        }
        if sweep.forgotten_keys > 0 {
            tracing::info!(
                count = sweep.forgotten_keys,
                "old header keys were forgotten"
            );
        }
        Ok(())
    }

    /// One batch of attempts. True when there may be more.
    async fn finish_some(
        &self,
        due: Vec<DueAttempt>,
        sweep: &mut Sweep,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, StorageError> {
        let is_full = self.is_full(due.len());
        if !due.is_empty() {
            crash::point(Step::RoundBegun);
        }
        self.finish_all(due, sweep, goes_on).await?;
        Ok(is_full)
    }

    /// One batch of events. True when there may be more.
    async fn deal_with_some(&self, sweep: &mut Sweep) -> Result<bool, StorageError> {
        let (ended, due) = self.webhooks.deal_with_due(self.settings.batch).await?;
        sweep.events += ended;
        Ok(self.is_full(due) && ended > 0)
    }

    fn is_full(&self, count: usize) -> bool {
        i64::try_from(count).unwrap_or(i64::MAX) >= self.settings.batch
    }

    /// Finishes a batch, a few at a time. What does not move is put off, so that a batch is never read twice.
    async fn finish_all(
        &self,
        due: Vec<DueAttempt>,
        sweep: &mut Sweep,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), StorageError> {
        let as_long_as = due.into_iter().take_while(|_| goes_on());
        let mut running = stream::iter(as_long_as)
            .map(|attempt| async move {
                let outcome = match attempt.work.clone() {
                    Work::Charge(invoice_id) => {
                        self.charges.recover(invoice_id, Claim::Expired).await
                    }
                    Work::Refund(id) => self.refunds.recover(id, Claim::Expired).await,
                };
                (outcome, attempt)
            })
            .buffer_unordered(self.settings.concurrency);
        while let Some((outcome, attempt)) = running.next().await {
            let (word, wait_ms) = match &outcome {
                Ok(recovered) => (recovered.as_str(), wait_after(*recovered)),
                Err(problem) => {
                    log_problem(problem, &attempt);
                    ("error", Some(wait_after_problem(problem)))
                }
            };
            let counts = match &attempt.work {
                Work::Charge(_) => {
                    self.metrics.recovered(word);
                    &mut sweep.attempts
                }
                Work::Refund(_) => {
                    self.metrics.recovered_refund(word);
                    &mut sweep.refunds
                }
            };
            *counts.entry(word).or_default() += 1;
            if let Some(wait_ms) = wait_ms {
                self.store.put_off(&attempt, wait_ms).await?;
            }
        }
        Ok(())
    }
}

/// How long an attempt that did not move is put off. Where somebody else has taken it over meanwhile, its token is another
/// one and nothing is put off.
fn wait_after(recovered: Recovered) -> Option<i64> {
    match recovered {
        Recovered::Foreign | Recovered::Nothing => Some(HELPLESS_WAIT_MS),
        Recovered::Busy { retry_after_ms } => Some(retry_after_ms.clamp(0, HELPLESS_WAIT_MS)),
        Recovered::Succeeded
        | Recovered::Failed
        | Recovered::Processing
        | Recovered::Unknown
        | Recovered::NeedsReview => None,
    }
}

/// A store that was away for a moment says nothing about the attempt; a defect does.
fn wait_after_problem(problem: &Problem) -> i64 {
    if problem.code() == Code::StorageUnavailable {
        STORE_WAIT_MS
    } else {
        HELPLESS_WAIT_MS
    }
}

fn log_problem(problem: &Problem, attempt: &DueAttempt) {
    tracing::warn!(
        %problem, work = ?attempt.work, key = %attempt.key, takeovers = attempt.takeovers,
        "an attempt could not be finished in this round"
    );
}

/// One line a round where there is something to tell; a warning where somebody should look.
fn log(sweep: &Sweep) {
    let Some(Reading { value, now_ms }) = &sweep.backlog else {
        return;
    };
    let age_ms = |since_ms: Option<i64>| since_ms.map_or(0, |since_ms| (now_ms - since_ms).max(0));
    let oldest_unsettled_ms = age_ms(value.oldest_unsettled_ms);
    let refunds = &value.refunds;
    let oldest_refund_ms = age_ms(refunds.oldest_unsettled_ms);
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                attempts = ?sweep.attempts, refunds = ?sweep.refunds, events = sweep.events, unsettled = value.unsettled,
                oldest_unsettled_seconds = oldest_unsettled_ms / 1_000, reviews = value.reviews,
                oldest_review_seconds = age_ms(value.oldest_review_ms) / 1_000, refunds_unsettled = refunds.unsettled,
                oldest_refund_seconds = oldest_refund_ms / 1_000, refund_reviews = refunds.reviews, events_pending = value.events,
                took_ms = sweep.took.as_millis(), "reconciled"
            )
        };
    }
    let oldest_ms = oldest_unsettled_ms.max(oldest_refund_ms);
    if value.reviews + refunds.reviews > 0 || oldest_ms >= WORRYING_AGE_MS {
        line!(warn)
    } else if !sweep.attempts.is_empty() || !sweep.refunds.is_empty() || sweep.events > 0 {
        line!(info)
    } else {
        line!(debug)
    }
}
