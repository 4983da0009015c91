//! The process dies: at every step of a charge, whatever the provider does, and under load; and so does whoever recovers it.

mod alone;
mod called_again;
mod notices;
mod refunds;
mod twice;

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;

use chargeonce::charges::crash::Step;

use crate::support::{Process, Service, TestApp, eventually};

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
    // The same key would only repeat it: it ends once the key is old, and an attempt that was not executed has failed.
    Case {
        payments: 0,
        ..case("error_500_before", Some(("error_500_before", 1)))
    },
    case("error_500_after", Some(("error_500_after", 1))),
];

/// The steps between the arrival of a call and its answer.
const OF_A_CALL: [Step; 11] = [
    Step::Arrival,
    Step::BeforeReserve,
    Step::WithinReserve,
    Step::AfterReserve,
    Step::AfterSend,
    Step::AfterLookUp,
    Step::AfterCancel,
    Step::BeforeRecord,
    Step::WithinRecord,
    Step::AfterRecord,
    Step::BeforeAnswer,
];

impl Case {
    /// How its attempt ends once the provider has got it.
    fn end(&self) -> &'static str {
        match self.payments {
            0 => "failed",
            _ => "succeeded",
        }
    }

    /// Makes its invoice, and lets the provider do what it does.
    async fn prepare(&self, app: &TestApp, service: &Service, invoice_id: &str) {
        service.invoice_with(invoice_id, self.payment_method).await;
        if let Some((fault, times)) = self.fault {
            app.mock
                .fault(&format!("charge:{invoice_id}"), fault, times);
        }
    }
}

/// A service that dies at a step.
async fn dying_at(app: &TestApp, step: Step) -> Service {
    let builder = app.service().set("CHARGEONCE_CRASH_AT", step.as_str());
    builder.start().await
}

/// Charges with a service that may die of it, and kills it when it did not. True when it died by itself.
async fn charge_and_die(app: &TestApp, mut dying: Service, invoice_id: &str) -> bool {
    match dying.try_charge(invoice_id).await {
        Some(reply) => {
            app.check_truth(invoice_id, &reply);
            dying.kill().await;
            false
        }
        None => {
            assert_eq!(dying.ended().await.signal(), Some(6), "{invoice_id}");
            true
        }
    }
}

/// Starts a service that dies at a step, and charges a new invoice with it.
async fn crash_at(app: &TestApp, step: Step, invoice_id: &str) {
    let dying = dying_at(app, step).await;
    dying.invoice(invoice_id).await;
    assert!(charge_and_die(app, dying, invoice_id).await, "{step:?}");
}

/// A round of the background worker in a process of its own, one attempt at a time, which dies at a step where one is given.
/// True when it died.
async fn round(app: &TestApp, dies_at: Option<Step>) -> bool {
    let mut builder = app.service().set("RECONCILE_CONCURRENCY", "1");
    if let Some(step) = dies_at {
        builder = builder.set("CHARGEONCE_CRASH_AT", step.as_str());
    }
    let mut process: Process = builder.command(&["reconcile", "--once"]);
    let status = process.ended().await;
    match status.signal() {
        Some(6) if dies_at.is_some() => true,
        _ => {
            assert!(status.success(), "{status}: {}", process.stderr());
            false
        }
    }
}

/// Waits until the attempts of an invoice are these, without calling anybody.
async fn ends_by_itself(app: &TestApp, invoice_id: &str, right: &[&str]) {
    eventually(&format!("{invoice_id} ends as {right:?}"), async || {
        (app.attempts(invoice_id).await == right).then_some(())
    })
    .await;
}

#[test]
fn every_step_is_crashed_at_somewhere() {
    let lists = [&OF_A_CALL[..], &twice::OF_A_ROUND, &notices::OF_A_WEBHOOK];
    let covered: BTreeSet<Step> = lists.concat().into_iter().collect();
    assert_eq!(covered, BTreeSet::from(Step::ALL));
}
