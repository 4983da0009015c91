//! The harness: a service, its database and its provider for one test.

#[macro_use]
#[path = "../../support/both_stores.rs"]
mod both_stores;
#[path = "../../support/database.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod database;

mod app;
mod oracles;
mod reply;

pub use app::{TestApp, TestAppBuilder};
pub use chargeonce::storage::Engine;
pub use database::TestDatabase;
pub use reply::Reply;
