//! Storage: the only place that knows a database.
//!
//! The ports live with the features that own the nouns; here are their two adapters. `statements` holds one body for
//! each port method, expanded for both; `postgres` and `sqlite` hold only what differs (the pool, session settings, the
//! clock, row locks). Each method is one statement or one short transaction in which the database repeats every
//! precondition, and none is held open across a call of the provider.
//!
//! **The database's clock decides leases and windows.** Its time is read with each reservation and compared inside the
//! guarded updates; no process's own clock takes part.

use std::sync::Arc;

use crate::audit::repository::AuditRepository;
use crate::charges::repository::ChargeRepository;
use crate::idempotency::repository::IdempotencyRepository;
use crate::invoices::repository::InvoiceRepository;
use crate::reconciler::repository::RecoveryRepository;
use crate::refunds::repository::RefundRepository;
use crate::webhooks::repository::EventRepository;

mod connect;
mod error;
mod evidence_rows;
mod fragments;
mod hosts;
mod lent;
mod postgres;
mod refund_rows;
mod rows;
pub mod schema;
mod sqlite;
mod statements;
mod threads;

pub use connect::{Engine, StoreSettings, connect, inspect};
pub use error::StorageError;

use async_trait::async_trait;

/// What the store says of itself.
#[async_trait]
pub trait StoreInfo: Send + Sync {
    /// The id made with this database; it marks this installation's payments at the provider.
    async fn installation_id(&self) -> Result<String, StorageError>;

    /// How the store is, by its own account.
    async fn condition(&self) -> Result<StoreCondition, StorageError>;

    /// The pool of connections, as it is now.
    fn pool(&self) -> PoolState;
}

/// How the store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCondition {
    /// The database's time (Unix milliseconds).
    pub now_ms: i64,
    /// The version of the newest migration that it has; empty before the first.
    pub schema: String,
    /// The version of the newest migration that this program has.
    pub schema_needed: String,
}

/// What a store is like from outside, before anything of it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspection {
    /// There is no such file yet.
    Absent,
    /// A server that only repeats another's writes.
    Standby,
    /// A PostgreSQL that can be written to.
    Postgres {
        /// Its `server_version_num`, such as 150004.
        version: i32,
        /// True when a commit is on the disk before it is told (`fsync`).
        commits_wait: bool,
        /// Its time and its schema.
        condition: StoreCondition,
    },
    /// An SQLite file.
    Sqlite {
        /// Its time and its schema.
        condition: StoreCondition,
    },
}

/// A pool of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolState {
    /// Open connections.
    pub open: usize,
    /// The most that may be open.
    pub max: usize,
    /// Those at work.
    pub in_use: usize,
    /// Units of work that wait for one.
    pub awaited: usize,
}

/// All ports in one, so that one connection pool serves them all; each service asks for its own slice.
pub trait Store:
    InvoiceRepository
    + ChargeRepository
    + IdempotencyRepository
    + RecoveryRepository
    + RefundRepository
    + EventRepository
    + AuditRepository
    + StoreInfo
{
}
impl<T> Store for T where
    T: InvoiceRepository
        + ChargeRepository
        + IdempotencyRepository
        + RecoveryRepository
        + RefundRepository
        + EventRepository
        + AuditRepository
        + StoreInfo
{
}

/// A shared store.
pub type SharedStore = Arc<dyn Store>;
