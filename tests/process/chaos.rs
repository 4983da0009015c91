//! Many callers, many invoices, and a provider that fails in every way by chance; afterwards the books must agree.
//!
//! `scripts/chaos.sh` runs it alone, with a seed and a size of your choice. In the suite it is a short one.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::support::{Engine, FAULTS, Reply, Service, TestApp, setting};

const CALLERS: usize = 20;

mod postgres {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn chaos_leaves_the_books_in_agreement() {
        super::run().await;
    }
}

async fn run() {
    let seed = setting("CHAOS_SEED", 42);
    let invoices = setting("CHAOS_INVOICES", 100);
    println!("chaos: seed {seed}, {invoices} invoices, {CALLERS} callers");
    let app = TestApp::start(Engine::Postgres).await;
    let replica = async |provider_timeout| {
        let builder = app
            .service()
            .set("PROVIDER_TIMEOUT", provider_timeout)
            .set("RESPONSE_WAIT", "10s")
            .set("RUST_LOG", "off");
        builder.start().await
    };
    let hurried = replica("300ms").await;
    let ids = create(&hurried, invoices, seed).await;

    app.mock.chaos(seed, 0.4, &FAULTS, 400);
    let storm = storm(&app, &hurried, &ids, seed).await;
    let injected = app.mock.chaos_counts();
    app.mock.chaos(seed, 0.0, &FAULTS, 0);
    println!(
        "chaos: {} calls in the storm, faults {injected:?}",
        storm.len()
    );
    assert!(
        invoices < 500 || injected.len() == FAULTS.len(),
        "not every fault struck"
    );

    // One lease later every caller asks once more, and there is time for every answer.
    let service = replica("10s").await;
    app.mock.settle_all_processing();
    app.age_past_leases().await;
    let after_lease = ask_all(&app, &service, &ids).await;
    println!("chaos: after one lease {:?}", counts(&after_lease));

    // What only a stored 500 stands for ends once the key is old; what a person must judge is judged.
    let reviewed = judge_reviews(&app, &service, &ids).await;
    app.age_past_keys().await;
    ask_all(&app, &service, &ids).await;
    let last = ask_all(&app, &service, &ids).await;
    println!("chaos: {reviewed} reviews; at the end {:?}", counts(&last));

    for (id, reply) in ids.iter().zip(&last) {
        // A bad card pays all the same where the provider was first `processing` and then said yes.
        let paid = app.mock.paid(id);
        let (status, invoice) = if paid == 1 {
            (201, "paid")
        } else {
            (402, "open")
        };
        assert_eq!(
            reply.status, status,
            "{id} was charged {paid} times: {reply:#?}"
        );
        assert!(
            paid == 1 || id.starts_with("declined"),
            "{id} was not charged: {reply:#?}"
        );
        let shown = service.get(&format!("/v1/invoices/{id}")).await;
        assert_eq!(shown.text("status"), invoice, "{id}");
    }
    app.check_oracles(&[storm, after_lease, last].concat())
        .await;
}

/// One in ten is declined by its card, whatever else happens.
async fn create(service: &Service, count: u64, seed: u64) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        let declines = (n + seed).is_multiple_of(10);
        let id = if declines {
            format!("declined-{n}")
        } else {
            format!("good-{n}")
        };
        let method = if declines {
            "pm_card_visa_chargeDeclinedStolenCard"
        } else {
            "pm_card_visa"
        };
        service.invoice_with(&id, method).await;
        ids.push(id);
    }
    ids
}

/// Callers take invoices from one pile and call one to four times, as it comes to them: at once again, waiting, or hanging
/// up with a reset and never listening.
async fn storm(app: &TestApp, service: &Service, ids: &[String], seed: u64) -> Vec<Reply> {
    let pile = Mutex::new(ids.to_vec());
    let callers = (0..CALLERS).map(|caller| {
        let pile = &pile;
        async move {
            let mut chance =
                StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(caller as u64));
            let mut replies = Vec::new();
            loop {
                let Some(id) = pile.lock().unwrap().pop() else {
                    return replies;
                };
                for _ in 0..chance.random_range(1..5) {
                    match chance.random_range(0..4) {
                        0 => crate::support::reset(service.charge_unread(&id).await),
                        1 => replies.push(service.charge_waiting(&id, 2).await),
                        _ => replies.push(service.charge(&id).await),
                    }
                }
            }
        }
    });
    let replies: Vec<Reply> = join_all(callers).await.concat();
    for reply in &replies {
        assert_ne!(reply.status, 500, "{reply:#?}");
    }
    assert!(
        app.mock.ledger().payments.len() >= ids.len() / 2,
        "the storm charged hardly anybody"
    );
    replies
}

async fn ask_all(app: &TestApp, service: &Service, ids: &[String]) -> Vec<Reply> {
    let mut replies = Vec::new();
    for some in ids.chunks(CALLERS) {
        let asked = join_all(some.iter().map(|id| service.charge_waiting(id, 5))).await;
        for (id, reply) in some.iter().zip(&asked) {
            app.check_truth(id, reply);
        }
        replies.extend(asked);
    }
    replies
}

/// A payment over a wrong amount took money: the operator says so, with the payment at hand.
async fn judge_reviews(app: &TestApp, service: &Service, ids: &[String]) -> usize {
    let mut judged = 0;
    for charge in app
        .database
        .words("SELECT id AS value FROM charges WHERE status = 'needs_review'")
        .await
    {
        let found = service.get(&format!("/v1/charges/{charge}")).await;
        assert!(ids.contains(&found.text("invoiceId")));
        let proof = json!({
            "outcome": "succeeded", "providerPaymentId": found.text("providerPaymentId"), "note": "seen at the provider"
        });
        let resolved = service
            .post(&format!("/v1/charges/{charge}/resolve"), &proof)
            .await;
        assert_eq!(resolved.status, 200, "{resolved:#?}");
        judged += 1;
    }
    judged
}

fn counts(replies: &[Reply]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for reply in replies {
        *counts
            .entry(
                format!("{} {}", reply.status, reply.text("code"))
                    .trim()
                    .to_owned(),
            )
            .or_default() += 1;
    }
    counts
}
