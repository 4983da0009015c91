//! What becomes of a request that has arrived: refused, replayed, executed now, or executed after a wait.
//!
//! Everything here runs under the engine's lock and never waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;

use super::answer::{check_api_key, respond, stored_error, to_bytes};
use super::chaos::Chaos;
use super::delivery::Carrier;
use super::errors::ApiError;
use super::fault::{Fault, FaultQueue, FaultRule};
use super::idempotency::{KeyStore, StoredAnswer, Verdict};
use super::ledger::{Books, Context, Twist, new_id};
use super::message::{MockRequest, MockResponse, RecordedRequest};
use super::router;
use super::webhooks::Webhooks;

/// The longest `Idempotency-Key`, in characters (Stripe docs, Idempotent requests).
const KEY_CHARACTERS_MAX: usize = 255;
/// How many requests are remembered in full; beyond it the oldest go, the count stays.
const REQUESTS_REMEMBERED_MAX: usize = 100_000;

/// All that the mock holds.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Grows with every reset, so that a call that waits does not execute in a world it did not arrive in.
    pub(super) epoch: u64,
    /// The account's objects.
    pub(super) books: Books,
    /// The idempotency layer.
    pub(super) keys: KeyStore,
    /// The faults to come.
    pub(super) faults: FaultQueue,
    /// The faults that strike by chance.
    pub(super) chaos: Option<Chaos>,
    /// Where events go, and what was delivered.
    pub(super) webhooks: Webhooks,
    /// Who carries them; a reset leaves it be.
    pub(super) carrier: Option<Carrier>,
    /// What every POST waits before it executes.
    pub(super) latency: Duration,
    /// What was added to the system's clock.
    pub(super) clock_offset_ms: i64,
    /// The newest requests.
    pub(super) requests: VecDeque<RecordedRequest>,
    /// All requests, forgotten ones included.
    pub(super) requests_seen: u64,
}

/// What is known of a request when it arrives.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    pub(super) request: Arc<MockRequest>,
    /// Its `Request-Id`.
    pub(super) request_id: Arc<str>,
    /// Named in `Original-Request`: this request, or the one that first used the key.
    pub(super) original: Arc<str>,
    /// The `Idempotency-Key`, if it counts.
    pub(super) key: Option<Arc<str>>,
    /// The fault that was used up for it.
    pub(super) fault: Option<FaultRule>,
    /// The epoch it arrived in.
    pub(super) epoch: u64,
}

/// What is to be done after the first look at a request.
pub(super) enum Step {
    /// The answer is there; it may be late or lost on the way out.
    Answer {
        answer: MockResponse,
        late: Duration,
        fault: Option<FaultRule>,
    },
    /// No answer: the connection is cut after a while.
    Cut { after: Duration },
    /// To be executed after a while, with the key in flight.
    Wait {
        arrival: Box<Arrival>,
        wait: Duration,
    },
}

impl State {
    /// Milliseconds since the epoch by the mock's clock.
    pub(super) fn now_ms(&self) -> i64 {
        Utc::now()
            .timestamp_millis()
            .saturating_add(self.clock_offset_ms)
    }

    /// The first look at a request: everything up to its execution, and the execution itself if it need not wait.
    pub(super) fn arrive(&mut self, request: MockRequest) -> Step {
        let is_post = request.method == "POST";
        // Keys count on POST only; GET and DELETE ignore them (Stripe docs, Idempotent requests).
        let key = request
            .header("Idempotency-Key")
            .map(str::trim)
            .filter(|key| is_post && !key.is_empty());
        let key = key.map(Arc::from);
        let request_id: Arc<str> = new_id("req").into();
        let arrival = Arrival {
            original: Arc::clone(&request_id),
            request_id,
            key,
            fault: None,
            epoch: self.epoch,
            request: Arc::new(request),
        };
        let (step, fault, replayed) = self.admit(arrival.clone());
        self.record(arrival, fault, replayed);
        step
    }

    /// Decides on an arrival; tells the fault that was used up and whether an earlier answer is replayed.
    fn admit(&mut self, mut arrival: Arrival) -> (Step, Option<Fault>, bool) {
        if let Err(error) = check_api_key(&arrival.request) {
            return (answer_error(&arrival, &error), None, false);
        }
        let key = arrival.key.as_deref().unwrap_or_default();
        if key.chars().count() > KEY_CHARACTERS_MAX {
            let message = format!("Idempotency keys have at most {KEY_CHARACTERS_MAX} characters.");
            return (
                answer_error(&arrival, &ApiError::invalid(message)),
                None,
                false,
            );
        }
        arrival.fault = self.take_fault(&arrival);
        let fault = arrival.fault.as_ref().map(|rule| rule.fault);
        if let Some(step) = arrival
            .fault
            .as_ref()
            .and_then(|rule| refuse(&arrival, rule))
        {
            return (step, fault, false);
        }
        let delay = match &arrival.fault {
            Some(rule) if rule.fault == Fault::Delay => Duration::from_millis(rule.delay_ms),
            Some(_) | None => Duration::ZERO,
        };
        let Some(key) = arrival.key.clone() else {
            return (self.execute_after(arrival, delay), fault, false);
        };
        let (request, request_id) = (Arc::clone(&arrival.request), &arrival.request_id);
        let refused = |error: ApiError| stored_error(&error, request_id);
        let now_ms = self.now_ms();
        let verdict = self.keys.begin(&key, request, request_id, now_ms);
        let (original, stored, replayed) = match verdict {
            Verdict::Execute => return (self.execute_after(arrival, delay), fault, false),
            Verdict::Replay { original, answer } => (original, answer, true),
            Verdict::InFlight { original } => {
                (original, refused(ApiError::key_in_use(&key)), false)
            }
            Verdict::Mismatch { original } => {
                (original, refused(ApiError::key_mismatch(&key)), false)
            }
        };
        arrival.original = original;
        let mut answer = respond(&arrival, &stored);
        if replayed {
            answer
                .headers
                .push(("Idempotent-Replayed".into(), "true".into()));
        }
        (
            Step::Answer {
                answer,
                late: delay,
                fault: arrival.fault,
            },
            fault,
            replayed,
        )
    }

