//! The legacy Charges API, which has no object that can succeed only once: our own keys and rows alone prevent a second
//! charge. Its faults are in the table of all faults.

use chargeonce::payments::mock::Fault;
use serde_json::json;

use crate::support::{Engine, SENDS_MAX, TestApp};

async fn start(engine: Engine) -> TestApp {
    TestApp::with(engine).charges_api().start().await
}

on_both_stores! {
    async fn a_legacy_charge_is_made_once_and_replayed(engine) {
        let app = start(engine).await;
        app.invoice("inv_1").await;

        let first = app.charge("inv_1").await;
        app.hours_later(25).await;
        let again = app.charge("inv_1").await;

        first.assert(201, "", "yes", "not_needed");
        assert!(again.is_replay());
        assert_eq!(again.body, first.body);
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[first, again]).await;
    }

    async fn a_lost_legacy_charge_is_found_past_the_window(engine) {
        let app = start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        let lost = app.charge("inv_1").await;
        lost.assert(202, "", "unknown", "later");
        let sent = app.sends();

        app.hours_later(25).await;
        let found = app.charge("inv_1").await;

        found.assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends(), sent);
        app.check_oracles(&[lost, found]).await;
    }

    async fn a_declined_legacy_charge_gets_a_new_charge_under_the_next_key(engine) {
        let app = start(engine).await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "tok_visa_chargeDeclined"})).await;
        let declined = app.charge("inv_1").await;
        declined.assert(402, "charge_declined", "no", "later");

        app.change_card("inv_1", "tok_visa").await;
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends(), ["charge:inv_1", "charge:inv_1:2"]);
        app.check_oracles(&[declined, charged]).await;
    }
}
