//! The service over HTTP, on both stores. One binary, so that it links once.
//!
//! Every test has its own service, its own database and its own provider, and runs in parallel with all others. Time is
//! never slept through: a test makes the rows older instead (`TestApp::age`), which to the service is the database's clock
//! moving on, and moves the mock's clock (`MockStripe::advance_clock`).
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::explicit_write,
    reason = "a test fails by panicking and speaks on the terminal, its harness too"
)]

#[macro_use]
mod support;

mod access;
mod access_hosts;
mod access_keys;
mod access_limits;
mod attempts;
mod audit;
mod charges;
mod charges_api;
mod faults;
mod hazards;
mod hostile;
mod idempotency_header;
mod invoices;
mod latecomers;
mod mcp;
mod mcp_hangups;
mod mcp_protocol;
mod mcp_remote;
mod nul;
mod openapi;
mod openapi_bodies;
mod operations;
mod overload;
mod pages;
mod peers;
mod problems;
mod processing;
mod recovery;
mod refunds;
mod replays;
mod review;
mod takeover;
mod tools;
mod unknown;
mod waiting;
mod webhook_deliveries;
mod webhooks;
mod window;
