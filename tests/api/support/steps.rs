//! Steps that many tests share: what fails, how time passes, and what is then in the books.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chargeonce::payments::mock::{Fault, FaultRule, MockStripe};
use chargeonce::payments::stripe::transport::{HttpCall, Method, Transport, TransportResult};
use chargeonce::payments::stripe::{
    Backoff, InProcessTransport, LimiterSettings, StripeApi, StripeProvider, StripeSettings,
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::json;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

use super::{Reply, TestApp, eventually};

/// How often one call of the service sends at most: once, and two repeats.
pub const SENDS_MAX: u32 = 3;

const HOUR: Duration = Duration::from_secs(3_600);

/// What a round of the background worker came to: how many attempts to what, and how many events were dealt with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    pub attempts: BTreeMap<&'static str, usize>,
    pub refunds: BTreeMap<&'static str, usize>,
    pub events: usize,
}

impl Swept {
    pub fn of(attempts: &[(&'static str, usize)]) -> Self {
        Self {
            attempts: attempts.iter().copied().collect(),
            ..Self::default()
        }
    }

    pub fn of_refunds(refunds: &[(&'static str, usize)]) -> Self {
        Self {
            refunds: refunds.iter().copied().collect(),
            ..Self::default()
        }
    }

    pub fn count(&self, outcome: &str) -> usize {
        self.attempts.get(outcome).copied().unwrap_or(0)
    }
}

impl TestApp {
    /// One round of the background worker, which does not run by itself in these tests.
    pub async fn sweep(&self) -> Swept {
        let sweep = self.parts.reconciler.sweep().await.unwrap();
        Swept {
            attempts: sweep.attempts,
            refunds: sweep.refunds,
            events: sweep.events,
        }
    }

    /// Lets the next sends of an invoice's first attempt fail in this way.
    pub fn fault(&self, invoice_id: &str, fault: Fault, times: u32) {
        self.mock.add_fault(FaultRule {
            times,
            ..FaultRule::once(fault).for_key(format!("charge:{invoice_id}"))
        });
    }

    /// Time passes until the lease of whoever worked last is over.
    pub async fn past_lease(&self) {
        self.age(Duration::from_secs(11 * 60)).await;
    }

    /// Time passes for the service and for the provider.
    pub async fn hours_later(&self, hours: u32) {
        self.age(HOUR * hours).await;
        self.mock.advance_clock(HOUR * hours);
    }

    /// How often the provider took money for an invoice.
    pub fn times_paid(&self, invoice_id: &str) -> usize {
        self.mock.ledger().succeeded(invoice_id).len()
    }

    /// How many sends there were for an invoice, repeats included.
    pub fn sends_for(&self, invoice_id: &str) -> usize {
        let first = format!("charge:{invoice_id}");
        let later = format!("{first}:");
        self.sends()
            .iter()
            .filter(|key| **key == first || key.starts_with(&later))
            .count()
    }

    /// Sets another payment method on an invoice.
    pub async fn change_card(&self, invoice_id: &str, payment_method: &str) -> Reply {
        let body = json!({"paymentMethodId": payment_method});
        self.patch(&format!("/v1/invoices/{invoice_id}"), &body)
            .await
    }

    /// Starts a charge and goes away at once; the charge goes on.
    pub async fn charge_and_leave(&self, invoice_id: &str) -> Reply {
        let left = self.charge_waiting(invoice_id, 0).await;
        left.assert(202, "", "unknown", "later");
        left
    }

    /// Waits until a condition of the provider's books is true.
    pub async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        eventually(what, async || condition(self).then_some(())).await;
    }
}

/// Makes calls at once while a gate is closed. All but one are answered before it opens, and the last one after it.
pub async fn all_but_one<F: Future<Output = Reply>>(
    calls: impl IntoIterator<Item = F>,
    gate: OwnedRwLockWriteGuard<()>,
) -> (Vec<Reply>, Reply) {
    let mut calls: FuturesUnordered<F> = calls.into_iter().collect();
    let mut early = Vec::new();
    while calls.len() > 1 {
        early.extend(calls.next().await);
    }
    drop(gate);
    (early, calls.next().await.unwrap())
}

/// The line to the mock, which a test can cut before anything is sent.
#[derive(Clone, Default)]
pub struct Line {
    /// No POST gets through: the connection is refused.
    pub posts_refused: Arc<AtomicBool>,
    /// No GET gets through.
    pub gets_refused: Arc<AtomicBool>,
    /// Of the GETs no list gets through, and single payments and refunds do.
    pub lists_refused: Arc<AtomicBool>,
    /// POSTs wait here, before anything of them is sent.
    gate: Arc<RwLock<()>>,
    /// How many of them.
    posts_held: Arc<AtomicUsize>,
    /// What the mock answered to POSTs waits here.
    answering_gate: Arc<RwLock<()>>,
    /// GETs wait here.
    reading_gate: Arc<RwLock<()>>,
}

/// A transport over this line.
pub struct Cuttable<T> {
    line: Line,
    inner: T,
}

#[async_trait]
impl<T: Transport> Transport for Cuttable<T> {
    async fn call(&self, call: HttpCall<'_>, timeout: Duration) -> TransportResult {
        let refused = match call.method {
            Method::Post => self.line.posts_refused.load(Ordering::SeqCst),
            Method::Get => {
                let is_list = matches!(call.path(), "/v1/payment_intents" | "/v1/refunds");
                let lists_refused = self.line.lists_refused.load(Ordering::SeqCst);
                self.line.gets_refused.load(Ordering::SeqCst) || is_list && lists_refused
            }
        };
        if refused {
            return TransportResult::NotSent("connection refused".into());
        }
        match call.method {
            Method::Post => {
                self.line.posts_held.fetch_add(1, Ordering::SeqCst);
                drop(self.line.gate.read().await);
                self.line.posts_held.fetch_sub(1, Ordering::SeqCst);
                let result = self.inner.call(call, timeout).await;
                drop(self.line.answering_gate.read().await);
                result
            }
            Method::Get => {
                drop(self.line.reading_gate.read().await);
                self.inner.call(call, timeout).await
            }
        }
    }
}

impl Line {
    /// Stripe's dialect over this line.
    pub fn provider(&self, mock: &MockStripe) -> Arc<StripeProvider<impl Transport + use<>>> {
        self.provider_named("mock", mock)
    }

    /// The same under another name, as another provider that our books do not know.
    pub fn provider_named(
        &self,
        name: &'static str,
        mock: &MockStripe,
    ) -> Arc<StripeProvider<impl Transport + use<>>> {
        let dialect = StripeSettings {
            name,
            api: StripeApi::PaymentIntents,
            key_prefix: String::new(),
            timeout: Duration::from_secs(10),
            max_retries: SENDS_MAX - 1,
            backoff: Backoff {
                first: Duration::from_millis(5),
                longest: Duration::from_millis(20),
            },
            limits: LimiterSettings::unlimited(),
        };
        let transport = InProcessTransport::new(mock.clone());
        Arc::new(StripeProvider::new(dialect, self.over(transport)))
    }

    /// Puts this line before a transport.
    pub fn over<T: Transport>(&self, inner: T) -> Cuttable<T> {
        Cuttable {
            line: self.clone(),
            inner,
        }
    }

    /// Holds every POST until the returned guard is dropped. What waits here has its whole time limit still before it.
    pub async fn hold_posts(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.gate).write_owned().await
    }

    /// Waits until so many POSTs are held.
    pub async fn posts_are_held(&self, count: usize) {
        let held = || self.posts_held.load(Ordering::SeqCst);
        eventually("held at the gate", async || (held() == count).then_some(())).await;
    }

    /// Lets every POST be executed, and holds the answers.
    pub async fn hold_answers(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.answering_gate).write_owned().await
    }

    /// Holds every GET.
    pub async fn hold_gets(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.reading_gate).write_owned().await
    }

    pub fn refuse_posts(&self, refused: bool) {
        self.posts_refused.store(refused, Ordering::SeqCst);
    }

    pub fn refuse_lists(&self, refused: bool) {
        self.lists_refused.store(refused, Ordering::SeqCst);
    }

    pub fn refuse_gets(&self, refused: bool) {
        self.gets_refused.store(refused, Ordering::SeqCst);
    }
}
