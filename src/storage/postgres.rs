//! What is PostgreSQL's own: the clock, row locks, the pool and its session settings.

use std::time::Duration;

use diesel::connection::CacheSize;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_types::{BigInt, Bool, Integer};
use diesel_async::pooled_connection::deadpool::{Hook, HookError, Object, Pool};
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod,
};
use diesel_async::{
    AsyncConnection, AsyncMigrationHarness, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection,
    TransactionManager,
};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use futures_util::FutureExt;

use super::connect::{
    NEWEST_APPLIED, StoreSettings, Word, build_pool, newest_version, rustls_connector,
};
use super::hosts;
use super::schema::invoices;
use super::{Inspection, StorageError, StoreCondition};

pub type Connection = AsyncPgConnection;
pub type Backend = diesel::pg::Pg;
type Transactions = <Connection as AsyncConnection>::TransactionManager;

pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations/postgres");

/// Serialises the start of several replicas on an empty database; any fixed number does.
const MIGRATION_LOCK: i64 = 0x6368_6172_6765;

/// How long a connection may have been idle to be lent unasked. Well below what firewalls and load balancers grant.
const IDLE_UNASKED: Duration = Duration::from_secs(10);

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
    pub pool: Pool<Connection>,
    limit: Duration,
    keeps_statements: bool,
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
        // The driver notices by itself that the server closed a connection, and the hook below asks those that were idle.
        config.recycling_method = RecyclingMethod::Fast;
        let manager =
            AsyncDieselConnectionManager::<Connection>::new_with_config(settings.url(), config);
        Ok(Self {
            pool: build_pool(
                Pool::builder(manager)
                    .pre_recycle(alive_after_idling(settings.timeout))
                    .post_recycle(with_plans_for_now(settings)),
                settings,
            )?,
            limit: settings.timeout,
            keeps_statements: settings.statement_cache,
        })
    }

    pub async fn connection(&self) -> Result<Object<Connection>, StorageError> {
        // The pool bounds each of its steps and not their number: with the database away it would try one dead
        // connection after the other, each to the limit.
        tokio::time::timeout(self.limit, self.pool.get())
            .await
            .map_err(|_| StorageError::Unavailable("no connection in time".into()))?
            .map_err(|error| StorageError::Unavailable(error.to_string()))
    }

    /// A connection that has just answered. The server may have ended others a moment ago without our having noticed.
    pub async fn asked_connection(&self) -> Result<Object<Connection>, StorageError> {
        let asked = async {
            loop {
                let mut connection = self.connection().await?;
                if answers(&mut connection, self.limit).await {
                    return Ok(connection);
                }
                drop(Object::take(connection));
            }
        };
        let asked = tokio::time::timeout(self.limit, asked).await;
        asked.map_err(|_| StorageError::Unavailable("no connection in time".into()))?
    }

    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// False behind a pooler: a prepared statement ends with its transaction.
    pub fn keeps_statements(&self) -> bool {
        self.keeps_statements
    }
}

/// A connection that was not used for a while may have been dropped on the way without a word: it is asked before it is lent.
/// Asking before each use would cost every call a round trip. A plain query, because a pooler would tear a prepared one in two.
fn alive_after_idling(limit: Duration) -> Hook<Connection> {
    Hook::async_fn(move |connection: &mut Connection, metrics| {
        if metrics.last_used() < IDLE_UNASKED {
            return std::future::ready(Ok(())).boxed();
        }
        async move {
            if answers(connection, limit).await {
                Ok(())
            } else {
                Err(HookError::message("it does not answer"))
            }
        }
        .boxed()
    })
}

/// See [`makes_plans_anew`]. Behind a pooler no plan is kept.
fn with_plans_for_now(settings: &StoreSettings) -> Hook<Connection> {
    let keeps_plans = settings.statement_cache;
    let limit = settings.timeout;
    Hook::async_fn(move |connection: &mut Connection, metrics| {
        let uses = metrics.recycle_count.saturating_add(1);
        if !keeps_plans || !makes_plans_anew(uses) {
            return std::future::ready(Ok(())).boxed();
        }
        async move {
            let forgotten = connection.batch_execute("DISCARD PLANS");
            match tokio::time::timeout(limit / 5, forgotten).await {
                Ok(Ok(())) => Ok(()),
                // It is an advice: a server that does not take it serves all the same.
                Ok(Err(Error::DatabaseError(kind, why)))
                    if !matches!(kind, DatabaseErrorKind::ClosedConnection) =>
                {
                    tracing::debug!(why = why.message(), "plans are kept");
                    Ok(())
                }
                Ok(Err(_)) | Err(_) => Err(HookError::message("it does not answer")),
            }
        }
        .boxed()
    })
}

/// True when the connection answers in a part of the time that a caller waits for one, so that there is time for another.
async fn answers(connection: &mut Connection, limit: Duration) -> bool {
    let asked = tokio::time::timeout(limit / 5, connection.batch_execute("SELECT 1"));
    matches!(asked.await, Ok(Ok(())))
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
    let (client, mut driver) = hosts::connect(&config, tls, settings.timeout)
        .await
        .map_err(|error| bad(&error))?;
    if settings.statement_cache {
        let mut connection =
            AsyncPgConnection::try_from_client_and_connection(client, driver).await?;
        connection
            .batch_execute(&session_settings(settings.timeout))
            .await
            .map_err(|error| bad(&error))?;
        return Ok(connection);
    }
    // Behind a pooler a session is not ours to set: the limits belong on the role (see .env.example). diesel-async prepares
    // a few statements of its own first; in a transaction they stay in one session, and leave nothing in it.
    tokio::select! {
        begun = client.batch_execute("BEGIN") => begun.map_err(|error| bad(&error))?,
        ended = &mut driver => return Err(bad(&match ended {
            Ok(()) => "the connection was closed".to_owned(),
            Err(error) => error.to_string(),
        })),
    }
    let mut connection = AsyncPgConnection::try_from_client_and_connection(client, driver).await?;
    connection.set_prepared_statement_cache_size(CacheSize::Disabled);
    connection
        .batch_execute("COMMIT")
        .await
        .map_err(|error| bad(&error))?;
    Ok(connection)
}

