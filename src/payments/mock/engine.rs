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
use super::customers;
use super::fault::{Fault, FaultRule};
use super::ledger::{Context, Ledger, Twist};
use super::message::{MockReply, MockRequest, MockResponse, RecordedRequest};

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
        let step = self.lock().arrive(request);
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
                    lock(&state).execute(&arrival)
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
    }

    /// The truth to audit against.
    pub fn ledger(&self) -> Ledger {
        let state = self.lock();
        Ledger {
            payments: state.books.payments(),
            requests: state.requests_seen,
        }
    }

    /// The requests that were seen, in the order of arrival: the last 100,000 of them.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().requests.iter().cloned().collect()
    }

    /// Gives the late verdict on a PaymentIntent or Charge in `processing`; `false` if there is none of that id.
    pub fn settle_processing(&self, payment_id: &str, success: bool) -> bool {
        let mut state = self.lock();
        let context = Context {
            now_ms: state.now_ms(),
            request_id: None,
            key: None,
            twist: Twist::Straight,
        };
        attempt::settle(&mut state.books, &context, payment_id, success)
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

    /// Forgets everything: objects, keys, faults, latency, recorded requests and the clock's offset. Calls that still
    /// wait are cut and execute nothing.
    pub fn reset(&self) {
        let mut state = self.lock();
        *state = State {
            epoch: state.epoch + 1,
            ..State::default()
        };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A panic elsewhere must not turn every later call into another one.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
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
