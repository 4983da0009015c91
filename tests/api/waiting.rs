//! Callers that wait: for their own slow charge, for somebody else's, on another replica, and at the end of the process.

use futures_util::future::join_all;
use tokio::sync::OwnedRwLockWriteGuard;

use crate::overload::in_flight;
use crate::support::{Engine, Reply, TestApp};

/// With an open invoice, and a provider that does not get to see its charge before the guard is dropped.
async fn held(engine: Engine, response_wait: &str) -> (TestApp, OwnedRwLockWriteGuard<()>) {
    let app = TestApp::with(engine)
        .set("RESPONSE_WAIT", response_wait)
        .start()
        .await;
    app.invoice_with(
        "inv_1",
        serde_json::json!({"paymentMethodId": "pm_card_visa"}),
    )
    .await;
    let gate = app.line.hold_posts().await;
    (app, gate)
}

/// Two calls that prefer to wait, one of each service, and what they hear once the charge that is held goes on.
async fn joined(
    app: &TestApp,
    replica: &TestApp,
    gate: OwnedRwLockWriteGuard<()>,
) -> (Reply, Reply) {
    for service in [app, replica] {
        in_flight(service, "requests", 0.0).await;
    }
    let release = async {
        for service in [app, replica] {
            in_flight(service, "requests", 1.0).await;
            // It is there. That it has looked and found the charge running cannot be seen, but a call after it has.
            let later = service.charge_waiting("inv_1", 0).await;
            later.assert(409, "charge_in_progress", "unknown", "later");
        }
        drop(gate);
    };
    let (here, there, ()) = tokio::join!(
        app.charge_waiting("inv_1", 20),
        replica.charge_waiting("inv_1", 20),
        release,
    );
    (here, there)
}

on_both_stores! {
    async fn a_charge_slower_than_the_wait_is_pending_and_comes_with_a_later_call(engine) {
        let (app, gate) = held(engine, "2s").await;

        let pending = app.charge("inv_1").await;
        pending.assert(202, "", "unknown", "later");
        assert_eq!(pending.text("status"), "pending");
        drop(gate);
        app.until("paid", |app| app.times_paid("inv_1") == 1).await;
        let mut replay = app.charge("inv_1").await;
        while replay.status == 409 {
            replay = app.charge("inv_1").await;
        }

        replay.assert(201, "", "yes", "not_needed");
        assert!(replay.is_replay());
        assert_eq!(replay.text("id"), pending.text("id"));
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[pending, replay]).await;
    }

    async fn a_call_that_prefers_to_wait_joins_the_running_charge(engine) {
        let (app, gate) = held(engine, "25s").await;
        let replica = app.replica().start().await;
        let left = app.charge_and_leave("inv_1").await;

        let without = replica.charge("inv_1").await;
        let too_short = app.charge_waiting("inv_1", 0).await;
        let (here, there) = joined(&app, &replica, gate).await;

        for joined in [&here, &there] {
            joined.assert(201, "", "yes", "not_needed");
            assert!(joined.is_replay());
            assert_eq!(joined.header("preference-applied"), Some("wait=20"));
        }
        without.assert(409, "charge_in_progress", "unknown", "later");
        too_short.assert(409, "charge_in_progress", "unknown", "later");
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[left, here, there, without, too_short]).await;
    }

    async fn a_declined_charge_is_joined_as_well(engine) {
        let (app, gate) = held(engine, "25s").await;
        app.change_card("inv_1", "pm_card_visa_chargeDeclined").await;
        let replica = app.replica().start().await;

        let left = app.charge_and_leave("inv_1").await;
        let (here, there) = joined(&app, &replica, gate).await;

        for joined in [&here, &there] {
            joined.assert(402, "charge_declined", "no", "later");
            assert!(joined.is_replay());
        }
        assert_eq!(here.body, there.body);
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[left, here, there]).await;
    }

    async fn two_hundred_polls_of_a_slow_charge_cost_the_provider_nothing(engine) {
        let (app, gate) = held(engine, "25s").await;
        let replica = app.replica().start().await;
        let left = app.charge_and_leave("inv_1").await;
        app.line.posts_are_held(1).await;

        let polls = join_all((0..200).map(|n| if n % 2 == 0 { app.charge("inv_1") } else { replica.charge("inv_1") })).await;

        for poll in &polls {
            poll.assert(409, "charge_in_progress", "unknown", "later");
            assert!(poll.header("retry-after").is_some());
        }
        assert_eq!(app.mock.ledger().requests, 0);
        app.line.posts_are_held(1).await;
        drop(gate);
        let joined = app.charge_waiting("inv_1", 20).await;
        joined.assert(201, "", "yes", "not_needed");
        assert_eq!(app.mock.ledger().requests, 1);
        app.check_oracles(&[polls, vec![left, joined]].concat()).await;
    }

    async fn a_charge_whose_caller_is_gone_is_settled_before_the_service_stops(engine) {
        let (mut app, gate) = held(engine, "25s").await;
        app.charge_and_leave("inv_1").await;

        let told = app.parts.tasks.stopping();
        let release = async {
            told.cancelled().await;
            drop(gate);
        };
        tokio::join!(app.stop(), release);

        assert_eq!(app.attempts("inv_1").await, ["succeeded"]);
        let restarted = app.replica().start().await;
        let replay = restarted.charge("inv_1").await;
        assert!(replay.is_replay());
        assert_eq!(restarted.sends(), ["charge:inv_1"]);
        restarted.check_oracles(&[replay]).await;
    }
}
