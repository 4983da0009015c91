//! Invoices: written with their keys, changed only while no charge may take money.

use chargeonce::idempotency::reservation::ReservationState;
use chargeonce::idempotency::service::HeldKey;
use chargeonce::invoices::model::{Invoice, InvoiceStatus};
use chargeonce::invoices::repository::{Changed, Inserted, InvoiceInsert};
use futures_util::future::join_all;

use crate::support::{
    Fixture, attempt, failed, insertion, invoice, live_records, reservation, response, succeeded,
};

on_both_stores! {
    async fn an_invoice_under_the_callers_own_id_is_written_once_and_the_first_answer_is_kept(engine) {
        let store = Fixture::open(engine).await;
        assert_eq!(store.insert_invoice(&under_own_id("inv_1", "first", "f1")).await.unwrap(), Inserted::Yes);
        let before = store.dump().await;

        for fingerprint in ["f1", "f2"] {
            let again = store.insert_invoice(&under_own_id("inv_1", "second", fingerprint)).await.unwrap();

            let Inserted::Exists(first) = again else { panic!("{again:?}") };
            assert_eq!(first.state, ReservationState::Done(response(201, "first")));
            assert_eq!((first.key.as_str(), first.fingerprint.as_str()), ("invoice:inv_1", "f1"));
            assert_eq!(store.dump().await, before);
        }
    }

    async fn of_twenty_that_create_the_same_invoice_at_once_one_writes_and_all_get_its_answer(engine) {
        let store = Fixture::open(engine).await;
        let inserts: Vec<_> = (0..20).map(|n| under_own_id("inv_1", &format!("answer {n}"), "f")).collect();

        let outcomes = join_all(inserts.iter().map(|insert| store.insert_invoice(insert))).await;

        let written: Vec<_> = outcomes.iter().zip(&inserts).filter(|(outcome, _)| matches!(outcome, Ok(Inserted::Yes))).collect();
        assert_eq!(written.len(), 1);
        let answer = ReservationState::Done(written[0].1.response.clone());
        for outcome in &outcomes {
            match outcome.as_ref().unwrap() {
                Inserted::Yes => {}
                Inserted::Exists(first) => assert_eq!(first.state, answer),
                Inserted::LeaseLost | Inserted::IdTaken => panic!("neither lease nor another invoice"),
            }
        }
        assert_eq!((store.count("invoices").await, store.count("idempotency_keys").await), (1, 1));
    }

    async fn an_invoice_settles_the_callers_key_in_the_same_transaction(engine) {
        let store = Fixture::open(engine).await;
        let held = store.reserve(&reservation("header:k")).await.unwrap().unwrap().value;
        let insert = InvoiceInsert {
            held_key: Some(HeldKey { key: held.key, lease_token: held.lease_token }),
            ..under_own_id("inv_1", "created", "f")
        };

        assert_eq!(store.insert_invoice(&insert).await.unwrap(), Inserted::Yes);

        for key in ["header:k", "invoice:inv_1"] {
            let state = store.find_reservation(key).await.unwrap().unwrap().value.state;
            assert_eq!(state, ReservationState::Done(response(201, "created")), "{key}");
        }
    }

    async fn without_the_lease_of_the_callers_key_no_invoice_and_no_natural_key_is_written(engine) {
        let store = Fixture::open(engine).await;
        let held = store.reserve(&reservation("header:k")).await.unwrap().unwrap().value;
        let before = store.dump().await;

        for (key, token) in [(held.key.as_str(), "of another owner"), ("header:unknown", held.lease_token.as_str())] {
            let insert = InvoiceInsert {
                held_key: Some(HeldKey { key: key.into(), lease_token: token.into() }),
                ..under_own_id("inv_1", "created", "f")
            };
            assert_eq!(store.insert_invoice(&insert).await.unwrap(), Inserted::LeaseLost);
            assert_eq!(store.dump().await, before);
        }
    }

    async fn an_invoice_that_is_there_leaves_the_callers_key_unsettled(engine) {
        let store = Fixture::open(engine).await;
        store.insert_invoice(&under_own_id("inv_1", "first", "f1")).await.unwrap();
        let held = store.reserve(&reservation("header:k")).await.unwrap().unwrap().value;

        let insert = InvoiceInsert {
            held_key: Some(HeldKey { key: held.key, lease_token: held.lease_token }),
            ..under_own_id("inv_1", "second", "f2")
        };
        let again = store.insert_invoice(&insert).await.unwrap();

        assert!(matches!(again, Inserted::Exists(_)), "{again:?}");
        assert_eq!(store.find_reservation("header:k").await.unwrap().unwrap().value.state, ReservationState::InProgress);
    }

    async fn an_unknown_invoice_is_none_everywhere(engine) {
        let store = Fixture::open(engine).await;
        store.invoice("inv_1").await;

        for id in ["inv_2", "INV_1", "inv_1 ", "", "inv%", "' OR 1=1 --"] {
            assert_eq!(store.find_invoice(id).await.unwrap(), None, "{id:?}");
            assert_eq!(store.charge_snapshot(id).await.unwrap(), None, "{id:?}");
            assert_eq!(store.set_payment_method(id, None).await.unwrap(), Changed::NotFound, "{id:?}");
            assert_eq!(store.void_invoice(id).await.unwrap(), Changed::NotFound, "{id:?}");
            assert_eq!(store.find_charge(id).await.unwrap(), None, "{id:?}");
        }
        assert_eq!(store.reload("inv_1").await, invoice("inv_1"));
    }

    async fn a_changed_payment_method_raises_the_revision_and_the_same_one_does_not(engine) {
        let store = Fixture::open(engine).await;
        store.invoice("inv_1").await;
        let table = [(Some("pm_2"), 2), (Some("pm_2"), 2), (None, 3), (None, 3), (Some("pm_2"), 4), (Some("pm_3"), 5)];
        for (method, revision) in table {
            let changed = store.set_payment_method("inv_1", method).await.unwrap();

            let stored = store.reload("inv_1").await;
            assert_eq!(changed, Changed::Yes(stored.clone()));
            assert_eq!((stored.payment_method_id.as_deref(), stored.revision), (method, revision));
            assert_eq!((stored.status, stored.money), (InvoiceStatus::Open, invoice("inv_1").money));
        }
    }

    async fn a_paid_or_void_invoice_is_not_changed(engine) {
        let store = Fixture::open(engine).await;
        let paid = store.charging("inv_paid").await;
        store.record(&paid, &succeeded()).await;
        store.invoice("inv_void").await;
        let void = store.void_invoice("inv_void").await.unwrap();
        assert!(matches!(&void, Changed::Yes(Invoice { status: InvoiceStatus::Void, .. })), "{void:?}");
        let before = store.dump().await;

        for (id, status) in [("inv_paid", InvoiceStatus::Paid), ("inv_void", InvoiceStatus::Void)] {
            let refused = Changed::Refused { status, charge_running: false };
            assert_eq!(store.set_payment_method(id, Some("pm_2")).await.unwrap(), refused);
            if status == InvoiceStatus::Paid {
                assert_eq!(store.void_invoice(id).await.unwrap(), refused);
            } else {
                assert_eq!(store.void_invoice(id).await.unwrap(), void, "a void one stays as it is");
            }
        }
        assert_eq!(store.dump().await, before);
    }

    async fn an_invoice_with_a_charge_that_may_take_money_is_not_changed(engine) {
        let refused = Changed::Refused { status: InvoiceStatus::Open, charge_running: true };
        for (what, record) in live_records() {
            let store = Fixture::open(engine).await;
            let begun = store.charging("inv_1").await;
            for step in ["pending", what] {
                if step == what {
                    store.record(&begun, &record).await;
                }
                let before = store.dump().await;
                assert_eq!(store.set_payment_method("inv_1", Some("pm_2")).await.unwrap(), refused, "{step}");
                assert_eq!(store.set_payment_method("inv_1", Some("pm_card_visa")).await.unwrap(), refused, "{step}: not even to the same");
                assert_eq!(store.void_invoice("inv_1").await.unwrap(), refused, "{step}");
                assert_eq!(store.dump().await, before, "{step}");
            }
        }
    }

    async fn after_a_failed_attempt_an_invoice_can_be_changed_and_void(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        store.record(&begun, &failed()).await;

        assert!(matches!(store.set_payment_method("inv_1", Some("pm_2")).await.unwrap(), Changed::Yes(_)));
        let stale = attempt(&invoice("inv_1"), 2);
        assert_eq!(store.begin_attempt(&stale).await.unwrap(), None, "made from the former payment method");
        assert!(matches!(store.void_invoice("inv_1").await.unwrap(), Changed::Yes(_)));
        assert_eq!(store.state("inv_1").await, "void failed/failed");
    }
}

fn under_own_id(id: &str, body: &str, fingerprint: &str) -> InvoiceInsert {
    InvoiceInsert {
        response: response(201, body),
        natural_key: Some((format!("invoice:{id}"), fingerprint.to_owned())),
        ..insertion(&invoice(id))
    }
}
