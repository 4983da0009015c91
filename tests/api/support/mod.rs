//! The harness: a service, its database and its provider for one test.

mod app;
mod database;
mod oracles;
mod reply;
mod steps;

pub use app::TestApp;
pub use chargeonce::storage::Engine;
pub use database::TestDatabase;
pub use reply::Reply;
pub use steps::{Line, SENDS_MAX};

/// Defines each test twice: `sqlite::name`, and `postgres::name`, which needs TEST_DATABASE_URL and is therefore marked as
/// ignored in a bare `cargo test`.
macro_rules! on_both_stores {
    ($($(#[doc = $doc:literal])* async fn $name:ident($engine:ident) $body:block)*) => {
        $($(#[doc = $doc])* async fn $name($engine: $crate::support::Engine) $body)*

        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::support::Engine::Sqlite).await;
            })*
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs PostgreSQL: make test"]
            async fn $name() {
                super::$name($crate::support::Engine::Postgres).await;
            })*
        }
    };
}
