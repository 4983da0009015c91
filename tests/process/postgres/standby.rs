//! The primary is lost and its synchronous standby takes its place, in the middle of the load.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use crate::history::{Call, violations};
use crate::long_run::aftermath::truth;
use crate::support::{
    HeldPoint, PostgresPair, Service, ServiceBuilder, TestApp, TestDatabase, eventually, now_ms,
    real_time, report,
};

const CALLERS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn a_failover_in_the_middle_of_the_load_loses_nothing_and_charges_nothing_twice() {
    let (mut pair, app) = start().await;
    let services = [serve(&app).await, serve(&app).await];
    let ids: Vec<String> = (0..150).map(|n| format!("inv_{n}")).collect();
    for some in ids.chunks(10) {
        join_all(some.iter().map(|id| services[0].invoice(id))).await;
    }
    // Long enough that charges are under way whenever the primary dies.
    app.mock.set_latency(Duration::from_millis(100));

    let load = Load::of(&ids);
    let callers = (0..CALLERS).map(|caller| load.call(&services, caller));
    let (_, paid_before) = tokio::join!(join_all(callers), async {
        eventually("a third is paid", async || {
            (load.paid() >= ids.len() / 3).then_some(())
        })
        .await;
        pair.kill_primary().await;
        let paid_before = load.paid();
        real_time(Duration::from_millis(500)).await;
        pair.promote().await;
        paid_before
    });
    app.nothing_is_open().await;
    // What was told before the failover is told after it.
    load.pile.lock().unwrap().extend(ids.clone());
    load.call(&services, 0).await;

    let calls = load.calls.into_inner().unwrap();
    let refused = calls
        .iter()
        .filter(|call| call.reply.as_ref().is_some_and(|reply| reply.status == 503));
    report(&format!(
        "failover: {} calls, {} refused with 503, {paid_before} invoices were paid before it and {} in the end",
        calls.len(),
        refused.count(),
        ids.len()
    ));
    assert!(
        paid_before < ids.len(),
        "it came too late to prove anything"
    );
    assert_eq!(violations(&calls, &truth(&app).await), Vec::<String>::new());
    assert!(ids.iter().all(|id| app.mock.paid(id) == 1));
    let replies: Vec<_> = calls.into_iter().filter_map(|call| call.reply).collect();
    app.check_oracles(&replies).await;
    app.audit().await;
}

/// A reservation that the standby does not have could be lost with the primary: nothing may be sent for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn nothing_is_sent_before_the_standby_has_the_reservation() {
    let (mut pair, app) = start().await;
    let service = serve(&app).await;
    service.invoice("inv_1").await;

    pair.stop_standby().await;
    let refused = service.charge("inv_1").await;
    refused.assert(503, "storage_unavailable", "unknown", "later");
    assert_eq!(app.sends(), Vec::<String>::new());
    pair.start_standby().await;
    let paid = eventually("the invoice is paid", async || {
        let reply = service.charge("inv_1").await;
        assert_ne!(reply.status, 500, "{reply:#?}");
        (reply.status == 201).then_some(reply)
    })
    .await;

    // A send that a busy machine cuts off is made again, under its one key.
    assert!(
        app.sends().iter().all(|key| key == "charge:inv_1"),
        "{:?}",
        app.sends()
    );
    assert_eq!(app.mock.paid("inv_1"), 1);
    app.check_oracles(&[refused, paid]).await;
    app.audit().await;
}

