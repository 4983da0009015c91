//! One text, two databases.

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
