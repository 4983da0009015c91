//! The built binary as processes of the operating system: killed at every step, paused, reset by its callers, told to
//! stop, starved of files and disk, and cut off from its database.
//!
//! Every test has its own processes, database and provider, and runs in parallel with all others. The database's and the
//! provider's clocks are moved; only what belongs to the operating system itself (a paused process, a TCP reset, a
//! grace) takes its real time.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::explicit_write,
    reason = "a test fails by panicking and speaks on the terminal, its harness too"
)]

#[macro_use]
mod support;

mod audit;
mod chaos;
mod crash;
mod doctor;
mod files;
mod hangup;
mod history;
mod leases;
mod long_run;
mod postgres;
mod replicas;
mod review;
mod shutdown;
mod sqlite;
mod startup;
mod traces;
