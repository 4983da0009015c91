//! On which threads the units of a charge run, and what is left of one that does not end well.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use diesel::connection::InstrumentationEvent;
use tempfile::TempDir;

use super::*;
use crate::audit::repository::AuditRepository;
use crate::charges::fixtures::{charge, invoice};
use crate::charges::model::{Charge, ChargeStatus};
use crate::charges::repository::{AttemptRecord, ChargeRepository, NewAttempt, Settlement};
use crate::idempotency::repository::NewReservation;
use crate::idempotency::reservation::StoredResponse;
use crate::invoices::model::{Invoice, InvoiceStatus};
use crate::invoices::repository::{InvoiceFilter, InvoiceInsert, InvoiceRepository};
use crate::reconciler::repository::RecoveryRepository;
use crate::storage::threads::is_of_a_unit;
use crate::webhooks::repository::EventRepository;

/// A store in a new file, with a table for the cases to write to.
async fn store(limit: Duration) -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/test.db", folder.path().display());
    let settings = StoreSettings::new(url);
    let mut store = SqliteStore::connect(&settings).await.unwrap();
    let table = store.unit(async |conn| Ok(conn.batch_execute("CREATE TABLE seen (word)").await?));
    table.await.unwrap();
    store.limit = limit;
    (folder, store)
}

/// Writes a word in a transaction and does something else before the commit.
async fn write<F>(store: &SqliteStore, word: &'static str, then: F) -> Result<(), StorageError>
where
    F: FnOnce() + Send + 'static,
{
    let unit = async move |conn: &mut Connection| {
        let body = async move |conn: &mut Connection| {
            let insert = format!("INSERT INTO seen VALUES ('{word}')");
            conn.batch_execute(&insert).await?;
            conn.spawn_blocking(|_| {
                then();
                Ok(())
            })
            .await?;
            Ok::<_, StorageError>(())
        };
        conn.immediate_transaction(body).await
    };
    store.unit(unit).await
}

/// The words that were committed, as a statement outside of any unit sees them.
async fn words(store: &SqliteStore) -> String {
    let mut connection = store.connection().await.unwrap();
    diesel::sql_query("SELECT coalesce(group_concat(word), '') AS value FROM seen")
        .get_result::<Word>(&mut connection)
        .await
        .unwrap()
        .value
}

/// Marks the connection that is in the pool.
async fn mark(store: &SqliteStore) {
    let mut connection = store.connection().await.unwrap();
    let table = connection.batch_execute("CREATE TEMP TABLE mark (word)");
    table.await.unwrap();
}

/// Whether the pool's connection is the one that was marked.
async fn is_marked(store: &SqliteStore) -> bool {
    let mut connection = store.connection().await.unwrap();
    let look = connection.batch_execute("SELECT * FROM mark");
    look.await.is_ok()
}

/// The invoice's first attempt.
fn new_attempt(invoice: &Invoice) -> NewAttempt {
    let charge = Charge {
        invoice_id: invoice.id.clone(),
        idempotency_key: format!("charge:{}", invoice.id),
        ..charge(ChargeStatus::Pending)
    };
    let reservation = NewReservation {
        key: charge.idempotency_key.clone(),
        operation: "charge",
        attempt: charge.attempt,
        fingerprint: "f".into(),
        lease_token: "token".into(),
        lease_ms: 60_000,
    };
    NewAttempt {
        reservation,
        charge,
    }
}

fn new_invoice() -> InvoiceInsert {
    InvoiceInsert {
        invoice: invoice(),
        response: answer(),
        natural_key: None,
        held_key: None,
    }
}

fn answer() -> StoredResponse {
    StoredResponse {
        status: 201,
        location: None,
        body: "paid".into(),
    }
}

/// The statements that the pool's connection gets from now on, each with whether it was within a unit's thread.
async fn noting(store: &SqliteStore) -> Arc<Mutex<Vec<(bool, String)>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let note = move |event: InstrumentationEvent<'_>| {
        if let InstrumentationEvent::StartQuery { query, .. } = event {
            let text = query.to_string();
            noted.lock().unwrap().push((is_of_a_unit(), text));
        }
    };
    store.connection().await.unwrap().set_instrumentation(note);
    seen
}

