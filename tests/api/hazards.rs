//! What goes wrong around the service: forgotten books, changed settings, look-ups that nobody answers.

use std::sync::Arc;
use std::time::Duration;

use chargeonce::payments::mock::Fault;
use chargeonce::payments::stripe::{
    Backoff, InProcessTransport, LimiterSettings, StripeApi, StripeProvider, StripeSettings,
};
use serde_json::json;

use crate::support::{Line, SENDS_MAX, TestApp};

on_both_stores! {
    async fn a_late_takeover_finds_the_payment_without_sending_again(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        let lost = app.charge("inv_1").await;
        let sent = app.sends();
        // The database believes that two hours have passed; at the provider the key is gone.
        app.age(Duration::from_secs(2 * 3_600)).await;
        app.mock.advance_clock(Duration::from_secs(25 * 3_600));

        let found = app.charge("inv_1").await;

        found.assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends(), sent);
        assert_eq!(app.times_paid("inv_1"), 1);
        app.check_oracles(&[lost, found]).await;
    }

    async fn an_attempt_of_another_provider_is_left_alone(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        let lost = app.charge("inv_1").await;
        let sent = app.sends();
        app.past_lease().await;
        let other = StripeSettings {
            name: "another",
            api: StripeApi::PaymentIntents,
            key_prefix: String::new(),
            timeout: Duration::from_secs(5),
            max_retries: 0,
            backoff: Backoff::default(),
            limits: LimiterSettings::unlimited(),
        };
        let provider = StripeProvider::new(other, InProcessTransport::new(app.mock.clone()));
        let changed = app.replica().provider(Arc::new(provider)).start().await;

        changed.charge("inv_1").await.assert(409, "charge_in_progress", "unknown", "later");
        assert_eq!(app.sends(), sent);
        let back = app.charge("inv_1").await;

        back.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[lost, back]).await;
    }

    async fn an_attempt_that_can_never_be_looked_up_comes_to_a_person(engine) {
        let line = Line::default();
        let mock = chargeonce::payments::mock::MockStripe::new();
        let app = TestApp::with(engine).provider(line.provider(&mock)).start().await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa"})).await;
        mock.add_fault(chargeonce::payments::mock::FaultRule {
            times: SENDS_MAX,
            ..chargeonce::payments::mock::FaultRule::once(Fault::DropBefore)
        });
        app.charge("inv_1").await.assert(202, "", "unknown", "later");
        line.refuse_gets(true);

        // However old it is, one look-up that fails says nothing; only a window of them does.
        app.age(Duration::from_secs(100 * 3_600)).await;
        app.charge("inv_1").await.assert(202, "", "unknown", "later");
        app.age(Duration::from_secs(10 * 3_600)).await;
        app.charge("inv_1").await.assert(202, "", "unknown", "later");
        app.age(Duration::from_secs(11 * 3_600)).await;
        app.charge("inv_1").await.assert(409, "charge_needs_review", "unknown", "later");
        app.charge("inv_1").await.assert(409, "charge_needs_review", "unknown", "later");

        assert_eq!(app.attempts("inv_1").await, ["needs_review"]);
    }

    async fn books_that_have_forgotten_a_decline_do_not_believe_its_echo(engine) {
        let app = TestApp::start(engine).await;
        let lost_card = json!({"paymentMethodId": "pm_card_visa_chargeDeclinedLostCard"});
        app.invoice_with("inv_1", lost_card.clone()).await;
        app.charge("inv_1").await;
        app.change_card("inv_1", "pm_card_visa").await;
        app.charge("inv_1").await.assert(201, "", "yes", "not_needed");
        for table in ["charges", "idempotency_keys", "invoices"] {
            app.database.execute(&format!("DELETE FROM {table}")).await;
        }

        app.invoice_with("inv_1", lost_card).await;
        let found = app.charge("inv_1").await;

        found.assert(201, "", "yes", "not_needed");
        assert_eq!(app.times_paid("inv_1"), 1);
    }

    async fn an_id_that_the_service_chose_is_taken(engine) {
        let app = TestApp::start(engine).await;
        let body = json!({"customerId": "cus_1", "amountCents": 1250, "currency": "usd"});
        let made = app.post("/v1/invoices", &body).await;
        let mut again = body.clone();
        again["id"] = json!(made.text("id"));

        app.post("/v1/invoices", &again).await.assert(409, "invoice_exists", "no", "after_change");
        let key = [("Idempotency-Key", "k")];
        app.post_with("/v1/invoices", &again, &key).await.assert(409, "invoice_exists", "no", "after_change");
        let kept = app.post_with("/v1/invoices", &again, &key).await;

        kept.assert(409, "invoice_exists", "no", "after_change");
        assert!(kept.is_replay());
        assert_eq!(app.database.number("SELECT count(*) AS value FROM invoices").await, 1);
    }
}
