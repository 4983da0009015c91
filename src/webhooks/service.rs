//! Taking events in, and dealing with them until each has an outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::stream::{self, StreamExt};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use super::dto::{self, Received};
use super::model::ClaimedEvent;
use super::plan::{Outlook, outlook};
use super::repository::EventRepository;
use super::signature::{SignatureError, verify};
use crate::charges::crash::{self, Step};
use crate::charges::notice::Noticed;
use crate::charges::service::ChargesService;
use crate::error::{Code, Problem};
use crate::idempotency::reservation::millis;
use crate::metrics::Metrics;
use crate::payments::provider::PaymentProvider;
use crate::storage::StorageError;
use crate::tasks::Tasks;

/// How long fetching the payment of an event may take.
const FETCH_TIME: Duration = Duration::from_secs(30);

/// How long an event is this process's once it is claimed. Longer than fetching and settling take.
const CLAIM_TIME: Duration = Duration::from_secs(180);

/// How many events this process deals with at a time; the others wait in the store.
const CONCURRENCY: usize = 8;

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

struct Parts {
    events: Arc<dyn EventRepository>,
    charges: ChargesService,
    provider: Arc<dyn PaymentProvider>,
    metrics: Metrics,
    tasks: Tasks,
    config: WebhooksConfig,
    room: Arc<Semaphore>,
}

impl WebhooksService {
    /// Over its ports.
    pub fn new(
        events: Arc<dyn EventRepository>,
        charges: ChargesService,
        provider: Arc<dyn PaymentProvider>,
        metrics: Metrics,
        tasks: Tasks,
        config: WebhooksConfig,
    ) -> Self {
        let parts = Parts {
            events,
            charges,
            provider,
            metrics,
            tasks,
            config,
            room: Arc::new(Semaphore::new(CONCURRENCY)),
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
        let store = self
            .parts
            .tasks
            .run(async move { events.store_event(&stored).await });
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

    fn check(&self, signature: Option<&str>, body: &[u8]) -> Result<(), Problem> {
        let secrets = &self.parts.config.secrets;
        if secrets.is_empty() {
            tracing::warn!("a webhook came, and STRIPE_WEBHOOK_SECRET is not set");
            return Err(not_configured());
        }
        let secrets: Vec<&str> = secrets.iter().map(ExposeSecret::expose_secret).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_seconds = now.map_or(0, |since| {
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
        });
        let header = signature.ok_or(SignatureError::Unreadable);
        header
            .and_then(|header| verify(header, body, &secrets, now_seconds))
            .map_err(|error| {
                tracing::warn!(%error, "a webhook is not believed");
                self.parts.metrics.webhook("refused");
                Problem::new(
                    Code::WebhookSignatureInvalid,
                    format!("This webhook was not taken in: {error}."),
                )
                .field("Stripe-Signature")
            })
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

    /// Deals with every event that is due, up to a limit and a few at a time. Once the provider cannot be asked, the rest
    /// waits for another round. How many had an outcome, and how many were looked at.
    pub async fn deal_with_due(&self, limit: i64) -> Result<(usize, usize), StorageError> {
        let due = self.parts.events.due_events(limit).await?;
        let (mut ended, mut looked_at) = (0, 0);
        let away = AtomicBool::new(false);
        let stop = self.parts.tasks.stopping();
        let until_away = due
            .into_iter()
            .take_while(|_| !away.load(Ordering::Relaxed) && !stop.is_cancelled());
        let mut running = stream::iter(until_away)
            .map(|id| async move { self.deal_with(&id).await })
            .buffer_unordered(CONCURRENCY);
        while let Some(dealt) = running.next().await {
            looked_at += 1;
            match dealt? {
                Dealt::Ended => ended += 1,
                Dealt::NotAsked => away.store(true, Ordering::Relaxed),
                Dealt::PutOff | Dealt::Anothers => {}
            }
        }
        Ok((ended, looked_at))
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
        let outlook = self.look_at(&event).await;
        crash::point(Step::EventDealtWith);
        let is_not_asked = outlook.is_not_asked();
        match outlook {
            Outlook::Over(outcome) => {
                tracing::info!(event.id = %id, payment.id = %event.payment_id, outcome, "webhook dealt with");
                self.parts.metrics.webhook(outcome);
                events.end_event(id, outcome).await?;
                Ok(Dealt::Ended)
            }
            Outlook::Later { wait_ms, why } => {
                tracing::info!(event.id = %id, payment.id = %event.payment_id, wait_ms, why, "webhook put off");
                events.put_off_event(id, wait_ms).await?;
                Ok(match is_not_asked {
                    true => Dealt::NotAsked,
                    false => Dealt::PutOff,
                })
            }
        }
    }

    async fn look_at(&self, event: &ClaimedEvent) -> Outlook {
        match self.parts.charges.is_settled_by(&event.payment_id).await {
            // Nothing that could be fetched would change it.
            Ok(true) => return outlook(event, Some(Some(&Noticed::Known))),
            Ok(false) => {}
            Err(problem) => {
                tracing::warn!(%problem, event.id = %event.id, "an event cannot be dealt with yet");
                return outlook(event, None);
            }
        }
        let deadline = Instant::now() + FETCH_TIME;
        let fetched = self
            .parts
            .provider
            .retrieve(&event.payment_id, deadline)
            .await;
        let noticed = match fetched {
            Err(error) => {
                tracing::warn!(%error, event.id = %event.id, "the payment of an event cannot be fetched");
                return outlook(event, None);
            }
            Ok(None) => None,
            Ok(Some(payment)) => match self.parts.charges.notice(payment).await {
                Ok(noticed) => Some(noticed),
                Err(problem) => {
                    tracing::warn!(%problem, event.id = %event.id, "an event cannot be dealt with yet");
                    return outlook(event, None);
                }
            },
        };
        if noticed == Some(Noticed::UnknownInvoice) {
            tracing::error!(
                event.id = %event.id, payment.id = %event.payment_id,
                "a payment of this installation names an invoice that is not in the books"
            );
        }
        outlook(event, Some(noticed.as_ref()))
    }
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
