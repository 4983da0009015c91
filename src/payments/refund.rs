//! The refund side of the provider port: all that the refund flow asks of a payment provider.
//!
//! The flow is that of a charge: [`prepare_refund`](RefundProvider::prepare_refund) before anything is reserved, store
//! the frozen bytes with the refund, then [`send_refund`](RefundProvider::send_refund) those bytes under the refund's
//! key, now and in every takeover.

use std::time::Instant;

use async_trait::async_trait;

use super::outcome::{Failure, Outcome};
use super::provider::{FrozenRequest, LookupError, SendLimits};

/// What a refund asks the provider for. Everything in it comes from our own database.
///
/// The refund's own id is not in it: a reservation that was given back is made again under the same key with another
/// id, and two requests under one key must have the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundOrder {
    /// The charge of ours that is given back; goes into the refund's metadata.
    pub charge_id: String,
    /// Its invoice; goes into the metadata.
    pub invoice_id: String,
    /// The refund's key, without the provider's prefix; goes into the metadata.
    pub refund_key: String,
    /// The number of the attempt, from 1; goes into the metadata.
    pub attempt: i32,
    /// This installation's id, made with the database; goes into the metadata.
    pub installation_id: String,
    /// The provider's id of the payment that took the money.
    pub payment_id: String,
    /// Minor units to give back, above zero.
    pub amount_minor: i64,
    /// ISO 4217 code in lower case: the payment's own.
    pub currency: String,
    /// Why, where the caller said.
    pub reason: Option<RefundReason>,
}

/// Why money is given back. Providers take these and no others (Stripe docs, Refunds: create).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundReason {
    /// The customer had been charged for the same thing before.
    Duplicate,
    /// The payment was not the customer's doing. Stripe puts card and e-mail address on its block list.
    Fraudulent,
    /// The customer asked for it.
    RequestedByCustomer,
}

impl RefundReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Duplicate, Self::Fraudulent, Self::RequestedByCustomer];

    /// The word for the wire and for the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Fraudulent => "fraudulent",
            Self::RequestedByCustomer => "requested_by_customer",
        }
    }

    /// Reads that word; `None` for any other.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

/// A refund object at the provider, as far as we look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRefund {
    /// The provider's id (`re_…`). Opaque text of up to 255 characters.
    pub id: String,
    /// The payment whose money it gives back, by the id that it was asked for with where it names that; `None` when it
    /// names no payment.
    pub payment_id: Option<String>,
    /// Its state in our words.
    pub status: RefundState,
    /// Minor units given back, or to be given back.
    pub amount_minor: i64,
    /// ISO 4217 code in lower case.
    pub currency: String,
    /// `metadata[refund_key]`, when the object carries it.
    pub refund_key: Option<String>,
    /// `metadata[charge_id]`, when the object carries it: the charge of ours, not the provider's.
    pub charge_id: Option<String>,
    /// `metadata[installation_id]`, when the object carries it.
    pub installation_id: Option<String>,
    /// Why the money did not reach the customer, on one that failed or was canceled.
    pub failure: Option<Failure>,
}

/// The state of a refund at the provider (Stripe docs, Refunds).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundState {
    /// The money is on its way back. A bank may still return it, days later: then the state becomes `Failed`.
    Succeeded,
    /// In the provider's hands, no verdict yet.
    Pending,
    /// Waits for the customer (bank details and the like); may still succeed.
    RequiresAction,
    /// The money did not reach the customer and is back with the merchant.
    Failed,
    /// Closed without giving money back.
    Canceled,
    /// A state that we do not know; nothing may be concluded from it.
    Other(String),
}

impl RefundState {
    /// A word for people and for the history of a refund.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Pending => "pending",
            Self::RequiresAction => "requires_action",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Other(state) => state,
        }
    }
}

/// Which refunds to look for: all of one payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundQuery {
    /// The payment whose refunds are listed, whoever made them.
    pub payment_id: String,
    /// The provider's id of one of them, when known: it is fetched if the list does not have it.
    pub refund_id: Option<String>,
    /// Refunds from this moment on are listed: the charge's creation, so that none is missed (Unix milliseconds, UTC).
    /// The adapter takes a day's margin off it.
    pub since_ms: i64,
}

/// A page of the account's refunds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundPage {
    /// Newest first, whoever made them: one that was made by hand carries no marks of ours.
    pub refunds: Vec<ProviderRefund>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
}

/// A provider that gives money back. One call of a method may make several requests; none of them outlives its deadline.
#[async_trait]
pub trait RefundProvider: Send + Sync {
    /// Builds the request of a refund. Pure: the same order always gives the same bytes.
    fn prepare_refund(&self, order: &RefundOrder) -> FrozenRequest;

    /// Sends the frozen request under `key`, repeating it (same key, same bytes) as far as `limits` and the provider's
    /// retry rules allow, and says what is known afterwards. `key` is the refund's own; the adapter adds its prefix.
    ///
    /// In what it returns, `payment_id` of a failure and of an unknown outcome is the id of the refund. A failure means
    /// that this refund gave nothing back and its key never will; somebody else's refund may have (its code tells).
    async fn send_refund(
        &self,
        key: &str,
        request: &FrozenRequest,
        limits: SendLimits,
    ) -> Outcome<ProviderRefund>;

    /// All refunds of a payment, newest first, from sources with read-after-write consistency. An empty answer means
    /// that the provider was asked to the last page and has none.
    ///
    /// # Errors
    /// When one of these is not known: a list that could not be read to its end is no answer, whatever it had.
    async fn find_refunds(
        &self,
        query: &RefundQuery,
        deadline: Instant,
    ) -> Result<Vec<ProviderRefund>, LookupError>;

    /// One refund by its id, whoever made it; `None` when the provider knows no such refund.
    ///
    /// # Errors
    /// When that is not known.
    async fn retrieve_refund(
        &self,
        refund_id: &str,
        deadline: Instant,
    ) -> Result<Option<ProviderRefund>, LookupError>;

    /// A page of the refunds of the whole account, made since a moment (Unix milliseconds, UTC; a day's margin is taken
    /// off). Begins with the newest; `after` is the page before's `next`.
    ///
    /// # Errors
    /// When the page could not be read.
    async fn page_refunds(
        &self,
        since_ms: i64,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<RefundPage, LookupError>;
}
