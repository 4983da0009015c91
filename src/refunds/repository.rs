//! The port under the refunds. One method is one transaction, guarded by its own preconditions.

use async_trait::async_trait;

use super::model::{Portion, Refund};
use crate::charges::model::Charge;
use crate::charges::repository::{AttemptRecord, Evidence};
use crate::idempotency::repository::{NewReservation, Reading};
use crate::idempotency::reservation::Reservation;
use crate::payments::outcome::Failure;
use crate::storage::StorageError;

/// A charge with the refund that a call is about, and that one's reservation, read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundSnapshot {
    /// The charge.
    pub charge: Charge,
    /// What was given back of it, or still may be, in minor units: the sum of its refunds that have not failed.
    pub refunded_minor: i64,
    /// Of the rest: the attempt with the highest number. Of a part: the refund under its header key, of whatever charge.
    pub own: Option<(Refund, Reservation)>,
}

/// A refund to be reserved.
#[derive(Debug, Clone)]
pub struct NewRefund {
    /// Its key's row.
    pub reservation: NewReservation,
    /// The refund. Written only while the charge has succeeded and the sum of its refunds stays within its amount.
    pub refund: Refund,
    /// Of the rest: the sum of the charge's refunds from which it was made, which must still be the sum.
    pub rest_beside_minor: Option<i64>,
}

/// Which refunds to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct RefundFilter {
    /// Only of this charge.
    pub charge_id: Option<String>,
    /// Only in this status (one of [`RefundStatus::WORDS`](super::model::RefundStatus::WORDS)).
    pub status: Option<String>,
    /// Only before this refund's id, in the order of the list.
    pub after: Option<String>,
    /// At most so many.
    pub limit: i64,
}

/// An operator's verdict on a refund in `needs_review`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundResolution {
    /// The refund.
    pub refund: Refund,
    /// `Succeeded` or `Failed`.
    pub record: AttemptRecord,
    /// What is known of it from now on, with the operator's note.
    pub evidence: String,
    /// The line that is added to its history.
    pub line: Evidence,
}

/// Storage of refunds. Its records are those of charges: a refund's `payment_id` is the refund object at the provider.
#[async_trait]
pub trait RefundRepository: Send + Sync {
    /// The charge, and its refund of this portion; `None` when there is no such charge.
    async fn refund_snapshot(
        &self,
        charge_id: &str,
        portion: &Portion,
    ) -> Result<Option<Reading<RefundSnapshot>>, StorageError>;

    /// A refund with its charge and its reservation; `None` when there is no such refund.
    async fn refund_by_id(&self, id: &str)
    -> Result<Option<Reading<RefundSnapshot>>, StorageError>;

    /// Reserves a refund: key row, refund row and the charge's sum, all or nothing. `None` when the key or the header key
    /// is there already, the charge has not succeeded, or the sum is another one or would be above the charge.
    async fn begin_refund(
        &self,
        refund: &NewRefund,
    ) -> Result<Option<Reading<Reservation>>, StorageError>;

    /// Records what became of a refund, and what happened on the way; the charge's sum goes down with a failure. False
    /// when the lease token no longer holds the key: then nothing was written.
    async fn record_refund(
        &self,
        refund: &Refund,
        lease_token: &str,
        record: &AttemptRecord,
        evidence: &[Evidence],
    ) -> Result<bool, StorageError>;

    /// Reserves a refund that exists only to hold one at the provider which no other accounts for: key row in progress,
    /// refund in `needs_review`. False as [`begin_refund`](Self::begin_refund) says `None`.
    async fn park_refund(
        &self,
        refund: &NewRefund,
        evidence: &[Evidence],
    ) -> Result<bool, StorageError>;

    /// Ends a refund in `needs_review`. False when it is no longer in that state.
    async fn resolve_refund(&self, resolution: &RefundResolution) -> Result<bool, StorageError>;

    /// Records that the money of a refund that had succeeded came back, and lowers the charge's sum. False when it does
    /// not stand as succeeded.
    async fn return_refund(
        &self,
        refund: &Refund,
        failure: &Failure,
        line: &Evidence,
    ) -> Result<bool, StorageError>;

    /// The refunds of the charge that this payment paid, newest first.
    async fn refunds_of_payment(&self, payment_id: &str) -> Result<Vec<Refund>, StorageError>;

    /// The refunds that name a refund object of the provider's.
    async fn refunds_given_by(&self, provider_refund_id: &str)
    -> Result<Vec<Refund>, StorageError>;

    /// One refund.
    async fn find_refund(&self, id: &str) -> Result<Option<Refund>, StorageError>;

    /// A page of refunds.
    async fn list_refunds(&self, filter: &RefundFilter) -> Result<Vec<Refund>, StorageError>;

    /// What is known of how a refund came to be as it is, oldest first. Empty for one that went straight to its verdict.
    async fn list_refund_evidence(&self, refund_id: &str) -> Result<Vec<Evidence>, StorageError>;
}
