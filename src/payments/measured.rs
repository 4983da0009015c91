//! A provider whose answers are timed and traced, by what was asked and what came of it. Of what was sent and answered nothing is
//! told, and the provider is told nothing of the trace: it is a stranger.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use tracing::{Instrument, Span};

use super::outcome::{Outcome, ProviderPayment};
use super::provider::{
    FrozenRequest, LookupError, PaymentOrder, PaymentPage, PaymentProvider, PaymentQuery,
    PrepareError, PreparedPayment, SendLimits,
};
use super::refund::{ProviderRefund, RefundOrder, RefundPage, RefundProvider, RefundQuery};
use crate::metrics::Metrics;
use crate::telemetry::spans;

/// Wraps a provider; what it answers is passed on as it is.
pub struct Measured {
    inner: Arc<dyn PaymentProvider>,
    metrics: Metrics,
}

impl Measured {
    /// Over a provider.
    pub fn new(inner: Arc<dyn PaymentProvider>, metrics: Metrics) -> Self {
        Self { inner, metrics }
    }

    fn begin(&self, operation: &'static str) -> Call {
        Call {
            operation,
            span: spans::provider(self.inner.name(), operation),
            since: Instant::now(),
        }
    }

    fn observe(&self, call: &Call, outcome: &'static str) {
        call.span.record("provider.outcome", outcome);
        self.metrics
            .provider_call(call.operation, outcome, call.since.elapsed());
    }

    fn looked<T>(&self, call: &Call, answer: Result<T, LookupError>) -> Result<T, LookupError> {
        let outcome = if answer.is_ok() {
            "answered"
        } else {
            "unanswered"
        };
        self.observe(call, outcome);
        answer
    }
}

/// A call that has begun.
struct Call {
    operation: &'static str,
    span: Span,
    since: Instant,
}

/// An outcome as a label.
fn word<P>(outcome: &Outcome<P>) -> &'static str {
    match outcome {
        Outcome::Succeeded(_) => "succeeded",
        Outcome::Processing(_) => "processing",
        Outcome::Failed(_) => "failed",
        Outcome::NotExecuted(_) => "not_executed",
        Outcome::Unknown(_) => "unknown",
    }
}

#[async_trait]
impl PaymentProvider for Measured {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn refunds(&self) -> &dyn RefundProvider {
        self
    }

    async fn prepare(&self, order: &PaymentOrder) -> Result<PreparedPayment, PrepareError> {
        let call = self.begin("prepare");
        let prepared = self
            .inner
            .prepare(order)
            .instrument(call.span.clone())
            .await;
        let outcome = match &prepared {
            Ok(_) => "answered",
            Err(PrepareError::Unavailable(_)) => "unanswered",
            Err(PrepareError::Credentials(_)) => "credentials",
            Err(PrepareError::NoPaymentMethod(_)) => "no_payment_method",
        };
        self.observe(&call, outcome);
        prepared
    }

    async fn send(&self, key: &str, request: &FrozenRequest, limits: SendLimits) -> Outcome {
        let call = self.begin("send");
        let outcome = self
            .inner
            .send(key, request, limits)
            .instrument(call.span.clone())
            .await;
        self.observe(&call, word(&outcome));
        outcome
    }

    async fn find(
        &self,
        query: &PaymentQuery,
        deadline: Instant,
    ) -> Result<Vec<ProviderPayment>, LookupError> {
        let call = self.begin("find");
        let found = self
            .inner
            .find(query, deadline)
            .instrument(call.span.clone())
            .await;
        self.looked(&call, found)
    }

    async fn retrieve(
        &self,
        payment_id: &str,
        deadline: Instant,
    ) -> Result<Option<ProviderPayment>, LookupError> {
        let call = self.begin("retrieve");
        let found = self
            .inner
            .retrieve(payment_id, deadline)
            .instrument(call.span.clone())
            .await;
        self.looked(&call, found)
    }

    async fn page(
        &self,
        installation_id: &str,
        since_ms: i64,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<PaymentPage, LookupError> {
        let call = self.begin("page");
        let page = self.inner.page(installation_id, since_ms, after, deadline);
        let page = page.instrument(call.span.clone()).await;
        self.looked(&call, page)
    }

    async fn cancel(
        &self,
        payment_id: &str,
        key: &str,
        deadline: Instant,
    ) -> Result<ProviderPayment, LookupError> {
        let call = self.begin("cancel");
        let canceled = self
            .inner
            .cancel(payment_id, key, deadline)
            .instrument(call.span.clone())
            .await;
        self.looked(&call, canceled)
    }
}

#[async_trait]
impl RefundProvider for Measured {
    fn prepare_refund(&self, order: &RefundOrder) -> FrozenRequest {
        self.inner.refunds().prepare_refund(order)
    }

    async fn send_refund(
        &self,
        key: &str,
        request: &FrozenRequest,
        limits: SendLimits,
    ) -> Outcome<ProviderRefund> {
        let call = self.begin("send_refund");
        let outcome = self
            .inner
            .refunds()
            .send_refund(key, request, limits)
            .instrument(call.span.clone())
            .await;
        self.observe(&call, word(&outcome));
        outcome
    }

    async fn find_refunds(
        &self,
        query: &RefundQuery,
        deadline: Instant,
    ) -> Result<Vec<ProviderRefund>, LookupError> {
        let call = self.begin("find_refunds");
        let found = self
            .inner
            .refunds()
            .find_refunds(query, deadline)
            .instrument(call.span.clone())
            .await;
        self.looked(&call, found)
    }

    async fn retrieve_refund(
        &self,
        refund_id: &str,
        deadline: Instant,
    ) -> Result<Option<ProviderRefund>, LookupError> {
        let call = self.begin("retrieve_refund");
        let found = self.inner.refunds().retrieve_refund(refund_id, deadline);
        let found = found.instrument(call.span.clone()).await;
        self.looked(&call, found)
    }

    async fn page_refunds(
        &self,
        since_ms: i64,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<RefundPage, LookupError> {
        let call = self.begin("page_refunds");
        let page = self.inner.refunds().page_refunds(since_ms, after, deadline);
        let page = page.instrument(call.span.clone()).await;
        self.looked(&call, page)
    }
}
