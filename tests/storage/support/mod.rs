//! A store on a database of its own, and the values that the cases put into it.

#[macro_use]
#[path = "../../support/both_stores.rs"]
mod both_stores;
#[path = "../../support/database.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod database;
#[path = "../../support/ports.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod ports;
mod values;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use chargeonce::charges::model::Charge;
use chargeonce::charges::repository::{AttemptRecord, Evidence, NewAttempt, Settlement};
use chargeonce::idempotency::repository::Reading;
use chargeonce::idempotency::reservation::Reservation;
use chargeonce::invoices::model::Invoice;
use chargeonce::invoices::repository::Inserted;
use chargeonce::refunds::model::Refund;
use chargeonce::refunds::repository::NewRefund;
use chargeonce::storage::{SharedStore, StorageError, StoreSettings, connect};
use chargeonce::together::NotTogether;

pub use chargeonce::storage::Engine;
pub use database::TestDatabase;
pub use ports::closed;
pub use values::*;

/// The tables that hold what was promised.
pub const TABLES: [&str; 7] = [
    "invoices",
    "idempotency_keys",
    "charges",
    "charge_evidence",
    "refunds",
    "refund_evidence",
    "provider_events",
];

/// For what must end, on a machine that stands still for a while, too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How attempts are begun and verdicts recorded: one in a transaction, or as the service does it, in company. Of one item the
/// company consists of itself; what several have to do with each other is seen in `together`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Alone,
    Together,
}

tokio::task_local! {
    /// The way of the fixtures that a case opens.
    pub static WAY: Way;
}

