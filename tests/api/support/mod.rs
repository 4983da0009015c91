//! The harness: a service, its database and its provider for one test.

#[macro_use]
mod stores;

mod app;
mod database;
mod oracles;
mod reply;
mod steps;

pub use app::{TestApp, TestAppBuilder};
pub use chargeonce::storage::Engine;
pub use database::TestDatabase;
pub use reply::Reply;
pub use steps::{Line, SENDS_MAX};
