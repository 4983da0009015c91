//! A long run: three replicas with their background workers and webhooks, many callers, and everything breaks by chance. The
//! provider fails in every way it can, replicas are killed, the database is stopped and its connections are cut. Afterwards
//! the books agree, and every caller's every answer is compared with what the provider really took and when.
//!
//! `scripts/long_run.sh` runs it with a seed and a size of your choice. In the suite it is a short one.

pub mod aftermath;
mod replica;
mod storm;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use self::replica::Replica;
use self::storm::{Counts, Least, Storm};
use crate::history::{Call, violations};
use crate::support::{
    FAULTS, PostgresServer, Reply, Service, TestApp, TestDatabase, report, setting,
};

const LEASE: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(500);

mod postgres {
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    #[ignore = "needs PostgreSQL: make test"]
    async fn a_long_run_leaves_the_books_in_agreement_and_told_nobody_anything_wrong() {
        super::run().await;
    }
}

async fn run() {
    let seed = setting("LONG_RUN_SEED", 42);
    let invoices = setting("LONG_RUN_INVOICES", 300);
    report(&format!(
        "long run: seed {seed}, {invoices} invoices, 3 replicas, 20 callers"
    ));
    let begun = Instant::now();
    let mut database = PostgresServer::start().await;
    let app = TestApp::on(TestDatabase::create_on(database.url.clone()).await).await;
    let service = app.serve().await;
    let ids = create(&service, invoices).await;
    // It was there for the schema and the invoices only.
    drop(service);
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Replica::start(&app, LEASE, INTERVAL).await);
    }
    // One endpoint, as at Stripe: while its replica is down, deliveries fail and are repeated.
    app.mock.webhooks_to(Some(&replicas[0].url));
    app.mock.chaos(seed, 0.3, &faults(), 500);
    let storm = Arc::new(Storm {
        app,
        replicas,
        pile: Mutex::new(ids.clone()),
        ids,
        seed,
        least: Least {
            kills: 6,
            restarts: 2,
        },
        counts: Counts::default(),
        calls: Mutex::default(),
        is_over: AtomicBool::new(false),
        client: reqwest::Client::builder()
            .no_proxy()
            .pool_idle_timeout(Duration::from_secs(2))
            .timeout(Duration::from_secs(60))
            .build()
            .unwrap(),
    });
    report(&format!("long run: prepared in {:?}", begun.elapsed()));

    let begun = Instant::now();
    storm::rage(&storm, &mut database).await;
    let calls = std::mem::take(&mut *storm.calls.lock().unwrap());
    tell(&storm, &calls, begun.elapsed()).await;
    check(&storm, &calls, invoices).await;
}

/// All but a wrong amount: that stays a finding of every audit, whatever a person makes of it.
fn faults() -> Vec<&'static str> {
    let faults = FAULTS.into_iter();
    faults.filter(|fault| *fault != "wrong_amount").collect()
}

/// One in ten is declined for good by its card, and one in ten for now, whatever else happens.
async fn create(service: &Service, count: u64) -> Vec<String> {
    let one = async |n: u64| {
        let (name, method) = match n % 10 {
            3 => ("declined", "pm_card_visa_chargeDeclinedStolenCard"),
            7 => ("declined", "pm_card_visa_chargeDeclinedInsufficientFunds"),
            _ => ("good", "pm_card_visa"),
        };
        let id = format!("{name}-{n}");
        service.invoice_with(&id, method).await;
        id
    };
    let mut ids = Vec::new();
    for chunk in (0..count).collect::<Vec<_>>().chunks(20) {
        ids.extend(join_all(chunk.iter().map(|n| one(*n))).await);
    }
    ids
}

async fn tell(storm: &Storm, calls: &[Call], took: Duration) {
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    for call in calls {
        let answer = match &call.reply {
            Some(reply) => format!("{} {}", reply.status, reply.text("code")),
            None => "no answer".to_owned(),
        };
        *answers.entry(answer.trim().to_owned()).or_default() += 1;
    }
    let database = &storm.app.database;
    let takeovers = "SELECT coalesce(sum(takeovers), 0)::BIGINT AS value FROM idempotency_keys";
    let takeovers = database.number(takeovers).await;
    let webhooks = "SELECT word || ' ' || count(*) AS value FROM \
        (SELECT coalesce(outcome, status) AS word FROM provider_events) events GROUP BY word ORDER BY word";
    let webhooks = database.words(webhooks).await;
    report(&format!(
        "long run: {} calls in {took:?}: {answers:?}",
        calls.len()
    ));
    report(&format!(
        "long run: {:?}, {takeovers} takeovers",
        storm.counts.shown()
    ));
    report(&format!(
        "long run: faults {:?}",
        storm.app.mock.chaos_counts()
    ));
    report(&format!("long run: webhooks {webhooks:?}"));
}

async fn check(storm: &Storm, calls: &[Call], invoices: u64) {
    let app = &storm.app;
    let injected = app.mock.chaos_counts();
    app.mock.chaos(storm.seed, 0.0, &faults(), 0);
    assert!(
        invoices < 500 || injected.len() == faults().len(),
        "not every fault struck"
    );
    app.mock.settle_all_processing();

    // Nobody calls any more: the background workers do the rest.
    let took = aftermath::calm(storm).await;
    report(&format!(
        "long run: nothing in progress {took:?} after the storm"
    ));
    let truth = aftermath::truth(app).await;
    assert_eq!(violations(calls, &truth), Vec::<String>::new());
    app.check_oracles(&[]).await;

    // What only a stored 500 stands for ends by itself once the key is old.
    for replica in &storm.replicas {
        replica.kill().await;
        assert_eq!(*replica.complaints.lock().await, Vec::<String>::new());
    }
    let reviews = "SELECT invoice_id AS value FROM charges WHERE status = 'needs_review'";
    assert_eq!(app.database.words(reviews).await, Vec::<String>::new());
    // While nobody sweeps: a round that began before the clocks moved would put off what it looked at by the time as it was.
    app.age_past_keys().await;
    let service = app
        .service()
        .set("RECONCILE_INTERVAL", "500ms")
        .start()
        .await;
    app.nothing_is_open().await;
    app.audit().await;
    let last = aftermath::ask_all(storm, &service).await;
    app.audit().await;
    let replies: Vec<Reply> = calls
        .iter()
        .filter_map(|call| call.reply.clone())
        .chain(last)
        .collect();
    app.check_oracles(&replies).await;
}
