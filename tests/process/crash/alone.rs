//! The process is killed at every step between the arrival of a call and its answer, and after that nobody calls. A service
//! that is started again finishes what is to be finished; what was not begun stays open.

use std::collections::BTreeSet;

use chargeonce::charges::crash::Step;
use futures_util::future::join_all;

use super::{CASES, Case, OF_A_CALL, charge_and_die, crash_at, dying_at, ends_by_itself};
use crate::support::{TestApp, eventually, now_ms, report};

on_both_stores! {
    async fn a_crash_at_any_step_of_a_call_ends_right_though_nobody_calls_again(engine) {
        let mut died = BTreeSet::new();
        // A few at a time: each step has a provider and a service running.
        for steps in OF_A_CALL.chunks(4) {
            let killed = steps.iter().map(|step| async move {
                let app = TestApp::start(engine).await;
                kill_and_restart(&app, *step).await
            });
            died.extend(join_all(killed).await.into_iter().flatten());
        }

        report(&format!(
            "{} combinations of a step and an answer on {engine:?}, {} of them a crash at the step itself: all ended right without a further call",
            OF_A_CALL.len() * CASES.len(), died.len()
        ));
        // A look-up follows a stored 500 only, and a cancel a payment that nobody finished, which has a test of its own.
        let never: Vec<(Step, &str)> = OF_A_CALL
            .iter()
            .flat_map(|step| CASES.iter().map(|case| (*step, case.name)))
            .filter(|pair| !died.contains(pair))
            .collect();
        let of_all = |step| CASES.iter().map(move |case| (step, case.name));
        let right: Vec<(Step, &str)> = of_all(Step::AfterLookUp).take(3).chain(of_all(Step::AfterCancel)).collect();
        assert_eq!(never, right);
    }

    /// The clocks of the database and of the provider are a day later: the provider would take each key for a new one.
    async fn a_day_later_the_background_worker_looks_and_never_sends_again(engine) {
        let app = TestApp::start(engine).await;
        crash_at(&app, Step::AfterReserve, "unsent").await;
        crash_at(&app, Step::AfterSend, "sent").await;
        app.mock.fault("charge:lost", "drop_after", 2);
        app.mock.fault("charge:dropped", "drop_before", 2);
        let mut killed = app.serve().await;
        for id in ["lost", "dropped"] {
            killed.invoice(id).await;
            killed.charge(id).await.assert(202, "", "unknown", "later");
        }
        killed.kill().await;
        let sends = app.sends();

        app.age_past_keys().await;
        let _worker = app.service().set("RECONCILE_INTERVAL", "200ms").start().await;
        for (id, end) in [("unsent", "failed"), ("sent", "succeeded"), ("lost", "succeeded"), ("dropped", "failed")] {
            ends_by_itself(&app, id, &[end]).await;
            assert_eq!(app.mock.paid(id), usize::from(end == "succeeded"), "{id}");
        }

        assert_eq!(app.sends(), sends, "nothing was sent again");
        app.check_oracles(&[]).await;
    }
}

/// Kills a service at the step once for each case, starts one again, and waits until all have ended by themselves.
async fn kill_and_restart(app: &TestApp, step: Step) -> Vec<(Step, &'static str)> {
    let mut died = Vec::new();
    for case in &CASES {
        let dying = dying_at(app, step).await;
        case.prepare(app, &dying, case.name).await;
        if charge_and_die(app, dying, case.name).await {
            died.push((step, case.name));
        }
    }
    let sent_before = app.sends();
    let restarted = app
        .service()
        .set("RECONCILE_INTERVAL", "200ms")
        .start()
        .await;

    app.age_past_leases().await;
    if step == Step::AfterReserve {
        // The first send is the recovery's own, so that its answers are the ones that are lost: another lease passes.
        let idle = "SELECT count(*) AS value FROM idempotency_keys WHERE key = 'charge:drop_after' AND takeovers = 1 AND idle";
        eventually("the answer was lost again", async || {
            (app.database.number(idle).await == 1).then_some(())
        })
        .await;
        app.age_past_leases().await;
    }
    let is_reserved = step >= Step::AfterReserve;
    let needs_its_window = |case: &&Case| case.name == "error_500_before" && is_reserved;
    for case in CASES.iter().filter(|case| !needs_its_window(case)) {
        ends_by_itself(app, case.name, end_of(case, is_reserved)).await;
    }
    // A look that was under way while the clocks move would put the next one off from the later time on.
    eventually("the background worker is at rest", async || {
        let at_work = format!(
            "SELECT count(*) AS value FROM idempotency_keys WHERE status = 'in_progress' \
             AND (NOT idle OR (lease_expires_at_ms <= {now} AND recover_after_ms <= {now}))",
            now = now_ms()
        );
        (app.database.number(&at_work).await == 0).then_some(())
    })
    .await;
    app.age_past_keys().await;
    for case in CASES.iter().filter(needs_its_window) {
        ends_by_itself(app, case.name, end_of(case, is_reserved)).await;
    }

    for case in &CASES {
        let (payments, invoice) = match is_reserved {
            true => (
                case.payments,
                if case.payments == 1 { "paid" } else { "open" },
            ),
            false => (0, "open"),
        };
        assert_eq!(app.mock.paid(case.name), payments, "{step:?} {}", case.name);
        let shown = restarted.get(&format!("/v1/invoices/{}", case.name)).await;
        assert_eq!(shown.text("status"), invoice, "{step:?} {}", case.name);
    }
    if !is_reserved {
        assert_eq!(
            app.sends(),
            sent_before,
            "{step:?}: nobody asked for it again"
        );
        assert_eq!(app.sends(), Vec::<String>::new(), "{step:?}");
    }
    app.check_oracles(&[]).await;
    died
}

/// How the attempts of a case end: as the provider did it, or as if nobody had called.
fn end_of(case: &Case, is_reserved: bool) -> &'static [&'static str] {
    match (is_reserved, case.end()) {
        (false, _) => &[],
        (true, "failed") => &["failed"],
        (true, _) => &["succeeded"],
    }
}