    /// The fault for a POST: a scripted one if its key has one, else perhaps one by chance. Chance strikes POSTs without
    /// a key too, and never a replay.
    fn take_fault(&mut self, arrival: &Arrival) -> Option<FaultRule> {
        let scripted = arrival.key.as_deref().and_then(|key| self.faults.take(key));
        if scripted.is_some() || arrival.request.method != "POST" {
            return scripted;
        }
        let now_ms = self.now_ms();
        let key = arrival.key.as_deref();
        if key.is_some_and(|key| self.keys.knows(key, now_ms)) {
            return None;
        }
        self.chaos.as_mut()?.strike()
    }

    fn record(&mut self, arrival: Arrival, fault: Option<Fault>, replayed: bool) {
        self.requests_seen += 1;
        if self.requests.len() == REQUESTS_REMEMBERED_MAX {
            self.requests.pop_front();
        }
        let Arrival {
            request,
            request_id,
            key,
            ..
        } = arrival;
        tracing::debug!(
            request.id = &*request_id,
            http.method = request.method,
            http.path = request.path,
            ?fault,
            replayed,
            "mock request"
        );
        self.requests.push_back(RecordedRequest {
            request,
            request_id,
            idempotency_key: key,
            replayed,
            fault,
        });
    }

    /// Executes now if nothing is to be waited for.
    fn execute_after(&mut self, arrival: Arrival, delay: Duration) -> Step {
        let latency = if arrival.request.method == "POST" {
            self.latency
        } else {
            Duration::ZERO
        };
        let wait = latency.saturating_add(delay);
        if !wait.is_zero() {
            return Step::Wait {
                arrival: Box::new(arrival),
                wait,
            };
        }
        match self.execute(&arrival) {
            Some(answer) => Step::Answer {
                answer,
                late: Duration::ZERO,
                fault: arrival.fault,
            },
            None => Step::Cut {
                after: Duration::ZERO,
            },
        }
    }

    /// Executes and stores, in one step. `None` if the mock was reset since the request arrived.
    pub(super) fn execute(&mut self, arrival: &Arrival) -> Option<MockResponse> {
        if self.epoch != arrival.epoch {
            return None;
        }
        let fault = arrival.fault.as_ref().map(|rule| rule.fault);
        let result = if fault == Some(Fault::Error500Before) {
            Err(ApiError::internal())
        } else {
            let twist = match fault {
                Some(Fault::WrongAmount) => Twist::WrongAmount,
                Some(Fault::Processing) => Twist::Processing,
                Some(_) | None => Twist::Straight,
            };
            let (request_id, key) = (Some(Arc::clone(&arrival.request_id)), arrival.key.clone());
            let context = Context {
                now_ms: self.now_ms(),
                request_id,
                key,
                twist,
            };
            router::execute(&mut self.books, &context, &arrival.request)
        };
        // What is refused before it begins leaves no trace under its key (Stripe docs, Idempotent requests).
        let begun = result.as_ref().map_or_else(|error| error.begun, |_| true);
        let result = if begun && fault == Some(Fault::Error500After) {
            Err(ApiError::internal())
        } else {
            result
        };
        let stored = match result {
            Ok(object) => StoredAnswer {
                status: 200,
                headers: Vec::new(),
                body: to_bytes(&object),
            },
            Err(error) => stored_error(&error, &arrival.request_id),
        };
        let answer = respond(arrival, &stored);
        match &arrival.key {
            Some(key) if begun => self.keys.finish(key, stored),
            Some(key) => self.keys.forget(key),
            None => {}
        }
        Some(answer)
    }
}

/// The faults that keep a request from the idempotency layer, so that nothing is executed and nothing is stored.
fn refuse(arrival: &Arrival, rule: &FaultRule) -> Option<Step> {
    let error = match rule.fault {
        Fault::DropBefore => {
            return Some(Step::Cut {
                after: Duration::ZERO,
            });
        }
        Fault::HangBefore => return Some(Step::Cut { after: rule.hang() }),
        Fault::Error503 => ApiError::unavailable(),
        Fault::RateLimit => ApiError::rate_limited(),
        Fault::LockTimeout => ApiError::lock_timeout(),
        Fault::Unauthorized => ApiError::unauthorized("Invalid API Key provided: sk_test_****"),
        Fault::Delay
        | Fault::DropAfter
        | Fault::HangAfter
        | Fault::Error500Before
        | Fault::Error500After
        | Fault::GarbageAfter
        | Fault::WrongAmount
        | Fault::Processing => return None,
    };
    Some(answer_error(arrival, &error))
}

fn answer_error(arrival: &Arrival, error: &ApiError) -> Step {
    let answer = respond(arrival, &stored_error(error, &arrival.request_id));
    Step::Answer {
        answer,
        late: Duration::ZERO,
        fault: None,
    }
}
