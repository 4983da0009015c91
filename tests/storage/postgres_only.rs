//! What only PostgreSQL has: a clock of its own, row locks that others hold, a wire on which statements are prepared.

use std::time::{Duration, Instant};

use chargeonce::idempotency::reservation::{Claim, Ending, Recovery};
use chargeonce::invoices::model::InvoiceStatus;
use chargeonce::invoices::repository::InvoiceFilter;
use chargeonce::storage::{SharedStore, StorageError, StoreSettings, connect};

use crate::migrations::script;
use crate::support::{
    Engine, Fixture, LEASE_MS, PATIENCE, attempt, insertion, invoice, reservation, response,
    succeeded,
};

mod wire;

use wire::Wire;

/// The time of a store that gives up: enough for what nothing keeps it from.
const HURRY: Duration = Duration::from_secs(2);

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn every_time_is_the_databases() {
        let store = Fixture::open(Engine::Postgres).await;
        set_clock(&store, 1_000).await;

        let made = store.reserve(&reservation("k")).await.unwrap().unwrap();
        assert_eq!(
            (made.now_ms, made.value.lease_expires_at_ms),
            (1_000, 1_000 + LEASE_MS)
        );
        assert_eq!(
            (made.value.first_sent_at_ms, made.value.last_sent_at_ms),
            (1_000, 1_000)
        );
        assert_eq!(store.now_ms().await.unwrap(), 1_000);
        let take_over = async || {
            store
                .take_over(
                    &made.value,
                    "second",
                    LEASE_MS,
                    Recovery::Resend,
                    Claim::Expired,
                )
                .await
                .unwrap()
        };
        set_clock(&store, 1_000 + LEASE_MS - 1).await;
        assert_eq!(take_over().await, None, "a millisecond before the end");
        set_clock(&store, 1_000 + LEASE_MS).await;
        let taken = take_over().await.unwrap();
        assert_eq!(
            (taken.now_ms, taken.value.last_sent_at_ms),
            (1_000 + LEASE_MS, 1_000 + LEASE_MS)
        );
        assert_eq!(taken.value.lease_expires_at_ms, 1_000 + 2 * LEASE_MS);

        set_clock(&store, 5_000_000).await;
        let begun = store.charging("inv_1").await;
        assert_eq!(
            store
                .charge_snapshot("inv_1")
                .await
                .unwrap()
                .unwrap()
                .now_ms,
            5_000_000
        );
        set_clock(&store, 6_000_000).await;
        store.record(&begun, &succeeded()).await;
        let updated = "SELECT CAST(MIN(t) AS BIGINT) AS value FROM (SELECT updated_at_ms AS t FROM charges UNION SELECT updated_at_ms FROM invoices \
            UNION SELECT updated_at_ms FROM idempotency_keys WHERE key = 'charge:inv_1') AS times";
        assert_eq!(store.database.number(updated).await, 6_000_000);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn a_lock_that_others_hold_is_waited_for_in_bounds_and_the_write_is_rolled_back() {
        // With limits of the server's, which gives up first; and without, where the store itself must.
        for statement_cache in [true, false] {
            let store = Fixture::open(Engine::Postgres).await;
            store.invoice("inv_1").await;
            let held = store
                .reserve(&reservation("k"))
                .await
                .unwrap()
                .unwrap()
                .value;
            let hurried = hurried(&store, statement_cache).await;
            let mut other = store.database.session().await;
            other.run("BEGIN").await;
            other.run("SELECT * FROM invoices FOR UPDATE").await;
            other.run("SELECT * FROM idempotency_keys FOR UPDATE").await;
            let before = store.dump().await;

            let begun = Instant::now();
            let void = hurried.void_invoice("inv_1").await;
            let settled = hurried
                .settle("k", &held.lease_token, &Ending::Done(response(201, "{}")))
                .await;
            assert!(
                matches!(void, Err(StorageError::Unavailable(_))),
                "{void:?}"
            );
            assert!(
                matches!(settled, Err(StorageError::Unavailable(_))),
                "{settled:?}"
            );
            assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());

            // Freed, what was given up comes to nothing.
            other.run("ROLLBACK").await;
            no_transaction_is_left(&store).await;
            assert_eq!(store.dump().await, before);
            assert!(
                hurried
                    .settle("k", &held.lease_token, &Ending::Done(response(201, "{}")))
                    .await
                    .unwrap()
            );
            hurried.void_invoice("inv_1").await.unwrap();
            assert_eq!(store.reload("inv_1").await.status, InvoiceStatus::Void);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn a_caller_that_goes_away_while_it_waits_for_a_lock_leaves_none_behind() {
        let store = Fixture::open(Engine::Postgres).await;
        let new = attempt(&store.invoice("inv_1").await, 1);
        let mut other = store.database.session().await;
        other.run("BEGIN").await;
        other
            .run(
                "INSERT INTO idempotency_keys VALUES ('charge:inv_1', 'charge', 'in_progress', 1, 'f', 't', 1, 'resend', \
                 1, 1, 0, NULL, NULL, NULL, 1, 1)",
            )
            .await;

        // It has locked the invoice by then, and waits for the key.
        tokio::select! {
            outcome = store.begin_attempt(&new) => panic!("it did not wait: {outcome:?}"),
            () = somebody_waits(&store) => {}
        }
        other.run("ROLLBACK").await;

        other.run("SET lock_timeout = '1min'").await;
        other.run("UPDATE invoices SET updated_at_ms = 2").await;
        assert_eq!(
            store.state("inv_1").await,
            "open",
            "what was cut off was rolled back"
        );
        assert!(store.begin_attempt(&new).await.unwrap().is_some());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn an_invoice_that_is_made_while_the_unpaid_ones_are_gathered_is_one_of_them() {
        let name = "2026-11-30-000015_keep_unpaid_invoices";
        let store = Fixture::open(Engine::Postgres).await;
        let mut migrating = store.database.session().await;
        migrating
            .batch(&script(Engine::Postgres, name, "down.sql"))
            .await;
        let mut other = store.database.session().await;
        other.run("BEGIN").await;
        other
            .run(
                "INSERT INTO invoices (id, customer_id, amount_cents, currency, metadata, status, revision, created_at_ms, \
                 updated_at_ms) VALUES ('inv_late', 'cus_1', 1999, 'usd', '{}', 'open', 1, 1, 1)",
            )
            .await;

        let up = script(Engine::Postgres, name, "up.sql");
        let migrated = tokio::spawn(async move { migrating.batch(&up).await });
        somebody_waits(&store).await;
        other.run("COMMIT").await;
        migrated.await.unwrap();

        let kept = "SELECT invoice_id AS value FROM unpaid_invoices";
        assert_eq!(store.database.words(kept).await, ["inv_late"]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn invoices_are_restored_and_paid_by_programs_that_have_no_search_path() {
        let store = Fixture::open(Engine::Postgres).await;
        store.invoice("inv_1").await;
        store.invoice("inv_2").await;
        let mut other = store.database.session().await;
        other.run("SET search_path = ''").await;
        other
            .run("UPDATE public.invoices SET status = 'paid' WHERE id = 'inv_1'")
            .await;
        // As a dump of the data alone has them: both tables.
        other
            .run("CREATE TABLE public.dump AS SELECT * FROM public.invoices")
            .await;
        other.run("DELETE FROM public.invoices").await;
        other
            .run("INSERT INTO public.unpaid_invoices SELECT status, created_at_ms, id FROM public.dump WHERE id = 'inv_2'")
            .await;
        other
            .run("INSERT INTO public.invoices SELECT * FROM public.dump")
            .await;

        let kept = "SELECT invoice_id AS value FROM unpaid_invoices";
        assert_eq!(store.database.words(kept).await, ["inv_2"]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn a_used_up_pool_is_waited_for_in_bounds() {
        let store = Fixture::open(Engine::Postgres).await;
        store.invoice("inv_1").await;
        let mut settings = StoreSettings::new(&store.database.url);
        settings.pool_size = 1;
        settings.timeout = HURRY;
        settings.statement_cache = false;
        let small = connect(&settings).await.unwrap();
        let mut other = store.database.session().await;
        other.run("BEGIN").await;
        other.run("SELECT * FROM invoices FOR UPDATE").await;

        let begun = Instant::now();
        let outcomes =
            futures_util::future::join_all((0..10).map(|_| small.void_invoice("inv_1"))).await;

        assert!(
            outcomes
                .iter()
                .all(|outcome| matches!(outcome, Err(StorageError::Unavailable(_)))),
            "{outcomes:?}"
        );
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        other.run("ROLLBACK").await;
        small.condition().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn connections_that_the_server_ended_are_replaced() {
        let store = Fixture::open(Engine::Postgres).await;
        store.invoice("inv_1").await;
        for _ in 0..3 {
            let ended = "SELECT COUNT(pg_terminate_backend(pid)) AS value FROM pg_stat_activity \
                WHERE datname = current_database() AND application_name = 'chargeonce'";
            assert!(store.database.number(ended).await > 0);

            assert_eq!(
                store.find_invoice("inv_1").await.unwrap(),
                Some(invoice("inv_1"))
            );
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn nothing_of_the_start_is_left_in_a_session() {
        let store = Fixture::open(Engine::Postgres).await;
        let locks = "SELECT COUNT(*) AS value FROM pg_locks WHERE locktype = 'advisory' AND database = \
            (SELECT oid FROM pg_database WHERE datname = current_database())";
        assert_eq!(store.database.number(locks).await, 0);
    }

    /// Only updates are prepared with each use, which diesel never keeps.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn what_was_prepared_once_is_not_prepared_again() {
        let store = Fixture::open(Engine::Postgres).await;
        let wire = Wire::before(&store.database.url).await;
        let mut settings = StoreSettings::new(wire.url());
        settings.pool_size = 1;
        let measured = connect(&settings).await.unwrap();
        reads_and_inserts(&measured, 0).await;
        let first = wire.take_prepared();
        assert!(first.len() > 8, "{first:#?}");

        for round in 1..4 {
            reads_and_inserts(&measured, round).await;
            assert_eq!(wire.take_prepared(), Vec::<String>::new(), "round {round}");
        }
    }
}

/// Stops the database's clock.
async fn set_clock(store: &Fixture, now_ms: i64) {
    let sql = format!(
        "CREATE OR REPLACE FUNCTION clock_ms(offset_ms BIGINT) RETURNS BIGINT LANGUAGE sql VOLATILE AS $$ SELECT {now_ms}::BIGINT + offset_ms $$"
    );
    store.database.execute(&sql).await;
}

/// Another store on the same database, with little time.
async fn hurried(store: &Fixture, statement_cache: bool) -> SharedStore {
    let mut settings = StoreSettings::new(&store.database.url);
    settings.timeout = HURRY;
    settings.statement_cache = statement_cache;
    connect(&settings).await.unwrap()
}

/// Waits until a session waits for a lock.
async fn somebody_waits(store: &Fixture) {
    let waiting = "SELECT COUNT(*) AS value FROM pg_stat_activity \
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while store.database.number(waiting).await == 0 {
        tokio::task::yield_now().await;
    }
}

/// Waits until no session but this one is in a transaction.
async fn no_transaction_is_left(store: &Fixture) {
    let open = "SELECT COUNT(*) AS value FROM pg_stat_activity WHERE datname = current_database() \
        AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client backend'";
    let begun = Instant::now();
    while store.database.number(open).await > 0 {
        assert!(begun.elapsed() < PATIENCE, "a transaction was left open");
        tokio::task::yield_now().await;
    }
}

async fn reads_and_inserts(store: &SharedStore, round: usize) {
    let id = format!("inv_{round}");
    store
        .insert_invoice(&insertion(&invoice(&id)))
        .await
        .unwrap();
    store
        .reserve(&reservation(&format!("k{round}")))
        .await
        .unwrap();
    store.find_reservation("k0").await.unwrap();
    store.find_invoice("inv_0").await.unwrap();
    let begun = store
        .begin_attempt(&attempt(&invoice(&id), 1))
        .await
        .unwrap();
    assert!(begun.is_some());
    store.charge_snapshot("inv_0").await.unwrap();
    store.find_charge("chg_unknown").await.unwrap();
    store.condition().await.unwrap();
    let filter = InvoiceFilter {
        status: Some(InvoiceStatus::Open),
        limit: 1,
        ..InvoiceFilter::default()
    };
    store.list_invoices(&filter).await.unwrap();
}
