//! After the crash callers call again: at once, after the lease, and once the key is old.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use chargeonce::charges::crash::Step;
use futures_util::future::join_all;

use super::{CASES, Case, OF_A_CALL, charge_and_die, crash_at, dying_at};
use crate::support::{Reply, Service, TestApp, eventually, report};

on_both_stores! {
    async fn a_call_after_a_crash_at_any_step_loses_nothing_and_charges_nothing_twice(engine) {
        let mut reached = BTreeSet::new();
        // A few at a time: each step has a provider and a service running.
        for steps in OF_A_CALL.chunks(4) {
            let walked = steps.iter().map(|step| async move {
                let app = TestApp::start(engine).await;
                walk(&app, *step).await.then_some(*step)
            });
            reached.extend(join_all(walked).await.into_iter().flatten());
        }
        report(&format!(
            "{} combinations of crashes and answers on {engine:?}, none charged twice or lost when called again",
            OF_A_CALL.len() * CASES.len()
        ));
        // A cancel needs a payment that nobody finished; it has a test of its own.
        let never: Vec<Step> = OF_A_CALL.into_iter().filter(|step| !reached.contains(step)).collect();
        assert_eq!(never, [Step::AfterCancel]);
    }

    async fn a_crash_before_the_send_is_looked_up_and_not_sent_once_the_key_is_old(engine) {
        let app = TestApp::start(engine).await;
        crash_at(&app, Step::AfterReserve, "inv_1").await;
        app.age_past_keys().await;

        let service = app.serve().await;
        let ended = service.charge("inv_1").await;
        ended.assert(409, "charge_never_executed", "no", "now");
        assert_eq!(app.sends(), Vec::<String>::new());
        let charged = service.charge("inv_1").await;
        charged.assert(201, "", "yes", "not_needed");

        assert_eq!(app.sends(), ["charge:inv_1:2"]);
        assert_eq!(app.attempts("inv_1").await, ["failed", "succeeded"]);
        app.check_oracles(&[ended, charged]).await;
    }

    async fn a_crash_after_the_money_was_taken_is_found_however_old_the_key_is(engine) {
        let app = TestApp::start(engine).await;
        crash_at(&app, Step::AfterSend, "inv_1").await;
        assert_eq!(app.mock.paid("inv_1"), 1);
        app.age_past_keys().await;

        let service = app.serve().await;
        let found = service.charge("inv_1").await;
        found.assert(201, "", "yes", "not_needed");

        assert_eq!(app.sends(), ["charge:inv_1"]);
        assert_eq!(app.attempts("inv_1").await, ["succeeded"]);
        app.check_oracles(&[found]).await;
    }

    async fn a_crash_after_an_unfinished_payment_was_cancelled_ends_the_attempt(engine) {
        let app = TestApp::start(engine).await;
        crash_at(&app, Step::AfterReserve, "inv_1").await;
        let installation = app.database.words("SELECT id AS value FROM installation").await;
        app.mock.unfinished_payment("inv_1", &installation[0]);
        app.age_past_keys().await;

        let mut dying = app.service().set("CHARGEONCE_CRASH_AT", Step::AfterCancel.as_str()).start().await;
        assert!(dying.try_charge("inv_1").await.is_none());
        assert_eq!(dying.ended().await.signal(), Some(6));
        app.age_past_leases().await;
        let service = app.serve().await;
        let ended = service.charge("inv_1").await;
        assert_eq!((ended.status, ended.text("customerCharged"), ended.text("retry")), (409, "no".into(), "now".into()));
        let charged = service.charge("inv_1").await;
        charged.assert(201, "", "yes", "not_needed");

        assert_eq!(app.mock.paid("inv_1"), 1);
        app.check_oracles(&[ended, charged]).await;
    }

    async fn fifty_charges_in_flight_survive_a_kill(engine) {
        const COUNT: usize = 50;
        let app = TestApp::start(engine).await;
        let mut killed = app.serve().await;
        let ids: Vec<String> = (0..COUNT).map(|n| format!("inv_{n}")).collect();
        join_all(ids.iter().map(|id| killed.invoice(id))).await;
        // Long enough that none has ended when all have begun, on a busy machine too.
        app.mock.set_latency(Duration::from_secs(5));

        // Their connections break with the process; nobody reads an answer.
        let mut connections = Vec::new();
        for id in &ids {
            connections.push(killed.charge_unread(id).await);
        }
        app.sent(COUNT).await;
        killed.kill().await;
        let refused = app.serve().await;
        refused.charge("inv_0").await.assert(409, "charge_in_progress", "unknown", "later");
        eventually("the provider has executed all", async || {
            (app.mock.ledger().payments.len() == COUNT).then_some(())
        })
        .await;
        app.mock.set_latency(Duration::ZERO);
        app.age_past_leases().await;
        let replies = join_all(ids.iter().map(|id| refused.charge(id))).await;

        for (id, reply) in ids.iter().zip(&replies) {
            reply.assert(201, "", "yes", "not_needed");
            assert_eq!(app.mock.paid(id), 1);
        }
        app.check_oracles(&replies).await;
    }
}

/// Crashes at a step once for each case, and then recovers all cases. True when a process died of it.
async fn walk(app: &TestApp, step: Step) -> bool {
    let service = app.serve().await;
    let mut has_died = false;
    for case in &CASES {
        case.prepare(app, &service, case.name).await;
        let dying = dying_at(app, step).await;
        has_died |= charge_and_die(app, dying, case.name).await;
    }
    app.age_past_leases().await;
    let replies = recover(app, &service).await;
    app.check_oracles(&replies).await;
    has_died
}

/// How often a case pays once it was called again: what a stored 500 had kept from being executed is charged then.
fn payments_in_the_end(case: &Case) -> usize {
    match case.name {
        "decline" => 0,
        _ => 1,
    }
}

/// Calls again until every case has its end: at once, after another lease, and once the keys are old.
async fn recover(app: &TestApp, service: &Service) -> Vec<Reply> {
    let mut replies = Vec::new();
    let mut open: Vec<&Case> = CASES.iter().collect();
    for round in 0..5 {
        let mut still_open = Vec::new();
        for case in open {
            let reply = service.charge(case.name).await;
            app.check_truth(case.name, &reply);
            let is_over = match payments_in_the_end(case) {
                0 => reply.status == 402,
                _ => reply.status == 201,
            };
            if !is_over {
                still_open.push(case);
            }
            replies.push(reply);
        }
        open = still_open;
        match round {
            0 => app.age_past_leases().await,
            1 => app.age_past_keys().await,
            _ => {}
        }
    }
    assert!(open.is_empty(), "without an end: {:?}", replies.last());
    for case in &CASES {
        assert_eq!(
            app.mock.paid(case.name),
            payments_in_the_end(case),
            "{}",
            case.name
        );
    }
    replies
}