/// Each case on both stores and in both ways.
macro_rules! in_both_ways {
    ($($(#[doc = $doc:literal])* async fn $name:ident($engine:ident) $body:block)*) => {
        $($(#[doc = $doc])* async fn $name($engine: $crate::support::Engine) $body)*

        mod alone {
            on_both_stores! {
                $(async fn $name(engine) {
                    $crate::support::WAY.scope($crate::support::Way::Alone, super::$name(engine)).await
                })*
            }
        }

        mod in_company {
            on_both_stores! {
                $(async fn $name(engine) {
                    $crate::support::WAY.scope($crate::support::Way::Together, super::$name(engine)).await
                })*
            }
        }
    };
}

/// A store, and the database behind its back. The ports are called on it directly.
pub struct Fixture {
    way: Way,
    pub store: SharedStore,
    pub database: TestDatabase,
}

impl Deref for Fixture {
    type Target = SharedStore;

    fn deref(&self) -> &SharedStore {
        &self.store
    }
}

impl Fixture {
    /// A store on a new, empty database.
    pub async fn open(engine: Engine) -> Self {
        let database = TestDatabase::create(engine).await;
        let mut settings = StoreSettings::new(&database.url);
        settings.timeout = PATIENCE;
        let store = connect(&settings).await.unwrap();
        let way = WAY.try_with(|way| *way).unwrap_or(Way::Alone);
        Self {
            way,
            store,
            database,
        }
    }

    /// Reserves an attempt in the fixture's way.
    pub async fn begin_attempt(
        &self,
        attempt: &NewAttempt,
    ) -> Result<Option<Reading<Reservation>>, StorageError> {
        if self.way == Way::Together {
            let company = [Arc::new(attempt.clone())];
            match self.store.begin_attempts(&company).await {
                Ok(mut outcomes) => return Ok(outcomes.remove(0)),
                Err(NotTogether::Failed(error)) => return Err(error),
                Err(NotTogether::Refused(_)) => {}
            }
        }
        self.store.begin_attempt(attempt).await
    }

    /// Records what became of an attempt in the fixture's way.
    pub async fn record_attempt(
        &self,
        charge: &Charge,
        lease_token: &str,
        record: &AttemptRecord,
        evidence: &[Evidence],
    ) -> Result<bool, StorageError> {
        if self.way == Way::Together && record.is_verdict() && evidence.is_empty() {
            let company = [Arc::new(Settlement {
                charge: charge.clone(),
                lease_token: lease_token.to_owned(),
                record: record.clone(),
            })];
            match self.store.record_verdicts(&company).await {
                Ok(outcomes) => return Ok(outcomes[0]),
                Err(NotTogether::Failed(error)) => return Err(error),
                Err(NotTogether::Refused(_)) => {}
            }
        }
        self.store
            .record_attempt(charge, lease_token, record, evidence)
            .await
    }

    /// Writes an open invoice over 12.50 USD.
    pub async fn invoice(&self, id: &str) -> Invoice {
        self.insert(&invoice(id)).await
    }

    /// Writes an invoice.
    pub async fn insert(&self, invoice: &Invoice) -> Invoice {
        let inserted = self.insert_invoice(&insertion(invoice)).await.unwrap();
        assert_eq!(inserted, Inserted::Yes, "{invoice:?}");
        invoice.clone()
    }

    /// The invoice as it is now.
    pub async fn reload(&self, id: &str) -> Invoice {
        self.find_invoice(id).await.unwrap().unwrap()
    }

    /// Reserves an attempt that must be granted.
    pub async fn begin(&self, attempt: &NewAttempt) -> Begun {
        let reading = self.begin_attempt(attempt).await.unwrap();
        Begun {
            charge: attempt.charge.clone(),
            token: reading.expect("the attempt is granted").value.lease_token,
        }
    }

    /// Records something for an attempt; true when it was written.
    pub async fn record(&self, begun: &Begun, record: &AttemptRecord) -> bool {
        self.record_attempt(&begun.charge, &begun.token, record, &[])
            .await
            .unwrap()
    }

    /// An invoice with a first attempt.
    pub async fn charging(&self, id: &str) -> Begun {
        let invoice = self.invoice(id).await;
        self.begin(&attempt(&invoice, 1)).await
    }

    /// The id of a charge that took the money of a new invoice.
    pub async fn paid(&self, invoice_id: &str) -> String {
        let begun = self.charging(invoice_id).await;
        assert!(self.record(&begun, &succeeded()).await);
        begun.charge.id
    }

    /// Reserves a refund that must be granted; its lease token.
    pub async fn begin_refund_of(&self, new: &NewRefund) -> String {
        let reading = self.begin_refund(new).await.unwrap();
        reading.expect("the refund is granted").value.lease_token
    }

    /// Records something for a refund; true when it was written.
    pub async fn record_of(&self, refund: &Refund, token: &str, record: &AttemptRecord) -> bool {
        self.record_refund(refund, token, record, &[])
            .await
            .unwrap()
    }

    /// The sum of a charge's refunds, then their statuses and those of their keys, oldest first.
    pub async fn refunds(&self, charge_id: &str) -> String {
        let sum = format!(
            "SELECT CAST(refunded_cents AS TEXT) AS value FROM charges WHERE id = '{charge_id}'"
        );
        let each = format!(
            "SELECT r.status || '/' || k.status AS value FROM refunds r \
             LEFT JOIN idempotency_keys k ON k.key = r.idempotency_key WHERE r.charge_id = '{charge_id}' ORDER BY r.id"
        );
        let mut words = self.database.words(&sum).await;
        words.extend(self.database.words(&each).await);
        words.join(" ")
    }

    /// Moves the database's clock: all rows become older by so much.
    pub async fn age(&self, by: Duration) {
        self.database.age(by).await;
    }

    /// The statuses of the invoice, of its charges and of their keys, in the order of the attempts.
    pub async fn state(&self, invoice_id: &str) -> String {
        let sql = format!(
            "SELECT i.status || COALESCE(' ' || c.status || '/' || k.status, '') AS value FROM invoices i \
             LEFT JOIN charges c ON c.invoice_id = i.id LEFT JOIN idempotency_keys k ON k.key = c.idempotency_key \
             WHERE i.id = '{invoice_id}' ORDER BY c.attempt"
        );
        self.database.words(&sql).await.join(", ")
    }

    /// Every value of every row.
    pub async fn dump(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for table in TABLES {
            let columns = self.database.columns(table).await;
            let texts: Vec<String> = columns
                .iter()
                .map(|column| format!("'{column}=' || COALESCE(CAST({column} AS TEXT), '-')"))
                .collect();
            let row = texts.join(" || ' ' || ");
            let sql = format!("SELECT '{table}: ' || {row} AS value FROM {table} ORDER BY 1");
            rows.extend(self.database.words(&sql).await);
        }
        rows
    }

    /// How many rows a table has.
    pub async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT COUNT(*) AS value FROM {table}");
        self.database.number(&sql).await
    }
}

impl TestDatabase {
    /// The columns of a table, in order.
    pub async fn columns(&self, table: &str) -> Vec<String> {
        let sql = match self.engine {
            Engine::Sqlite => {
                format!("SELECT name AS value FROM pragma_table_info('{table}') ORDER BY cid")
            }
            Engine::Postgres => format!(
                "SELECT column_name::text AS value FROM information_schema.columns WHERE table_schema = 'public' \
                 AND table_name = '{table}' ORDER BY ordinal_position"
            ),
        };
        self.words(&sql).await
    }
}

/// An attempt that was reserved, and the right to record it.
#[derive(Clone)]
pub struct Begun {
    pub charge: Charge,
    pub token: String,
}

/// Two moments in the order in which they were read, and not long apart. The clock moves on within a statement, too: no two readings are
/// taken to be of one millisecond.
#[track_caller]
pub fn assert_follows(earlier_ms: i64, later_ms: i64) {
    let apart_ms = later_ms - earlier_ms;
    assert!(
        (0..60_000).contains(&apart_ms),
        "{earlier_ms}, then {later_ms}"
    );
}

/// A lease that began, whole, as it was written: at most a moment of it is gone when it is told of, and never is there more of it.
#[track_caller]
pub fn assert_runs_from_its_writing(told: &Reading<Reservation>, lease_ms: i64) {
    assert_follows(told.value.lease_expires_at_ms - lease_ms, told.now_ms);
}
