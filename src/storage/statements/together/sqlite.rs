//! In SQLite: one transaction, and in it the statements for one attempt after the other, all of it on one thread. There is one
//! writer, so that what costs is the flush at the end, and the way to the thread.

use std::sync::Arc;

use super::super::charges::sqlite::{insert_attempt, look_at};
use super::super::records::sqlite::{take_key, write_record};
use crate::charges::crash::{self, Step};
use crate::charges::repository::{ChargeSnapshot, NewAttempt, Settlement};
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::Reservation;
use crate::storage::StorageError;
use crate::storage::sqlite::{Connection, ImmediateTransaction, SqliteStore};
use crate::together::NotTogether;

/// Reads invoices with their latest attempts, one after the other: there is no way to the server that a common look would spare.
pub async fn charge_snapshots(
    store: &SqliteStore,
    invoice_ids: &[Arc<String>],
) -> Result<Vec<Option<Reading<ChargeSnapshot>>>, NotTogether> {
    let invoice_ids = invoice_ids.to_vec();
    let looks = store.unit(async move |conn| {
        let mut found = Vec::with_capacity(invoice_ids.len());
        for id in &invoice_ids {
            found.push(look_at(conn, id).await?);
        }
        Ok(found)
    });
    Ok(looks.await?)
}

/// Reserves attempts; `None` for each that somebody else was before.
pub async fn begin_attempts(
    store: &SqliteStore,
    attempts: &[Arc<NewAttempt>],
) -> Result<Vec<Option<Reading<Reservation>>>, NotTogether> {
    let attempts = attempts.to_vec();
    let reservations = store.unit(async move |conn| {
        let body = async |conn: &mut Connection| {
            let mut outcomes = Vec::with_capacity(attempts.len());
            for attempt in &attempts {
                outcomes.push(insert_attempt(conn, attempt).await?);
            }
            Ok::<_, StorageError>(outcomes)
        };
        conn.immediate_transaction(body).await
    });
    Ok(reservations.await?)
}

/// Records verdicts; false for each whose lease was lost.
pub async fn record_verdicts(
    store: &SqliteStore,
    settlements: &[Arc<Settlement>],
) -> Result<Vec<bool>, NotTogether> {
    let settlements = settlements.to_vec();
    let records = store.unit(async move |conn| {
        let body = async |conn: &mut Connection| {
            let mut outcomes = Vec::with_capacity(settlements.len());
            for settlement in &settlements {
                outcomes.push(record_verdict(conn, settlement).await?);
            }
            Ok::<_, StorageError>(outcomes)
        };
        conn.immediate_transaction(body).await
    });
    Ok(records.await?)
}

/// The first statement of a verdict is the guarded one: where it did not hold, nothing is to be taken back.
async fn record_verdict(
    conn: &mut Connection,
    settlement: &Settlement,
) -> Result<bool, StorageError> {
    let Settlement {
        charge,
        lease_token,
        record,
    } = settlement;
    match take_key(conn, charge, lease_token, record).await {
        Err(StorageError::Guard) if record.is_verdict() => return Ok(false),
        taken => taken?,
    }
    crash::point(Step::WithinRecord);
    write_record(conn, charge, record).await?;
    Ok(true)
}
