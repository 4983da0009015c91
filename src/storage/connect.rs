//! Choosing a database by its URL, and what both pools share.

use std::{sync::Arc, time::Duration};

use deadpool::managed::{Manager, Pool, PoolBuilder, QueueMode};
use diesel::migration::{Migration, MigrationSource};
use diesel_migrations::EmbeddedMigrations;
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::postgres::{self, PostgresStore};
use super::sqlite::{self, SqliteStore};
use super::{Inspection, PoolState, SharedStore, StorageError};

/// Which database a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// `postgres://…` or `postgresql://…`
    Postgres,
    /// `sqlite://path`
    Sqlite,
}

impl Engine {
    /// Reads the scheme. Anything else is refused, so that a mistyped URL never becomes a new, empty SQLite file.
    pub fn of(url: &str) -> Option<Self> {
        match url.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Some(Self::Postgres),
            Some(("sqlite", path)) if !path.is_empty() => Some(Self::Sqlite),
            Some(_) | None => None,
        }
    }

    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Sqlite => "SQLite",
        }
    }
}

/// How to reach the store.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    pub(super) url: SecretString,
    /// Connections at most (PostgreSQL).
    pub pool_size: usize,
    /// How long a connection is waited for, and how long one unit of work may take.
    pub timeout: Duration,
    /// False behind a pooler in transaction mode: no prepared statement outlives its transaction.
    pub statement_cache: bool,
}

impl StoreSettings {
    /// For a URL, with the usual limits.
    pub fn new(url: impl Into<String>) -> Self {
        let url: String = url.into();
        Self {
            url: url.into(),
            pool_size: 10,
            timeout: Duration::from_secs(5),
            statement_cache: true,
        }
    }

    /// The database that the URL names.
    pub fn engine(&self) -> Option<Engine> {
        Engine::of(self.url())
    }

    /// For people: the database without user, password or query.
    pub fn describe(&self) -> String {
        let engine = self.engine().map_or("no database", Engine::as_str);
        let place = self.url().split_once("://").map_or("", |(_, rest)| rest);
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        format!("{engine} ({})", place.split('?').next().unwrap_or_default())
    }

    pub(super) fn url(&self) -> &str {
        self.url.expose_secret()
    }

    pub(super) fn sqlite_path(&self) -> &str {
        self.url().strip_prefix("sqlite://").unwrap_or_default()
    }
}

/// Opens the store that the URL names, with its schema up to date.
pub async fn connect(settings: &StoreSettings) -> Result<SharedStore, StorageError> {
    match settings.engine() {
        Some(Engine::Postgres) => Ok(Arc::new(PostgresStore::connect(settings).await?)),
        Some(Engine::Sqlite) => Ok(Arc::new(SqliteStore::connect(settings).await?)),
        None => Err(StorageError::Unavailable(
            "DATABASE_URL names no database that is known here".into(),
        )),
    }
}

/// Looks at the store that the URL names, and changes nothing: neither its schema nor a file.
pub async fn inspect(settings: &StoreSettings) -> Result<Inspection, StorageError> {
    match settings.engine() {
        Some(Engine::Postgres) => postgres::inspect(settings).await,
        Some(Engine::Sqlite) => sqlite::inspect(settings).await,
        None => Err(StorageError::Unavailable(
            "DATABASE_URL names no database that is known here".into(),
        )),
    }
}

/// A text that a query gives back by the name `value`; empty for NULL.
#[derive(diesel::QueryableByName)]
pub(super) struct Word {
    #[diesel(sql_type = diesel::sql_types::Text)]
    pub value: String,
}

/// The version of the newest migration that the database's own table names.
pub(super) const NEWEST_APPLIED: &str =
    "SELECT coalesce(max(version), '') AS value FROM __diesel_schema_migrations";

/// A pool whose every wait is bounded.
pub(super) fn build_pool<M: Manager>(
    pool: PoolBuilder<M>,
    settings: &StoreSettings,
) -> Result<Pool<M>, StorageError> {
    // The one that was used last: its server process has the plans and the catalogue at hand, and the rest may sleep.
    pool.queue_mode(QueueMode::Lifo)
        .max_size(settings.pool_size)
        .wait_timeout(Some(settings.timeout))
        .create_timeout(Some(settings.timeout))
        .recycle_timeout(Some(settings.timeout))
        .runtime(deadpool::Runtime::Tokio1)
        .build()
        .map_err(|error| StorageError::Unavailable(error.to_string()))
}

/// The pool as it is now.
pub(super) fn pool_state<M: Manager>(pool: &Pool<M>) -> PoolState {
    let status = pool.status();
    PoolState {
        open: status.size,
        max: status.max_size,
        in_use: status.size.saturating_sub(status.available),
        awaited: status.waiting,
    }
}

/// The version of the newest of a program's migrations, as the database's own table names it.
pub(super) fn newest_version<B: diesel::backend::Backend>(
    migrations: EmbeddedMigrations,
) -> Result<String, StorageError> {
    let all: Vec<Box<dyn Migration<B>>> = migrations
        .migrations()
        .map_err(|error| StorageError::Inconsistent(error.to_string()))?;
    let versions = all
        .iter()
        .map(|migration| migration.name().version().to_string());
    Ok(versions.max().unwrap_or_default())
}

/// TLS for PostgreSQL with the operating system's certificates. Whether it is used is the URL's `sslmode`.
pub(super) fn rustls_connector() -> Result<MakeRustlsConnect, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
