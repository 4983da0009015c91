//! The engine: one request in, one reply out.
//!
//! ```text
//! arrive ─ API key? ─ fault before? ─ idempotency layer ─ (delay) ─ execute + store ─ fault after? ─ reply
//!                                         └─ from here to the end of the execution the key is in flight
//! ```
//!
//! Executing and storing are one step under one lock, so a caller that goes away can lose an answer but never
//! an effect. What waits before its execution waits in a task of its own, for the same reason. The lock is never
//! held while waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use super::admission::{State, Step};
use super::attempt;
use super::chaos::{Chaos, ChaosPlan};
use super::customers;
use super::delivery::{self, Carrier, WebhookSink};
use super::fault::{Fault, FaultRule};
use super::ledger::{Context, Ledger, Twist};
use super::message::{MockReply, MockRequest, MockResponse, RecordedRequest};
use super::refunds::{self, Refund};
use super::webhooks::{Delivery, RetryPolicy, WebhookEndpoint, WebhookFaultRule};

/// The stand-in for Stripe. A handle: clones share one state.
#[derive(Debug, Clone, Default)]
pub struct MockStripe {
    state: Arc<Mutex<State>>,
}

impl MockStripe {
    /// An empty account whose clock is the system's.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves one request, as Stripe would over HTTP. Sleeps for scripted delays, and must be called within a
    /// tokio runtime.
    ///
    /// Dropping the future is what a caller does that hangs up: whatever had arrived is still executed.
    pub async fn handle(&self, request: MockRequest) -> MockReply {
        let step = with_events(&self.state, |state| state.arrive(request));
        match step {
            Step::Answer {
                answer,
                late,
                fault,
            } => {
                pause(late).await;
                deliver(answer, fault).await
            }
            Step::Cut { after } => {
                pause(after).await;
                MockReply::Cut
            }
            Step::Wait { arrival, wait } => {
                let (state, fault) = (Arc::clone(&self.state), arrival.fault.clone());
                let execution = tokio::spawn(async move {
                    sleep(wait).await;
                    with_events(&state, |state| state.execute(&arrival))
                });
                match execution.await {
                    Ok(Some(answer)) => deliver(answer, fault).await,
                    // The mock was reset, or its runtime is going down.
                    Ok(None) | Err(_) => MockReply::Cut,
                }
            }
        }
    }

    /// Adds a fault rule behind the ones that are there.
    pub fn add_fault(&self, fault: FaultRule) {
        self.lock().faults.push(fault);
    }

    /// Delays the execution of every POST from now on; zero by default. The key is in flight meanwhile.
    pub fn set_latency(&self, latency: Duration) {
        self.lock().latency = latency;
    }

    /// Moves the mock's clock forward, which is the system's clock plus all that was added.
    pub fn advance_clock(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let mut state = self.lock();
        state.clock_offset_ms = state.clock_offset_ms.saturating_add(by_ms);
        drop(state);
        self.catch_up();
    }

    /// The truth to audit against.
    pub fn ledger(&self) -> Ledger {
        self.catch_up();
        let state = self.lock();
        let refunds = state.books.refunds.oldest_first();
        Ledger {
            payments: state.books.payments(),
            refunds: refunds.map(Refund::row).collect(),
            requests: state.requests_seen,
        }
    }

