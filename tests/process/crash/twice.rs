//! Who recovers dies as well, at each of its own steps: while it sends again, while it looks up, and while it gives up what
//! is past its key's window. The next round finishes it.

use std::collections::BTreeMap;
use std::time::Duration;

use chargeonce::charges::crash::Step;
use futures_util::future::join_all;

use super::{CASES, Case, charge_and_die, dying_at, ends_by_itself, round};
use crate::support::{TestApp, answer_on, eventually, report};

/// The steps of a round of the background worker.
pub const OF_A_ROUND: [Step; 8] = [
    Step::RoundBegun,
    Step::AfterTakeOver,
    Step::AfterSend,
    Step::AfterLookUp,
    Step::BeforeRecord,
    Step::WithinRecord,
    Step::AfterRecord,
    Step::AfterCancel,
];

/// What the first owner leaves behind: an attempt that was never sent, or one that was sent and not answered.
const LEFT_BEHIND: [&str; 2] = ["reserved", "sent"];

on_both_stores! {
    async fn a_crash_of_whoever_recovers_a_crash_ends_right_though_nobody_calls(engine) {
        let mut deaths = BTreeMap::new();
        for steps in OF_A_ROUND.chunks(4) {
            let walked = steps.iter().map(|step| async move {
                let app = TestApp::start(engine).await;
                (*step, recover_and_die(&app, *step).await)
            });
            deaths.extend(join_all(walked).await);
        }

        let combinations = OF_A_ROUND.len() * LEFT_BEHIND.len() * CASES.len();
        report(&format!(
            "{combinations} combinations of what a crash left behind, an answer and a second crash on {engine:?}; whoever recovered died {} times: {deaths:?}",
            deaths.values().sum::<usize>()
        ));
        // A cancel needs a payment that nobody finished; it has a test of its own.
        for (step, count) in &deaths {
            assert_eq!(*count == 0, *step == Step::AfterCancel, "{step:?}");
        }
        // Each of the ten attempts is taken over once by a process that dies of it, and the stored 500s once more past their window.
        assert_eq!(deaths[&Step::AfterTakeOver], 2 * CASES.len() + LEFT_BEHIND.len());
    }

    async fn a_crash_after_an_unfinished_payment_was_cancelled_ends_by_itself(engine) {
        let app = TestApp::start(engine).await;
        super::crash_at(&app, Step::AfterReserve, "inv_1").await;
        let installation = app.database.words("SELECT id AS value FROM installation").await;
        app.mock.unfinished_payment("inv_1", &installation[0]);
        app.age_past_keys().await;

        assert!(round(&app, Some(Step::AfterCancel)).await);
        assert_eq!(app.attempts("inv_1").await, ["pending"]);
        app.age_past_leases().await;
        assert!(!round(&app, None).await);

        assert_eq!(app.attempts("inv_1").await, ["failed"]);
        assert_eq!(app.mock.paid("inv_1"), 0);
        app.check_oracles(&[]).await;
    }
}

/// Leaves attempts behind, lets rounds die of them at the step, and lets later rounds finish them. How many died.
async fn recover_and_die(app: &TestApp, step: Step) -> usize {
    leave_behind(app).await;
    app.age_past_leases().await;
    let mut deaths = die(app, step).await;
    // Where the recovery's own send was the first one, its answers were the ones that are lost: another lease passes.
    for _ in 0..2 {
        app.age_past_leases().await;
        assert!(!round(app, None).await);
    }
    let needs_its_window = |case: &&Case| case.name == "error_500_before";
    for case in CASES.iter().filter(|case| !needs_its_window(case)) {
        all_ended(app, case).await;
    }

    // Past the keys' window nothing is sent again: the stored 500s are looked up, and given up.
    let sent = app.sends();
    app.age_past_keys().await;
    deaths += die(app, step).await;
    app.age_past_leases().await;
    assert!(!round(app, None).await);
    assert_eq!(app.sends(), sent, "{step:?}");
    for case in CASES.iter().filter(needs_its_window) {
        all_ended(app, case).await;
    }
    app.check_oracles(&[]).await;
    deaths
}

/// One attempt for each case that was reserved and never sent, and one that was cut off while the provider worked on it.
async fn leave_behind(app: &TestApp) {
    for case in &CASES {
        let dying = dying_at(app, Step::AfterReserve).await;
        let id = format!("reserved-{}", case.name);
        case.prepare(app, &dying, &id).await;
        assert!(charge_and_die(app, dying, &id).await);
    }
    let mut killed = app.serve().await;
    for case in &CASES {
        case.prepare(app, &killed, &format!("sent-{}", case.name))
            .await;
    }
    // Long enough for all of them to be sent, and the process killed, before the first is answered.
    app.mock.set_latency(Duration::from_secs(3));
    let mut connections = Vec::new();
    for case in &CASES {
        connections.push(killed.charge_unread(&format!("sent-{}", case.name)).await);
    }
    app.sent(CASES.len()).await;
    killed.kill().await;
    for connection in connections {
        assert!(answer_on(connection).await.is_none(), "it was answered");
    }
    eventually("the provider has dealt with all of them", async || {
        let paid = CASES.iter().map(|case| case.payments).sum::<usize>();
        let ledger = app.mock.ledger();
        let succeeded = ledger
            .payments
            .iter()
            .filter(|payment| payment.status == "succeeded");
        (succeeded.count() == paid).then_some(())
    })
    .await;
    app.mock.set_latency(Duration::ZERO);
}

/// Round after round that dies at the step, until one does not. A round that dies before it takes anything over changes
/// nothing, so that the next one would die of the same.
async fn die(app: &TestApp, step: Step) -> usize {
    let mut deaths = 0;
    while round(app, Some(step)).await {
        deaths += 1;
        assert!(deaths <= 2 * CASES.len(), "{step:?}: it never gets on");
        if step == Step::RoundBegun {
            break;
        }
    }
    deaths
}

async fn all_ended(app: &TestApp, case: &Case) {
    for left_behind in LEFT_BEHIND {
        let id = format!("{left_behind}-{}", case.name);
        ends_by_itself(app, &id, &[case.end()]).await;
        assert_eq!(app.mock.paid(&id), case.payments, "{id}");
    }
}
