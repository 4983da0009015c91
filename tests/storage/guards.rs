//! What the database itself refuses, whatever a program asks of it.

use crate::support::{Fixture, failed, needs_review, processing, succeeded};

on_both_stores! {
    async fn an_invoice_has_one_charge_that_may_take_money_or_has(engine) {
        for (what, record) in [("pending", None), ("processing", Some(processing())), ("needs_review", Some(needs_review())), ("succeeded", Some(succeeded()))] {
            let store = Fixture::open(engine).await;
            let begun = store.charging("inv_1").await;
            if let Some(record) = record {
                store.record(&begun, &record).await;
            }
            store.database.execute(&copy_key("charge:inv_1:2")).await;
            for status in ["pending", "processing", "needs_review"] {
                refused(&store, what, &copy_charge(2, status)).await;
            }
        }
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        store.record(&begun, &failed()).await;
        store.database.execute("INSERT INTO idempotency_keys SELECT 'charge:inv_1:2', operation, status, attempt, fingerprint, lease_token, \
            lease_expires_at_ms, recovery, first_sent_at_ms, last_sent_at_ms, takeovers, response_status, response_location, response_body, \
            created_at_ms, updated_at_ms, idle, recover_after_ms, unanswered_since_ms FROM idempotency_keys").await;
        assert_eq!(store.database.execute(&copy_charge(2, "pending")).await, 1, "after a failure there may be another");
    }

    async fn a_final_status_never_changes(engine) {
        let store = Fixture::open(engine).await;
        let paid = store.charging("inv_paid").await;
        store.record(&paid, &succeeded()).await;
        let lost = store.charging("inv_lost").await;
        store.record(&lost, &failed()).await;
        store.invoice("inv_void").await;
        store.void_invoice("inv_void").await.unwrap();

        let table = [
            ("charges", "id", paid.charge.id.as_str(), "status", &["pending", "processing", "needs_review", "failed"][..]),
            ("charges", "id", lost.charge.id.as_str(), "status", &["pending", "processing", "needs_review", "succeeded"][..]),
            ("invoices", "id", "inv_paid", "status", &["open", "void"][..]),
            ("invoices", "id", "inv_void", "status", &["open", "paid"][..]),
            ("idempotency_keys", "key", "charge:inv_paid", "status", &["in_progress", "failed"][..]),
            ("idempotency_keys", "key", "charge:inv_lost", "status", &["in_progress", "done"][..]),
            ("idempotency_keys", "key", "charge:inv_paid", "response_body", &["other"][..]),
            ("idempotency_keys", "key", "charge:inv_lost", "response_location", &["other"][..]),
        ];
        for (table, id_column, id, column, values) in table {
            for value in values {
                // Whatever the row's other checks ask for is given, so that only the guard stands in the way.
                let also = match (table, *value) {
                    ("charges", "pending" | "processing" | "needs_review") => ", settled_at_ms = NULL, failure_kind = NULL, failure_code = NULL",
                    ("charges", "failed") => ", failure_kind = 'declined', failure_code = 'c'",
                    ("charges", "succeeded") => ", failure_kind = NULL, failure_code = NULL",
                    ("idempotency_keys", "in_progress") => ", response_status = NULL, response_body = NULL",
                    _ => "",
                };
                refused(&store, "final", &format!("UPDATE {table} SET {column} = '{value}'{also} WHERE {id_column} = '{id}'")).await;
            }
        }
        refused(&store, "final", "UPDATE idempotency_keys SET response_status = 200 WHERE key = 'charge:inv_paid'").await;
    }

    async fn what_was_asked_of_the_provider_never_changes(engine) {
        let store = Fixture::open(engine).await;
        store.charging("inv_1").await;
        store.invoice("inv_2").await;
        store.database.execute(&copy_key("charge:inv_2")).await;
        let frozen = [
            ("charges", "invoice_id = 'inv_2'"),
            ("charges", "attempt = 2"),
            ("charges", "idempotency_key = 'charge:inv_2'"),
            ("charges", "amount_cents = 1251"),
            ("charges", "currency = 'eur'"),
            ("charges", "customer_id = 'cus_2'"),
            ("charges", "payment_method_id = NULL"),
            ("charges", "request_path = '/v1/charges'"),
            ("charges", "request_body = request_body || '&x=1'"),
            ("charges", "invoice_revision = 2"),
            ("charges", "provider = 'other'"),
            ("charges", "asked_key = 'other'"),
            ("charges", "asked_request = 'other'"),
            ("charges", "asked_session = 'other'"),
            ("idempotency_keys", "key = key || '2'"),
            ("idempotency_keys", "operation = 'other'"),
            ("idempotency_keys", "attempt = 2"),
            ("idempotency_keys", "fingerprint = 'other'"),
            ("invoices", "amount_cents = 1251"),
            ("invoices", "currency = 'eur'"),
            ("invoices", "customer_id = 'cus_2'"),
            ("invoices", "created_at_ms = created_at_ms + 1"),
            ("invoices", "id = id || '2'"),
        ];
        for (table, change) in frozen {
            refused(&store, "frozen", &format!("UPDATE {table} SET {change}")).await;
        }
    }

    async fn rows_that_contradict_themselves_are_refused(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        let changes = [
            ("charges", "status = 'unheard_of'"),
            ("charges", "status = 'succeeded', settled_at_ms = 1"),
            ("charges", "status = 'succeeded', provider_payment_id = 'pi_1'"),
            ("charges", "status = 'failed', settled_at_ms = 1"),
            ("charges", "status = 'failed', settled_at_ms = 1, failure_kind = 'declined'"),
            ("charges", "status = 'failed', failure_kind = 'declined', failure_code = 'c'"),
            ("charges", "failure_kind = 'declined', failure_code = 'c'"),
            ("charges", "failure_kind = 'unheard_of'"),
            ("charges", "settled_at_ms = 1"),
            ("charges", "updated_at_ms = NULL"),
            ("invoices", "status = 'unheard_of'"),
            ("invoices", "metadata = NULL"),
            ("idempotency_keys", "status = 'unheard_of'"),
            ("idempotency_keys", "status = 'done'"),
            ("idempotency_keys", "status = 'failed', response_status = 402"),
            ("idempotency_keys", "status = 'done', response_body = 'x'"),
            ("idempotency_keys", "response_status = 201, response_body = 'x'"),
            ("idempotency_keys", "recovery = 'unheard_of'"),
            ("charges", "provider_payment_open = NULL"),
        ];
        for (table, change) in changes {
            refused(&store, "check", &format!("UPDATE {table} SET {change}")).await;
        }
        let insert = |amount: &str, currency: &str| format!(
            "INSERT INTO invoices (id, customer_id, amount_cents, currency, metadata, status, revision, created_at_ms, updated_at_ms) \
             VALUES ('inv_9', 'cus_1', {amount}, '{currency}', '{{}}', 'open', 1, 1, 1)"
        );
        for (amount, currency) in [("0", "usd"), ("-1", "usd"), ("NULL", "usd"), ("1", "us"), ("1", "usdd"), ("1", "")] {
            refused(&store, "amount or currency", &insert(amount, currency)).await;
        }
        for deletion in ["DELETE FROM invoices", "DELETE FROM idempotency_keys"] {
            refused(&store, "in use", deletion).await;
        }
        store.installation_id().await.unwrap();
        for second in ["INSERT INTO installation VALUES (1, 'x')", "INSERT INTO installation VALUES (2, 'x')"] {
            refused(&store, "a second installation", second).await;
        }
        assert_eq!(store.find_charge(&begun.charge.id).await.unwrap(), Some(begun.charge));
    }
}

