//! From an event to the endpoint: a task for each delivery, which tries, waits and tries again.
//!
//! Nothing here knows an HTTP library: a [`WebhookSink`] sends. The tasks run side by side, so that events arrive in no
//! particular order, as with Stripe.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::admission::State;
use super::answer::to_bytes;
use super::engine::lock;
use super::events::Event;
use super::signature;
use super::webhooks::{DeliveryState, Job, RetryPolicy, WebhookFault};

/// One attempt, ready to be sent.
#[derive(Debug, Clone)]
pub struct WebhookPost {
    /// Where it goes.
    pub url: String,
    /// The value of the header `Stripe-Signature`.
    pub signature: String,
    /// The raw body, JSON.
    pub body: Vec<u8>,
}

/// Whoever carries webhooks to their receiver.
#[async_trait]
pub trait WebhookSink: fmt::Debug + Send + Sync {
    /// Whether events may go to this address; if not, why not.
    fn check(&self, url: &str) -> Result<(), String>;

    /// Sends one attempt: the status of the answer, or why there was none.
    async fn post(&self, post: WebhookPost) -> Result<u16, String>;
}

/// What deliveries need beside the state.
#[derive(Debug, Clone)]
pub(super) struct Carrier {
    pub(super) sink: Arc<dyn WebhookSink>,
    pub(super) policy: RetryPolicy,
    /// Events also come from callers outside the runtime.
    pub(super) runtime: Handle,
}

/// Starts the delivery of every event that is new since the last look.
pub(super) fn post_new_events(shared: &Arc<Mutex<State>>, state: &mut State) {
    let start = state.webhooks.events_seen;
    state.webhooks.events_seen = state.books.events.len();
    if state.webhooks.endpoint.is_none() {
        return;
    }
    let events = state.books.events.newer_than(start);
    let fresh: Vec<_> = events.map(Event::label).collect();
    for (id, kind, key) in fresh {
        let fault = state.webhooks.take_fault(kind, key.as_deref());
        let (copies, delay) = match fault.map(|rule| (rule.fault, rule.delay_ms)) {
            None => (1, Duration::ZERO),
            Some((WebhookFault::WebhookDelay, ms)) => (1, Duration::from_millis(ms)),
            Some((WebhookFault::WebhookDuplicate, _)) => (2, Duration::ZERO),
            Some((WebhookFault::WebhookDrop, _)) => {
                if let Some(event) = state.books.events.get_mut(&id) {
                    event.pending_webhooks = 1;
                }
                state.webhooks.open(&id, kind, DeliveryState::Dropped);
                continue;
            }
        };
        for _ in 0..copies {
            start_one(shared, state, &id, delay);
        }
    }
}

/// Starts one delivery of an event; gives its id, or nothing if there is no such event or nobody to carry it.
pub(super) fn start_one(
    shared: &Arc<Mutex<State>>,
    state: &mut State,
    event_id: &str,
    delay: Duration,
) -> Option<String> {
    let carrier = state.carrier.clone()?;
    let event = state.books.events.get_mut(event_id)?;
    event.pending_webhooks = 1;
    let body = to_bytes(&event.render());
    let (id, kind, _) = event.label();
    let delivery_id = state.webhooks.open(&id, kind, DeliveryState::Pending);
    let job = Job {
        delivery_id: delivery_id.clone(),
        delay,
        body,
    };
    let (shared, epoch) = (Arc::clone(shared), state.epoch);
    carrier
        .runtime
        .clone()
        .spawn(async move { run(&shared, &carrier, job, epoch).await });
    Some(delivery_id)
}

async fn run(shared: &Mutex<State>, carrier: &Carrier, job: Job, epoch: u64) {
    if !job.delay.is_zero() {
        sleep(job.delay).await;
    }
    for number in 1..=carrier.policy.attempts_max {
        // The endpoint is read again each time: its secrets may have been changed meanwhile.
        let endpoint = {
            let state = lock(shared);
            state
                .webhooks
                .endpoint
                .clone()
                .filter(|_| state.epoch == epoch)
        };
        let Some(endpoint) = endpoint else { return };
        // Receivers compare with their own clock, so this is not the mock's.
        let timestamp = Utc::now().timestamp();
        let post = WebhookPost {
            signature: signature::header(timestamp, &endpoint.secrets, &job.body),
            url: endpoint.url,
            body: job.body.clone(),
        };
        let outcome = carrier.sink.post(post).await;
        let is_last = number == carrier.policy.attempts_max;
        if finish(shared, &job, epoch, outcome, is_last) {
            return;
        }
        sleep(carrier.policy.wait(number)).await;
    }
}

/// Records an attempt; `true` if there is to be no other.
fn finish(
    shared: &Mutex<State>,
    job: &Job,
    epoch: u64,
    outcome: Result<u16, String>,
    is_last: bool,
) -> bool {
    let mut state = lock(shared);
    if state.epoch != epoch {
        return true;
    }
    let now_ms = Utc::now().timestamp_millis();
    let delivered = state
        .webhooks
        .record(&job.delivery_id, outcome, now_ms, is_last);
    if let Some(event) = delivered
        .as_deref()
        .and_then(|id| state.books.events.get_mut(id))
    {
        event.pending_webhooks = 0;
    }
    delivered.is_some() || is_last
}
