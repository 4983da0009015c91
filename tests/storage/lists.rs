//! Pages, filters and the snapshot of an invoice's latest attempt.

use std::collections::BTreeSet;

use chargeonce::charges::repository::ChargeFilter;
use chargeonce::invoices::model::{Invoice, InvoiceStatus};
use chargeonce::invoices::repository::InvoiceFilter;

use crate::migrations::script;
use crate::support::{Fixture, attempt, failed, invoice, succeeded};

on_both_stores! {
    async fn pages_of_invoices_reach_the_end_without_a_gap_or_a_repeat_though_times_are_equal(engine) {
        let store = Fixture::open(engine).await;
        for n in 0..23 {
            // Four at a time share a millisecond.
            store.insert(&Invoice { created_at_ms: 1_000 + n / 4, ..invoice(&format!("inv_{n:02}")) }).await;
        }

        for limit in [1, 4, 5, 23, 100] {
            let mut seen = Vec::new();
            let mut after = None;
            loop {
                let filter = InvoiceFilter { after, limit, ..InvoiceFilter::default() };
                let page = store.list_invoices(&filter).await.unwrap();
                assert!(page.len() <= usize::try_from(limit).unwrap());
                let Some(last) = page.last() else { break };
                after = Some((last.created_at_ms, last.id.clone()));
                seen.extend(page.into_iter().map(|invoice| (invoice.created_at_ms, invoice.id)));
            }
            assert_eq!(seen.len(), 23, "limit {limit}");
            assert!(seen.is_sorted_by(|one, next| one > next), "newest first: {seen:?}");
        }
    }

    async fn invoices_are_listed_by_status_and_customer(engine) {
        let store = Fixture::open(engine).await;
        for (n, customer_id) in ["cus_1", "cus_1", "cus_2", "cus_2"].into_iter().enumerate() {
            store.insert(&Invoice { customer_id: customer_id.into(), ..invoice(&format!("inv_{n}")) }).await;
        }
        store.void_invoice("inv_1").await.unwrap();
        let begun = store.begin(&attempt(&store.reload("inv_2").await, 1)).await;
        store.record(&begun, &succeeded()).await;

        let table: [(Option<InvoiceStatus>, Option<&str>, &[&str]); 8] = [
            (None, None, &["inv_3", "inv_2", "inv_1", "inv_0"]),
            (Some(InvoiceStatus::Open), None, &["inv_3", "inv_0"]),
            (Some(InvoiceStatus::Paid), None, &["inv_2"]),
            (Some(InvoiceStatus::Void), None, &["inv_1"]),
            (None, Some("cus_1"), &["inv_1", "inv_0"]),
            (Some(InvoiceStatus::Open), Some("cus_2"), &["inv_3"]),
            (Some(InvoiceStatus::Paid), Some("cus_1"), &[]),
            (None, Some("cus_3"), &[]),
        ];
        for (status, customer_id, ids) in table {
            let filter = InvoiceFilter { status, customer_id: customer_id.map(str::to_owned), after: None, limit: 10 };
            let found: Vec<String> = store.list_invoices(&filter).await.unwrap().into_iter().map(|invoice| invoice.id).collect();
            assert_eq!(found, ids, "{status:?} {customer_id:?}");
        }
    }

    async fn what_is_unpaid_is_known_whoever_changes_it_and_from_before_it_was_kept(engine) {
        let store = Fixture::open(engine).await;
        for n in 0..4 {
            store.insert(&Invoice { created_at_ms: 1_000 + n, ..invoice(&format!("inv_{n}")) }).await;
        }
        let listed = async |status| -> Vec<String> {
            let filter = InvoiceFilter { status: Some(status), customer_id: None, after: None, limit: 10 };
            store.list_invoices(&filter).await.unwrap().into_iter().map(|invoice| invoice.id).collect()
        };
        let kept = || store.database.words("SELECT invoice_id AS value FROM unpaid_invoices ORDER BY created_at_ms");
        for (change, unpaid) in [
            ("UPDATE invoices SET status = 'void' WHERE id = 'inv_0'", &["inv_0", "inv_1", "inv_2", "inv_3"][..]),
            ("UPDATE invoices SET status = 'paid' WHERE id = 'inv_1'", &["inv_0", "inv_2", "inv_3"]),
            ("DELETE FROM invoices WHERE id = 'inv_2'", &["inv_0", "inv_3"]),
            ("DELETE FROM invoices WHERE id = 'inv_1'", &["inv_0", "inv_3"]),
        ] {
            store.database.execute(change).await;
            assert_eq!(kept().await, unpaid, "{change}");
        }
        let mut session = store.database.session().await;
        for step in ["down.sql", "up.sql"] {
            session.batch(&script(engine, "2026-11-30-000015_keep_unpaid_invoices", step)).await;
        }
        assert_eq!(kept().await, ["inv_0", "inv_3"]);
        assert_eq!((listed(InvoiceStatus::Open).await, listed(InvoiceStatus::Void).await), (vec!["inv_3".into()], vec!["inv_0".into()]));
    }

    async fn charges_are_listed_newest_first_by_invoice_and_status_and_in_pages(engine) {
        let store = Fixture::open(engine).await;
        let mut ids = Vec::new();
        for n in 0..3 {
            let begun = store.charging(&format!("inv_{n}")).await;
            store.record(&begun, &failed()).await;
            let second = store.begin(&attempt(&store.reload(&format!("inv_{n}")).await, 2)).await;
            ids.extend([begun.charge.id, second.charge.id]);
        }
        ids.reverse();
        let list = async |filter: ChargeFilter| -> Vec<String> {
            store.list_charges(&filter).await.unwrap().into_iter().map(|charge| charge.id).collect()
        };

        let all = ChargeFilter { limit: 100, ..ChargeFilter::default() };
        assert_eq!(list(all.clone()).await, ids);
        let of_one = ChargeFilter { invoice_id: Some("inv_1".into()), ..all.clone() };
        assert_eq!(list(of_one.clone()).await, ids[2..4]);
        assert_eq!(list(ChargeFilter { status: Some("failed".into()), ..of_one.clone() }).await, ids[3..4]);
        assert_eq!(list(ChargeFilter { status: Some("pending".into()), ..all.clone() }).await, [&*ids[0], &*ids[2], &*ids[4]]);
        assert_eq!(list(ChargeFilter { status: Some("succeeded".into()), ..all.clone() }).await, Vec::<String>::new());
        assert_eq!(list(ChargeFilter { invoice_id: Some("inv_9".into()), ..all.clone() }).await, Vec::<String>::new());
        let mut paged = Vec::new();
        while let [last] = list(ChargeFilter { after: paged.last().cloned(), limit: 1, ..all.clone() }).await.as_slice() {
            paged.push(last.clone());
        }
        assert_eq!(paged, ids);
    }

    async fn the_snapshot_has_the_attempt_with_the_highest_number_past_nine_too(engine) {
        let store = Fixture::open(engine).await;
        store.invoice("inv_1").await;
        store.charging("inv_10").await;
        assert_eq!(store.charge_snapshot("inv_1").await.unwrap().unwrap().value.latest, None);

        let mut seen = BTreeSet::new();
        for number in 1..=12 {
            let begun = store.begin(&attempt(&store.reload("inv_1").await, number)).await;
            let (charge, reservation) = store.charge_snapshot("inv_1").await.unwrap().unwrap().value.latest.unwrap();
            assert_eq!((charge.attempt, reservation.attempt), (number, number));
            assert_eq!((&charge.id, &reservation.key), (&begun.charge.id, &charge.idempotency_key));
            assert!(seen.insert(charge.idempotency_key), "every attempt has a key of its own");
            store.record(&begun, &failed()).await;
        }
    }
}
