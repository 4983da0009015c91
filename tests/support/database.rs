//! A database of its own for each test, and raw SQL for what only a test may do.

use std::time::Duration;

use chargeonce::storage::Engine;
use diesel::prelude::{QueryableByName, SqliteConnection};
use diesel::sql_types::{BigInt, Text};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};

/// A database that vanishes with the test.
pub struct TestDatabase {
    /// What the service is given as DATABASE_URL.
    pub url: String,
    /// Which database it is.
    pub engine: Engine,
    folder: Option<tempfile::TempDir>,
    server_url: String,
    name: String,
}

/// An open connection beside the service's own.
pub enum Session {
    Sqlite(SyncConnectionWrapper<SqliteConnection>),
    Postgres(AsyncPgConnection),
}

impl Session {
    /// Runs one statement, and returns how many rows it changed.
    pub async fn run(&mut self, sql: &str) -> usize {
        let outcome = self.try_run(sql).await;
        outcome.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs one statement that may fail.
    pub async fn try_run(&mut self, sql: &str) -> Result<usize, String> {
        match self {
            Self::Sqlite(connection) => diesel::sql_query(sql).execute(connection).await,
            Self::Postgres(connection) => diesel::sql_query(sql).execute(connection).await,
        }
        .map_err(|error| error.to_string())
    }

    /// Runs several statements.
    pub async fn batch(&mut self, sql: &str) {
        match self {
            Self::Sqlite(connection) => connection.batch_execute(sql).await,
            Self::Postgres(connection) => connection.batch_execute(sql).await,
        }
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    value: i64,
}

#[derive(QueryableByName)]
struct Word {
    #[diesel(sql_type = Text)]
    value: String,
}

impl TestDatabase {
    /// A new, empty one.
    pub async fn create(engine: Engine) -> Self {
        match engine {
            Engine::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite://{}", folder.path().join("test.db").display());
                Self {
                    url,
                    engine,
                    folder: Some(folder),
                    server_url: String::new(),
                    name: String::new(),
                }
            }
            Engine::Postgres => {
                let server_url = std::env::var("TEST_DATABASE_URL")
                    .expect("TEST_DATABASE_URL names a PostgreSQL server; `make test` starts one");
                Self::create_on(server_url).await
            }
        }
    }

    /// A new, empty one on this PostgreSQL server.
    pub async fn create_on(server_url: String) -> Self {
        let name = format!("test_{}", uuid::Uuid::new_v4().simple());
        let mut server = AsyncPgConnection::establish(&server_url).await.unwrap();
        let create = format!("CREATE DATABASE {name}");
        diesel::sql_query(create)
            .execute(&mut server)
            .await
            .unwrap();
        Self {
            url: with_database(&server_url, &name),
            engine: Engine::Postgres,
            folder: None,
            server_url,
            name,
        }
    }

    /// A connection that stays open, for what a single statement cannot show: a held lock, a transaction.
    pub async fn session(&self) -> Session {
        match self.engine {
            Engine::Sqlite => Session::Sqlite(self.sqlite().await),
            Engine::Postgres => Session::Postgres(self.postgres().await),
        }
    }

    /// Runs one statement, and returns how many rows it changed.
    pub async fn execute(&self, sql: &str) -> usize {
        self.session().await.run(sql).await
    }

    /// Runs one statement that may fail.
    pub async fn try_execute(&self, sql: &str) -> Result<usize, String> {
        self.session().await.try_run(sql).await
    }

    /// The number that a query gives; the query names it `value`.
    pub async fn number(&self, sql: &str) -> i64 {
        let rows: Vec<Number> = match self.engine {
            Engine::Sqlite => diesel::sql_query(sql).load(&mut self.sqlite().await).await,
            Engine::Postgres => {
                diesel::sql_query(sql)
                    .load(&mut self.postgres().await)
                    .await
            }
        }
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows.as_slice()
            .first()
            .unwrap_or_else(|| panic!("{sql}: no row"))
            .value
    }

    /// The words that a query gives; the query names them `value`.
    pub async fn words(&self, sql: &str) -> Vec<String> {
        let rows: Vec<Word> = match self.engine {
            Engine::Sqlite => diesel::sql_query(sql).load(&mut self.sqlite().await).await,
            Engine::Postgres => {
                diesel::sql_query(sql)
                    .load(&mut self.postgres().await)
                    .await
            }
        }
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows.into_iter().map(|row| row.value).collect()
    }

    /// Makes everything older: to the service, the database's clock has moved on by so much.
    pub async fn age(&self, by: Duration) {
        let by = by.as_millis();
        let older = |column: &str| format!("{column} = {column} - {by}");
        let keys = [
            "lease_expires_at_ms",
            "first_sent_at_ms",
            "last_sent_at_ms",
            "created_at_ms",
            "updated_at_ms",
            "recover_after_ms",
            "unanswered_since_ms",
        ];
        let events = [
            "created_at_ms",
            "received_at_ms",
            "next_try_at_ms",
            "updated_at_ms",
        ];
        // Of refunds, too.
        let charges = ["created_at_ms", "updated_at_ms", "settled_at_ms"];
        for (table, columns) in [
            ("idempotency_keys", &keys[..]),
            ("charges", &charges[..]),
            ("refunds", &charges[..]),
            ("provider_events", &events[..]),
        ] {
            let set: Vec<String> = columns.iter().map(|column| older(column)).collect();
            self.execute(&format!("UPDATE {table} SET {}", set.join(", ")))
                .await;
        }
    }

    async fn sqlite(&self) -> SyncConnectionWrapper<SqliteConnection> {
        let path = self.url.strip_prefix("sqlite://").unwrap();
        let mut connection = SyncConnectionWrapper::establish(path).await.unwrap();
        diesel::sql_query("PRAGMA busy_timeout = 10000")
            .execute(&mut connection)
            .await
            .unwrap();
        connection
    }

    async fn postgres(&self) -> AsyncPgConnection {
        AsyncPgConnection::establish(&self.url).await.unwrap()
    }
}

/// The server's URL with another database.
fn with_database(server_url: &str, name: &str) -> String {
    let (address, query) = match server_url.split_once('?') {
        Some((address, query)) => (address, format!("?{query}")),
        None => (server_url, String::new()),
    };
    let (scheme, rest) = address.split_once("://").unwrap();
    let host = rest.split('/').next().unwrap();
    format!("{scheme}://{host}/{name}{query}")
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if self.engine == Engine::Sqlite {
            drop(self.folder.take());
            return;
        }
        let (url, name) = (self.server_url.clone(), self.name.clone());
        // A test's runtime may be ending: the farewell needs one of its own.
        let farewell = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let farewell = async {
                    if let Ok(mut server) = AsyncPgConnection::establish(&url).await {
                        let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                        diesel::sql_query(drop).execute(&mut server).await.ok();
                    }
                };
                // The server may be one that a test has paused or stopped.
                tokio::time::timeout(Duration::from_secs(10), farewell)
                    .await
                    .ok();
            });
        });
        farewell.join().ok();
    }
}
