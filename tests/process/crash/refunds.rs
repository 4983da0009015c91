//! The process dies at every step of a refund, and so does whoever recovers it: the money is given back once, or as if nobody
//! had called.

use std::collections::BTreeSet;

use chargeonce::charges::crash::Step;
use futures_util::future::join_all;
use serde_json::json;

use super::twice::OF_A_ROUND;
use super::{OF_A_CALL, dying_at, round};
use crate::support::{Service, TestApp, report};

/// What the provider does with a refund: its name, a fault of its key's first sends, and how much is asked for where it is a
/// part.
struct Case {
    name: &'static str,
    fault: Option<(&'static str, u32)>,
    part: Option<i64>,
}

/// A lost answer is lost twice, so that the repeat within the same call does not find it.
const CASES: [Case; 4] = [
    case("success", None, None),
    case("lost", Some(("drop_after", 2)), None),
    case("stored_500", Some(("error_500_after", 1)), None),
    case("part", None, Some(500)),
];

const fn case(name: &'static str, fault: Option<(&'static str, u32)>, part: Option<i64>) -> Case {
    Case { name, fault, part }
}

impl Case {
    /// Charges an invoice, and lets the provider do what it does with its refund. The charge's id.
    async fn prepare(&self, app: &TestApp, service: &Service, invoice_id: &str) -> String {
        service.invoice(invoice_id).await;
        let charge = service.charge(invoice_id).await;
        charge.assert(201, "", "yes", "not_needed");
        let id = charge.text("id");
        if let Some((fault, times)) = self.fault {
            app.mock.fault(&format!("refund:{id}"), fault, times);
        }
        id
    }

    /// Asks for it; false when the process dies of it.
    async fn ask(&self, service: &Service, charge_id: &str) -> bool {
        let body = match self.part {
            Some(amount) => json!({"chargeId": charge_id, "amountCents": amount}),
            None => json!({"chargeId": charge_id}),
        };
        let reply = service
            .try_post_with("/v1/refunds", &body, Some(self.name))
            .await;
        if let Some(reply) = &reply {
            assert!(
                [201, 202].contains(&reply.status),
                "{}: {reply:#?}",
                self.name
            );
        }
        reply.is_some()
    }

    fn amount(&self) -> i64 {
        self.part.unwrap_or(1250)
    }

    /// Asks with a service that dies at a step, or is killed where it does not. True when it died by itself.
    async fn ask_and_die(&self, app: &TestApp, step: Step, charge_id: &str) -> bool {
        let mut dying = dying_at(app, step).await;
        let has_died = !self.ask(&dying, charge_id).await;
        if !has_died {
            dying.kill().await;
        }
        has_died
    }
}

/// The charge's sum, and its refunds' statuses.
async fn booked(app: &TestApp, charge_id: &str) -> (i64, String) {
    let sum = format!("SELECT refunded_cents AS value FROM charges WHERE id = '{charge_id}'");
    let each =
        format!("SELECT status AS value FROM refunds WHERE charge_id = '{charge_id}' ORDER BY id");
    let statuses = app.database.words(&each).await;
    (app.database.number(&sum).await, statuses.join(" "))
}

fn given(app: &TestApp, charge_id: &str) -> Vec<i64> {
    let ledger = app.mock.ledger();
    let given = ledger.given_back(charge_id);
    given.iter().map(|refund| refund.amount).collect()
}

/// One refund of that amount there and here, or none in either.
async fn ended_right(app: &TestApp, charge_id: &str, amount: Option<i64>, what: &str) {
    let (right_given, right_booked) = match amount {
        Some(amount) => (vec![amount], (amount, "succeeded".to_owned())),
        None => (vec![], (0, String::new())),
    };
    assert_eq!(given(app, charge_id), right_given, "{what}");
    assert_eq!(booked(app, charge_id).await, right_booked, "{what}");
}

