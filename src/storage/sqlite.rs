//! What is SQLite's own: the clock, the single writer and its file.

use std::time::Duration;

use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod,
};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use futures_util::FutureExt;

use super::connect::{NEWEST_APPLIED, StoreSettings, Word, build_pool, newest_version};
use super::fragments::clock_ms_utils;
use super::schema::invoices;
use super::{Inspection, StorageError, StoreCondition};

pub type Connection = SyncConnectionWrapper<SqliteConnection>;
pub type Backend = diesel::sqlite::Sqlite;

pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations/sqlite");

/// A local file has no network between: this only ends what waits behind a stuck disk.
const LIMIT: Duration = Duration::from_secs(30);

/// Reads what may have changed of an invoice; the transaction holds the one write lock from its beginning.
pub async fn lock_invoice(
    conn: &mut Connection,
    id: &str,
) -> Result<Option<(String, i32)>, StorageError> {
    Ok(invoices::table
        .find(id)
        .select((invoices::status, invoices::revision))
        .first(conn)
        .await
        .optional()?)
}

/// Nothing to do: see [`lock_invoice`].
pub async fn lock_invoice_for_change(
    _conn: &mut Connection,
    _id: &str,
) -> Result<(), StorageError> {
    Ok(())
}

/// The store in an SQLite file.
pub struct SqliteStore {
    pub pool: Pool<Connection>,
}

impl SqliteStore {
    /// Opens or creates the file, brings its schema up to date and opens the pool.
    pub async fn connect(settings: &StoreSettings) -> Result<Self, StorageError> {
        let connection = establish(settings.sqlite_path())
            .await
            .map_err(|error| StorageError::Unavailable(error.to_string()))?;
        migrate(connection).await?;
        let mut config = ManagerConfig::<Connection>::default();
        // A file does not go away as a server does; what became of it, the next statement tells.
        config.recycling_method = RecyclingMethod::Fast;
        config.custom_setup = Box::new(|path| {
            let path = path.to_owned();
            async move { establish(&path).await }.boxed()
        });
        let manager = AsyncDieselConnectionManager::<Connection>::new_with_config(
            settings.sqlite_path(),
            config,
        );
        // SQLite has one writer; one connection queues for it in our pool, where the wait is bounded and fair.
        let settings = StoreSettings {
            pool_size: 1,
            ..settings.clone()
        };
        Ok(Self {
            pool: build_pool(Pool::builder(manager), &settings)?,
        })
    }

    pub async fn connection(&self) -> Result<Object<Connection>, StorageError> {
        self.pool
            .get()
            .await
            .map_err(|error| StorageError::Unavailable(error.to_string()))
    }

    /// The file is asked by the statement itself.
    pub async fn asked_connection(&self) -> Result<Object<Connection>, StorageError> {
        self.connection().await
    }

    pub fn limit(&self) -> Duration {
        LIMIT
    }

    /// The connection is our own.
    pub fn keeps_statements(&self) -> bool {
        true
    }
}

/// Runs what is missing, in one transaction that holds the write lock before it looks: of two that open a new file at the
/// same moment, the second finds it done.
async fn migrate(mut connection: Connection) -> Result<(), StorageError> {
    let migrated = connection
        .spawn_blocking(|connection| {
            Ok(connection.immediate_transaction(|connection| {
                connection.run_pending_migrations(MIGRATIONS).map(|_| ())
            }))
        })
        .await?;
    migrated.map_err(|error| match error.downcast::<DieselError>() {
        Ok(error) => (*error).into(),
        Err(error) => StorageError::Inconsistent(format!("a migration failed: {error}")),
    })
}

/// Opens one connection. `synchronous = FULL`: a reservation that was committed must outlive a power failure, or the
/// provider would be called for a charge that nobody knows of.
async fn establish(path: &str) -> ConnectionResult<Connection> {
    let mut connection = Connection::establish(path).await?;
    connection
        .batch_execute(
            "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;",
        )
        .await
        .map_err(ConnectionError::CouldntSetupConfiguration)?;
    connection
        .spawn_blocking(|connection| {
            clock_ms_utils::register_nondeterministic_impl(connection, |offset_ms: i64| {
                chrono::Utc::now()
                    .timestamp_millis()
                    .saturating_add(offset_ms)
            })
        })
        .await
        .map_err(ConnectionError::CouldntSetupConfiguration)?;
    Ok(connection)
}

/// Looks at the file without making or changing one.
pub async fn inspect(settings: &StoreSettings) -> Result<Inspection, StorageError> {
    const HAS_SCHEMA: &str = "SELECT coalesce(max(name), '') AS value FROM sqlite_master \
        WHERE type = 'table' AND name = '__diesel_schema_migrations'";
    let path = settings.sqlite_path();
    if !std::path::Path::new(path).exists() {
        return Ok(Inspection::Absent);
    }
    let mut connection = Connection::establish(path)
        .await
        .map_err(|error| StorageError::Unavailable(error.to_string()))?;
    let table = diesel::sql_query(HAS_SCHEMA);
    let has_schema = !table
        .get_result::<Word>(&mut connection)
        .await?
        .value
        .is_empty();
    let schema = if has_schema {
        let newest = diesel::sql_query(NEWEST_APPLIED);
        newest.get_result::<Word>(&mut connection).await?.value
    } else {
        String::new()
    };
    let condition = StoreCondition {
        now_ms: chrono::Utc::now().timestamp_millis(),
        schema,
        schema_needed: newest_version::<Backend>(MIGRATIONS)?,
    };
    Ok(Inspection::Sqlite { condition })
}
