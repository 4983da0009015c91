//! What is counted and measured, in Prometheus form. No ids as labels.

pub mod controller;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::reconciler::repository::Backlog;

type Seconds = Gauge<f64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
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
        };
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

    /// All of them as text (the OpenMetrics form, which Prometheus reads).
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
