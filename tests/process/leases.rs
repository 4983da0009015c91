//! Leases in real time: who calls while an owner is dead or slow, and who takes over.

use std::time::{Duration, Instant};

use crate::support::{HeldPoint, Reply, Service, TestApp, eventually, now_ms, real_time};

on_both_stores! {
    async fn a_dead_owner_keeps_callers_waiting_for_its_lease_and_no_longer(engine) {
        let app = TestApp::start(engine).await;
        let point = HeldPoint::new();
        let mut killed = app.service().short_lease().hold_at("after_send", &point).start().await;
        let other = app.service().short_lease().start().await;
        other.invoice("inv_1").await;

        let connection = killed.charge_unread("inv_1").await;
        point.reached().await;
        killed.kill().await;
        drop(connection);
        let lease_ends = "SELECT lease_expires_at_ms AS value FROM idempotency_keys WHERE key = 'charge:inv_1'";
        let lease_ends_ms = app.database.number(lease_ends).await;
        let (before, charged) = call_until_charged(&other).await;
        let charged_ms = now_ms();

        // Who called while it ran was refused; the first who called after it had the charge.
        for (called_ms, reply) in &before {
            reply.assert(409, "charge_in_progress", "unknown", "later");
            assert!(*called_ms <= lease_ends_ms, "refused {} ms after the lease", called_ms - lease_ends_ms);
        }
        assert!(charged_ms >= lease_ends_ms, "charged {} ms before the lease was over", lease_ends_ms - charged_ms);
        assert_eq!(app.sends(), ["charge:inv_1", "charge:inv_1"]);
        assert_eq!(app.mock.paid("inv_1"), 1);
        app.check_oracles(&told(before, [charged])).await;
    }

    /// Its own limit ends an owner's call before its lease, so that it never works beside its successor. The provider works
    /// on, under the one key.
    async fn a_provider_slower_than_a_lease_is_asked_by_one_after_the_other_under_one_key(engine) {
        let app = TestApp::start(engine).await;
        let service = || app.service().short_lease().set("RESERVATION_TTL", "8s");
        let services = [service().start().await, service().start().await];
        services[0].invoice("inv_1").await;
        app.mock.set_latency(Duration::from_secs(9));

        let begun = Instant::now();
        let first = services[0].charge("inv_1").await;
        first.assert(202, "", "unknown", "later");
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        let (before, charged) = call_until_charged(&services[1]).await;
        let replay = services[0].charge("inv_1").await;

        assert!(before.iter().all(|(_, reply)| [202, 409].contains(&reply.status)));
        assert!(replay.is_replay());
        assert!(app.sends().len() > 1 && app.sends().iter().all(|key| key == "charge:inv_1"), "{:?}", app.sends());
        assert_eq!(app.mock.paid("inv_1"), 1);
        app.check_oracles(&told(before, [first, charged, replay])).await;
    }
}

/// A caller that does not give up: all that it was told before the success, and when it called for that; and the success.
async fn call_until_charged(service: &Service) -> (Vec<(i64, Reply)>, Reply) {
    let mut before = Vec::new();
    let charged = eventually("the invoice is charged", async || {
        let called_ms = now_ms();
        let reply = service.charge("inv_1").await;
        if reply.status == 201 {
            return Some(reply);
        }
        before.push((called_ms, reply));
        real_time(Duration::from_millis(50)).await;
        None
    })
    .await;
    (before, charged)
}

/// Everything that callers were told.
fn told(before: Vec<(i64, Reply)>, last: impl IntoIterator<Item = Reply>) -> Vec<Reply> {
    let before = before.into_iter().map(|(_, reply)| reply);
    before.chain(last).collect()
}
