//! What is PostgreSQL's own: the clock, row locks, the pool and its session settings.

use std::time::Duration;

use diesel::connection::CacheSize;
use diesel::prelude::*;
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig};
use diesel_async::{
    AsyncConnection, AsyncMigrationHarness, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection,
    TransactionManager,
};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use futures_util::FutureExt;

use super::StorageError;
use super::connect::{StoreSettings, build_pool, rustls_connector};
use super::schema::invoices;

pub type Connection = AsyncPgConnection;

type Transactions = <Connection as AsyncConnection>::TransactionManager;

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations/postgres");

/// Serialises the start of several replicas on an empty database; any fixed number does.
const MIGRATION_LOCK: i64 = 0x6368_6172_6765;

/// Locks an invoice against change for the rest of the transaction, and reads what may have changed: its status and its
/// revision. Several attempts may hold this lock at once.
pub async fn lock_invoice(
    conn: &mut Connection,
    id: &str,
) -> Result<Option<(String, i32)>, StorageError> {
    Ok(invoices::table
        .find(id)
        .select((invoices::status, invoices::revision))
        .for_share()
        .first(conn)
        .await
        .optional()?)
}

/// Locks an invoice against charges and other changes for the rest of the transaction.
pub async fn lock_invoice_for_change(conn: &mut Connection, id: &str) -> Result<(), StorageError> {
    invoices::table
        .find(id)
        .select(invoices::id)
        .for_update()
        .first::<String>(conn)
        .await
        .optional()?;
    Ok(())
}

/// The store on PostgreSQL.
pub struct PostgresStore {
    pool: Pool<Connection>,
    limit: Duration,
}

impl PostgresStore {
    /// Brings the schema up to date and opens the pool. Must be called on the runtime that lives as long as the process:
    /// the tasks that drive the connections are put there.
    pub async fn connect(settings: &StoreSettings) -> Result<Self, StorageError> {
        migrate(settings).await?;
        let mut config = ManagerConfig::<Connection>::default();
        let runtime = tokio::runtime::Handle::current();
        let session = settings.clone();
        config.custom_setup = Box::new(move |_url| {
            let runtime = runtime.clone();
            let session = session.clone();
            async move {
                runtime
                    .spawn(async move { establish(&session).await })
                    .await
                    .map_err(|error| ConnectionError::BadConnection(error.to_string()))?
            }
            .boxed()
        });
        let manager =
            AsyncDieselConnectionManager::<Connection>::new_with_config(settings.url(), config);
        Ok(Self {
            pool: build_pool(manager, settings)?,
            limit: settings.timeout,
        })
    }

    pub async fn connection(&self) -> Result<Object<Connection>, StorageError> {
        self.pool
            .get()
            .await
            .map_err(|error| StorageError::Unavailable(error.to_string()))
    }

    pub fn limit(&self) -> Duration {
        self.limit
    }
}

/// Opens one connection, with TLS as the URL's `sslmode` asks for, and sets its limits.
async fn establish(settings: &StoreSettings) -> ConnectionResult<Connection> {
    let bad = |error: &dyn std::fmt::Display| ConnectionError::BadConnection(error.to_string());
    let mut config: tokio_postgres::Config = settings
        .url()
        .parse()
        .map_err(|error: tokio_postgres::Error| bad(&error))?;
    config
        .application_name("chargeonce")
        .connect_timeout(settings.timeout);
    let tls = rustls_connector().map_err(|error| bad(&error))?;
    let (client, driver) = config.connect(tls).await.map_err(|error| bad(&error))?;
    let mut connection = AsyncPgConnection::try_from_client_and_connection(client, driver).await?;
    if settings.statement_cache {
        connection
            .batch_execute(&session_limits(settings.timeout))
            .await
            .map_err(|error| bad(&error))?;
    } else {
        // Behind a pooler a session is not ours to set: the limits belong on the role (see .env.example).
        connection.set_prepared_statement_cache_size(CacheSize::Disabled);
    }
    Ok(connection)
}

/// The server's own limits, a little below ours, so that it gives up before we do.
fn session_limits(timeout: Duration) -> String {
    let statement_ms = (timeout.as_millis() * 9 / 10).max(100);
    let lock_ms = (statement_ms / 2).max(50);
    format!(
        "SET statement_timeout = {statement_ms}; SET lock_timeout = {lock_ms}; \
         SET idle_in_transaction_session_timeout = {statement_ms}; SET synchronous_commit = on; SET TIME ZONE 'UTC'"
    )
}

/// Runs what is missing, all in one transaction: half a start leaves nothing behind, the lock ends with it, and behind a
/// pooler all of it reaches the same server and no setting stays in that server's session.
async fn migrate(settings: &StoreSettings) -> Result<(), StorageError> {
    let unavailable = |error: &dyn std::fmt::Display| StorageError::Unavailable(error.to_string());
    let mut connection = tokio::time::timeout(settings.timeout, establish(settings))
        .await
        .map_err(|_| StorageError::Unavailable("no connection in time".into()))?
        .map_err(|error| unavailable(&error))?;
    Transactions::begin_transaction(&mut connection).await?;
    // A migration may take longer than a statement of the service is given.
    let prologue = format!(
        "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"
    );
    connection
        .batch_execute(&prologue)
        .await
        .map_err(|error| unavailable(&error))?;
    let mut harness = AsyncMigrationHarness::new(connection);
    tokio::task::block_in_place(|| harness.run_pending_migrations(MIGRATIONS).map(|_| ()))
        .map_err(|error| StorageError::Inconsistent(format!("a migration failed: {error}")))?;
    Ok(Transactions::commit_transaction(&mut harness.into_inner()).await?)
}
