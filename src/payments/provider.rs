//! The provider port: all that the charge flow asks of a payment provider.
//!
//! The flow is always: [`prepare`](PaymentProvider::prepare) before anything is reserved, store the frozen bytes with
//! the attempt, then [`send`](PaymentProvider::send) those bytes under the attempt's key, now and in every takeover.

use std::time::{Instant, SystemTime};

use async_trait::async_trait;

use super::outcome::{Outcome, ProviderPayment};
use super::refund::RefundProvider;

/// What an attempt asks the provider for. Everything in it comes from our own database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentOrder {
    /// The invoice; goes into the payment's metadata.
    pub invoice_id: String,
    /// The attempt's natural key (`charge:{invoiceId}` or `charge:{invoiceId}:{n}`); goes into the metadata.
    pub charge_key: String,
    /// The attempt's number, from 1; goes into the metadata.
    pub attempt: i32,
    /// This installation's id, made with the database; goes into the metadata.
    pub installation_id: String,
    /// Minor units, above zero.
    pub amount_minor: i64,
    /// ISO 4217 code in lower case.
    pub currency: String,
    /// The provider's customer id.
    pub customer_id: String,
    /// The payment method that the invoice names; `None` means the customer's default.
    pub payment_method_id: Option<String>,
    /// The payment object that the invoice's last failed attempt left open. A provider that can try again on the same
    /// object does so: its own rule of one success an object then backs ours.
    pub open_payment_id: Option<String>,
}

/// A request whose bytes never change again: every send of an attempt sends exactly these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenRequest {
    /// The path at the provider, without the host (`/v1/payment_intents`). Always a POST.
    pub path: String,
    /// The body, already encoded.
    pub body: String,
}

/// A payment that is ready to be reserved and sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPayment {
    /// The bytes to store and send.
    pub request: FrozenRequest,
    /// The payment method that they name: the invoice's own, or the customer's default at this moment.
    pub payment_method_id: Option<String>,
}

/// Why a payment could not be prepared. Nothing was sent that could move money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The provider cannot be asked for the customer's default payment method at the moment.
    #[error("the provider is not available: {0}")]
    Unavailable(String),
    /// Our credentials are not accepted: the operator's fault.
    #[error("the provider does not accept our credentials: {0}")]
    Credentials(String),
    /// The customer has no payment method that could be charged, was deleted, or is not known there.
    #[error("the customer cannot be charged: {0}")]
    NoPaymentMethod(String),
}

/// When a send may happen and what happened before it.
#[derive(Debug, Clone, Copy)]
pub struct SendLimits {
    /// No send begins, and none is waited for, after this moment. It lies inside the lease and the key's window.
    pub deadline: Instant,
    /// The same moment by the wall clock, asked before every single request: the monotonic clock may stand still while a
    /// machine sleeps, and a repeat after the sleep could come when the provider has forgotten the key.
    pub wall_deadline: SystemTime,
    /// True when an earlier send of this attempt may have happened (a takeover): then an answer which only shows that
    /// *this* send executed nothing leaves the attempt unknown.
    pub sent_before: bool,
}

/// Which payment to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentQuery {
    /// The provider's id of one of them, when known: it is fetched if the list does not have it.
    pub payment_id: Option<String>,
    /// The customer whose payments are listed.
    pub customer_id: String,
    /// Only payments whose metadata name this invoice …
    pub invoice_id: String,
    /// … and this installation are ours.
    pub installation_id: String,
    /// Payments from this moment on are listed: the invoice's creation, so that none of an earlier attempt is missed (Unix milliseconds, UTC). The adapter takes a day's margin off it.
    pub since_ms: i64,
}

/// A page of this installation's payments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentPage {
    /// Newest first.
    pub payments: Vec<ProviderPayment>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
}

/// Why a look-up or a cancel gave no answer. Never to be read as "not found".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the provider could not be asked: {0}")]
pub struct LookupError(pub String);

/// A payment provider. One call of a method may make several requests; none of them outlives its deadline.
#[async_trait]
pub trait PaymentProvider: Send + Sync {
    /// The name that is stored with each charge: `mock` or `stripe`.
    fn name(&self) -> &'static str;

    /// The same provider, to give money back.
    fn refunds(&self) -> &dyn RefundProvider;

    /// Builds the request of an attempt, looking up the customer's default payment method when the order names none.
    async fn prepare(&self, order: &PaymentOrder) -> Result<PreparedPayment, PrepareError>;

    /// Sends the frozen request under `key`, repeating it (same key, same bytes) as far as `limits` and the provider's
    /// retry rules allow, and says what is known afterwards. `key` is the natural key; the adapter adds its prefix.
    async fn send(&self, key: &str, request: &FrozenRequest, limits: SendLimits) -> Outcome;

    /// The payments of an invoice, newest first, from sources with read-after-write consistency (retrieve, list; never
    /// search). An empty answer means that the provider was asked to the last page and has none.
    ///
    /// # Errors
    /// When one of these is not known: a list that could not be read to its end is no answer, whatever it had.
    async fn find(
        &self,
        query: &PaymentQuery,
        deadline: Instant,
    ) -> Result<Vec<ProviderPayment>, LookupError>;

    /// One payment by its id, whoever made it; `None` when the provider knows no such payment.
    async fn retrieve(
        &self,
        payment_id: &str,
        deadline: Instant,
    ) -> Result<Option<ProviderPayment>, LookupError>;

    /// A page of the payments that carry this installation's id, of all customers, made since a moment (Unix
    /// milliseconds, UTC; a day's margin is taken off). Begins with the newest; `after` is the page before's `next`.
    async fn page(
        &self,
        installation_id: &str,
        since_ms: i64,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<PaymentPage, LookupError>;

    /// Closes a payment that was never completed, under a key of its own, and returns its state after that: only
    /// `Canceled` means that it can take no money any more.
    async fn cancel(
        &self,
        payment_id: &str,
        key: &str,
        deadline: Instant,
    ) -> Result<ProviderPayment, LookupError>;
}
