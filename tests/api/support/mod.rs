//! The harness: a service, its database and its provider for one test.

#[macro_use]
#[path = "../../support/both_stores.rs"]
mod both_stores;
#[path = "../../support/database.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod database;

mod app;
pub mod document;
mod events;
mod mcp;
mod oracles;
#[path = "../../support/ports.rs"]
mod ports;
mod raw;
mod refunds;
mod reply;
mod steps;
#[path = "../../support/waiting.rs"]
mod waiting;

pub use app::TestApp;
pub use chargeonce::storage::Engine;
pub use database::TestDatabase;
pub use events::{SECRET, seconds_now, sign};
pub use mcp::{check_schema, message, service_away, tool_call};
pub use ports::{closed, free_port};
pub use raw::{RawRequest, parse};
pub use reply::Reply;
pub use steps::{Line, SENDS_MAX, Swept, all_but_one};
pub use waiting::{eventually, in_patience};
