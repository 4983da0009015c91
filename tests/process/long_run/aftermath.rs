//! After the storm: what is still open and may be, what the provider took and when, and whether everybody was told so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::storm::Storm;
use crate::history::{Payment, Truth};
use crate::support::{Reply, Service, TestApp, real_time};

/// Waits, without a call, until nothing is in progress but what nobody can know yet. How long it took.
pub async fn calm(storm: &Storm, bound: Duration) -> Duration {
    let begun = Instant::now();
    let keys_with = |recovery: &str| {
        format!(
            "SELECT c.idempotency_key AS value FROM charges c JOIN idempotency_keys k ON k.key = c.idempotency_key \
             WHERE c.status IN ('pending', 'processing') AND k.recovery {recovery} 'look_up'"
        )
    };
    let mut excused = None;
    loop {
        // The provider is asked for all that it has seen only when little is open, so that this does not slow it down.
        let mut open = storm.app.database.words(&keys_with("<>")).await;
        if open.is_empty() {
            let excused = excused.get_or_insert_with(|| self::excused(&storm.app));
            open = storm.app.database.words(&keys_with("=")).await;
            open.retain(|key| !excused.contains(key));
        }
        if open.is_empty() {
            return begun.elapsed();
        }
        assert!(
            begun.elapsed() < bound,
            "still in progress after {bound:?}: {}",
            told_of(&storm.app, &open).await
        );
        real_time(Duration::from_millis(50)).await;
    }
}

/// The keys under which the provider has stored a 500 and took no money: it repeats that for ever, and before its memory ends
/// nobody can tell that from a request under way. Where it took money, a look-up finds it.
fn excused(app: &TestApp) -> BTreeSet<String> {
    let paid: BTreeSet<String> = app
        .mock
        .ledger()
        .payments
        .into_iter()
        .filter(|payment| payment.status == "succeeded")
        .filter_map(|payment| payment.idempotency_key)
        .collect();
    let is_stored = |fault: &str| ["error_500_before", "error_500_after"].contains(&fault);
    let requests = app.mock.requests().into_iter();
    requests
        .filter(|request| request.fault.as_deref().is_some_and(is_stored))
        .filter_map(|request| request.idempotency_key)
        .filter(|key| !paid.contains(key))
        .collect()
}

async fn told_of(app: &TestApp, keys: &[String]) -> String {
    let mut lines = Vec::new();
    for key in keys.iter().take(5) {
        let sql = format!(
            "SELECT c.status || ' ' || k.recovery || ' takeovers ' || k.takeovers || ' idle ' || k.idle \
             || ' lease left ' || (k.lease_expires_at_ms - (extract(epoch FROM clock_timestamp()) * 1000)::BIGINT) \
             || ' put off ' || (k.recover_after_ms - (extract(epoch FROM clock_timestamp()) * 1000)::BIGINT) \
             || ' ' || coalesce(c.evidence, '') AS value \
             FROM charges c JOIN idempotency_keys k ON k.key = c.idempotency_key WHERE k.key = '{key}'"
        );
        lines.push(format!("{key}: {:?}", app.database.words(&sql).await));
    }
    format!("{} attempts, {}", keys.len(), lines.join("; "))
}

/// What the provider took and when, by its books and its events; and when each attempt was begun, by ours.
pub async fn truth(app: &TestApp) -> BTreeMap<String, Truth> {
    let mut truth: BTreeMap<String, Truth> = BTreeMap::new();
    let begun = "SELECT c.invoice_id || ' ' || c.attempt || ' ' || k.first_sent_at_ms AS value \
        FROM charges c JOIN idempotency_keys k ON k.key = c.idempotency_key";
    for line in app.database.words(begun).await {
        let mut parts = line.rsplitn(3, ' ');
        let begun_ms = parts.next().unwrap().parse().unwrap();
        let attempt = parts.next().unwrap().parse().unwrap();
        let of_invoice = truth.entry(parts.next().unwrap().to_owned()).or_default();
        of_invoice.begun_ms.insert(attempt, begun_ms);
    }
    let seconds = app.mock.taken_at_seconds();
    for payment in app.mock.ledger().payments {
        if payment.status != "succeeded" {
            continue;
        }
        let invoice_id = payment.invoice_id.expect("a payment names its invoice");
        let key = payment.idempotency_key.expect("a payment has its key");
        let number = key
            .strip_prefix(&format!("charge:{invoice_id}"))
            .expect(&key);
        let taken_from_ms = seconds[&payment.id] * 1_000;
        truth.entry(invoice_id).or_default().payments.push(Payment {
            attempt: number
                .strip_prefix(':')
                .map_or(1, |number| number.parse().unwrap()),
            taken_from_ms,
            taken_to_ms: taken_from_ms + 999,
        });
    }
    truth
}

/// A last call for each invoice: the good ones are paid, and the declined ones are not.
pub async fn ask_all(storm: &Storm, service: &Service) -> Vec<Reply> {
    let mut replies = Vec::new();
    for some in storm.ids.chunks(20) {
        let asked = some.iter().map(|id| service.charge_waiting(id, 5));
        replies.extend(futures_util::future::join_all(asked).await);
    }
    let ledger = storm.app.mock.ledger();
    let paid: BTreeSet<&str> = ledger
        .payments
        .iter()
        .filter(|payment| payment.status == "succeeded")
        .filter_map(|payment| payment.invoice_id.as_deref())
        .collect();
    for (id, reply) in storm.ids.iter().zip(&replies) {
        let is_paid = paid.contains(id.as_str());
        assert_eq!(
            reply.status,
            if is_paid { 201 } else { 402 },
            "{id}: {reply:#?}"
        );
        // A bad card pays all the same where the provider was first `processing` and then said yes.
        assert!(
            is_paid || id.starts_with("declined"),
            "{id} was not charged: {reply:#?}"
        );
    }
    replies
}
