//! The port under the invoices.

use async_trait::async_trait;

use super::model::{Invoice, InvoiceStatus};
use crate::idempotency::reservation::{Reservation, StoredResponse};
use crate::idempotency::service::HeldKey;
use crate::storage::StorageError;

/// An invoice to be written, with the keys that are finished in the same transaction.
#[derive(Debug, Clone)]
pub struct InvoiceInsert {
    /// The invoice.
    pub invoice: Invoice,
    /// The answer that creating it gives.
    pub response: StoredResponse,
    /// With the caller's own id: the natural key under which the answer is kept, and the content's fingerprint.
    pub natural_key: Option<(String, String)>,
    /// With an `Idempotency-Key` header: the key to settle.
    pub held_key: Option<HeldKey>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    /// Written, and all keys with it.
    Yes,
    /// An invoice with this id was there; here is its key's row, with the first answer and fingerprint. Nothing was written.
    Exists(Reservation),
    /// The id is one that the service chose for another invoice. Nothing was written.
    IdTaken,
    /// The header's key is not ours any more. Nothing was written.
    LeaseLost,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// Here is the invoice as it is now.
    Yes(Invoice),
    /// There is no such invoice.
    NotFound,
    /// Refused: it is paid, void, or a charge of it has no verdict yet.
    Refused {
        /// The invoice's status.
        status: InvoiceStatus,
        /// True when a charge without a verdict is in the way.
        charge_running: bool,
    },
}

/// Which invoices to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct InvoiceFilter {
    /// Only in this status.
    pub status: Option<InvoiceStatus>,
    /// Only of this customer.
    pub customer_id: Option<String>,
    /// Only older than this position: the creation time (Unix milliseconds) and id of the last one seen.
    pub after: Option<(i64, String)>,
    /// At most so many.
    pub limit: i64,
}

/// Storage of invoices.
#[async_trait]
pub trait InvoiceRepository: Send + Sync {
    /// The database's time (Unix milliseconds).
    async fn now_ms(&self) -> Result<i64, StorageError>;

    /// Writes an invoice and finishes its keys, all or nothing.
    async fn insert_invoice(&self, insert: &InvoiceInsert) -> Result<Inserted, StorageError>;

    /// One invoice.
    async fn find_invoice(&self, id: &str) -> Result<Option<Invoice>, StorageError>;

    /// A page of invoices.
    async fn list_invoices(&self, filter: &InvoiceFilter) -> Result<Vec<Invoice>, StorageError>;

    /// Sets the payment method of an open invoice without a running charge.
    async fn set_payment_method(
        &self,
        id: &str,
        payment_method_id: Option<&str>,
    ) -> Result<Changed, StorageError>;

    /// Voids an open invoice without a running charge. A void one stays as it is and is returned.
    async fn void_invoice(&self, id: &str) -> Result<Changed, StorageError>;
}
