//! The port under the background worker.

use async_trait::async_trait;

use crate::idempotency::repository::Reading;
use crate::storage::StorageError;

/// What an attempt is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// The charge of this invoice.
    Charge(String),
    /// This refund.
    Refund(String),
}

/// An attempt whose lease is over and that has no verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueAttempt {
    /// What it is at.
    pub work: Work,
    /// Its key.
    pub key: String,
    /// The token of the owner that went silent.
    pub lease_token: String,
    /// How often it was taken over already.
    pub takeovers: i32,
}

/// How much is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Charges in `pending` or `processing`.
    pub unsettled: i64,
    /// When the oldest of them was begun (Unix milliseconds).
    pub oldest_unsettled_ms: Option<i64>,
    /// Charges in `needs_review`.
    pub reviews: i64,
    /// When the oldest of them was begun (Unix milliseconds).
    pub oldest_review_ms: Option<i64>,
    /// The same of refunds.
    pub refunds: RefundBacklog,
    /// Events of the provider that are not dealt with yet.
    pub events: i64,
}

/// How much of the refunds is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefundBacklog {
    /// Refunds in `pending` or `processing`.
    pub unsettled: i64,
    /// When the oldest of them was begun (Unix milliseconds).
    pub oldest_unsettled_ms: Option<i64>,
    /// Refunds in `needs_review`.
    pub reviews: i64,
    /// When the oldest of them was begun (Unix milliseconds).
    pub oldest_review_ms: Option<i64>,
}

/// Storage as the background worker needs it. Reads only, but for putting an attempt off: the claim itself is
/// [`take_over`](crate::idempotency::repository::IdempotencyRepository::take_over).
#[async_trait]
pub trait RecoveryRepository: Send + Sync {
    /// Charges' attempts whose lease is over by the database's clock and that are not put off, longest silent first.
    async fn due_attempts(&self, limit: i64) -> Result<Vec<DueAttempt>, StorageError>;

    /// The same for refunds.
    async fn due_refunds(&self, limit: i64) -> Result<Vec<DueAttempt>, StorageError>;

    /// Leaves an attempt alone for so long, as far as the background worker is concerned. Callers are not kept from it.
    async fn put_off(&self, attempt: &DueAttempt, wait_ms: i64) -> Result<(), StorageError>;

    /// Forgets finished keys that callers sent in a header and that ended so long ago: the oldest ones, so many at most.
    /// Natural keys and keys in progress stay. Returns how many.
    async fn forget_header_keys(
        &self,
        older_than_ms: i64,
        limit: i64,
    ) -> Result<usize, StorageError>;

    /// How much is open.
    async fn backlog(&self) -> Result<Reading<Backlog>, StorageError>;
}
