//! What is counted and measured, in Prometheus form. No ids as labels.

pub mod controller;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::reconciler::repository::Backlog;
use crate::storage::PoolState;

type Seconds = Gauge<f64, AtomicU64>;

type Latency = Family<ProviderCall, Histogram, fn() -> Histogram>;

/// Upper bounds of the provider's latency in seconds: from a stand-in in this process to a whole call with its repeats.
const LATENCY_BOUNDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 80.0, 300.0,
];

/// Outcomes of webhook events of which the first one is an alert: their series begin at zero, or the first would be no increase.
const ALARMING: [&str; 3] = ["parked", "unknown_invoice", "contradiction"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderCall {
    operation: &'static str,
    outcome: &'static str,
}

/// All metrics of one process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    unsettled: Gauge,
    unsettled_age: Seconds,
    reviews: Gauge,
    review_age: Seconds,
    unsettled_refunds: Gauge,
    unsettled_refund_age: Seconds,
    refund_reviews: Gauge,
    refund_review_age: Seconds,
    events: Gauge,
    sweeps: Counter,
    failed_sweeps: Counter,
    last_sweep: Seconds,
    recovered: Family<Outcome, Counter>,
    recovered_refunds: Family<Outcome, Counter>,
    webhooks: Family<Outcome, Counter>,
    charge_calls: Family<Outcome, Counter>,
    verdicts: Family<Outcome, Counter>,
    takeovers: Counter,
    in_flight: Gauge,
    requests: Gauge,
    refused_requests: Counter,
    provider: Latency,
    connections: Gauge,
    connections_max: Gauge,
    connections_in_use: Gauge,
    connections_awaited: Gauge,
}

