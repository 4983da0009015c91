//! The port under the charges. One method is one transaction, guarded by its own preconditions.

use std::sync::Arc;

use async_trait::async_trait;

use super::model::Charge;
use crate::access::limits::Day;
use crate::idempotency::repository::{NewReservation, Reading};
use crate::idempotency::reservation::{Recovery, Reservation, StoredResponse};
use crate::invoices::model::Invoice;
use crate::payments::outcome::Failure;
use crate::storage::StorageError;
use crate::together::NotTogether;

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

/// What an agent's key may spend in a day in one currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayCap {
    /// The key's name.
    pub key_name: String,
    /// The currency's code.
    pub currency: String,
    /// The day.
    pub day: Day,
    /// The most, in minor units.
    pub limit_minor: i64,
}

/// What came of reserving an attempt under a cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capped {
    /// It is reserved, and within the cap.
    Reserved(Reading<Reservation>),
    /// As [`ChargeRepository::begin_attempt`] says `None`.
    Lost,
    /// It would be over the cap; nothing was written.
    Over,
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
        /// How long the background worker leaves it alone, in milliseconds.
        wait_ms: i64,
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
        /// How long the background worker leaves it alone, in milliseconds.
        wait_ms: i64,
        /// Since when the provider could not be asked about it (Unix milliseconds); `None` where it could.
        unanswered_since_ms: Option<i64>,
    },
    /// Surely nothing was executed: the reservation is given back, as if it had never been made.
    Released,
}

impl AttemptRecord {
    /// True for what ends the attempt.
    pub fn is_verdict(&self) -> bool {
        match self {
            Self::Succeeded { .. } | Self::Failed { .. } => true,
            Self::Processing { .. }
            | Self::NeedsReview { .. }
            | Self::Unknown { .. }
            | Self::Released => false,
        }
    }
}

/// A verdict that has nothing more to tell than itself.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The charge, as it was when its lease was won.
    pub charge: Charge,
    /// The lease under which it may be recorded.
    pub lease_token: String,
    /// `Succeeded` or `Failed`.
    pub record: AttemptRecord,
}

/// One thing that happened in an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// When, by the database's clock as near as the worker can tell; Unix milliseconds, UTC.
    pub at_ms: i64,
    /// What.
    pub what: EvidenceKind,
    /// The rest in words; no secrets, no bodies.
    pub detail: String,
}

/// What can happen in an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceKind {
    /// A new owner began.
    TakenOver,
    /// The frozen request was sent, and this is what came of it.
    Send,
    /// The provider was asked for the payment.
    LookUp,
    /// A payment was cancelled at the provider.
    Cancel,
    /// Something was recorded.
    Record,
    /// The provider told something by itself.
    Notice,
    /// An operator decided.
    Resolution,
}

impl EvidenceKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::TakenOver,
        Self::Send,
        Self::LookUp,
        Self::Cancel,
        Self::Record,
        Self::Notice,
        Self::Resolution,
    ];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TakenOver => "taken_over",
            Self::Send => "send",
            Self::LookUp => "look_up",
            Self::Cancel => "cancel",
            Self::Record => "record",
            Self::Notice => "notice",
            Self::Resolution => "resolution",
        }
    }
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
    /// What is known of it from now on, with the operator's note.
    pub evidence: String,
    /// The line that is added to its history.
    pub line: Evidence,
}

/// Storage of charges.
#[async_trait]
pub trait ChargeRepository: Send + Sync {
    /// The invoice and its latest attempt; `None` when there is no such invoice.
    async fn charge_snapshot(
        &self,
        invoice_id: &str,
    ) -> Result<Option<Reading<ChargeSnapshot>>, StorageError>;

    /// The same of several invoices in one look, in their order.
    async fn charge_snapshots(
        &self,
        invoice_ids: &[Arc<String>],
    ) -> Result<Vec<Option<Reading<ChargeSnapshot>>>, NotTogether>;

    /// Reserves an attempt: key row and charge row, all or nothing. `None` when the key is there already, the invoice
    /// is not open any more or has another revision, or another attempt is live.
    async fn begin_attempt(
        &self,
        attempt: &NewAttempt,
    ) -> Result<Option<Reading<Reservation>>, StorageError>;

    /// The same for several attempts in one transaction, in their order. Each wins or loses by itself; an error is one of all.
    async fn begin_attempts(
        &self,
        attempts: &[Arc<NewAttempt>],
    ) -> Result<Vec<Option<Reading<Reservation>>>, NotTogether>;

    /// The same under a cap on what the key of [`AskedBy`](super::model::AskedBy) may spend in a day. Parallel calls of one
    /// key wait for each other here, so that together they stay below it.
    async fn begin_capped_attempt(
        &self,
        attempt: &NewAttempt,
        cap: &DayCap,
    ) -> Result<Capped, StorageError>;

    /// What the cap's key has charged on its day, or still may, in minor units: every attempt that it began then and that has
    /// not failed.
    async fn spent(&self, cap: &DayCap) -> Result<i64, StorageError>;

    /// Records what became of an attempt, and what happened in it on the way. False when the lease token no longer holds the key: then nothing was written.
    async fn record_attempt(
        &self,
        charge: &Charge,
        lease_token: &str,
        record: &AttemptRecord,
        evidence: &[Evidence],
    ) -> Result<bool, StorageError>;

    /// Records several verdicts in one transaction, in their order: as [`record_attempt`](Self::record_attempt) does each, with no
    /// evidence. An error is one of all.
    async fn record_verdicts(
        &self,
        settlements: &[Arc<Settlement>],
    ) -> Result<Vec<bool>, NotTogether>;

    /// Reserves an attempt that exists only to hold a payment which no attempt accounts for: key row in progress, charge in `needs_review`. False when the invoice is not open or has a live attempt.
    async fn park_payment(
        &self,
        attempt: &NewAttempt,
        evidence: &[Evidence],
    ) -> Result<bool, StorageError>;

    /// What is known of how a charge came to be as it is, oldest first. Empty for one that went straight to its verdict.
    async fn list_evidence(&self, charge_id: &str) -> Result<Vec<Evidence>, StorageError>;

    /// Ends a charge in `needs_review`. False when it is no longer in that state.
    async fn resolve_review(&self, resolution: &Resolution) -> Result<bool, StorageError>;

    /// The charges that name a payment of the provider.
    async fn charges_of_payment(&self, payment_id: &str) -> Result<Vec<Charge>, StorageError>;

    /// One charge.
    async fn find_charge(&self, id: &str) -> Result<Option<Charge>, StorageError>;

    /// A page of charges.
    async fn list_charges(&self, filter: &ChargeFilter) -> Result<Vec<Charge>, StorageError>;
}
