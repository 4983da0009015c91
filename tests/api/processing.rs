//! Payments without a verdict yet: told as they are, and settled when the provider has decided.

use chargeonce::payments::mock::{Fault, FaultRule};
use serde_json::json;

use crate::support::TestApp;

/// Charges an invoice whose payment stays in processing, and decides on it later.
async fn settled_late(app: &TestApp, id: &str, success: bool) -> Vec<crate::support::Reply> {
    app.invoice(id).await;
    app.fault(id, Fault::Processing, 1);
    let mut replies = vec![app.charge(id).await, app.charge(id).await];
    app.past_lease().await;
    replies.push(app.charge(id).await);
    for reply in &replies {
        reply.assert(202, "", "unknown", "later");
        assert_eq!(reply.text("status"), "processing");
    }
    assert_eq!(app.sends_for(id), 1);
    app.change_card(id, "pm_card_mastercard").await.assert(
        409,
        "charge_in_progress",
        "unknown",
        "later",
    );
    let payment_id = replies[0].text("providerPaymentId");
    assert!(app.mock.settle_processing(&payment_id, success));
    app.past_lease().await;
    replies
}

async fn both_verdicts(app: TestApp) {
    let mut replies = settled_late(&app, "inv_1", true).await;
    let paid = app.charge("inv_1").await;
    paid.assert(201, "", "yes", "not_needed");
    replies.push(paid);

    replies.extend(settled_late(&app, "inv_2", false).await);
    let failed = app.charge("inv_2").await;
    assert_eq!(
        (
            failed.status,
            failed.text("code"),
            failed.text("customerCharged")
        ),
        (402, "charge_declined".into(), "no".into()),
        "{failed:#?}"
    );
    app.change_card("inv_2", "pm_card_mastercard").await;
    let second = app.charge("inv_2").await;
    second.assert(201, "", "yes", "not_needed");
    assert_eq!(second.text("attempt"), "2");

    replies.extend([failed, second]);
    app.check_oracles(&replies).await;
}

on_both_stores! {
    async fn a_processing_payment_intent_is_settled_by_its_verdict(engine) {
        both_verdicts(TestApp::start(engine).await).await;
    }

    async fn a_pending_legacy_charge_is_settled_by_its_verdict(engine) {
        both_verdicts(TestApp::with(engine).charges_api().start().await).await;
    }

    async fn a_second_attempt_that_was_processing_fails_by_its_verdict_too(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;
        let declined = app.charge("inv_1").await;
        app.change_card("inv_1", "pm_card_visa").await;
        app.mock.add_fault(FaultRule::once(Fault::Processing).for_key("charge:inv_1:2"));
        let processing = app.charge("inv_1").await;
        processing.assert(202, "", "unknown", "later");
        assert_eq!(processing.text("status"), "processing");

        app.mock.settle_processing(&processing.text("providerPaymentId"), false);
        app.past_lease().await;
        let failed = app.charge("inv_1").await;

        assert_eq!((failed.status, failed.text("code")), (402, "charge_declined".into()), "{failed:#?}");
        assert_eq!(app.attempts("inv_1").await, ["failed", "failed"]);
        app.check_oracles(&[declined, processing, failed]).await;
    }
}
