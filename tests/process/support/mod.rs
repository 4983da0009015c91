//! The harness: the built binary as processes of the operating system, each test with its own database and its own
//! stand-in for Stripe. What a process is and what must hold after each test is shared with the tests over HTTP.

#[macro_use]
#[path = "../../support/both_stores.rs"]
mod both_stores;
#[path = "../../support/database.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod database;

#[path = "../../api/support/oracles.rs"]
mod oracles;
#[path = "../../api/support/reply.rs"]
mod reply;

mod app;
mod collector;
#[path = "../../support/ports.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod ports;
mod postgres_pair;
mod postgres_server;
mod process;
mod provider;
mod service;
mod session;
#[path = "../../support/waiting.rs"]
mod waiting;

pub use app::TestApp;
pub use chargeonce::storage::Engine;
pub use collector::{Collector, attributes};
pub use database::TestDatabase;
pub use ports::free_port;
pub use postgres_pair::PostgresPair;
pub use postgres_server::PostgresServer;
pub use process::{Process, Ran, real_time, signal};
pub use provider::{FAULTS, Provider, WEBHOOK_SECRET};
pub use reply::Reply;
pub use service::{HeldPoint, Service, ServiceBuilder, answer_on, reset};
pub use session::Session;
pub use waiting::{PATIENCE, eventually};

use std::time::{SystemTime, UNIX_EPOCH};

/// A number from the environment, for the runs that have a script.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Milliseconds since the epoch. The database and the provider of a test have the same clock, until they are moved.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis().try_into().unwrap()
}

/// Says something that is worth a line even when the test passes.
pub fn report(line: &str) {
    use std::io::Write;
    // Not by a macro: the test harness would keep what that prints to itself.
    writeln!(std::io::stderr(), "{line}").unwrap();
}
