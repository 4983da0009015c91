//! What the service reads must not grow with what is finished: years of charges lie in the tables, and a few are open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chargeonce::audit::repository::AuditPart;
use chargeonce::charges::repository::{ChargeFilter, Settlement};
use chargeonce::invoices::model::InvoiceStatus;
use chargeonce::invoices::repository::{Inserted, InvoiceFilter};
use chargeonce::refunds::repository::RefundFilter;
use chargeonce::storage::{SharedStore, StoreSettings, connect};

use crate::support::{
    Engine, Fixture, PATIENCE, TestDatabase, attempt, insertion, invoice, paid_by,
};

/// Rows of each table that are finished.
const FINISHED: i64 = 3_000;

/// Rows that one call may read, of tables and of indexes, with what it takes to connect.
const READ_MAX: i64 = 300;

/// Finished invoices, keys, charges, refunds and events, a second apart, the last of them made just now. (No temporary view: with the
/// first one the server makes a schema, and forgets all its plans.)
const PAST: &str = "
    CREATE VIEW past AS SELECT n, lpad(n::text, 8, '0') AS id, clock_ms(0) - (3000 - n) * 1000 AS at_ms
        FROM generate_series(1, 3000) AS n;
    INSERT INTO invoices (id, customer_id, amount_cents, currency, metadata, status, revision, created_at_ms, updated_at_ms)
        SELECT 'inv_' || id, 'cus_1', 1999, 'usd', '{}', 'paid', 1, at_ms, at_ms FROM past;
    INSERT INTO idempotency_keys (key, operation, status, attempt, fingerprint, lease_token, lease_expires_at_ms, recovery,
            first_sent_at_ms, last_sent_at_ms, takeovers, response_status, response_body, created_at_ms, updated_at_ms)
        SELECT prefix || id, 'charge', 'done', 1, 'f', 't', at_ms, 'resend', at_ms, at_ms, 0, 201, '{}', at_ms, at_ms
        FROM past, (VALUES ('charge:inv_'), ('refund:chg_'), ('header:')) AS kinds (prefix);
    INSERT INTO charges (id, invoice_id, attempt, idempotency_key, status, amount_cents, currency, customer_id, invoice_revision,
            provider, request_path, request_body, provider_payment_id, provider_payment_open, created_at_ms, updated_at_ms, settled_at_ms,
            refunded_cents)
        SELECT 'chg_' || id, 'inv_' || id, 1, 'charge:inv_' || id, 'succeeded', 1999, 'usd', 'cus_1', 1, 'mock', '/', '', 'pi_' || id,
            FALSE, at_ms, at_ms, at_ms, 1999 FROM past;
    INSERT INTO refunds (id, charge_id, attempt, idempotency_key, status, amount_cents, currency, provider, request_path, request_body,
            provider_refund_id, created_at_ms, updated_at_ms, settled_at_ms)
        SELECT 'rfn_' || id, 'chg_' || id, 1, 'refund:chg_' || id, 'succeeded', 1999, 'usd', 'mock', '/', '', 're_' || id, at_ms, at_ms,
            at_ms FROM past;
    INSERT INTO provider_events (id, kind, payment_id, created_at_ms, received_at_ms, status, outcome, tries, next_try_at_ms, updated_at_ms)
        SELECT 'evt_' || id, 'payment_intent.succeeded', 'pi_' || id, at_ms, at_ms, 'done', 'settled', 1, at_ms, at_ms FROM past;
";

/// Invoices that wait for their charge, and keys in progress, whose work others do.
const OPEN: &str = "
    INSERT INTO invoices (id, customer_id, amount_cents, currency, metadata, status, revision, created_at_ms, updated_at_ms)
        SELECT 'open_' || n, 'cus_1', 1999, 'usd', '{}', 'open', 1, clock_ms(0), clock_ms(0) FROM generate_series(1, 3000) AS n;
    INSERT INTO idempotency_keys (key, operation, status, attempt, fingerprint, lease_token, lease_expires_at_ms, recovery,
            first_sent_at_ms, last_sent_at_ms, takeovers, created_at_ms, updated_at_ms)
        SELECT 'other:' || n, 'charge', 'in_progress', 1, 'f', 't', clock_ms(90000), 'resend', clock_ms(0), clock_ms(0), 0, clock_ms(0),
            clock_ms(0)
        FROM generate_series(1, 3000) AS n";

