//! The process dies: at every step of a charge, whatever the provider does, and under load.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use chargeonce::charges::crash::Step;
use futures_util::future::join_all;

use crate::support::{Reply, Service, TestApp, eventually, report};

/// What the provider does with a charge: its name, the payment method, a fault of the key's first sends.
struct Case {
    name: &'static str,
    payment_method: &'static str,
    fault: Option<(&'static str, u32)>,
    payments: usize,
}

const fn case(name: &'static str, fault: Option<(&'static str, u32)>) -> Case {
    Case {
        name,
        payment_method: "pm_card_visa",
        fault,
        payments: 1,
    }
}

/// A lost answer is lost twice, so that the repeat within the same call does not find it.
const CASES: [Case; 5] = [
    case("success", None),
    Case {
        payment_method: "pm_card_visa_chargeDeclined",
        payments: 0,
        ..case("decline", None)
    },
    case("drop_after", Some(("drop_after", 2))),
    case("error_500_before", Some(("error_500_before", 1))),
    case("error_500_after", Some(("error_500_after", 1))),
];

on_both_stores! {
    async fn a_crash_at_any_step_loses_nothing_and_charges_nothing_twice(engine) {
        // Each step as the place of the first crash, and of a second one that hits the recovery from a crash after the send.
        let once = Step::ALL.iter().map(|step| vec![*step]);
        let twice = Step::ALL.iter().map(|step| vec![Step::AfterSend, *step]);
        let mut reached = BTreeSet::new();
        let mut combinations = 0;
        // A few at a time: each path has a provider and a service running.
        for paths in once.chain(twice).collect::<Vec<_>>().chunks(4) {
            let walked = paths.iter().map(|path| async move {
                let app = TestApp::start(engine).await;
                walk(&app, path).await
            });
            for steps in join_all(walked).await {
                combinations += CASES.len();
                reached.extend(steps);
            }
        }
        report(&format!("{combinations} combinations of crashes and answers on {engine:?}, none charged twice or lost"));
        // A cancel needs a payment that nobody finished; it has a test of its own.
        let never: Vec<&str> = Step::ALL.iter().map(|step| step.as_str()).filter(|step| !reached.contains(step)).collect();
        assert_eq!(never, ["after_cancel"]);
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

/// Starts a service that dies at a step, and charges a new invoice with it.
async fn crash_at(app: &TestApp, step: Step, invoice_id: &str) {
    let mut dying = app
        .service()
        .set("CHARGEONCE_CRASH_AT", step.as_str())
        .start()
        .await;
    dying.invoice(invoice_id).await;
    assert!(dying.try_charge(invoice_id).await.is_none());
    assert_eq!(dying.ended().await.signal(), Some(6));
}

/// Crashes at each step of a path in turn, once for each case, and then recovers all cases. Returns the steps at which a
/// process died.
async fn walk(app: &TestApp, path: &[Step]) -> BTreeSet<&'static str> {
    let service = app.serve().await;
    for case in &CASES {
        service.invoice_with(case.name, case.payment_method).await;
        if let Some((fault, times)) = case.fault {
            app.mock
                .fault(&format!("charge:{}", case.name), fault, times);
        }
    }
    let mut reached = BTreeSet::new();
    let mut replies: Vec<Reply> = Vec::new();
    for step in path {
        for case in &CASES {
            let mut dying = app
                .service()
                .set("CHARGEONCE_CRASH_AT", step.as_str())
                .start()
                .await;
            match dying.try_charge(case.name).await {
                Some(reply) => {
                    assert!(dying.is_running(), "it answered and died");
                    app.check_truth(case.name, &reply);
                    replies.push(reply);
                }
                None => {
                    assert_eq!(
                        dying.ended().await.signal(),
                        Some(6),
                        "{step:?} {}",
                        case.name
                    );
                    reached.insert(step.as_str());
                }
            }
        }
        app.age_past_leases().await;
    }
    replies.extend(recover(app, &service).await);
    app.check_oracles(&replies).await;
    reached
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
            let is_over = match case.payments {
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
        assert_eq!(app.mock.paid(case.name), case.payments, "{}", case.name);
    }
    replies
}
