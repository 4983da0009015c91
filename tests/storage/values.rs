//! What is written comes back as it was; what must not be there is an error and never "not found".

use std::collections::BTreeMap;

use chargeonce::charges::repository::{AttemptRecord, ChargeFilter};
use chargeonce::idempotency::reservation::{Recovery, ReservationState, StoredResponse};
use chargeonce::invoices::model::Invoice;
use chargeonce::invoices::repository::InvoiceFilter;
use chargeonce::money::Money;
use chargeonce::storage::{StorageError, StoreSettings, connect};
use futures_util::future::join_all;

use crate::support::{
    Fixture, assert_follows, attempt, insertion, invoice, reservation, succeeded,
};

const ODD_TEXTS: [&str; 8] = [
    "",
    " leading and trailing ",
    "'; DROP TABLE charges; --",
    "\"quoted\" \\ backslash % _ ? $1 :name",
    "Zürich — naïve façade ﬁ Ω 請求書 🧾👩‍🚀",
    "line\nbreak\ttab\r\n",
    "e\u{301} is not é",
    "{\"json\": [null, 1e400]}",
];

on_both_stores! {
    async fn texts_come_back_byte_for_byte(engine) {
        let store = Fixture::open(engine).await;
        let long = "é".repeat(5_000);
        for (n, text) in ODD_TEXTS.into_iter().chain([long.as_str()]).enumerate() {
            let metadata: BTreeMap<String, String> = [(text.to_owned(), text.to_owned()), ("k".into(), text.into())].into();
            let written = Invoice {
                description: Some(text.into()),
                payment_method_id: Some(text.into()),
                customer_id: text.into(),
                metadata,
                ..invoice(&format!("inv_{n}"))
            };
            store.insert(&written).await;
            assert_eq!(store.reload(&written.id).await, written);

            let mut new = attempt(&written, 1);
            new.charge.request.body = text.into();
            new.reservation.fingerprint = text.into();
            let begun = store.begin(&new).await;
            let record = AttemptRecord::Unknown { payment_id: Some(text.into()), evidence: text.into(), recovery: Recovery::Resend, wait_ms: 0, unanswered_since_ms: None };
            assert!(store.record(&begun, &record).await);
            let charge = store.find_charge(&begun.charge.id).await.unwrap().unwrap();
            assert_eq!((charge.request.body.as_str(), charge.customer_id.as_str()), (text, text));
            assert_eq!((charge.evidence.as_deref(), charge.provider_payment_id.as_deref()), (Some(text), Some(text)));

            let response = StoredResponse { status: 201, location: Some(text.into()), body: text.into() };
            let record = AttemptRecord::Succeeded { payment_id: text.into(), settled_at_ms: 1, response: response.clone() };
            assert!(store.record(&begun, &record).await);
            let stored = store.find_reservation(&begun.charge.idempotency_key).await.unwrap().unwrap().value;
            assert_eq!((stored.state, stored.fingerprint.as_str()), (ReservationState::Done(response), text));
        }
    }

    async fn the_longest_and_oddest_keys_are_told_apart(engine) {
        let store = Fixture::open(engine).await;
        let long = format!("header:principal:create_invoice:{}", "k".repeat(255));
        let keys = [
            long.clone(), format!("{long}x"), "header:a:op:A".into(), "header:a:op:a".into(), "header:a:op:a ".into(),
            "header:a:op:'".into(), "header:a:op:''".into(), "header:a:op:%".into(), "header:a:op:\\".into(), "header:a:op:1".into(),
            "header:a:op:01".into(), "header:a:op:1.0".into(), "header:a:op:é".into(), "header:a:op:e\u{301}".into(),
        ];

        for key in &keys {
            assert!(store.reserve(&reservation(key)).await.unwrap().is_some(), "{key}");
        }
        for key in &keys {
            assert_eq!(&store.find_reservation(key).await.unwrap().unwrap().value.key, key);
        }
        let id = "i".repeat(255);
        store.charging(&id).await;
        assert_eq!(store.charge_snapshot(&id).await.unwrap().unwrap().value.invoice.id, id);
    }

    async fn numbers_are_whole_to_their_limits(engine) {
        let store = Fixture::open(engine).await;
        for (n, time) in [0, 1, -1, 9_007_199_254_740_993, i64::MAX, i64::MIN].into_iter().enumerate() {
            let written = Invoice { created_at_ms: time, updated_at_ms: time, revision: i32::MAX, ..invoice(&format!("inv_{n}")) };
            store.insert(&written).await;
            assert_eq!(store.reload(&written.id).await, written);
        }
        let largest = Invoice { money: Money::new(999_999_999_999, "idr").unwrap(), ..invoice("inv_idr") };
        store.insert(&largest).await;
        let begun = store.begin(&attempt(&largest, i32::MAX)).await;
        assert_eq!(store.find_charge(&begun.charge.id).await.unwrap().unwrap(), begun.charge);
        assert_eq!(begun.charge.amount_minor, 999_999_999_999);
    }

    async fn an_amount_that_would_be_refused_today_is_still_read(engine) {
        let store = Fixture::open(engine).await;
        let table = [("usd", 1), ("usd", i64::MAX), ("kwd", 5_124), ("isk", 101)];
        for (n, (currency, amount)) in table.into_iter().enumerate() {
            assert!(Money::new(amount, currency).is_err(), "a new invoice over it is refused");
            insert_raw(&store, &format!("inv_{n}"), amount, currency, "{}").await;

            let money = store.reload(&format!("inv_{n}")).await.money;
            assert_eq!((money.amount_minor(), money.currency().as_str()), (amount, currency));
        }
        assert_eq!(store.list_invoices(&InvoiceFilter { limit: 10, ..InvoiceFilter::default() }).await.unwrap().len(), 4);
    }

    async fn a_row_that_cannot_be_understood_is_an_error_and_never_missing(engine) {
        for (what, currency, metadata) in [("unknown currency", "xxx", "{}"), ("broken metadata", "usd", "not json")] {
            let store = Fixture::open(engine).await;
            insert_raw(&store, "inv_1", 1250, currency, metadata).await;

            inconsistent(what, store.find_invoice("inv_1").await);
            inconsistent(what, store.charge_snapshot("inv_1").await);
            inconsistent(what, store.list_invoices(&InvoiceFilter { limit: 10, ..InvoiceFilter::default() }).await);
            let before = store.dump().await;
            inconsistent(what, store.set_payment_method("inv_1", Some("pm_2")).await);
            inconsistent(what, store.void_invoice("inv_1").await);
            assert_eq!(store.dump().await, before, "{what}");
        }
    }

    async fn an_answer_that_cannot_be_understood_is_an_error_and_never_a_free_key(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        store.record(&begun, &succeeded()).await;
        store.reserve(&reservation("header:k")).await.unwrap();
        store.database.execute("UPDATE idempotency_keys SET status = 'done', response_status = 99999, response_body = '' WHERE key = 'header:k'").await;

        inconsistent("status code", store.find_reservation("header:k").await);
        assert_eq!(store.reserve(&reservation("header:k")).await.unwrap(), None);
        assert_eq!(store.list_charges(&ChargeFilter { limit: 10, ..ChargeFilter::default() }).await.unwrap().len(), 1);
    }

    async fn an_id_that_is_there_without_its_key_is_an_error_and_changes_nothing(engine) {
        let store = Fixture::open(engine).await;
        store.invoice("inv_1").await;
        let before = store.dump().await;

        inconsistent("same id", store.insert_invoice(&insertion(&invoice("inv_1"))).await);
        assert_eq!(store.dump().await, before);
    }

    async fn the_installations_id_is_one_for_all_who_open_the_database_and_for_ever(engine) {
        let store = Fixture::open(engine).await;
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(connect(&StoreSettings::new(&store.database.url)).await.unwrap());
        }

        let ids = join_all((0..20).map(|n| others[n % 3].installation_id())).await;

        let first = store.installation_id().await.unwrap();
        assert!(first.len() > 20 && first.starts_with("ins_"), "{first}");
        for id in ids {
            assert_eq!(id.unwrap(), first);
        }
        drop(others);
        let reopened = connect(&StoreSettings::new(&store.database.url)).await.unwrap();
        assert_eq!(reopened.installation_id().await.unwrap(), first);
        let another = Fixture::open(engine).await;
        assert_ne!(another.installation_id().await.unwrap(), first);
    }

    async fn a_store_that_answers_says_so(engine) {
        let store = Fixture::open(engine).await;
        store.condition().await.unwrap();
        let (one, next) = (store.now_ms().await.unwrap(), store.now_ms().await.unwrap());
        assert_follows(one, next);
    }
}

/// A row that the ports would not write.
async fn insert_raw(store: &Fixture, id: &str, amount: i64, currency: &str, metadata: &str) {
    let sql = format!(
        "INSERT INTO invoices (id, customer_id, amount_cents, currency, metadata, status, revision, created_at_ms, updated_at_ms) \
         VALUES ('{id}', 'cus_1', {amount}, '{currency}', '{metadata}', 'open', 1, 1, 1)"
    );
    assert_eq!(store.database.execute(&sql).await, 1);
}

#[track_caller]
fn inconsistent<T: std::fmt::Debug>(what: &str, outcome: Result<T, StorageError>) {
    assert!(
        matches!(outcome, Err(StorageError::Inconsistent(_))),
        "{what}: {outcome:?}"
    );
}
