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

pub use connect::{Engine, StoreSettings, connect};
pub use error::StorageError;

use async_trait::async_trait;

/// What the store says of itself.
#[async_trait]
pub trait StoreInfo: Send + Sync {
    /// The id made with this database; it marks this installation's payments at the provider.
    async fn installation_id(&self) -> Result<String, StorageError>;

    /// Succeeds when the store answers.
    async fn ping(&self) -> Result<(), StorageError>;
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
