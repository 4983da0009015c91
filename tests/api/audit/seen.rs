//! A provider that shows itself to the audit as a test wants it to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use async_trait::async_trait;
use chargeonce::payments::mock::MockStripe;
use chargeonce::payments::outcome::{Outcome, ProviderPayment};
use chargeonce::payments::provider::{
    FrozenRequest, LookupError, PaymentOrder, PaymentPage, PaymentProvider, PaymentQuery,
    PrepareError, PreparedPayment, SendLimits,
};
use chargeonce::payments::refund::RefundProvider;
use serde_json::json;

use crate::support::Line;

/// The provider, seen as the audit would see it a while later or at an unlucky moment.
pub struct Seen {
    name: &'static str,
    inner: Arc<dyn PaymentProvider>,
    /// Payments that lie before the pages.
    not_listed: Mutex<BTreeSet<String>>,
    /// What happens between the audit's first look and its second, once.
    pub meanwhile: Mutex<Option<(String, String)>>,
    /// How often a payment was fetched by its id.
    pub retrieved: AtomicUsize,
    /// How many pages are still refused.
    pub refused_pages: AtomicUsize,
}

impl Seen {
    pub fn over(mock: &MockStripe) -> Arc<Self> {
        Self::named("mock", mock)
    }

    /// Under the name that is stored with each charge.
    pub fn named(name: &'static str, mock: &MockStripe) -> Arc<Self> {
        Arc::new(Self {
            name,
            inner: Line::default().provider(mock),
            not_listed: Mutex::default(),
            meanwhile: Mutex::default(),
            retrieved: AtomicUsize::new(0),
            refused_pages: AtomicUsize::new(0),
        })
    }

    pub fn hide(&self, payment_id: &str) {
        self.not_listed
            .lock()
            .unwrap()
            .insert(payment_id.to_owned());
    }
}

#[async_trait]
impl PaymentProvider for Seen {
    fn name(&self) -> &'static str {
        self.name
    }

    fn refunds(&self) -> &dyn RefundProvider {
        self.inner.refunds()
    }

    async fn prepare(&self, order: &PaymentOrder) -> Result<PreparedPayment, PrepareError> {
        self.inner.prepare(order).await
    }

    async fn send(&self, key: &str, request: &FrozenRequest, limits: SendLimits) -> Outcome {
        self.inner.send(key, request, limits).await
    }

    async fn find(
        &self,
        query: &PaymentQuery,
        deadline: Instant,
    ) -> Result<Vec<ProviderPayment>, LookupError> {
        self.inner.find(query, deadline).await
    }

    async fn retrieve(
        &self,
        payment_id: &str,
        deadline: Instant,
    ) -> Result<Option<ProviderPayment>, LookupError> {
        self.retrieved.fetch_add(1, Ordering::SeqCst);
        let shown = self.inner.retrieve(payment_id, deadline).await;
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some((url, invoice_id)) = meanwhile {
            charge_at(&url, &invoice_id).await;
        }
        shown
    }

    async fn page(
        &self,
        installation_id: &str,
        since_ms: i64,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<PaymentPage, LookupError> {
        let left = self.refused_pages.load(Ordering::SeqCst);
        if left > 0 {
            self.refused_pages.store(left - 1, Ordering::SeqCst);
            return Err(LookupError("not now".into()));
        }
        let page = self.inner.page(installation_id, since_ms, after, deadline);
        let mut page = page.await?;
        let hidden = self.not_listed.lock().unwrap().clone();
        page.payments
            .retain(|payment| !hidden.contains(&payment.id));
        Ok(page)
    }

    async fn cancel(
        &self,
        payment_id: &str,
        key: &str,
        deadline: Instant,
    ) -> Result<ProviderPayment, LookupError> {
        self.inner.cancel(payment_id, key, deadline).await
    }
}

async fn charge_at(url: &str, invoice_id: &str) {
    let body = json!({"invoiceId": invoice_id}).to_string();
    let request = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .post(format!("{url}/v1/charges"))
        .header("Content-Type", "application/json")
        .body(body);
    assert_eq!(request.send().await.unwrap().status().as_u16(), 201);
}
