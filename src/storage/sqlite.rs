//! What is SQLite's own: the clock, the single writer and its file.

use std::time::{Duration, Instant};

use diesel::connection::AnsiTransactionManager;
use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod,
};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection, TransactionManager};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use futures_util::FutureExt;

use super::connect::{NEWEST_APPLIED, StoreSettings, Word, build_pool, newest_version};
use super::fragments::clock_ms_utils;
use super::lent::Lent;
use super::schema::invoices;
use super::threads::{Threads, on_one_thread};
use super::{Inspection, StorageError, StoreCondition};

pub type Connection = SyncConnectionWrapper<SqliteConnection, Threads>;
type Transactions = <Connection as AsyncConnection>::TransactionManager;
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

/// The body of a transaction, whose future may be named: only so can it be said that it is `Send`.
pub trait Body<C, R>: AsyncFnOnce(C) -> R + FnOnce(C) -> <Self as Body<C, R>>::Work {
    type Work: Future<Output = R>;
}

impl<F, C, R, W> Body<C, R> for F
where
    F: AsyncFnOnce(C) -> R + FnOnce(C) -> W,
    W: Future<Output = R>,
{
    type Work = W;
}

/// Transactions that have the one write lock from their beginning, for a connection with threads of our own.
pub trait ImmediateTransaction {
    /// Commits what the body did, or takes it back where it failed.
    fn immediate_transaction<'a, R, E, F>(
        &'a mut self,
        body: F,
    ) -> impl Future<Output = Result<R, E>> + Send + 'a
    where
        for<'r> F: AsyncFnOnce(&'r mut Connection) -> Result<R, E>
            + Body<&'r mut Connection, Result<R, E>, Work: Send>
            + Send
            + 'a,
        E: From<DieselError> + Send + 'a,
        R: Send + 'a;
}

impl ImmediateTransaction for Connection {
    async fn immediate_transaction<'a, R, E, F>(&'a mut self, body: F) -> Result<R, E>
    where
        for<'r> F: AsyncFnOnce(&'r mut Connection) -> Result<R, E>
            + Body<&'r mut Connection, Result<R, E>, Work: Send>
            + Send
            + 'a,
        E: From<DieselError> + Send + 'a,
        R: Send + 'a,
    {
        self.spawn_blocking(|connection| {
            AnsiTransactionManager::begin_transaction_sql(connection, "BEGIN IMMEDIATE")
        })
        .await?;
        match body(&mut *self).await {
            Ok(value) => {
                Transactions::commit_transaction(self).await?;
                Ok(value)
            }
            Err(error) => {
                Transactions::rollback_transaction(self).await?;
                Err(error)
            }
        }
    }
}

/// The store in an SQLite file.
pub struct SqliteStore {
    pub pool: Pool<Connection>,
    limit: Duration,
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
            limit: LIMIT,
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
        self.limit
    }

    /// Runs a unit of work on one thread, with a connection from the pool and within the store's time limit: for the units of
    /// which a charge consists.
    ///
    /// The connection goes where the unit goes. It returns to the pool when the unit has ended in time, in whatever way, and
    /// its transaction with it; also when nobody waits for it any more. After a panic or a unit that was too late, whose rollback is
    /// refused like any statement of it, it is closed, and SQLite takes back what was not committed. Until then the pool, which
    /// has no other connection, tells everybody else in time that there is none: a second one would wait for the same disk.
    pub async fn unit<T, F>(&self, body: F) -> Result<T, StorageError>
    where
        F: AsyncFnOnce(&mut Connection) -> Result<T, StorageError> + Send + 'static,
        T: Send + 'static,
    {
        let mut lent = Lent::new(self.connection().await?);
        let end = Instant::now() + self.limit;
        let unit = async move || {
            let outcome = body(lent.connection()).await;
            if Instant::now() < end {
                lent.give_back();
            }
            outcome
        };
        on_one_thread(end, unit).await
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

/// What a connection is set to.
const SETTINGS: &str = "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";

/// How long those that open a new file at the same moment wait for each other.
const OPENING: Duration = Duration::from_secs(5);

/// SQLite's own words for SQLITE_BUSY, of which diesel keeps no code.
fn is_locked(error: &DieselError) -> bool {
    matches!(error, DieselError::DatabaseError(_, why) if why.message() == "database is locked")
}

/// Opens one connection. `synchronous = FULL`: a reservation that was committed must outlive a power failure, or the
/// provider would be called for a charge that nobody knows of.
async fn establish(path: &str) -> ConnectionResult<Connection> {
    let mut connection = Connection::establish(path).await?;
    let end = Instant::now() + OPENING;
    // Where several turn a new file to WAL at the same moment, SQLite refuses all but one at once: `busy_timeout` is not for that.
    while let Err(error) = connection.batch_execute(SETTINGS).await {
        if !is_locked(&error) || Instant::now() > end {
            return Err(ConnectionError::CouldntSetupConfiguration(error));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
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

#[cfg(test)]
mod tests;
