//! What the audit reads: pages without a gap, what has no verdict at any age, and an invoice with all its attempts.

use chargeonce::audit::model::Standing;
use chargeonce::audit::repository::{AuditPart, Place};
use chargeonce::invoices::model::InvoiceStatus;

use crate::support::{Fixture, attempt, failed, succeeded};

/// The invoices of a part, read by pages of so many.
async fn read(store: &Fixture, part: AuditPart, limit: i64) -> Vec<String> {
    let mut seen = Vec::new();
    let mut after: Option<Place> = None;
    loop {
        let page = store.audit_page(part, after.as_ref(), limit).await.unwrap();
        assert!(page.value.len() <= usize::try_from(limit).unwrap());
        assert!(page.now_ms > 1_700_000_000_000);
        let Some(last) = page.value.last() else {
            return seen;
        };
        after = Some((last.created_at_ms, last.id.clone()));
        seen.extend(page.value.into_iter().map(|charge| charge.invoice_id));
    }
}

on_both_stores! {
    async fn the_parts_share_no_charge_and_pages_have_no_gap_though_times_are_equal(engine) {
        let store = Fixture::open(engine).await;
        let mut recent = Vec::new();
        let mut unsettled = Vec::new();
        for n in 0..23 {
            let id = format!("inv_{n:02}");
            let invoice = store.invoice(&id).await;
            let mut new = attempt(&invoice, 1);
            // Four at a time share a millisecond; from the thirteenth on they are recent.
            new.charge.created_at_ms = 1_000 + n / 4;
            let begun = store.begin(&new).await;
            match n % 3 {
                0 => assert!(store.record(&begun, &succeeded()).await),
                1 => assert!(store.record(&begun, &failed()).await),
                _ => {}
            }
            if n >= 12 {
                recent.push(id);
            } else if n % 3 == 2 {
                unsettled.push(id);
            }
        }

        for limit in [1, 4, 5, 23, 100] {
            assert_eq!(read(&store, AuditPart::MadeSince(1_003), limit).await, recent, "limit {limit}");
            assert_eq!(read(&store, AuditPart::UnsettledBefore(1_003), limit).await, unsettled, "limit {limit}");
        }
    }

    async fn an_invoice_is_read_with_all_its_attempts_and_their_leases(engine) {
        let store = Fixture::open(engine).await;
        let invoice = store.invoice("inv_1").await;
        let begun = store.begin(&attempt(&invoice, 1)).await;
        assert!(store.record(&begun, &failed()).await);
        store.begin(&attempt(&invoice, 2)).await;
        store.invoice("inv_2").await;

        let read = store.audit_invoice("inv_1").await.unwrap();
        assert_eq!(read.value.status, Some(InvoiceStatus::Open));
        let standings: Vec<Standing> = read.value.charges.iter().map(|charge| charge.standing).collect();
        assert_eq!(standings, [Standing::Failed, Standing::Pending]);
        let second = &read.value.charges[1];
        assert_eq!(second.idempotency_key, "charge:inv_1:2");
        assert!(second.lease_expires_at_ms > read.now_ms && second.first_sent_at_ms <= read.now_ms);
        assert!(!second.idle);
        let without = store.audit_invoice("inv_2").await.unwrap().value;
        assert_eq!((without.status, without.charges.len()), (Some(InvoiceStatus::Open), 0));
        let none = store.audit_invoice("inv_3").await.unwrap().value;
        assert_eq!((none.status, none.charges.len()), (None, 0));
    }
}
