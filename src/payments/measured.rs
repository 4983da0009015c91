//! A provider whose answers are timed, by what was asked and what came of it.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use super::outcome::{Outcome, ProviderPayment};
use super::provider::{
    FrozenRequest, LookupError, PaymentOrder, PaymentPage, PaymentProvider, PaymentQuery,
    PrepareError, PreparedPayment, SendLimits,
};
use super::refund::{ProviderRefund, RefundOrder, RefundPage, RefundProvider, RefundQuery};
use crate::metrics::Metrics;

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

    fn observe(&self, operation: &'static str, outcome: &'static str, since: Instant) {
        self.metrics
            .provider_call(operation, outcome, since.elapsed());
    }

    fn looked<T>(
        &self,
        operation: &'static str,
        since: Instant,
        answer: Result<T, LookupError>,
    ) -> Result<T, LookupError> {
        let outcome = if answer.is_ok() {
            "answered"
        } else {
            "unanswered"
        };
        self.observe(operation, outcome, since);
        answer
    }
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
        let since = Instant::now();
        let prepared = self.inner.prepare(order).await;
        let outcome = match &prepared {
            Ok(_) => "answered",
            Err(PrepareError::Unavailable(_)) => "unanswered",
            Err(PrepareError::Credentials(_)) => "credentials",
            Err(PrepareError::NoPaymentMethod(_)) => "no_payment_method",
        };
        self.observe("prepare", outcome, since);
        prepared
    }

    async fn send(&self, key: &str, request: &FrozenRequest, limits: SendLimits) -> Outcome {
        let since = Instant::now();
        let outcome = self.inner.send(key, request, limits).await;
        self.observe("send", word(&outcome), since);
        outcome
    }

    async fn find(
        &self,
        query: &PaymentQuery,
        deadline: Instant,
    ) -> Result<Vec<ProviderPayment>, LookupError> {
        let since = Instant::now();
        let found = self.inner.find(query, deadline).await;
        self.looked("find", since, found)
    }

    async fn retrieve(
        &self,
        payment_id: &str,
        deadline: Instant,
    ) -> Result<Option<ProviderPayment>, LookupError> {
        let since = Instant::now();
        let found = self.inner.retrieve(payment_id, deadline).await;
        self.looked("retrieve", since, found)
    }

    async fn page(
        &self,
        installation_id: &str,
        since_ms: i64,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<PaymentPage, LookupError> {
        let since = Instant::now();
        let page = self.inner.page(installation_id, since_ms, after, deadline);
        let page = page.await;
        self.looked("page", since, page)
    }

    async fn cancel(
        &self,
        payment_id: &str,
        key: &str,
        deadline: Instant,
    ) -> Result<ProviderPayment, LookupError> {
        let since = Instant::now();
        let canceled = self.inner.cancel(payment_id, key, deadline).await;
        self.looked("cancel", since, canceled)
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
        let since = Instant::now();
        let outcome = self.inner.refunds().send_refund(key, request, limits).await;
        self.observe("send_refund", word(&outcome), since);
        outcome
    }

    async fn find_refunds(
        &self,
        query: &RefundQuery,
        deadline: Instant,
    ) -> Result<Vec<ProviderRefund>, LookupError> {
        let since = Instant::now();
        let found = self.inner.refunds().find_refunds(query, deadline).await;
        self.looked("find_refunds", since, found)
    }

    async fn retrieve_refund(
        &self,
        refund_id: &str,
        deadline: Instant,
    ) -> Result<Option<ProviderRefund>, LookupError> {
        let since = Instant::now();
        let found = self.inner.refunds().retrieve_refund(refund_id, deadline);
        let found = found.await;
        self.looked("retrieve_refund", since, found)
    }

    async fn page_refunds(
        &self,
        since_ms: i64,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<RefundPage, LookupError> {
        let since = Instant::now();
        let page = self.inner.refunds().page_refunds(since_ms, after, deadline);
        let page = page.await;
        self.looked("page_refunds", since, page)
    }
}
