//! Everything at once on few invoices: no lock is waited for in a circle, and in the end the tables agree.

use std::sync::Arc;

use chargeonce::charges::repository::{AttemptRecord, Resolution};
use chargeonce::idempotency::reservation::ReservationState;
use rand::RngExt;

use crate::support::{
    Begun, Fixture, attempt, failed, history_line, needs_review, processing, succeeded, unknown,
};

const INVOICES: usize = 3;
const TASKS: usize = 20;
/// Steps of one task: about as many as it takes until an invoice is paid or void.
const STEPS: usize = 30;
/// Charges that make enough work, if some of them were paid and some failed. How many an invoice gets is chance, so there are new invoices until these are reached.
const CHARGES: usize = 30;
/// An invoice gets two charges in the mean: as many generations without `CHARGES` are no chance any more.
const GENERATIONS_MAX: usize = 30;

in_both_ways! {
    async fn mixed_work_on_few_invoices_ends_without_an_error_and_in_agreement(engine) {
        let store = Arc::new(Fixture::open(engine).await);
        let mut generations = 0..GENERATIONS_MAX;
        let enough = format!("SELECT count(*) AS value FROM (SELECT 1 WHERE (SELECT count(*) FROM charges) >= {CHARGES} \
            AND EXISTS (SELECT 1 FROM charges WHERE status = 'succeeded') AND EXISTS (SELECT 1 FROM charges WHERE status = 'failed')) AS met");
        while store.database.number(&enough).await == 0 {
            let generation = generations.next().expect("charges are begun");
            for n in 0..INVOICES {
                store.invoice(&format!("inv_{generation}_{n}")).await;
            }
            let tasks: Vec<_> = (0..TASKS).map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for _ in 0..STEPS {
                        let n = rand::rng().random_range(0..INVOICES);
                        step(&store, &format!("inv_{generation}_{n}")).await;
                    }
                })
            }).collect();
            for task in tasks {
                task.await.unwrap();
            }
        }

        let contradictions = "SELECT i.id AS value FROM invoices i WHERE (i.status = 'paid') <> EXISTS \
            (SELECT 1 FROM charges c WHERE c.invoice_id = i.id AND c.status = 'succeeded') \
            OR (i.status = 'void' AND EXISTS (SELECT 1 FROM charges c WHERE c.invoice_id = i.id AND c.status <> 'failed'))";
        assert_eq!(store.database.words(contradictions).await, Vec::<String>::new());
        let mismatched = "SELECT k.key || ' ' || k.status || ' ' || COALESCE(c.status, 'none') AS value FROM idempotency_keys k \
            LEFT JOIN charges c ON c.idempotency_key = k.key \
            WHERE c.id IS NULL OR NOT ((k.status = 'done' AND c.status = 'succeeded') OR (k.status = 'failed' AND c.status = 'failed') \
            OR (k.status = 'in_progress' AND c.status IN ('pending', 'processing', 'needs_review')))";
        assert_eq!(store.database.words(mismatched).await, Vec::<String>::new());
    }
}

/// One random act on an invoice. Whoever reads a token may use it: more owners than there ever are in truth.
async fn step(store: &Fixture, id: &str) {
    let snapshot = store.charge_snapshot(id).await.unwrap().unwrap().value;
    let act = rand::rng().random_range(0..100);
    if act < 4 {
        store.void_invoice(id).await.unwrap();
        return;
    }
    if act < 15 {
        store
            .set_payment_method(id, Some(&format!("pm_{act}")))
            .await
            .unwrap();
        return;
    }
    let Some((charge, reservation)) = snapshot.latest.clone() else {
        store
            .begin_attempt(&attempt(&snapshot.invoice, 1))
            .await
            .unwrap();
        return;
    };
    if act < 45 || reservation.state != ReservationState::InProgress {
        // Late ones try the same attempt again, early ones the next.
        let number = charge.attempt + i32::from(act % 2 == 0);
        store
            .begin_attempt(&attempt(&snapshot.invoice, number))
            .await
            .unwrap();
        return;
    }
    let record = match act {
        45..50 => succeeded(),
        50..65 => failed(),
        65..70 => processing(),
        70..80 => needs_review(),
        80..85 => unknown(),
        85..92 => AttemptRecord::Released,
        _ => {
            let record = if act % 2 == 0 { succeeded() } else { failed() };
            let evidence = "seen".into();
            let resolution = Resolution {
                charge,
                record,
                evidence,
                line: history_line("seen"),
            };
            store.resolve_review(&resolution).await.unwrap();
            return;
        }
    };
    let begun = Begun {
        charge,
        token: reservation.lease_token,
    };
    store
        .record_attempt(&begun.charge, &begun.token, &record, &[])
        .await
        .unwrap();
}