    /// The requests that were seen, in the order of arrival: the last 100,000 of them.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().requests.iter().cloned().collect()
    }

    /// Gives the late verdict on a PaymentIntent or Charge in `processing`, or on a refund: a pending one succeeds or
    /// fails, one that had succeeded can still fail. `false` if there is none of that id to be settled.
    pub fn settle_processing(&self, payment_id: &str, success: bool) -> bool {
        with_events(&self.state, |state| {
            let context = unasked(state);
            attempt::settle(&mut state.books, &context, payment_id, success)
                || refunds::settle(&mut state.books, &context, payment_id, success)
        })
    }

    /// Does what the customer does when asked to authenticate: passes or fails. `false` if no PaymentIntent of that id
    /// asks for it.
    pub fn authenticate(&self, payment_id: &str, success: bool) -> bool {
        with_events(&self.state, |state| {
            let context = unasked(state);
            attempt::authenticate(&mut state.books, &context, payment_id, success)
        })
    }

    /// Lets faults strike by chance from now on. A rate of 0 stops that and keeps the counts.
    pub fn set_chaos(&self, plan: ChaosPlan) -> Result<(), String> {
        plan.check()?;
        let mut state = self.lock();
        match &mut state.chaos {
            Some(chaos) if plan.rate <= 0.0 => chaos.plan.rate = 0.0,
            place => *place = Some(Chaos::new(plan)),
        }
        Ok(())
    }

    /// What chance has done so far, if it was ever let in.
    pub fn chaos(&self) -> Option<Chaos> {
        self.lock().chaos.clone()
    }

    /// Lets events out through a sink. Must be called within a tokio runtime, on which the deliveries then run.
    pub fn deliver_webhooks(&self, sink: Arc<dyn WebhookSink>, policy: RetryPolicy) {
        let runtime = tokio::runtime::Handle::current();
        self.lock().carrier = Some(Carrier {
            sink,
            policy,
            runtime,
        });
    }

    /// Sends the events that happen from now on to an endpoint, or to nobody.
    pub fn set_webhook_endpoint(&self, endpoint: Option<WebhookEndpoint>) -> Result<(), String> {
        let mut state = self.lock();
        if let Some(endpoint) = &endpoint {
            let carrier = state.carrier.as_ref();
            let carrier = carrier.ok_or("This mock has nobody to deliver webhooks.")?;
            carrier.sink.check(&endpoint.url)?;
        }
        state.webhooks.endpoint = endpoint;
        Ok(())
    }

    /// Where events go.
    pub fn webhook_endpoint(&self) -> Option<WebhookEndpoint> {
        self.lock().webhooks.endpoint.clone()
    }

    /// Adds a fault rule for deliveries.
    pub fn add_webhook_fault(&self, rule: WebhookFaultRule) {
        self.lock().webhooks.add_fault(rule);
    }

    /// The deliveries of webhooks, oldest first: the last 10,000 of them.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.lock().webhooks.deliveries()
    }

    /// Delivers an event once more, whatever became of it before; gives the delivery's id, or nothing if there is no
    /// such event or no endpoint.
    pub fn redeliver(&self, event_id: &str) -> Option<String> {
        let mut state = self.lock();
        state.webhooks.endpoint.as_ref()?;
        delivery::start_one(&self.state, &mut state, event_id, Duration::ZERO)
    }

    /// Makes sure that a customer exists, `cus_missing...` too, and returns it as Stripe's JSON. Its default payment
    /// method is `pm_card_visa` unless another is given.
    pub fn ensure_customer(
        &self,
        id: &str,
        default_payment_method: Option<String>,
    ) -> serde_json::Value {
        let mut state = self.lock();
        let now_ms = state.now_ms();
        customers::ensure(&mut state.books, id, default_payment_method, now_ms)
    }

    /// Forgets everything: objects, keys, faults, chaos, latency, recorded requests, deliveries and the clock's offset.
    /// Calls that still wait are cut and execute nothing. The webhook endpoint stays.
    pub fn reset(&self) {
        let mut state = self.lock();
        let (carrier, endpoint) = (state.carrier.take(), state.webhooks.endpoint.take());
        *state = State {
            epoch: state.epoch + 1,
            carrier,
            ..State::default()
        };
        state.webhooks.endpoint = endpoint;
    }

    /// Lets happen what was to happen by itself until now.
    fn catch_up(&self) {
        with_events(&self.state, |_state| ());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Changes the state, after what was due before it, and starts the delivery of the events that came of it.
fn with_events<T>(shared: &Arc<Mutex<State>>, change: impl FnOnce(&mut State) -> T) -> T {
    let mut state = lock(shared);
    let context = unasked(&state);
    refunds::turn_due(&mut state.books, &context);
    let result = change(&mut state);
    delivery::post_new_events(shared, &mut state);
    if std::mem::take(&mut state.books.turns.added) {
        wake_later(shared, &state);
    }
    result
}

/// Webhooks tell of what turns by itself, even if nothing else happens to the mock meanwhile.
fn wake_later(shared: &Arc<Mutex<State>>, state: &State) {
    let Some(carrier) = &state.carrier else {
        return;
    };
    let shared = Arc::clone(shared);
    // A moment later than due, so that a timer that is early is not too early.
    let wait = Duration::from_millis(refunds::TURN_AFTER_MS.unsigned_abs() + 50);
    carrier.runtime.spawn(async move {
        sleep(wait).await;
        with_events(&shared, |_state| ());
    });
}

/// The context of what happens by itself, without a request.
fn unasked(state: &State) -> Context {
    Context {
        now_ms: state.now_ms(),
        request_id: None,
        key: None,
        twist: Twist::Straight,
    }
}

/// A panic elsewhere must not turn every later call into another one.
pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A timer rounds up to the next millisecond, so no wait means no timer.
async fn pause(duration: Duration) {
    if !duration.is_zero() {
        sleep(duration).await;
    }
}

/// The way out: what the fault lets the caller see of an answer that is already stored.
async fn deliver(mut answer: MockResponse, fault: Option<FaultRule>) -> MockReply {
    match fault.as_ref().map(|rule| (rule.fault, rule)) {
        Some((Fault::DropAfter, _)) => MockReply::Cut,
        Some((Fault::HangAfter, rule)) => {
            pause(rule.hang()).await;
            MockReply::Cut
        }
        Some((Fault::GarbageAfter, _)) => {
            answer.status = 200;
            answer.body.truncate(answer.body.len() / 2);
            MockReply::Answer(answer)
        }
        Some(_) | None => MockReply::Answer(answer),
    }
}
