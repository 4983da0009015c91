//! An invoice that was created in this process is charged without being read first. What it became meanwhile, in another replica or
//! by hand, counts all the same.

use serde_json::json;

use crate::support::TestApp;

on_both_stores! {
    async fn what_was_paid_elsewhere_is_not_paid_again(engine) {
        let app = TestApp::start(engine).await;
        let other = app.replica().start().await;
        app.invoice("inv_1").await;
        let first = other.charge("inv_1").await;
        first.assert(201, "", "yes", "not_needed");

        let again = app.charge("inv_1").await;

        assert!(again.is_replay());
        assert_eq!((again.status, &again.body), (201, &first.body));
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[first, again]).await;
    }

    async fn what_was_declined_elsewhere_is_not_sent_under_the_same_key(engine) {
        let app = TestApp::start(engine).await;
        let other = app.replica().start().await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedInsufficientFunds"})).await;
        let first = other.charge("inv_1").await;
        assert_eq!(first.status, 402, "{first:#?}");

        let again = app.charge("inv_1").await;

        assert!(again.is_replay());
        assert_eq!((again.status, &again.body), (402, &first.body));
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[first, again]).await;
    }

    async fn what_was_voided_elsewhere_is_not_charged(engine) {
        let app = TestApp::start(engine).await;
        let other = app.replica().start().await;
        // The customer of the second cannot be charged, which must not be what the caller hears of.
        for (id, more) in [("inv_1", json!({})), ("inv_2", json!({"customerId": "cus_missing_2"}))] {
            app.invoice_with(id, more).await;
            assert_eq!(other.post(&format!("/v1/invoices/{id}/void"), &json!({})).await.status, 200);

            let refused = app.charge(id).await;

            refused.assert(409, "invoice_not_chargeable", "no", "never");
        }
        assert_eq!(app.sends(), [""; 0]);
    }

    async fn the_payment_method_that_was_set_elsewhere_is_charged(engine) {
        let app = TestApp::start(engine).await;
        let other = app.replica().start().await;
        app.invoice("inv_1").await;
        let amex = json!({"paymentMethodId": "pm_card_amex"});
        assert_eq!(other.patch("/v1/invoices/inv_1", &amex).await.status, 200);

        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(charged.text("paymentMethodId"), "pm_card_amex");
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[charged]).await;
    }

    async fn one_that_is_gone_is_not_charged(engine) {
        let app = TestApp::start(engine).await;
        app.post("/v1/invoices", &json!({"customerId": "cus_1", "amountCents": 1250, "currency": "usd"})).await;
        app.invoice("inv_1").await;
        // As a restored backup would have it.
        app.database.execute("DELETE FROM invoices WHERE id = 'inv_1'").await;

        let refused = app.charge("inv_1").await;

        refused.assert(404, "invoice_not_found", "no", "after_change");
        assert_eq!(app.sends(), [""; 0]);
    }

    async fn callers_in_two_replicas_share_one_charge(engine) {
        let app = TestApp::start(engine).await;
        let other = app.replica().start().await;
        let mut all = Vec::new();
        for round in 0..10 {
            let id = format!("inv_{round}");
            app.invoice(&id).await;

            let replies = tokio::join!(app.charge(&id), other.charge(&id), app.charge(&id));

            assert_eq!(app.sends_for(&id), 1, "round {round}");
            all.extend([replies.0, replies.1, replies.2]);
        }
        app.check_oracles(&all).await;
    }
}
