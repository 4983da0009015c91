//! What every store must do, read through the public ports: one suite, run by SQLite and by PostgreSQL.
//!
//! The names of the cases are the specification. No case expects anything of one database only, apart from those in
//! `postgres_only`. The oracle is raw SQL beside the store, never the store itself.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::explicit_write,
    reason = "a test fails by panicking and speaks on the terminal, its harness too"
)]

#[macro_use]
mod support;

mod attempts;
mod audit;
mod failures;
mod growth;
mod guards;
mod invoices;
mod lists;
mod load;
mod migrations;
mod postgres_only;
mod races;
mod records;
mod recovery;
mod refunds;
mod reservations;
mod reviews;
mod spending;
mod together;
mod values;
