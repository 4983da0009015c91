//! What the service reads must not grow with what is finished: years of charges lie in the tables, and a few are open.

use std::time::Duration;

use chargeonce::audit::repository::AuditPart;
use chargeonce::charges::repository::ChargeFilter;
use chargeonce::invoices::repository::InvoiceFilter;
use chargeonce::refunds::repository::RefundFilter;
use chargeonce::storage::{SharedStore, StoreSettings, connect};

use crate::support::{Engine, Fixture, TestDatabase};

/// Rows of each table that are finished.
const FINISHED: i64 = 3_000;

/// Rows that one call may read, of tables and of indexes, with what it takes to connect.
const READ_MAX: i64 = 300;

/// Finished invoices, keys, charges, refunds and events, a second apart, the last of them made just now.
const PAST: &str = "
    CREATE TEMPORARY VIEW past AS SELECT n, lpad(n::text, 8, '0') AS id, clock_ms(0) - (3000 - n) * 1000 AS at_ms
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

/// Once nobody is connected any more, the server has counted all that was read.
async fn rows_read(database: &TestDatabase) -> i64 {
    let others = "SELECT count(*) AS value FROM pg_stat_activity \
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    while database.number(others).await > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let read = "SELECT ((SELECT sum(coalesce(seq_tup_read, 0)) FROM pg_stat_user_tables) \
        + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes))::bigint AS value";
    database.number(read).await
}

/// How many rows a call reads on a connection of its own.
async fn counted(database: &TestDatabase, call: impl AsyncFnOnce(&SharedStore)) -> i64 {
    let before = rows_read(database).await;
    let store = connect(&StoreSettings::new(&database.url)).await.unwrap();
    call(&store).await;
    drop(store);
    rows_read(database).await - before
}

mod postgres {
    use super::*;

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
}