/// A provider's answer is told only once the standby has it: lost with the primary, it would be told twice, or differently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn no_success_is_told_before_the_standby_has_it() {
    let (mut pair, app) = start().await;
    let point = HeldPoint::new();
    let service = builder(&app)
        .set("PROVIDER_TIMEOUT", "3s")
        .set("RESERVATION_TTL", "5s")
        .hold_at("before_record", &point)
        .start()
        .await;
    service.invoice("inv_1").await;

    let (undecided, ()) = tokio::join!(service.charge("inv_1"), async {
        point.reached().await;
        pair.stop_standby().await;
        point.let_go();
    });
    assert_eq!(app.mock.paid("inv_1"), 1);
    assert_eq!(
        (undecided.status, undecided.text("customerCharged")),
        (202, "unknown".into()),
        "{undecided:#?}"
    );
    pair.kill_primary().await;
    pair.start_standby().await;
    pair.promote().await;
    // Nobody calls: the new primary has the reservation, and the provider has the payment.
    app.settled("inv_1").await;

    let replay = service.charge("inv_1").await;
    replay.assert(201, "", "yes", "not_needed");
    assert!(replay.is_replay());
    assert_eq!(app.mock.paid("inv_1"), 1);
    app.check_oracles(&[undecided, replay]).await;
    app.audit().await;
}

/// It accepts connections and says nothing, which is worse than a refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn a_primary_that_freezes_is_left_for_the_standby() {
    let (mut pair, app) = start().await;
    let service = serve(&app).await;
    for id in ["before", "after"] {
        service.invoice(id).await;
    }
    let before = service.charge("before").await;
    before.assert(201, "", "yes", "not_needed");

    pair.freeze_primary().await;
    let refused = service.charge("after").await;
    refused.assert(503, "storage_unavailable", "unknown", "later");
    pair.promote().await;
    let after = eventually("the invoice is paid", async || {
        Some(service.charge("after").await).filter(|reply| reply.status == 201)
    })
    .await;
    let replay = service.charge("before").await;

    assert_eq!(replay.body, before.body);
    // A service that starts only now finds it as well.
    assert!(serve(&app).await.charge("after").await.is_replay());
    pair.kill_primary().await;
    // The same.
    let mut sends = app.sends();
    sends.dedup();
    assert_eq!(sends, ["charge:before", "charge:after"]);
    assert_eq!(["before", "after"].map(|id| app.mock.paid(id)), [1, 1]);
    app.check_oracles(&[before, refused, after, replay]).await;
    app.audit().await;
}

async fn start() -> (PostgresPair, TestApp) {
    let pair = PostgresPair::start().await;
    let app = TestApp::on(TestDatabase::create_on(pair.url.clone()).await).await;
    (pair, app)
}

/// Both hosts are named and nothing is said of which one is to be written to.
fn builder(app: &TestApp) -> ServiceBuilder {
    let hosts = app.database.url.split('?').next().unwrap();
    app.service()
        .short_lease()
        .set("DATABASE_URL", hosts)
        .set("DATABASE_TIMEOUT", "2s")
        .set("RECONCILE_INTERVAL", "300ms")
}

async fn serve(app: &TestApp) -> Service {
    builder(app).start().await
}

/// Callers that call for each invoice until it is paid.
struct Load {
    pile: Mutex<Vec<String>>,
    paid: AtomicUsize,
    calls: Mutex<Vec<Call>>,
}

impl Load {
    fn of(ids: &[String]) -> Self {
        Self {
            pile: Mutex::new(ids.to_vec()),
            paid: AtomicUsize::new(0),
            calls: Mutex::default(),
        }
    }

    fn paid(&self) -> usize {
        self.paid.load(Ordering::Relaxed)
    }

    async fn call(&self, services: &[Service], caller: usize) {
        let mut turn = caller;
        loop {
            let Some(id) = self.pile.lock().unwrap().pop() else {
                return;
            };
            // Once more after the success: what was told once is told for ever, also by the other service.
            let mut successes = 0;
            while successes < 2 {
                turn += 1;
                let started_ms = now_ms();
                let reply = services[turn % services.len()].charge(&id).await;
                successes += usize::from(reply.status == 201);
                let is_refused = reply.status != 201;
                self.calls.lock().unwrap().push(Call {
                    invoice_id: id.clone(),
                    started_ms,
                    ended_ms: now_ms(),
                    reply: Some(reply),
                });
                if is_refused {
                    real_time(Duration::from_millis(100)).await;
                }
            }
            self.paid.fetch_add(1, Ordering::Relaxed);
        }
    }
}
