//! The harness: a service, its database and its provider for one test.

#[macro_use]
mod stores;

mod app;
mod database;
mod oracles;
mod raw;
mod reply;
mod steps;

pub use app::TestApp;
pub use chargeonce::storage::Engine;
pub use database::TestDatabase;
pub use raw::{RawRequest, parse};
pub use reply::Reply;
pub use steps::{Line, SENDS_MAX};
