//! Taking events in, and dealing with them until each has an outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream::{self, StreamExt};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use super::dto::{self, Received};
use super::model::ClaimedEvent;
use super::plan::{Outlook, outlook};
use super::repository::EventRepository;
use super::signature::{SignatureError, precheck, verify};
use crate::charges::crash::{self, Step};
use crate::charges::notice::{NoticeError, Noticed};
use crate::charges::service::ChargesService;
use crate::error::{Code, Problem};
use crate::idempotency::reservation::millis;
use crate::metrics::Metrics;
use crate::refunds::service::RefundsService;
use crate::storage::StorageError;
use crate::tasks::Tasks;

/// How long an event is this process's once it is claimed. Longer than fetching and settling take.
const CLAIM_TIME: Duration = Duration::from_secs(180);

/// How many events this process deals with at a time; the others wait in the store.
const CONCURRENCY: usize = 8;

/// How many events of a round may meet a provider or a store that cannot be asked, before the rest of them waits.
const NOT_ASKED_MAX: usize = 3;

/// How long events are remembered once they are dealt with. An event that comes again after that is dealt with again,
/// which does no harm.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What the service is built from.
pub struct WebhooksConfig {
    /// The endpoint's signing secrets; more than one while they are rotated.
    pub secrets: Vec<SecretString>,
    /// True when payments are PaymentIntents, false when they are legacy Charges.
    pub by_intent: bool,
}

/// Takes in what the provider tells. Cheap to clone.
#[derive(Clone)]
pub struct WebhooksService {
    parts: Arc<Parts>,
}

/// How dealing with an event went.
enum Dealt {
    /// It has an outcome.
    Ended,
    /// It is looked at again later.
    PutOff,
    /// The provider or the store could not be asked.
    NotAsked,
    /// It was not due, or somebody else deals with it.
    Anothers,
}

/// Who takes notice of what the provider tells.
pub struct Listeners {
    /// Of payments.
    pub charges: ChargesService,
    /// Of refunds.
    pub refunds: RefundsService,
}

struct Parts {
    events: Arc<dyn EventRepository>,
    listeners: Listeners,
    metrics: Metrics,
    tasks: Tasks,
    config: WebhooksConfig,
    room: Arc<Semaphore>,
    last_refusal_told: AtomicI64,
}

impl WebhooksService {
    /// Over its ports.
    pub fn new(
        events: Arc<dyn EventRepository>,
        listeners: Listeners,
        metrics: Metrics,
        tasks: Tasks,
        config: WebhooksConfig,
    ) -> Self {
        let parts = Parts {
            events,
            listeners,
            metrics,
            tasks,
            config,
            room: Arc::new(Semaphore::new(CONCURRENCY)),
            last_refusal_told: AtomicI64::new(0),
        };
        Self {
            parts: Arc::new(parts),
        }
    }

    /// Takes one delivery in: checked, stored and answered. It is dealt with after the answer.
    pub async fn receive(&self, signature: Option<&str>, body: &[u8]) -> Result<(), Problem> {
        self.check(signature, body)?;
        let event = match dto::read(body, self.parts.config.by_intent) {
            Received::Payment(event) => event,
            Received::Other => {
                self.parts.metrics.webhook("ignored");
                return Ok(());
            }
            Received::Unreadable => {
                tracing::error!(
                    "a signed webhook is no snapshot event: check the endpoint's payload style"
                );
                self.parts.metrics.webhook("unreadable");
                return Err(unreadable());
            }
        };
        let events = Arc::clone(&self.parts.events);
        let stored = event.clone();
        let store = self.parts.tasks.run(async move {
            Ok::<_, StorageError>(
                events.store_event(&stored).await? || events.reopen_event(&stored.id).await?,
            )
        });
        let is_new = store.await.map_err(|_| Problem::internal())??;
        crash::point(Step::EventStored);
        tracing::info!(event.id = %event.id, event.kind = %event.kind, payment.id = %event.payment_id, is_new, "webhook");
        self.parts
            .metrics
            .webhook(if is_new { "stored" } else { "repeated" });
        if is_new {
            self.deal_with_soon(event.id);
        }
        Ok(())
    }

    /// Refuses what cannot be right before its body is read.
    pub fn expects(&self, signature: Option<&str>) -> Result<(), Problem> {
        if self.parts.config.secrets.is_empty() {
            self.parts.metrics.webhook("refused");
            return Err(not_configured());
        }
        let header = signature.ok_or(SignatureError::Unreadable);
        header
            .and_then(|header| precheck(header, now_seconds()))
            .map_err(|error| self.refusal(error))
    }

    fn check(&self, signature: Option<&str>, body: &[u8]) -> Result<(), Problem> {
        let secrets = &self.parts.config.secrets;
        let secrets: Vec<&str> = secrets.iter().map(ExposeSecret::expose_secret).collect();
        verify(signature.unwrap_or_default(), body, &secrets, now_seconds())
            .map_err(|error| self.refusal(error))
    }

    /// One line a minute at most: strangers must not fill the log.
    fn refusal(&self, error: SignatureError) -> Problem {
        self.parts.metrics.webhook("refused");
        let (now, told) = (now_seconds(), &self.parts.last_refusal_told);
        let last = told.load(Ordering::Relaxed);
        let exchange = || told.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        if now - last >= 60 && exchange().is_ok() {
            tracing::warn!(%error, "a webhook is not believed; further ones are only counted for a minute");
        }
        Problem::new(
            Code::WebhookSignatureInvalid,
            format!("This webhook was not taken in: {error}."),
        )
        .field("Stripe-Signature")
    }