/// Attempts whose owners have died, after a crash.
const DUE: &str = "
    UPDATE idempotency_keys SET lease_expires_at_ms = 1 WHERE key LIKE 'other:%';
    INSERT INTO charges (id, invoice_id, attempt, idempotency_key, status, amount_cents, currency, customer_id, invoice_revision,
            provider, request_path, request_body, provider_payment_open, created_at_ms, updated_at_ms)
        SELECT 'open_' || n, 'open_' || n, 1, 'other:' || n, 'pending', 1999, 'usd', 'cus_1', 1, 'mock', '/', '', FALSE, clock_ms(0),
            clock_ms(0)
        FROM generate_series(1, 3000) AS n";

/// Once nobody is connected any more, the server has counted all that was read.
async fn rows_read(database: &TestDatabase) -> i64 {
    let others = "SELECT count(*) AS value FROM pg_stat_activity \
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    let begun = Instant::now();
    while database.number(others).await > 0 {
        assert!(begun.elapsed() < PATIENCE, "somebody is still connected");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let read = "SELECT ((SELECT sum(coalesce(seq_tup_read, 0)) FROM pg_stat_user_tables) \
        + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes))::bigint AS value";
    database.number(read).await
}

/// How many rows a call reads on a connection of its own.
async fn counted(database: &TestDatabase, call: impl AsyncFnOnce(&SharedStore)) -> i64 {
    counted_with(database, true, call).await
}

/// The same with or without plans that are kept.
async fn counted_with(
    database: &TestDatabase,
    statement_cache: bool,
    call: impl AsyncFnOnce(&SharedStore),
) -> i64 {
    let before = rows_read(database).await;
    let mut settings = StoreSettings::new(&database.url);
    settings.statement_cache = statement_cache;
    let store = connect(&settings).await.unwrap();
    call(&store).await;
    drop(store);
    rows_read(database).await - before
}

mod postgres {
    use super::*;

    /// A database in which much is open that was not there when the server counted last.
    async fn much_open_though_little_is_counted() -> TestDatabase {
        let Fixture {
            store, database, ..
        } = Fixture::open(Engine::Postgres).await;
        drop(store);
        let mut session = database.session().await;
        for step in [PAST, "ANALYZE", OPEN] {
            session.batch(step).await;
        }
        database
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn what_is_finished_is_not_read_to_find_what_is_open() {
        let Fixture {
            store, database, ..
        } = Fixture::open(Engine::Postgres).await;
        drop(store);
        database.session().await.batch(PAST).await;
        let day_ms = 86_400_000;
        // Before the server knows how the rows are spread, and after.
        for analyze in [false, true] {
            if analyze {
                database.session().await.batch("ANALYZE").await;
            }
            let mut read = Vec::new();
            macro_rules! call {
                ($name:expr, |$store:ident| $call:expr) => {
                    read.push((
                        $name.to_owned(),
                        counted(&database, async |$store| assert!($call.await.is_ok())).await,
                    ))
                };
            }
            call!("due attempts", |store| store.due_attempts(50));
            call!("due refunds", |store| store.due_refunds(50));
            call!("due events", |store| store.due_events(50));
            call!("the backlog", |store| store.backlog());
            call!("old events", |store| store.forget_events(day_ms));
            call!("old header keys", |store| store
                .forget_header_keys(day_ms, 100));
            call!("unsettled charges", |store| store.audit_page(
                AuditPart::UnsettledBefore(i64::MAX),
                None,
                50
            ));
            call!("a look", |store| store.charge_snapshot("inv_00001500"));
            call!("charges of a payment", |store| store
                .charges_of_payment("pi_00001500"));
            call!("refunds of a payment", |store| store
                .refunds_of_payment("pi_00001500"));
            call!("refunds by the provider's id", |store| store
                .refunds_given_by("re_00001500"));
            for status in ["pending", "processing", "needs_review"] {
                let filter = ChargeFilter {
                    status: Some(status.into()),
                    limit: 50,
                    ..ChargeFilter::default()
                };
                call!(format!("{status} charges"), |store| store
                    .list_charges(&filter));
                let filter = RefundFilter {
                    status: Some(status.into()),
                    limit: 50,
                    ..RefundFilter::default()
                };
                call!(format!("{status} refunds"), |store| store
                    .list_refunds(&filter));
            }
            for status in [InvoiceStatus::Open, InvoiceStatus::Void] {
                let filter = InvoiceFilter {
                    status: Some(status),
                    limit: 50,
                    ..InvoiceFilter::default()
                };
                call!(format!("{status:?} invoices"), |store| store
                    .list_invoices(&filter));
            }
            let last_page = InvoiceFilter {
                after: Some((0, "inv_00000000".to_owned())),
                limit: 50,
                ..InvoiceFilter::default()
            };
            call!("the last page of invoices", |store| store
                .list_invoices(&last_page));
            let too_much: Vec<_> = read.iter().filter(|(_, rows)| *rows > READ_MAX).collect();
            assert!(
                too_much.is_empty(),
                "analyzed {analyze}, {FINISHED} rows are finished; read: {too_much:?}"
            );
        }
    }

    /// Two invoices, each charged and paid, in both ways in which a charge is written.
    async fn charge_two(store: &SharedStore, id: &str) {
        let new = insertion(&invoice(&format!("{id}_together")));
        assert_eq!(store.insert_invoice(&new).await.unwrap(), Inserted::Yes);
        let ids = [Arc::new(new.invoice.id)];
        let looked = store.charge_snapshots(&ids).await.unwrap().remove(0);
        let new = Arc::new(attempt(&looked.unwrap().value.invoice, 1));
        let begun = store.begin_attempts(&[Arc::clone(&new)]).await.unwrap();
        assert!(begun[0].is_some());
        let verdict = Settlement {
            charge: new.charge.clone(),
            lease_token: new.reservation.lease_token.clone(),
            record: paid_by(&format!("pi_{id}_together")),
        };
        let settled = store.record_verdicts(&[Arc::new(verdict)]).await.unwrap();
        assert_eq!(settled, [true]);

        let new = insertion(&invoice(id));
        assert_eq!(store.insert_invoice(&new).await.unwrap(), Inserted::Yes);
        let looked = store.charge_snapshot(id).await.unwrap().unwrap();
        let new = attempt(&looked.value.invoice, 1);
        assert!(store.begin_attempt(&new).await.unwrap().is_some());
        let paid = paid_by(&format!("pi_{id}"));
        let token = &new.reservation.lease_token;
        let settled = store.record_attempt(&new.charge, token, &paid, &[]).await;
        assert!(settled.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn a_charge_does_not_read_what_else_is_open() {
        let database = much_open_though_little_is_counted().await;
        for statement_cache in [true, false] {
            let id = format!("inv_{statement_cache}");
            let charging = async |store: &SharedStore| charge_two(store, &id).await;
            let read = counted_with(&database, statement_cache, charging).await;
            assert!(
                read <= READ_MAX,
                "{read} rows were read, plans kept: {statement_cache}"
            );
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn each_due_attempt_is_found_by_its_key_though_thousands_are_due() {
        let database = much_open_though_little_is_counted().await;
        database.session().await.batch(DUE).await;
        let due = async |store: &SharedStore| {
            assert_eq!(store.due_attempts(50).await.unwrap().len(), 50);
        };
        let read = counted(&database, due).await;
        // Those in progress may be gone through once, to find the ones that are due for longest.
        assert!(read <= 2 * FINISHED + READ_MAX, "{read} rows were read");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn plans_that_were_made_on_empty_tables_are_not_kept() {
        const CHARGES: i64 = 20;
        let Fixture {
            store, database, ..
        } = Fixture::open(Engine::Postgres).await;
        drop(store);
        // Now the server knows that there are no rows. A table that it knows nothing of, it takes for larger.
        database.session().await.batch("VACUUM ANALYZE").await;
        let before = rows_read(&database).await;
        let mut settings = StoreSettings::new(&database.url);
        settings.pool_size = 1;
        let store = connect(&settings).await.unwrap();
        charge_two(&store, "inv_first").await;
        database.session().await.batch(PAST).await;
        for n in 0..CHARGES {
            charge_two(&store, &format!("inv_{n}")).await;
        }
        drop(store);
        let read = rows_read(&database).await - before;
        // The rows of the past look for what they refer to, four each but for the keys; two charges may meet the old plans.
        let allowed = 4 * FINISHED + 6 * FINISHED + CHARGES * READ_MAX;
        assert!(read <= allowed, "{read} rows were read");
    }
}
