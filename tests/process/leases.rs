//! Leases in real time: who calls while an owner is dead or slow, and who takes over.

use std::time::{Duration, Instant};

use crate::support::{Reply, Service, TestApp, eventually, real_time};

/// The lease of a service with a short one.
const LEASE: Duration = Duration::from_secs(2);

on_both_stores! {
    async fn a_dead_owner_keeps_callers_waiting_for_its_lease_and_no_longer(engine) {
        let app = TestApp::start(engine).await;
        let mut killed = app.service().short_lease().start().await;
        let other = app.service().short_lease().start().await;
        other.invoice("inv_1").await;
        app.mock.set_latency(Duration::from_millis(300));

        let connection = killed.charge_unread("inv_1").await;
        app.sent(1).await;
        let reserved = Instant::now();
        killed.kill().await;
        drop(connection);
        let (busy, charged) = call_until_charged(&other).await;

        assert!(busy.len() > 5, "{} calls met the lease", busy.len());
        for reply in &busy {
            reply.assert(409, "charge_in_progress", "unknown", "later");
        }
        // What the lease had lost until the provider had the request is the slack below; a busy machine is the one above.
        let took = reserved.elapsed();
        assert!(took > LEASE - Duration::from_millis(800) && took < LEASE * 4, "{took:?}");
        assert_eq!(app.sends(), ["charge:inv_1", "charge:inv_1"]);
        assert_eq!(app.mock.paid("inv_1"), 1);
        app.check_oracles(&[busy, vec![charged]].concat()).await;
    }

    /// Its own limit ends an owner's call before its lease, so that it never works beside its successor. The provider works
    /// on, under the one key.
    async fn a_provider_slower_than_a_lease_is_asked_by_one_after_the_other_under_one_key(engine) {
        let app = TestApp::start(engine).await;
        let services = [app.service().short_lease().start().await, app.service().short_lease().start().await];
        services[0].invoice("inv_1").await;
        app.mock.set_latency(Duration::from_secs(3));

        let begun = Instant::now();
        let first = services[0].charge("inv_1").await;
        first.assert(202, "", "unknown", "later");
        assert!(begun.elapsed() < LEASE, "{:?}", begun.elapsed());
        let (busy, charged) = call_until_charged(&services[1]).await;
        let replay = services[0].charge("inv_1").await;

        assert!(busy.iter().all(|reply| [202, 409].contains(&reply.status)));
        assert!(replay.is_replay());
        assert!(app.sends().len() > 1 && app.sends().iter().all(|key| key == "charge:inv_1"), "{:?}", app.sends());
        assert_eq!(app.mock.paid("inv_1"), 1);
        app.check_oracles(&[busy, vec![first, charged, replay]].concat()).await;
    }
}

/// A caller that does not give up: all that it was told before the success, and the success.
async fn call_until_charged(service: &Service) -> (Vec<Reply>, Reply) {
    let mut before = Vec::new();
    let charged = eventually("the invoice is charged", async || {
        let reply = service.charge("inv_1").await;
        if reply.status == 201 {
            return Some(reply);
        }
        before.push(reply);
        real_time(Duration::from_millis(50)).await;
        None
    })
    .await;
    (before, charged)
}