impl Metrics {
    /// With everything at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("chargeonce");
        let metrics = Self {
            registry: Arc::default(),
            unsettled: Gauge::default(),
            unsettled_age: Seconds::default(),
            reviews: Gauge::default(),
            review_age: Seconds::default(),
            unsettled_refunds: Gauge::default(),
            unsettled_refund_age: Seconds::default(),
            refund_reviews: Gauge::default(),
            refund_review_age: Seconds::default(),
            events: Gauge::default(),
            sweeps: Counter::default(),
            failed_sweeps: Counter::default(),
            last_sweep: Seconds::default(),
            recovered: Family::default(),
            recovered_refunds: Family::default(),
            webhooks: Family::default(),
            charge_calls: Family::default(),
            verdicts: Family::default(),
            takeovers: Counter::default(),
            in_flight: Gauge::default(),
            requests: Gauge::default(),
            refused_requests: Counter::default(),
            provider: Latency::new_with_constructor(|| Histogram::new(LATENCY_BOUNDS)),
            connections: Gauge::default(),
            connections_max: Gauge::default(),
            connections_in_use: Gauge::default(),
            connections_awaited: Gauge::default(),
        };
        for outcome in ALARMING {
            let _ = metrics.webhooks.get_or_create(&Outcome { outcome });
        }
        metrics.register_work(&mut registry);
        registry.register(
            "unsettled_charges",
            "Charges without a verdict (pending or processing), in the whole installation",
            metrics.unsettled.clone(),
        );
        registry.register(
            "oldest_unsettled_charge_age_seconds",
            "Age of the oldest charge without a verdict; 0 when there is none",
            metrics.unsettled_age.clone(),
        );
        registry.register(
            "reviews_open",
            "Charges that a person must decide about",
            metrics.reviews.clone(),
        );
        registry.register(
            "oldest_open_review_age_seconds",
            "Age of the oldest charge that a person must decide about; 0 when there is none",
            metrics.review_age.clone(),
        );
        registry.register(
            "provider_events_pending",
            "Webhook events that are stored and not dealt with yet",
            metrics.events.clone(),
        );
        registry.register(
            "reconciler_rounds",
            "Rounds of this process's background worker",
            metrics.sweeps.clone(),
        );
        registry.register(
            "reconciler_rounds_failed",
            "Rounds that the store cut short",
            metrics.failed_sweeps.clone(),
        );
        registry.register(
            "reconciler_last_round_timestamp_seconds",
            "When this process's background worker last ended a whole round (Unix time); 0 before the first",
            metrics.last_sweep.clone(),
        );
        registry.register(
            "reconciler_attempts",
            "Attempts that this process's background worker looked at, by what became of them",
            metrics.recovered.clone(),
        );
        registry.register(
            "reconciler_refunds",
            "Refunds that this process's background worker looked at, by what became of them",
            metrics.recovered_refunds.clone(),
        );
        metrics.register_refunds(&mut registry);
        registry.register(
            "webhook_events",
            "Webhook events at this process: how they were taken in, and what became of them",
            metrics.webhooks.clone(),
        );
        Self {
            registry: Arc::new(registry),
            ..metrics
        }
    }

    /// What this process does for its callers, and what it needs for that.
    fn register_work(&self, registry: &mut Registry) {
        registry.register(
            "charge_calls",
            "Calls that charge an invoice at this process, by their answer: succeeded, failed, replayed, replayed_failure, undecided, or a problem's code",
            self.charge_calls.clone(),
        );
        registry.register(
            "verdicts",
            "What this process recorded about attempts",
            self.verdicts.clone(),
        );
        registry.register(
            "takeovers",
            "Attempts that this process took over after their lease",
            self.takeovers.clone(),
        );
        registry.register(
            "charges_in_flight",
            "Attempts that this process works on now",
            self.in_flight.clone(),
        );
        registry.register(
            "requests_in_flight",
            "Requests that this process works on now, without probes and scrapes",
            self.requests.clone(),
        );
        registry.register(
            "requests_refused",
            "Requests that this process refused because it had too much to do",
            self.refused_requests.clone(),
        );
        registry.register(
            "provider_call_duration_seconds",
            "How long calls of the payment provider took, their repeats included",
            self.provider.clone(),
        );
        registry.register(
            "database_connections",
            "Connections to the database that this process has open",
            self.connections.clone(),
        );
        registry.register(
            "database_connections_max",
            "Connections to the database that this process may have",
            self.connections_max.clone(),
        );
        registry.register(
            "database_connections_in_use",
            "Connections to the database that are at work",
            self.connections_in_use.clone(),
        );
        registry.register(
            "database_connections_awaited",
            "Units of work that wait for a connection",
            self.connections_awaited.clone(),
        );
    }

    /// One call that charges an invoice, by its answer.
    pub fn charge_call(&self, outcome: &'static str) {
        self.charge_calls.get_or_create(&Outcome { outcome }).inc();
    }

    /// One record about an attempt.
    pub fn verdict(&self, outcome: &'static str) {
        self.verdicts.get_or_create(&Outcome { outcome }).inc();
    }

    /// One attempt that was taken over.
    pub fn taken_over(&self) {
        self.takeovers.inc();
    }

    /// How many attempts are being worked on.
    pub fn in_flight(&self, count: usize) {
        self.in_flight.set(whole(count));
    }

    /// How many requests are being worked on.
    pub fn requests_in_flight(&self, count: usize) {
        self.requests.set(whole(count));
    }

    /// One request that was refused because there is too much to do.
    pub fn request_refused(&self) {
        self.refused_requests.inc();
    }

    /// One call of the payment provider.
    pub fn provider_call(&self, operation: &'static str, outcome: &'static str, took: Duration) {
        let call = ProviderCall { operation, outcome };
        self.provider
            .get_or_create(&call)
            .observe(took.as_secs_f64());
    }

    /// The pool of connections, as it is now.
    pub fn pool(&self, pool: PoolState) {
        self.connections.set(whole(pool.open));
        self.connections_max.set(whole(pool.max));
        self.connections_in_use.set(whole(pool.in_use));
        self.connections_awaited.set(whole(pool.awaited));
    }

    fn register_refunds(&self, registry: &mut Registry) {
        registry.register(
            "unsettled_refunds",
            "Refunds without a verdict (pending or processing), in the whole installation",
            self.unsettled_refunds.clone(),
        );
        registry.register(
            "oldest_unsettled_refund_age_seconds",
            "Age of the oldest refund without a verdict; 0 when there is none",
            self.unsettled_refund_age.clone(),
        );
        registry.register(
            "refund_reviews_open",
            "Refunds that a person must decide about",
            self.refund_reviews.clone(),
        );
        registry.register(
            "oldest_open_refund_review_age_seconds",
            "Age of the oldest refund that a person must decide about; 0 when there is none",
            self.refund_review_age.clone(),
        );
    }

    /// How much is open in the whole installation, by the database's time.
    pub fn backlog(&self, backlog: &Backlog, now_ms: i64) {
        let age = |since_ms: Option<i64>| {
            #[expect(
                clippy::cast_precision_loss,
                reason = "an age in milliseconds is far below 2^52"
            )]
            since_ms.map_or(0.0, |since_ms| (now_ms - since_ms).max(0) as f64 / 1_000.0)
        };
        self.unsettled.set(backlog.unsettled);
        self.unsettled_age.set(age(backlog.oldest_unsettled_ms));
        self.reviews.set(backlog.reviews);
        self.review_age.set(age(backlog.oldest_review_ms));
        let refunds = &backlog.refunds;
        self.unsettled_refunds.set(refunds.unsettled);
        self.unsettled_refund_age
            .set(age(refunds.oldest_unsettled_ms));
        self.refund_reviews.set(refunds.reviews);
        self.refund_review_age.set(age(refunds.oldest_review_ms));
        self.events.set(backlog.events);
    }

    /// One round of the background worker.
    pub fn sweep(&self, is_complete: bool, ended: SystemTime) {
        self.sweeps.inc();
        if !is_complete {
            self.failed_sweeps.inc();
            return;
        }
        let since = ended.duration_since(UNIX_EPOCH);
        self.last_sweep
            .set(since.map_or(0.0, |since| since.as_secs_f64()));
    }

    /// One attempt that the background worker looked at.
    pub fn recovered(&self, outcome: &'static str) {
        self.recovered.get_or_create(&Outcome { outcome }).inc();
    }

    /// One refund that the background worker looked at.
    pub fn recovered_refund(&self, outcome: &'static str) {
        self.recovered_refunds
            .get_or_create(&Outcome { outcome })
            .inc();
    }

    /// One webhook event.
    pub fn webhook(&self, outcome: &'static str) {
        self.webhooks.get_or_create(&Outcome { outcome }).inc();
    }

    /// All of them as text (Prometheus's text-based exposition format, version 0.0.4).
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
