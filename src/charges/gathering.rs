//! Looks, reservations and verdicts of charges that arrive at the same time, made together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::repository::{ChargeRepository, ChargeSnapshot, NewAttempt, Settlement};
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::Reservation;
use crate::storage::StorageError;
use crate::together::{Batched, NotTogether};

/// How soon a look must have failed to be repeated.
const REPEATED_WITHIN: Duration = Duration::from_millis(250);

/// Reads invoices with their latest attempts.
pub struct Looking(pub Arc<dyn ChargeRepository>);

#[async_trait]
impl Batched for Looking {
    type Item = String;
    type Outcome = Option<Reading<ChargeSnapshot>>;

    async fn run_together(&self, items: &[Arc<String>]) -> Result<Vec<Self::Outcome>, NotTogether> {
        let begun = Instant::now();
        match self.0.charge_snapshots(items).await {
            // A look may be repeated, unlike a write, and a connection that the server has just ended fails at once. A store that is
            // slow is not asked twice.
            Err(NotTogether::Failed(_)) if begun.elapsed() < REPEATED_WITHIN => {
                self.0.charge_snapshots(items).await
            }
            looked => looked,
        }
    }

    async fn run_alone(&self, item: &String) -> Result<Self::Outcome, StorageError> {
        self.0.charge_snapshot(item).await
    }
}

/// Reserves attempts.
pub struct Reserving(pub Arc<dyn ChargeRepository>);

#[async_trait]
impl Batched for Reserving {
    type Item = NewAttempt;
    type Outcome = Option<Reading<Reservation>>;

    async fn run_together(
        &self,
        items: &[Arc<NewAttempt>],
    ) -> Result<Vec<Self::Outcome>, NotTogether> {
        self.0.begin_attempts(items).await
    }

    async fn run_alone(&self, item: &NewAttempt) -> Result<Self::Outcome, StorageError> {
        self.0.begin_attempt(item).await
    }
}

/// Records verdicts.
pub struct Settling(pub Arc<dyn ChargeRepository>);

#[async_trait]
impl Batched for Settling {
    type Item = Settlement;
    type Outcome = bool;

    async fn run_together(
        &self,
        items: &[Arc<Settlement>],
    ) -> Result<Vec<Self::Outcome>, NotTogether> {
        self.0.record_verdicts(items).await
    }

    async fn run_alone(&self, item: &Settlement) -> Result<Self::Outcome, StorageError> {
        let Settlement {
            charge,
            lease_token,
            record,
        } = item;
        self.0
            .record_attempt(charge, lease_token, record, &[])
            .await
    }
}
