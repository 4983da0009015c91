//! The process dies between the arrival of a webhook and the webhook's end. The provider does not deliver it again, and
//! nobody calls: the background worker deals with what is stored.

use chargeonce::charges::crash::Step;

use super::{ends_by_itself, round};
use crate::support::{TestApp, WEBHOOK_SECRET, eventually, report};

/// The steps of a webhook, and those of the look-up that it leads to.
pub const OF_A_WEBHOOK: [Step; 9] = [
    Step::EventStored,
    Step::EventClaimed,
    Step::AfterTakeOver,
    Step::AfterLookUp,
    Step::BeforeRecord,
    Step::WithinRecord,
    Step::AfterRecord,
    Step::EventDealtWith,
    Step::RoundBegun,
];

on_both_stores! {
    async fn a_crash_at_any_step_of_a_webhook_loses_none(engine) {
        let mut died = Vec::new();
        for step in OF_A_WEBHOOK {
            let app = TestApp::start(engine).await;
            if die_of_a_webhook(&app, step).await {
                died.push(step);
            }
        }
        report(&format!("a webhook was lost at none of {} steps on {engine:?}", died.len()));
        // A round is none of a webhook's steps; it shows that this test can tell.
        assert_eq!(died, OF_A_WEBHOOK[..8]);
    }
}

/// The late verdict of a payment is told to a service that dies of it. True when it died.
async fn die_of_a_webhook(app: &TestApp, step: Step) -> bool {
    let service = app.serve().await;
    service.invoice("inv_1").await;
    app.mock.fault("charge:inv_1", "processing", 1);
    service
        .charge("inv_1")
        .await
        .assert(202, "", "unknown", "later");
    drop(service);
    let mut dying = app
        .service()
        .set("STRIPE_WEBHOOK_SECRET", WEBHOOK_SECRET)
        .set("CHARGEONCE_CRASH_AT", step.as_str())
        .start()
        .await;

    app.mock.webhooks_to(Some(&dying.url));
    app.mock.settle_all_processing();
    let has_died = eventually("the webhook has come", async || {
        let done = "SELECT count(*) AS value FROM provider_events WHERE status = 'done'";
        match dying.is_running() {
            false => Some(true),
            true => (app.database.number(done).await > 0).then_some(false),
        }
    })
    .await;
    app.mock.webhooks_to(None);
    drop(dying);

    app.age_past_leases().await;
    assert!(!round(app, None).await);
    ends_by_itself(app, "inv_1", &["succeeded"]).await;
    let pending = "SELECT count(*) AS value FROM provider_events WHERE status = 'pending'";
    assert_eq!(app.database.number(pending).await, 0, "{step:?}");
    let stored = "SELECT count(*) AS value FROM provider_events";
    assert!(app.database.number(stored).await > 0, "{step:?}");
    assert_eq!(app.sends(), ["charge:inv_1"], "{step:?}");
    app.check_oracles(&[]).await;
    has_died
}