#[derive(QueryableByName)]
struct Step {
    #[diesel(sql_type = diesel::sql_types::Text)]
    detail: String,
}

/// Where a table is gone through, it is in the order of an index that holds only what is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_goes_through_what_is_finished() {
    const OPEN: [&str; 5] = [
        "unpaid_invoices",
        "keys_in_progress",
        "charges_without_verdict",
        "refunds_without_verdict",
        "provider_events_pending",
    ];
    let (_folder, store) = store(LIMIT).await;
    let insert = new_invoice();
    store.insert_invoice(&insert).await.unwrap();
    let attempt = Arc::new(new_attempt(&insert.invoice));
    let seen = noting(&store).await;
    let ids = [Arc::new("inv_1".to_owned())];
    store.charge_snapshots(&ids).await.unwrap();
    store.begin_attempts(&[attempt]).await.unwrap();
    store.charges_of_payment("pi_1").await.unwrap();
    store.audit_invoice("inv_1").await.unwrap();
    store.due_attempts(50).await.unwrap();
    store.due_refunds(50).await.unwrap();
    store.due_events(50).await.unwrap();
    store.backlog().await.unwrap();
    store.forget_events(1_000).await.unwrap();
    store.forget_header_keys(1_000, 50).await.unwrap();
    for status in [InvoiceStatus::Open, InvoiceStatus::Void] {
        let unpaid = InvoiceFilter {
            status: Some(status),
            limit: 50,
            ..InvoiceFilter::default()
        };
        store.list_invoices(&unpaid).await.unwrap();
    }
    let statements = std::mem::take(&mut *seen.lock().unwrap());
    assert!(statements.len() >= 15, "{statements:#?}");

    let mut connection = store.connection().await.unwrap();
    for (_, text) in statements {
        let rows = ["SELECT", "UPDATE", "DELETE"];
        // A list of no ids is written as a condition that never holds, and ends at once.
        if text.contains("(1=0)") || !rows.iter().any(|word| text.starts_with(word)) {
            continue;
        }
        let explain = diesel::sql_query(format!("EXPLAIN QUERY PLAN {text}"));
        let plan: Vec<Step> = explain.load(&mut connection).await.unwrap();
        for Step { detail } in plan {
            let whole = detail.starts_with("SCAN ")
                && detail != "SCAN CONSTANT ROW"
                && !OPEN.iter().any(|index| detail.ends_with(index));
            assert!(
                !whole && !detail.starts_with("MATERIALIZE"),
                "{detail}: {text}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_is_three_units_and_no_statement_of_theirs_is_handed_over_by_itself() {
    let (_folder, store) = store(LIMIT).await;
    let insert = new_invoice();
    store.insert_invoice(&insert).await.unwrap();
    let seen = noting(&store).await;
    let attempt = Arc::new(new_attempt(&insert.invoice));
    let settlement = Arc::new(Settlement {
        charge: attempt.charge.clone(),
        lease_token: attempt.reservation.lease_token.clone(),
        record: AttemptRecord::Succeeded {
            payment_id: "pi_1".into(),
            settled_at_ms: 1,
            response: answer(),
        },
    });

    let invoice_ids = [Arc::new("inv_1".to_owned()), Arc::new("inv_2".to_owned())];
    let looked = store.charge_snapshots(&invoice_ids).await.unwrap();
    let begun = store.begin_attempts(&[attempt]).await.unwrap();
    let recorded = store.record_verdicts(&[settlement]).await.unwrap();

    assert!(looked[0].is_some() && looked[1].is_none());
    assert!(begun[0].is_some() && recorded[0]);
    let of_the_charge = std::mem::take(&mut *seen.lock().unwrap());
    for (is_of_a_unit, text) in &of_the_charge {
        assert!(is_of_a_unit, "{text}");
    }
    let kinds: Vec<&str> = of_the_charge
        .iter()
        .filter_map(|(_, text)| text.split_whitespace().next())
        .collect();
    let expected = [
        &["SELECT", "SELECT"][..],
        &["BEGIN", "INSERT", "SELECT", "INSERT", "COMMIT"],
        &["BEGIN", "UPDATE", "UPDATE", "UPDATE", "COMMIT"],
    ];
    assert_eq!(kinds, expected.concat());

    store.find_charge("chg_1").await.unwrap().unwrap();
    let of_a_look = std::mem::take(&mut *seen.lock().unwrap());
    assert!(
        matches!(of_a_look.as_slice(), [(false, _)]),
        "{of_a_look:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_updates_of_a_verdict_stay_prepared() {
    let (_folder, store) = store(LIMIT).await;
    let prepared = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&prepared);
    let note = move |event: InstrumentationEvent<'_>| {
        if let InstrumentationEvent::CacheQuery { sql, .. } = event {
            noted.lock().unwrap().push(sql.to_owned());
        }
    };
    let mut insert = new_invoice();
    store.insert_invoice(&insert).await.unwrap();
    let attempt = new_attempt(&insert.invoice);
    store.begin_attempt(&attempt).await.unwrap().unwrap();
    store.connection().await.unwrap().set_instrumentation(note);
    let record = |payment_id: &str| AttemptRecord::Succeeded {
        payment_id: payment_id.into(),
        settled_at_ms: 1,
        response: answer(),
    };

    let token = attempt.reservation.lease_token.as_str();
    let paid = record("pi_1");
    let first = store.record_attempt(&attempt.charge, token, &paid, &[]);
    assert!(first.await.unwrap());
    let kept = std::mem::take(&mut *prepared.lock().unwrap());
    assert_eq!(kept.len(), 3, "the key, the invoice, the charge: {kept:?}");

    insert.invoice.id = "inv_2".into();
    store.insert_invoice(&insert).await.unwrap();
    let mut next = new_attempt(&insert.invoice);
    next.charge.id = "chg_2".into();
    store.begin_attempt(&next).await.unwrap().unwrap();
    prepared.lock().unwrap().clear();
    let paid = record("pi_2");
    let second = store.record_attempt(&next.charge, token, &paid, &[]);
    assert!(second.await.unwrap());
    assert_eq!(*prepared.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_unit_is_its_callers_and_leaves_the_pool_fit_for_the_next() {
    let (_folder, store) = store(LIMIT).await;
    let store = Arc::new(store);
    mark(&store).await;
    for _ in 0..3 {
        let own = Arc::clone(&store);
        let panicking = async move { write(&own, "lost", || panic!("a defect")).await };
        let ended = tokio::spawn(panicking).await;
        assert!(ended.unwrap_err().is_panic());
    }

    write(&store, "kept", || ()).await.unwrap();

    assert_eq!(words(&store).await, "kept");
    assert!(!is_marked(&store).await, "the connection was closed");
    let mut connection = store.connection().await.unwrap();
    let outside = connection.spawn_blocking(|_| Ok(is_of_a_unit()));
    assert!(!outside.await.unwrap(), "its thread is free again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_over_its_time_commits_nothing_behind_its_callers_back() {
    let (_folder, mut store) = store(LIMIT).await;
    mark(&store).await;
    store.limit = Duration::from_millis(500);

    let (let_go, held) = channel();
    let late = move || held.recv().unwrap();
    let told = tokio::time::timeout(LIMIT, write(&store, "late", late)).await;

    let outcome = told.expect("it is told of while the unit still works");
    assert!(matches!(outcome, Err(StorageError::Unavailable(_))));
    let_go.send(()).unwrap();
    store.limit = LIMIT;
    write(&store, "kept", || ()).await.unwrap();
    assert_eq!(words(&store).await, "kept");
    assert!(!is_marked(&store).await, "the connection was closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_whose_caller_goes_away_ends_whole_and_gives_its_connection_back() {
    let (_folder, store) = store(LIMIT).await;
    mark(&store).await;

    let (written, seen) = tokio::sync::oneshot::channel();
    let (let_go, held) = channel();
    let slow = move || {
        written.send(()).unwrap();
        held.recv().unwrap();
    };
    tokio::select! {
        ended = write(&store, "kept", slow) => panic!("it was not held: {ended:?}"),
        written = seen => written.unwrap(),
    }
    let_go.send(()).unwrap();

    assert_eq!(
        words(&store).await,
        "kept",
        "seen once the connection is free"
    );
    assert!(is_marked(&store).await);
}