on_both_stores! {
    async fn a_crash_at_any_step_of_a_refund_ends_right_though_nobody_calls_again(engine) {
        let mut died = BTreeSet::new();
        for steps in OF_A_CALL.chunks(4) {
            let walked = steps.iter().map(|step| async move {
                let app = TestApp::start(engine).await;
                walk(&app, *step).await
            });
            died.extend(join_all(walked).await.into_iter().flatten());
        }
        report(&format!(
            "{} combinations of a step and an answer to a refund on {engine:?}, {} of them a crash at the step itself: all ended right without a further call",
            OF_A_CALL.len() * CASES.len(), died.len()
        ));
        // A look-up follows a stored 500 only, and a refund is never cancelled.
        let never: Vec<(Step, &str)> = OF_A_CALL
            .iter()
            .flat_map(|step| CASES.iter().map(|case| (*step, case.name)))
            .filter(|pair| !died.contains(pair))
            .collect();
        let of_all = |step: Step| CASES.iter().map(move |case| (step, case.name));
        let looked_up = |pair: &(Step, &str)| pair.1 == "stored_500";
        let right: Vec<(Step, &str)> = of_all(Step::AfterLookUp).filter(|pair| !looked_up(pair)).chain(of_all(Step::AfterCancel)).collect();
        assert_eq!(never, right);
    }

    async fn a_crash_of_whoever_recovers_a_refund_ends_right_too(engine) {
        let mut deaths = BTreeSet::new();
        for steps in OF_A_ROUND.chunks(4) {
            let walked = steps.iter().map(|step| async move {
                let app = TestApp::start(engine).await;
                recover_and_die(&app, *step).await.then_some(*step)
            });
            deaths.extend(join_all(walked).await.into_iter().flatten());
        }
        let never: Vec<Step> = OF_A_ROUND.into_iter().filter(|step| !deaths.contains(step)).collect();
        assert_eq!(never, [Step::AfterCancel]);
    }

    /// The clocks of the database and of the provider are a day later: the provider would take the key for a new one.
    async fn a_day_later_a_refund_is_looked_up_and_never_sent_again(engine) {
        let app = TestApp::start(engine).await;
        let service = app.serve().await;
        let case = &CASES[0];
        let (unsent, sent) = (case.prepare(&app, &service, "unsent").await, case.prepare(&app, &service, "sent").await);
        assert!(case.ask_and_die(&app, Step::AfterReserve, &unsent).await);
        assert!(case.ask_and_die(&app, Step::AfterSend, &sent).await);
        let sends = app.sends();

        app.age_past_keys().await;
        assert!(!round(&app, None).await);

        assert_eq!(app.sends(), sends, "nothing was sent again");
        ended_right(&app, &sent, Some(1250), "sent").await;
        assert_eq!((given(&app, &unsent), booked(&app, &unsent).await), (vec![], (0, "failed".to_owned())));
        assert!(case.ask(&service, &unsent).await);
        assert_eq!((given(&app, &unsent), booked(&app, &unsent).await), (vec![1250], (1250, "failed succeeded".to_owned())));
        app.check_oracles(&[]).await;
    }

    async fn calls_over_two_processes_are_one_refund_and_parts_never_exceed_the_charge(engine) {
        let app = TestApp::start(engine).await;
        let services = [app.serve().await, app.serve().await];
        let (whole, parts) = (CASES[0].prepare(&app, &services[0], "whole").await, CASES[0].prepare(&app, &services[0], "parts").await);
        app.mock.set_latency(std::time::Duration::from_millis(300));

        let of_whole = join_all((0..100).map(|n| {
            let (service, body) = (&services[n % 2], json!({"chargeId": whole}));
            async move { service.try_post_with("/v1/refunds", &body, None).await.unwrap() }
        }));
        let of_parts = join_all((0..10).map(|n| {
            let (service, body) = (&services[n % 2], json!({"chargeId": parts, "amountCents": 400}));
            async move { service.try_post_with("/v1/refunds", &body, Some(&format!("k{n}"))).await.unwrap() }
        }));
        let (of_whole, of_parts) = tokio::join!(of_whole, of_parts);

        assert_eq!(of_whole.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).count(), 1);
        assert!(of_whole.iter().all(|reply| [201, 409].contains(&reply.status)), "{of_whole:#?}");
        assert_eq!(of_parts.iter().filter(|reply| reply.status == 201).count(), 3, "{of_parts:#?}");
        assert_eq!(of_parts.iter().filter(|reply| reply.text("code") == "refund_exceeds_charge").count(), 7, "{of_parts:#?}");
        assert_eq!((given(&app, &whole), given(&app, &parts)), (vec![1250], vec![400; 3]));
        app.check_oracles(&[]).await;
    }
}

/// Kills a service at the step once for each case, and lets rounds of the background worker finish what is left.
async fn walk(app: &TestApp, step: Step) -> Vec<(Step, &'static str)> {
    let service = app.serve().await;
    let mut died = Vec::new();
    let mut charges = Vec::new();
    for case in &CASES {
        let charge = case.prepare(app, &service, case.name).await;
        if case.ask_and_die(app, step, &charge).await {
            died.push((step, case.name));
        }
        charges.push((case, charge));
    }
    // Where the recovery's own send was the first one, its answers are the ones that are lost: another lease passes.
    for _ in 0..2 {
        app.age_past_leases().await;
        assert!(!round(app, None).await);
    }
    let is_reserved = step >= Step::AfterReserve;
    for (case, charge) in charges {
        let right = is_reserved.then(|| case.amount());
        ended_right(app, &charge, right, &format!("{step:?} {}", case.name)).await;
    }
    app.check_oracles(&[]).await;
    died
}

/// Leaves refunds behind, one that was never sent and one that was not recorded, lets a round die of them at the step, and
/// lets later rounds finish them. True when one died.
async fn recover_and_die(app: &TestApp, step: Step) -> bool {
    let service = app.serve().await;
    let mut charges = Vec::new();
    for (left_at, case) in [
        (Step::AfterReserve, &CASES[0]),
        (Step::AfterSend, &CASES[3]),
        (Step::AfterSend, &CASES[2]),
    ] {
        let charge = case.prepare(app, &service, case.name).await;
        assert!(case.ask_and_die(app, left_at, &charge).await);
        charges.push((case, charge));
    }
    let mut has_died = false;
    for _ in 0..charges.len() {
        app.age_past_leases().await;
        has_died |= round(app, Some(step)).await;
    }
    for _ in 0..2 {
        app.age_past_leases().await;
        assert!(!round(app, None).await);
    }
    for (case, charge) in charges {
        let what = format!("{step:?} {}", case.name);
        ended_right(app, &charge, Some(case.amount()), &what).await;
    }
    app.check_oracles(&[]).await;
    has_died
}
