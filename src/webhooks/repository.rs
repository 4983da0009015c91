//! The port under the webhooks: each event is stored once, and dealt with until it has an outcome.

use async_trait::async_trait;

use super::model::{ClaimedEvent, ProviderEvent};
use crate::storage::StorageError;

/// Storage of what the provider told.
#[async_trait]
pub trait EventRepository: Send + Sync {
    /// Stores an event; false when its id is there already.
    async fn store_event(&self, event: &ProviderEvent) -> Result<bool, StorageError>;

    /// Claims one event that is due, so that nobody else deals with it for so long. `None` when it is not due.
    async fn claim_event(
        &self,
        id: &str,
        lease_ms: i64,
    ) -> Result<Option<ClaimedEvent>, StorageError>;

    /// The ids of events that are due, longest waiting first.
    async fn due_events(&self, limit: i64) -> Result<Vec<String>, StorageError>;

    /// Opens an event that ended without having come to anything (its payment or invoice was not known, say), because it was
    /// delivered again. False when there is none, or when it has come to something.
    async fn reopen_event(&self, id: &str) -> Result<bool, StorageError>;

    /// Ends an event with its outcome in words, if it is still as it was claimed.
    async fn end_event(&self, event: &ClaimedEvent, outcome: &str) -> Result<(), StorageError>;

    /// Leaves an event for later, if it is still as it was claimed.
    async fn put_off_event(&self, event: &ClaimedEvent, wait_ms: i64) -> Result<(), StorageError>;

    /// Forgets some events that are dealt with and were received longer ago than this. How many.
    async fn forget_events(&self, older_than_ms: i64) -> Result<usize, StorageError>;
}
