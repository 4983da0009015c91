//! In SQLite: one transaction, and in it the statements for one attempt after the other. There is one writer, so that what costs is
//! the flush at the end.

use std::sync::Arc;

use super::super::charges::sqlite::insert_attempt;
use super::super::records::sqlite::{take_key, write_record};
use crate::charges::crash::{self, Step};
use crate::charges::repository::{ChargeRepository, ChargeSnapshot, NewAttempt, Settlement};
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::Reservation;
use crate::storage::StorageError;
use crate::storage::lent::Lent;
use crate::storage::sqlite::SqliteStore;
use crate::together::NotTogether;

/// Reads invoices with their latest attempts, one after the other: there is no way to the server that a common look would spare.
pub async fn charge_snapshots(
    store: &SqliteStore,
    invoice_ids: &[Arc<String>],
) -> Result<Vec<Option<Reading<ChargeSnapshot>>>, NotTogether> {
    let mut found = Vec::with_capacity(invoice_ids.len());
    for id in invoice_ids {
        found.push(store.charge_snapshot(id).await?);
    }
    Ok(found)
}

/// Reserves attempts; `None` for each that somebody else was before.
pub async fn begin_attempts(
    store: &SqliteStore,
    attempts: &[Arc<NewAttempt>],
) -> Result<Vec<Option<Reading<Reservation>>>, NotTogether> {
    let outcome = unit!(store, immediate_transaction, async |conn| {
        let mut outcomes = Vec::with_capacity(attempts.len());
        for attempt in attempts {
            outcomes.push(insert_attempt(conn, attempt).await?);
        }
        Ok::<_, StorageError>(outcomes)
    });
    Ok(outcome?)
}

/// Records verdicts; false for each whose lease was lost.
pub async fn record_verdicts(
    store: &SqliteStore,
    settlements: &[Arc<Settlement>],
) -> Result<Vec<bool>, NotTogether> {
    let outcome = unit!(store, immediate_transaction, async |conn| {
        let mut outcomes = Vec::with_capacity(settlements.len());
        for settlement in settlements {
            let Settlement {
                charge,
                lease_token,
                record,
            } = settlement.as_ref();
            // The first statement of a verdict is the guarded one: where it did not hold, nothing is to be taken back.
            let held = match take_key(conn, charge, lease_token, record).await {
                Err(StorageError::Guard) if record.is_verdict() => false,
                taken => taken.map(|()| true)?,
            };
            if held {
                crash::point(Step::WithinRecord);
                write_record(conn, charge, record).await?;
            }
            outcomes.push(held);
        }
        Ok::<_, StorageError>(outcomes)
    });
    Ok(outcome?)
}