/// What a session is set to. The server's own limits are a little below ours, so that it gives up before we do.
fn session_settings(timeout: Duration) -> String {
    let statement_ms = (timeout.as_millis() * 9 / 10).max(100);
    let lock_ms = (statement_ms / 2).max(50);
    format!(
        "SET statement_timeout = {statement_ms}; SET lock_timeout = {lock_ms}; \
         SET idle_in_transaction_session_timeout = {statement_ms}; SET synchronous_commit = on; SET TIME ZONE 'UTC'; \
         {BY_INDEX}"
    )
}

/// Every statement of this service finds its rows by an index, so one plan is right for all values: planning anew costs more
/// than running it. And a plan that was made while the tables were small must not read them whole once they are large.
///
/// Where a table has to be read whole all the same, the server takes that for so dear that it would compile the statement first,
/// for a tenth of a second and more. And for how many rows are wanted it reckons with a tenth of them all, and would take other processes
/// to help. See [`makes_plans_anew`] for plans that were made when there were next to no rows.
const BY_INDEX: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; \
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; \
    SET max_parallel_workers_per_gather = 0";

/// While a table has a few rows at most, all ways to read it cost the same, and the server may take one that reads all of it. It
/// keeps that plan until the table is analysed the next time, a minute later or never, while the table grows to thousands.
/// So a connection makes its plans anew after the first use, the second, the fourth and so on, and then now and again.
fn makes_plans_anew(uses: usize) -> bool {
    const NOW_AND_AGAIN: usize = 1024;
    uses.is_power_of_two() || uses.is_multiple_of(NOW_AND_AGAIN)
}

async fn migrate(settings: &StoreSettings) -> Result<(), StorageError> {
    let unavailable = |error: &dyn std::fmt::Display| StorageError::Unavailable(error.to_string());
    let mut connection = tokio::time::timeout(settings.timeout, establish(settings))
        .await
        .map_err(|_| StorageError::Unavailable("no connection in time".into()))?
        .map_err(|error| unavailable(&error))?;
    // All of it is one transaction, each migration a savepoint in it. Behind a pooler in transaction mode the lock and what
    // it guards then meet in one session; and whatever goes wrong, the lock and half a schema vanish together.
    Transactions::begin_transaction(&mut connection)
        .await
        .map_err(|error| unavailable(&error))?;
    // A migration may take longer than a statement of the service is given.
    let prepare = format!(
        "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; \
         SET LOCAL idle_in_transaction_session_timeout = 0; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"
    );
    connection
        .batch_execute(&prepare)
        .await
        .map_err(|error| unavailable(&error))?;
    let mut harness = AsyncMigrationHarness::new(connection);
    tokio::task::block_in_place(|| harness.run_pending_migrations(MIGRATIONS).map(|_| ()))
        .map_err(|error| StorageError::Inconsistent(format!("a migration failed: {error}")))?;
    Transactions::commit_transaction(&mut harness.into_inner())
        .await
        .map_err(|error| unavailable(&error))
}

#[derive(QueryableByName)]
struct Seen {
    #[diesel(sql_type = Integer)]
    version: i32,
    #[diesel(sql_type = Bool)]
    is_standby: bool,
    #[diesel(sql_type = Bool)]
    commits_wait: bool,
    #[diesel(sql_type = Bool)]
    has_schema: bool,
    #[diesel(sql_type = BigInt)]
    now_ms: i64,
}

const LOOK: &str = "SELECT current_setting('server_version_num')::int AS version, pg_is_in_recovery() AS is_standby, \
    current_setting('fsync') = 'on' AS commits_wait, to_regclass('__diesel_schema_migrations') IS NOT NULL AS has_schema, \
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms";

/// Looks at the server without using anything of its schema.
pub async fn inspect(settings: &StoreSettings) -> Result<Inspection, StorageError> {
    let mut connection = tokio::time::timeout(settings.timeout, establish(settings))
        .await
        .map_err(|_| StorageError::Unavailable("no connection in time".into()))?
        .map_err(|error| StorageError::Unavailable(error.to_string()))?;
    let seen: Seen = diesel::sql_query(LOOK).get_result(&mut connection).await?;
    if seen.is_standby {
        return Ok(Inspection::Standby);
    }
    let schema = if seen.has_schema {
        let newest = diesel::sql_query(NEWEST_APPLIED);
        newest.get_result::<Word>(&mut connection).await?.value
    } else {
        String::new()
    };
    Ok(Inspection::Postgres {
        version: seen.version,
        commits_wait: seen.commits_wait,
        condition: StoreCondition {
            now_ms: seen.now_ms,
            schema,
            schema_needed: newest_version::<Backend>(MIGRATIONS)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::makes_plans_anew;

    #[test]
    fn plans_are_made_anew_while_a_connection_is_young_and_then_now_and_again() {
        let anew: Vec<usize> = (1..=4096).filter(|uses| makes_plans_anew(*uses)).collect();
        let expected = [
            1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096,
        ];
        assert_eq!(anew, expected);
    }
}