/// A second key beside the first, in progress.
fn copy_key(key: &str) -> String {
    format!(
        "INSERT INTO idempotency_keys (key, operation, status, attempt, fingerprint, lease_token, lease_expires_at_ms, recovery, \
         first_sent_at_ms, last_sent_at_ms, takeovers, created_at_ms, updated_at_ms) \
         VALUES ('{key}', 'charge', 'in_progress', 2, 'f', 't', 1, 'resend', 1, 1, 0, 1, 1)"
    )
}

/// A second charge of the invoice, in a status without a verdict.
fn copy_charge(attempt: i32, status: &str) -> String {
    format!(
        "INSERT INTO charges (id, invoice_id, attempt, idempotency_key, status, amount_cents, currency, customer_id, invoice_revision, \
         provider, request_path, request_body, provider_payment_open, created_at_ms, updated_at_ms) \
         SELECT 'chg_copy', invoice_id, {attempt}, 'charge:inv_1:2', '{status}', amount_cents, currency, customer_id, invoice_revision, \
         provider, request_path, request_body, provider_payment_open, created_at_ms, updated_at_ms FROM charges WHERE attempt = 1"
    )
}

async fn refused(store: &Fixture, what: &str, sql: &str) {
    let before = store.dump().await;
    let outcome = store.database.try_execute(sql).await;
    assert!(outcome.is_err(), "{what}: {sql} was done: {outcome:?}");
    assert_eq!(store.dump().await, before, "{what}: {sql}");
}
