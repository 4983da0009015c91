//! The port under the audit. Reads only.

use async_trait::async_trait;

use super::model::{BookedCharge, BookedInvoice};
use crate::idempotency::repository::Reading;
use crate::storage::StorageError;

/// Which charges to read. The two parts share none, and together they are all that an audit looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditPart {
    /// Made since this moment (Unix milliseconds), in whatever state.
    MadeSince(i64),
    /// Made before it and still without a verdict.
    UnsettledBefore(i64),
}

/// Where a page ended: the creation time and the id of its last charge.
pub type Place = (i64, String);

/// Storage as the audit needs it.
#[async_trait]
pub trait AuditRepository: Send + Sync {
    /// A page of charges, oldest first, after a place; with the database's time.
    ///
    /// # Errors
    /// When the store cannot be asked or a row contradicts itself.
    async fn audit_page(
        &self,
        part: AuditPart,
        after: Option<&Place>,
        limit: i64,
    ) -> Result<Reading<Vec<BookedCharge>>, StorageError>;

    /// All that is booked of an invoice, read at one moment, with the database's time.
    ///
    /// # Errors
    /// As with [`audit_page`](Self::audit_page).
    async fn audit_invoice(&self, invoice_id: &str)
    -> Result<Reading<BookedInvoice>, StorageError>;
}
