//! On PostgreSQL: one statement, which is one round trip and one transaction, for any number of attempts.
//!
//! The rows come as one array a column, so that the statement is the same for one attempt and for sixty, and is prepared once.
//! Locks are taken in the order that holds everywhere (the key, the invoice, the charge), each kind in the order of its keys.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use diesel::prelude::*;
use diesel_async::{AsyncConnection, RunQueryDsl};

use super::postgres_rows::{Reserve, Settle};
use crate::charges::crash::{self, Step};
use crate::charges::repository::{ChargeSnapshot, NewAttempt, Settlement};
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::{Recovery, Reservation, ReservationState};
use crate::storage::StorageError;
use crate::storage::fragments::now;
use crate::storage::lent::Lent;
use crate::storage::postgres::PostgresStore;
use crate::storage::rows::{ChargeRow, InvoiceRow, KeyRow, SnapshotRow, snapshot};
use crate::storage::schema::{charges, idempotency_keys, invoices};
use crate::together::NotTogether;

/// Runs a statement that is a transaction by itself.
macro_rules! statement {
    ($store:expr, $statement:expr, $row:ty) => {{
        let mut lent = Lent::new($store.connection().await?);
        let conn = lent.connection();
        let work = async {
            if $store.keeps_statements() {
                $statement.load::<$row>(conn).await
            } else {
                // Behind a pooler, a statement and its preparation reach the same server only within a transaction.
                conn.transaction(async |conn| $statement.load::<$row>(conn).await).await
            }
        };
        let outcome = tokio::time::timeout($store.limit(), work).await;
        match outcome {
            Ok(outcome) => {
                lent.give_back();
                outcome?
            }
            Err(_) => return Err(StorageError::Unavailable("no answer in time".into()).into()),
        }
    }};
}

/// Reads invoices with their latest attempts. All attempts of theirs are read, for that takes no sort: there are few, and mostly
/// one.
pub async fn charge_snapshots(
    store: &PostgresStore,
    invoice_ids: &[Arc<String>],
) -> Result<Vec<Option<Reading<ChargeSnapshot>>>, NotTogether> {
    let ids: Vec<&str> = invoice_ids.iter().map(|id| id.as_str()).collect();
    let look = invoices::table
        .left_join(charges::table.inner_join(idempotency_keys::table))
        .filter(invoices::id.eq_any(&ids))
        .select((
            InvoiceRow::as_select(),
            Option::<ChargeRow>::as_select(),
            Option::<KeyRow>::as_select(),
            now(),
        ));
    let mut latest: HashMap<String, SnapshotRow> = HashMap::with_capacity(ids.len());
    let number = |row: &SnapshotRow| row.1.as_ref().map_or(0, |charge| charge.attempt);
    for row in statement!(store, look, SnapshotRow) {
        match latest.get(&row.0.id) {
            Some(later) if number(later) > number(&row) => {}
            Some(_) | None => drop(latest.insert(row.0.id.clone(), row)),
        }
    }
    let outcome = |id: &Arc<String>| latest.get(id.as_str()).cloned().map(snapshot).transpose();
    Ok(invoice_ids.iter().map(outcome).collect::<Result<_, _>>()?)
}

/// Reserves attempts; `None` for each that somebody else was before.
pub async fn begin_attempts(
    store: &PostgresStore,
    attempts: &[Arc<NewAttempt>],
) -> Result<Vec<Option<Reading<Reservation>>>, NotTogether> {
    crash::point(Step::WithinReserve);
    let won = statement!(store, Reserve::of(attempts), (String, i64, i64, bool));
    let times = |(_, now_ms, lease_expires_at_ms, _): &(String, i64, i64, bool)| {
        (*now_ms, *lease_expires_at_ms)
    };
    let won: HashMap<&str, (i64, i64)> =
        won.iter().map(|row| (row.0.as_str(), times(row))).collect();
    let outcome = |attempt: &Arc<NewAttempt>| {
        let new = &attempt.reservation;
        let (now_ms, lease_expires_at_ms) = *won.get(new.lease_token.as_str())?;
        let value = Reservation {
            key: new.key.clone(),
            operation: new.operation.to_owned(),
            state: ReservationState::InProgress,
            attempt: new.attempt,
            fingerprint: new.fingerprint.clone(),
            lease_token: new.lease_token.clone(),
            lease_expires_at_ms,
            recovery: Recovery::Resend,
            first_sent_at_ms: now_ms,
            last_sent_at_ms: now_ms,
            takeovers: 0,
            idle: false,
            unanswered_since_ms: None,
        };
        Some(Reading { value, now_ms })
    };
    Ok(attempts.iter().map(outcome).collect())
}

/// Records verdicts; false for each whose lease was lost.
pub async fn record_verdicts(
    store: &PostgresStore,
    settlements: &[Arc<Settlement>],
) -> Result<Vec<bool>, NotTogether> {
    let mut in_order: Vec<_> = settlements.iter().map(Arc::clone).collect();
    in_order.sort_by(|one, other| {
        one.charge
            .idempotency_key
            .cmp(&other.charge.idempotency_key)
    });
    let rows = Settle::of(&in_order).ok_or(NotTogether::Refused(StorageError::Guard))?;
    crash::point(Step::WithinRecord);
    let ended = statement!(store, rows, (String, bool));
    let ended: HashSet<&str> = ended.iter().map(|row| row.0.as_str()).collect();
    let is_ended = |settlement: &Arc<Settlement>| ended.contains(settlement.lease_token.as_str());
    Ok(settlements.iter().map(is_ended).collect())
}
