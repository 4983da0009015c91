//! The one body of each port method, expanded for both adapters.
//!
//! Each file has a macro for the methods of one port. `$store` has `connection()` (a pooled connection within a bounded wait)
//! and `limit()` (how long one unit of work may take); `$backend` is the adapter's module with its connection and row
//! locks, `$transaction` its way to begin one.
//!
//! Every unit of work is a transaction of its own; a single look is one without being told. Behind a pooler in transaction mode
//! looks are told, too: a statement and its preparation then reach the same server. A unit that exceeds its time, or whose caller is gone, takes
//! its connection with it, so that nothing half done ever returns to the pool. The units of a charge on SQLite are another thing: they
//! run on one thread each, and end whole (`SqliteStore::unit`).
//!
//! **Rows are locked in one order everywhere: the key, the invoice, the charge, the refund.** Two units that went opposite ways would
//! wait for each other until the database ended one of them, and that could be the one that records money. An insert of a
//! key that is there waits for whoever is changing it, so it counts as a lock. An agent whose spending is limited locks its own
//! row in `agent_spending` before all of them.

use super::StorageError;
use super::lent::Lent;

/// Runs a body in a transaction on a connection from the pool, within the store's time limit. After a unit that was cut
/// off it is not known whether its write took place: a commit on its way is not called back, anything before it is rolled
/// back by the database once the connection is closed.
macro_rules! unit {
    ($store:expr, $transaction:ident, async |$conn:ident| $body:block) => {{
        #[allow(unused_imports, reason = "the method of one of the two adapters")]
        use crate::storage::sqlite::ImmediateTransaction;
        let mut lent = Lent::new($store.asked_connection().await?);
        let work = lent.connection().$transaction(async |$conn| $body);
        let outcome = tokio::time::timeout($store.limit(), work).await;
        match outcome {
            Ok(outcome) => {
                lent.give_back();
                outcome
            }
            Err(_) => Err(StorageError::Unavailable("no answer in time".into())),
        }
    }};
}

/// Runs a body of one reading statement: as it is where the connection keeps its prepared statements, else as [`unit!`] does.
macro_rules! look {
    ($store:expr, $transaction:ident, async |$conn:ident| $body:block) => {{
        if $store.keeps_statements() {
            let mut lent = Lent::new($store.asked_connection().await?);
            let $conn = lent.connection();
            let outcome = tokio::time::timeout($store.limit(), async { $body }).await;
            match outcome {
                Ok(outcome) => {
                    lent.give_back();
                    outcome
                }
                Err(_) => Err(StorageError::Unavailable("no answer in time".into())),
            }
        } else {
            unit!($store, $transaction, async |$conn| $body)
        }
    }};
}

mod audit;
mod charges;
mod events;
mod evidence;
mod invoices;
mod keys;
mod records;
mod recovery;
mod refund_records;
mod refunds;
mod spending;
mod together;

/// Turns a failed guard into the port's "somebody else was first".
pub fn guarded<T>(outcome: Result<T, StorageError>) -> Result<Option<T>, StorageError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(StorageError::Guard) => Ok(None),
        Err(error @ (StorageError::Unavailable(_) | StorageError::Inconsistent(_))) => Err(error),
    }
}

/// One row or the transaction is rolled back as "somebody else was first".
pub fn one_or_guard(rows: usize) -> Result<(), StorageError> {
    if rows == 1 {
        Ok(())
    } else {
        Err(StorageError::Guard)
    }
}

/// One row, or the tables contradict each other.
pub fn one_or_inconsistent(rows: usize, what: &str) -> Result<(), StorageError> {
    if rows == 1 {
        Ok(())
    } else {
        Err(StorageError::Inconsistent(format!(
            "{what}: {rows} rows instead of one"
        )))
    }
}
