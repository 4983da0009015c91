//! chargeonce charges an invoice exactly once, whoever calls it and however often.
//!
//! The crate is laid out by feature. To understand it, read in this order: [`idempotency::decision`],
//! [`charges::lifecycle`], [`payments::outcome`], [`charges::settlement`], [`charges::service`]. `ARCHITECTURE.md` has the map
//! and the walks.
pub mod access;
pub mod app;
pub mod audit;
pub mod bound;
pub mod charges;
pub mod config;
pub mod doctor;
pub mod error;
pub mod health;
pub mod http;
pub mod idempotency;
pub mod invoices;
pub mod metrics;
pub mod money;
pub mod open_files;
pub mod openapi;
pub mod payments;
pub mod reconciler;
pub mod refunds;
pub mod router;
pub mod server;
pub mod storage;
pub mod tasks;
pub mod telemetry;
pub mod timestamp;
pub mod together;
pub mod tools;
pub mod webhooks;