    /// Deals with an event at once where there is room; else the background worker does.
    fn deal_with_soon(&self, id: String) {
        let Ok(permit) = Arc::clone(&self.parts.room).try_acquire_owned() else {
            return;
        };
        let service = self.clone();
        self.parts.tasks.spawn(async move {
            if let Err(error) = service.deal_with(&id).await {
                tracing::warn!(%error, event.id = %id, "an event waits for the background worker");
            }
            drop(permit);
        });
    }

    /// Deals with every event that is due, up to a limit and a few at a time. Once several cannot be asked about, the rest waits
    /// for another round; a single one may only be about something unreadable. How many had an outcome, and how many were looked at.
    pub async fn deal_with_due(&self, limit: i64) -> Result<(usize, usize), StorageError> {
        let due = self.parts.events.due_events(limit).await?;
        let (mut ended, mut looked_at) = (0, 0);
        let not_asked = AtomicUsize::new(0);
        let stop = self.parts.tasks.stopping();
        let until_away = due.into_iter().take_while(|_| {
            not_asked.load(Ordering::Relaxed) < NOT_ASKED_MAX && !stop.is_cancelled()
        });
        let mut running = stream::iter(until_away)
            .map(|id| async move { self.deal_with(&id).await })
            .buffer_unordered(CONCURRENCY);
        let mut failed = None;
        while let Some(dealt) = running.next().await {
            looked_at += 1;
            match dealt {
                Ok(Dealt::Ended) => ended += 1,
                Ok(Dealt::NotAsked) => {
                    not_asked.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Dealt::PutOff | Dealt::Anothers) => {}
                // Those that are claimed already are finished all the same; no further one is begun.
                Err(error) => {
                    not_asked.store(NOT_ASKED_MAX, Ordering::Relaxed);
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok((ended, looked_at)), Err)
    }

    /// Forgets what was dealt with long ago.
    pub async fn forget_old(&self) -> Result<usize, StorageError> {
        self.parts.events.forget_events(millis(REMEMBERED)).await
    }

    /// Deals with one event, if it is due and nobody else does.
    async fn deal_with(&self, id: &str) -> Result<Dealt, StorageError> {
        let events = &self.parts.events;
        let Some(event) = events.claim_event(id, millis(CLAIM_TIME)).await? else {
            return Ok(Dealt::Anothers);
        };
        crash::point(Step::EventClaimed);
        let noticed = self.look_at(&event).await;
        crash::point(Step::EventDealtWith);
        match outlook(&event, noticed.as_ref()) {
            Outlook::Over(outcome) => {
                tracing::info!(event.id = %id, payment.id = %event.payment_id, outcome, "webhook dealt with");
                self.parts.metrics.webhook(outcome);
                events.end_event(&event, outcome).await?;
                Ok(Dealt::Ended)
            }
            Outlook::Later { wait_ms, why } => {
                tracing::info!(event.id = %id, payment.id = %event.payment_id, wait_ms, why, "webhook put off");
                events.put_off_event(&event, wait_ms).await?;
                Ok(match noticed {
                    None => Dealt::NotAsked,
                    Some(_) => Dealt::PutOff,
                })
            }
        }
    }

    /// What becomes of the event's payment; `None` when the provider or the store cannot be asked.
    async fn look_at(&self, event: &ClaimedEvent) -> Option<Noticed> {
        let noticed = match self.notice(event).await {
            Ok(noticed) => noticed,
            Err(error) => {
                tracing::warn!(%error, event.id = %event.id, payment.id = %event.payment_id, "an event cannot be dealt with yet");
                return None;
            }
        };
        match noticed {
            Noticed::UnknownInvoice => tracing::error!(
                event.id = %event.id, payment.id = %event.payment_id,
                "a payment of this installation names an invoice that is not in the books"
            ),
            Noticed::Waiting => tracing::warn!(
                event.id = %event.id, payment.id = %event.payment_id,
                "a payment takes money that the books do not account for yet"
            ),
            Noticed::Recovered(_)
            | Noticed::Known
            | Noticed::UnknownPayment
            | Noticed::NotOurs
            | Noticed::Parked
            | Noticed::Returned
            | Noticed::Contradiction(_) => {}
        }
        Some(noticed)
    }

    async fn notice(&self, event: &ClaimedEvent) -> Result<Noticed, NoticeError> {
        let Listeners { charges, refunds } = &self.parts.listeners;
        let payment_id = event.payment_id.as_str();
        // Nothing that could be fetched would change it.
        if !charges.is_settled_by(payment_id).await? {
            return charges.notice(payment_id).await;
        }
        // `refund.failed`, `charge.refund.updated` and the like (Stripe docs, Types of events).
        if event.kind.contains("refund") {
            return refunds.notice(payment_id.to_owned()).await;
        }
        Ok(Noticed::Known)
    }
}

/// Unix time by this machine's clock, which is the one that signatures are compared with.
fn now_seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

fn not_configured() -> Problem {
    Problem::new(
        Code::WebhooksNotConfigured,
        "Webhooks cannot be checked, because no signing secret is set here. Set STRIPE_WEBHOOK_SECRET and deliver it again.",
    )
}

fn unreadable() -> Problem {
    Problem::new(
        Code::InvalidRequest,
        "The body is signed, but it is no snapshot event. Set the endpoint's payload style to snapshot.",
    )
    .field("body")
}
