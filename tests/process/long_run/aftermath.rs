//! After the storm: what is still open and may be, what the provider took and when, and whether everybody was told so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::storm::Storm;
use crate::history::{Payment, Truth};
use crate::support::{PATIENCE, Reply, Service, TestApp, real_time};

/// Replicas that have each ended so many rounds since an attempt was due have had the one that was under way and two more.
const ROUNDS_MAX: u64 = 3;

/// Waits, without a call, until nothing is in progress but what nobody can know yet. How long it took.
///
/// An attempt may wait for its lease, and for two rounds of a background worker after it; that a round is slow on a busy
/// machine, or that the provider is and the attempt has to be looked at once more, is no fault. So rounds are counted.
pub async fn calm(storm: &Storm) -> Duration {
    let begun = Instant::now();
    let open_where = |recovery: &str| {
        format!(
            "SELECT k.key || '|' || k.takeovers || ' ' || k.lease_expires_at_ms || ' ' || k.recover_after_ms || '|' || \
             CASE WHEN k.lease_expires_at_ms < {NOW} AND k.recover_after_ms < {NOW} THEN 'due' ELSE 'waits' END AS value \
             FROM charges c JOIN idempotency_keys k ON k.key = c.idempotency_key \
             WHERE c.status IN ('pending', 'processing') AND k.recovery {recovery} 'look_up'"
        )
    };
    let mut excused = None;
    let mut due: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    loop {
        // Before the attempts are read: what is due then has been so since.
        let rounds = rounds(storm).await;
        // The provider is asked for all that it has seen only when little is open, so that this does not slow it down.
        let mut open = storm.app.database.words(&open_where("<>")).await;
        if open.is_empty() {
            let excused = excused.get_or_insert_with(|| self::excused(&storm.app));
            open = storm.app.database.words(&open_where("=")).await;
            open.retain(|line| !excused.contains(key_of(line)));
        }
        if open.is_empty() {
            return begun.elapsed();
        }
        due.retain(|line, _| open.contains(line));
        for line in open.iter().filter(|line| line.ends_with("|due")) {
            let since = due.entry(line.clone()).or_insert_with(|| rounds.clone());
            let passed = since.iter().zip(&rounds).map(|(then, now)| now - then);
            // Of each: one that stalls between its claim and the commit keeps the attempt from all the others.
            assert!(
                passed.min() < Some(ROUNDS_MAX),
                "due, and left alone round after round: {}",
                told_of(&storm.app, key_of(line)).await
            );
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{} attempts are still in progress: {}",
            open.len(),
            told_of(&storm.app, key_of(&open[0])).await
        );
        real_time(Duration::from_millis(50)).await;
    }
}

/// The database's time in an expression, in Unix milliseconds.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT";

fn key_of(line: &str) -> &str {
    line.split('|').next().unwrap()
}

/// How many rounds the background worker of each replica has ended.
async fn rounds(storm: &Storm) -> Vec<u64> {
    let ended = storm.replicas.iter().map(async |replica| {
        let response = storm.client.get(format!("{}/metrics", replica.url)).send();
        let text = response.await.unwrap().text().await.unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("chargeonce_reconciler_rounds_total "));
        line.expect(&text).parse().unwrap()
    });
    futures_util::future::join_all(ended).await
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

async fn told_of(app: &TestApp, key: &str) -> String {
    let sql = format!(
        "SELECT c.status || ' ' || k.recovery || ' takeovers ' || k.takeovers || ' idle ' || k.idle \
         || ' lease left ' || (k.lease_expires_at_ms - {NOW}) || ' put off ' || (k.recover_after_ms - {NOW}) \
         || ' ' || coalesce(c.evidence, '') AS value \
         FROM charges c JOIN idempotency_keys k ON k.key = c.idempotency_key WHERE k.key = '{key}'"
    );
    format!("{key}: {:?}", app.database.words(&sql).await)
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

/// Calls until the charge has ended: an attempt that begins now may take longer than a call waits.
async fn ended(service: &Service, id: &str) -> Reply {
    for _ in 0..10 {
        let reply = service.charge_waiting(id, 20).await;
        if ![202, 409].contains(&reply.status) {
            return reply;
        }
    }
    service.charge_waiting(id, 20).await
}

/// A last call for each invoice: the good ones are paid, and the declined ones are not.
pub async fn ask_all(storm: &Storm, service: &Service) -> Vec<Reply> {
    let mut replies = Vec::new();
    for some in storm.ids.chunks(20) {
        let asked = some.iter().map(|id| ended(service, id));
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
