//! Webhooks: which event goes to the endpoint, how often it was tried, and how a delivery is made to fail.
//!
//! Pure bookkeeping. [`super::delivery`] does the waiting, a [`WebhookSink`](super::WebhookSink) does the sending.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ledger::{new_id, rfc3339};

/// How many deliveries are remembered; beyond it the oldest go.
const DELIVERIES_REMEMBERED_MAX: usize = 10_000;

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEndpoint {
    /// The address that is posted to.
    pub url: String,
    /// The signing secrets; one signature is made with each.
    pub secrets: Vec<String>,
}

impl WebhookEndpoint {
    /// An endpoint; without secrets it gets a new one.
    pub fn new(url: impl Into<String>, mut secrets: Vec<String>) -> Result<Self, String> {
        if secrets.is_empty() {
            secrets.push(new_id("whsec"));
        }
        if secrets.iter().any(|secret| !secret.starts_with("whsec_")) {
            return Err("A webhook secret begins with whsec_.".to_owned());
        }
        let url = url.into();
        Ok(Self { url, secrets })
    }
}

/// When a failed delivery is tried again. Stripe's own intervals are hours, and are not published.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// The wait before the second attempt; each further wait is twice the one before.
    pub first_wait: Duration,
    /// The longest wait.
    pub wait_max: Duration,
    /// How many attempts there are in all.
    pub attempts_max: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_wait: Duration::from_secs(1),
            wait_max: Duration::from_secs(60),
            attempts_max: 6,
        }
    }
}

impl RetryPolicy {
    /// The wait after a number of failed attempts.
    pub(super) fn wait(&self, failed: u32) -> Duration {
        let factor = 1_u32.checked_shl(failed.saturating_sub(1));
        let wait = factor.and_then(|factor| self.first_wait.checked_mul(factor));
        wait.map_or(self.wait_max, |wait| wait.min(self.wait_max))
    }
}

/// What happens to the delivery of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookFault {
    /// The first attempt waits for a while, and later events overtake it.
    WebhookDelay,
    /// The event is never sent; the list of events still has it.
    WebhookDrop,
    /// The event is sent twice.
    WebhookDuplicate,
}

/// One scripted failure of a delivery. JSON: `{"fault": "webhook_delay", "type": "charge.succeeded", "ms": 500}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookFaultRule {
    /// What happens.
    pub fault: WebhookFault,
    /// The event type to match; `None` matches any. JSON name: `type`.
    #[serde(default, rename = "type")]
    pub event_type: Option<String>,
    /// The `Idempotency-Key` of the request that caused the event; `None` matches any.
    #[serde(default)]
    pub key: Option<String>,
    /// How many matching events are hit.
    #[serde(default = "once")]
    pub times: u32,
    /// Milliseconds of a delay. JSON name: `ms`.
    #[serde(default, rename = "ms")]
    pub delay_ms: u64,
}

fn once() -> u32 {
    1
}

/// How a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// There are attempts to come.
    Pending,
    /// The endpoint answered with a 2xx.
    Delivered,
    /// Every attempt failed.
    Failed,
    /// A fault kept it from being sent.
    Dropped,
}

/// One attempt to deliver an event.
#[derive(Debug, Clone, Serialize)]
pub struct DeliveryAttempt {
    /// When it ended, by the system's clock, RFC 3339.
    pub at: String,
    /// The status that the endpoint answered with, if it answered.
    pub status: Option<u16>,
    /// Why there was no answer.
    pub error: Option<String>,
}

/// The delivery of one event. An event that is sent twice has two.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// `whd_...`
    pub id: String,
    /// The event's id.
    pub event_id: String,
    /// The event's type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// How it stands.
    pub state: DeliveryState,
    /// The attempts so far.
    pub attempts: Vec<DeliveryAttempt>,
}

/// A delivery that is to be started.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) delivery_id: String,
    /// What the first attempt waits.
    pub(super) delay: Duration,
    /// The bytes of every attempt.
    pub(super) body: Vec<u8>,
}

/// The endpoint, the faults to come, and what was delivered.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    pub(super) endpoint: Option<WebhookEndpoint>,
    faults: Vec<WebhookFaultRule>,
    deliveries: VecDeque<Delivery>,
    /// How many events of the account have been looked at.
    pub(super) events_seen: usize,
}

impl Webhooks {
    /// Adds a fault rule behind the ones that are there.
    pub(super) fn add_fault(&mut self, rule: WebhookFaultRule) {
        if rule.times > 0 {
            self.faults.push(rule);
        }
    }

    /// Takes one use of the first rule that matches an event.
    pub(super) fn take_fault(
        &mut self,
        event_type: &str,
        key: Option<&str>,
    ) -> Option<WebhookFaultRule> {
        let fits = |wanted: &Option<String>, actual: Option<&str>| {
            wanted.is_none() || wanted.as_deref() == actual
        };
        let place = self
            .faults
            .iter()
            .position(|rule| fits(&rule.event_type, Some(event_type)) && fits(&rule.key, key))?;
        let rule = self.faults.get_mut(place)?;
        let taken = rule.clone();
        rule.times -= 1;
        if rule.times == 0 {
            self.faults.remove(place);
        }
        Some(taken)
    }

    /// Opens a delivery, and gives its id.
    pub(super) fn open(
        &mut self,
        event_id: &str,
        event_type: &str,
        state: DeliveryState,
    ) -> String {
        if self.deliveries.len() == DELIVERIES_REMEMBERED_MAX {
            self.deliveries.pop_front();
        }
        let id = new_id("whd");
        self.deliveries.push_back(Delivery {
            id: id.clone(),
            event_id: event_id.to_owned(),
            event_type: event_type.to_owned(),
            state,
            attempts: Vec::new(),
        });
        id
    }

    /// Records an attempt; gives the id of the event if it has been delivered by it.
    pub(super) fn record(
        &mut self,
        delivery_id: &str,
        outcome: Result<u16, String>,
        at_ms: i64,
        is_last: bool,
    ) -> Option<String> {
        let delivery = self.deliveries.iter_mut().rev();
        let delivery = delivery.into_iter().find(|known| known.id == delivery_id)?;
        let delivered = matches!(outcome, Ok(200..=299));
        delivery.attempts.push(DeliveryAttempt {
            at: rfc3339(at_ms),
            status: outcome.as_ref().ok().copied(),
            error: outcome.err(),
        });
        if delivered {
            delivery.state = DeliveryState::Delivered;
        } else if is_last {
            delivery.state = DeliveryState::Failed;
        }
        delivered.then(|| delivery.event_id.clone())
    }

    /// The deliveries, oldest first.
    pub(super) fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_doubled_up_to_a_limit() {
        let policy = RetryPolicy::default();
        let waits = [1, 2, 3, 6, 7, 40].map(|failed| policy.wait(failed).as_secs());
        assert_eq!(waits, [1, 2, 4, 32, 60, 60]);
    }

    #[test]
    fn an_endpoint_has_a_secret_of_stripes_form() {
        let made = WebhookEndpoint::new("http://127.0.0.1", vec![]).unwrap();
        assert!(made.secrets[0].starts_with("whsec_"));
        assert!(WebhookEndpoint::new("http://127.0.0.1", vec!["sk_test_1".into()]).is_err());
    }
}
