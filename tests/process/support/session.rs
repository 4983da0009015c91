//! A PostgreSQL session of somebody else, which can hold locks and leave transactions open.

use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};

/// The session; it ends when it is dropped.
pub struct Session(AsyncPgConnection);

impl Session {
    pub async fn open(url: &str) -> Self {
        Self(AsyncPgConnection::establish(url).await.unwrap())
    }

    pub async fn run(&mut self, sql: &str) {
        self.0
            .batch_execute(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}
