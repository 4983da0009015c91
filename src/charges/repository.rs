//! The port under the charges. One method is one transaction, guarded by its own preconditions.

use async_trait::async_trait;

use super::model::Charge;
use crate::idempotency::repository::{NewReservation, Reading};
use crate::idempotency::reservation::{Recovery, Reservation, StoredResponse};
use crate::invoices::model::Invoice;
use crate::payments::outcome::Failure;
use crate::storage::StorageError;

/// An invoice with its latest attempt and that attempt's reservation, read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeSnapshot {
    /// The invoice.
    pub invoice: Invoice,
    /// The attempt with the highest number, if there was any.
    pub latest: Option<(Charge, Reservation)>,
}

/// An attempt to be reserved.
#[derive(Debug, Clone)]
pub struct NewAttempt {
    /// Its key's row.
    pub reservation: NewReservation,
    /// Its charge, in status `pending`. Written only while the invoice is open and has the revision that this was made from.
    pub charge: Charge,
}

/// The verdict or the intermediate state to record for an attempt, by the holder of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptRecord {
    /// The money was taken: key `done`, charge `succeeded`, invoice `paid`.
    Succeeded {
        /// The payment object.
        payment_id: String,
        /// Unix milliseconds.
        settled_at_ms: i64,
        /// The answer to store.
        response: StoredResponse,
    },
    /// It took no money and never will: key `failed`, charge `failed`, invoice stays `open`.
    Failed {
        /// Why.
        failure: Failure,
        /// Unix milliseconds.
        settled_at_ms: i64,
        /// The answer to store.
        response: StoredResponse,
    },
    /// The provider has it and no verdict yet; key and lease stay.
    Processing {
        /// The payment object.
        payment_id: String,
    },
    /// A person must decide; the key stays in progress.
    NeedsReview {
        /// The payment object, when known.
        payment_id: Option<String>,
        /// What the person needs to know.
        evidence: String,
    },
    /// No verdict; what is known is kept for whoever takes the attempt over. Key and lease stay.
    Unknown {
        /// The payment object, when known.
        payment_id: Option<String>,
        /// Why there is no verdict.
        evidence: String,
        /// How the attempt is to be finished.
        recovery: Recovery,
    },
    /// Surely nothing was executed: the reservation is given back, as if it had never been made.
    Released,
}

/// Which charges to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct ChargeFilter {
    /// Only of this invoice.
    pub invoice_id: Option<String>,
    /// Only in this status (one of [`ChargeStatus::WORDS`](super::model::ChargeStatus::WORDS)).
    pub status: Option<String>,
    /// Only before this charge id, in the order of the list.
    pub after: Option<String>,
    /// At most so many.
    pub limit: i64,
}

/// An operator's verdict on a charge in `needs_review`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The charge.
    pub charge: Charge,
    /// `Succeeded` or `Failed`.
    pub record: AttemptRecord,
    /// The evidence, with the operator's note added.
    pub evidence: String,
}

/// Storage of charges.
#[async_trait]
pub trait ChargeRepository: Send + Sync {
    /// The invoice and its latest attempt; `None` when there is no such invoice.
    async fn charge_snapshot(
        &self,
        invoice_id: &str,
    ) -> Result<Option<Reading<ChargeSnapshot>>, StorageError>;

    /// Reserves an attempt: key row and charge row, all or nothing. `None` when the key is there already, the invoice
    /// is not open any more or has another revision, or another attempt is live.
    async fn begin_attempt(
        &self,
        attempt: &NewAttempt,
    ) -> Result<Option<Reading<Reservation>>, StorageError>;

    /// Records what became of an attempt. False when the lease token no longer holds the key: then nothing was written.
    async fn record_attempt(
        &self,
        charge: &Charge,
        lease_token: &str,
        record: &AttemptRecord,
    ) -> Result<bool, StorageError>;

    /// Ends a charge in `needs_review`. False when it is no longer in that state.
    async fn resolve_review(&self, resolution: &Resolution) -> Result<bool, StorageError>;

    /// One charge.
    async fn find_charge(&self, id: &str) -> Result<Option<Charge>, StorageError>;

    /// A page of charges.
    async fn list_charges(&self, filter: &ChargeFilter) -> Result<Vec<Charge>, StorageError>;
}
