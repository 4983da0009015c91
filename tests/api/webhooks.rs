//! What the provider tells by itself: believed only with its signature, stored once, and never more than a reason to look.

use std::time::Duration;

use chargeonce::payments::mock::{
    Fault, FaultRule, MockRequest, MockStripe, WebhookFault, WebhookFaultRule,
};
use serde_json::{Value, json};

use crate::support::{SECRET, SENDS_MAX, Swept, TestApp, in_patience, seconds_now};

pub fn event(id: &str, kind: &str, object: &Value) -> String {
    json!({
        "id": id, "object": "event", "api_version": "2026-06-24.dahlia", "created": seconds_now(), "livemode": false,
        "pending_webhooks": 1, "request": {"id": null, "idempotency_key": null}, "type": kind, "data": {"object": object}
    })
    .to_string()
}

pub fn about(payment_id: &str) -> String {
    event(
        &format!("evt_{payment_id}_{}", rand::random::<u32>()),
        "payment_intent.succeeded",
        &json!({"id": payment_id, "object": "payment_intent"}),
    )
}

/// Waits until an event was looked at and is to be looked at again: so many of them.
async fn put_off(app: &TestApp, count: i64) {
    let sql =
        "SELECT COUNT(*) AS value FROM provider_events WHERE status = 'pending' AND tries > 0";
    let probe = async || (app.database.number(sql).await >= count).then_some(());
    if in_patience(probe).await.is_none() {
        panic!("never put off: {:?}", app.events().await);
    }
}

/// An attempt that ended as "never executed": it was reserved and never sent, and its key is old.
async fn never_executed(app: &TestApp, id: &str) {
    app.invoice(id).await;
    app.fault(id, Fault::DropBefore, SENDS_MAX);
    app.charge(id).await;
    app.hours_later(25).await;
    assert_eq!(app.sweep().await, Swept::of(&[("failed", 1)]));
}

on_both_stores! {
    async fn a_late_verdict_is_settled_by_its_webhook_long_before_the_lease_is_over(engine) {
        for (success, status) in [(true, "succeeded"), (false, "failed")] {
            let app = TestApp::with_webhooks(engine).await;
            app.invoice("inv_1").await;
            app.fault("inv_1", Fault::Processing, 1);
            let told = app.charge("inv_1").await;
            assert_eq!((told.status, told.text("status")), (202, "processing".into()));

            assert!(app.mock.settle_processing(&told.text("providerPaymentId"), success));
            app.attempt_is("inv_1", status).await;

            app.events_are_over().await;
            assert_eq!(app.attempts("inv_1").await, [status]);
            assert_eq!(app.invoice_status("inv_1").await, if success { "paid" } else { "open" });
            app.check_oracles(&[told]).await;
        }
    }

    async fn an_answer_that_was_lost_is_found_by_the_webhook(engine) {
        let app = TestApp::with_webhooks(engine).await;
        let dropped = WebhookFaultRule { fault: WebhookFault::WebhookDrop, event_type: None, key: None, times: 10, delay_ms: 0 };
        app.mock.add_webhook_fault(dropped);
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        let told = app.charge("inv_1").await;
        told.assert(202, "", "unknown", "later");
        assert_eq!(app.events().await, Vec::<String>::new());

        // The events come after the owner has given up.
        for delivery in app.mock.deliveries() {
            app.mock.redeliver(&delivery.event_id).unwrap();
        }
        app.attempt_is("inv_1", "succeeded").await;

        let replay = app.charge("inv_1").await;
        replay.assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends_for("inv_1"), 3, "the webhook sent nothing");
        app.check_oracles(&[told, replay]).await;
    }

    async fn a_webhook_before_our_own_answer_waits_for_the_owner(engine) {
        let app = TestApp::with_webhooks(engine).await;
        app.invoice("inv_1").await;
        // Executed at once, answered only later: the event is here first.
        let gate = app.line.hold_answers().await;
        let event = async {
            put_off(&app, 1).await;
            drop(gate);
        };
        let (reply, ()) = tokio::join!(app.charge("inv_1"), event);
        reply.assert(201, "", "yes", "not_needed");

        app.age(Duration::from_secs(3_600)).await;
        let swept = app.sweep().await;
        assert_eq!(swept.attempts, Swept::default().attempts);
        assert!(app.events().await.iter().all(|event| event.starts_with("done known")), "{:?}", app.events().await);
        assert_eq!(app.times_paid("inv_1"), 1);
        app.check_oracles(&[reply]).await;
    }

    async fn the_webhook_and_the_answer_at_the_same_moment_are_one_charge(engine) {
        let app = TestApp::with_webhooks(engine).await;
        let rounds = 100;
        let mut replies = Vec::new();
        for round in 0..rounds {
            let id = format!("inv_{round}");
            app.invoice(&id).await;
            let reply = app.charge(&id).await;
            reply.assert(201, "", "yes", "not_needed");
            replies.push(reply);
        }
        app.age(Duration::from_secs(3_600)).await;
        app.sweep().await;
        app.events_are_over().await;

        // Settled before the event was looked at, or while it was.
        let verdicts = app.database.words("SELECT DISTINCT outcome AS value FROM provider_events ORDER BY 1").await;
        assert!(verdicts.iter().all(|verdict| verdict == "known" || verdict == "nothing"), "{verdicts:?}");
        assert_eq!(app.database.number("SELECT COUNT(*) AS value FROM charges").await, i64::from(rounds));
        app.check_oracles(&replies).await;
    }

    async fn a_late_event_of_a_failure_cannot_turn_a_success(engine) {
        let app = TestApp::with(engine).set("STRIPE_WEBHOOK_SECRET", SECRET).start().await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;
        let declined = app.charge("inv_1").await;
        app.change_card("inv_1", "pm_card_visa").await;
        let paid = app.charge("inv_1").await;
        let payment_id = paid.text("providerPaymentId");

        for kind in ["payment_intent.payment_failed", "payment_intent.canceled", "payment_intent.processing"] {
            let object = json!({"id": payment_id, "object": "payment_intent", "status": "requires_payment_method"});
            assert_eq!(app.signed(&event(&format!("evt_{kind}"), kind, &object)).await.status, 200);
        }
        app.events_are_over().await;

        assert_eq!(app.attempts("inv_1").await, ["failed", "succeeded"]);
        let replay = app.charge("inv_1").await;
        assert_eq!(replay.body, paid.body);
        app.check_oracles(&[declined, paid, replay]).await;
    }

    async fn a_payment_that_nobody_here_knows_is_asked_for_again_and_given_up_after_days(engine) {
        let app = TestApp::with(engine).set("STRIPE_WEBHOOK_SECRET", SECRET).start().await;
        let ours = app.installation().await;
        // A restored backup: the provider has a payment of an invoice that is not in the books.
        let forgotten = app.payment_from_nowhere("inv_forgotten", &ours).await;
        for payment in [forgotten.as_str(), "pi_unknown"] {
            assert_eq!(app.signed(&about(payment)).await.status, 200);
        }
        put_off(&app, 2).await;
        assert_eq!(app.sweep().await.events, 0, "not at once again");
        app.age(Duration::from_secs(3 * 24 * 3_600)).await;

        assert_eq!(app.sweep().await.events, 2);
        let mut events = app.events().await;
        events.sort();
        assert_eq!(events, ["done unknown_invoice payment_intent.succeeded", "done unknown_payment payment_intent.succeeded"]);
        app.age(Duration::from_secs(31 * 24 * 3_600)).await;
        app.sweep().await;
        assert_eq!(app.events().await, Vec::<String>::new(), "forgotten after a month");
    }

    async fn money_that_no_attempt_accounts_for_is_parked_with_its_invoice(engine) {
        let app = TestApp::with_webhooks(engine).await;
        never_executed(&app, "inv_1").await;
        let ours = app.installation().await;

        // Stripe rolls an operation forward hours later.
        let late = app.payment_from_nowhere("inv_1", &ours).await;
        app.attempt_is("inv_1", "needs_review").await;

        assert_eq!(app.attempts("inv_1").await, ["failed", "needs_review"]);
        let refused = app.charge("inv_1").await;
        refused.assert(409, "charge_needs_review", "unknown", "later");
        let id = refused.json()["charge"]["id"].as_str().unwrap().to_owned();
        let wrong = app.post(&format!("/v1/charges/{id}/resolve"), &json!({"outcome": "failed", "note": "x"})).await;
        assert_eq!((wrong.status, wrong.text("code")), (409, "resolution_contradicted".into()));
        let right = json!({"outcome": "succeeded", "providerPaymentId": late, "note": "seen in the dashboard"});
        let resolved = app.post(&format!("/v1/charges/{id}/resolve"), &right).await;
        assert_eq!((resolved.status, resolved.text("customerCharged")), (200, "yes".into()), "{resolved:#?}");
        let history = app.get(&format!("/v1/charges/{id}/evidence")).await.json();
        let what: Vec<&str> = history["data"].as_array().unwrap().iter().map(|line| line["what"].as_str().unwrap()).collect();
        assert_eq!(what, ["notice", "resolution"]);
        let replay = app.charge("inv_1").await;
        replay.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[refused, replay]).await;
    }

    async fn what_an_operator_has_judged_is_not_opened_again(engine) {
        let app = TestApp::with(engine).set("STRIPE_WEBHOOK_SECRET", SECRET).start().await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::WrongAmount, 1);
        let parked = app.charge("inv_1").await;
        let id = parked.json()["charge"]["id"].as_str().unwrap().to_owned();
        let payment = parked.json()["charge"]["providerPaymentId"].as_str().unwrap().to_owned();
        app.refund(&payment).await;
        let refunded = json!({"outcome": "failed", "note": "refunded by hand"});
        assert_eq!(app.post(&format!("/v1/charges/{id}/resolve"), &refunded).await.status, 200);

        // The refund's own events name the payment, which the provider still shows as succeeded.
        assert_eq!(app.signed(&about(&payment)).await.status, 200);
        app.events_are_over().await;

        assert_eq!(app.attempts("inv_1").await, ["failed"]);
        assert_eq!(app.events().await, ["done known payment_intent.succeeded"]);
        let charged = app.charge("inv_1").await;
        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(app.signed(&about(&payment)).await.status, 200);
        app.events_are_over().await;
        assert_eq!(app.events().await, ["done known payment_intent.succeeded"; 2]);
    }

    async fn an_event_is_not_over_before_the_books_account_for_its_own_payment(engine) {
        let app = TestApp::with(engine).set("STRIPE_WEBHOOK_SECRET", SECRET).start().await;
        // Attempt 1 is given up, attempt 2 leaves an open payment, attempt 3 is tried on that one and its answer is lost.
        never_executed(&app, "inv_1").await;
        app.change_card("inv_1", "pm_card_visa_chargeDeclined").await;
        app.charge("inv_1").await.assert(402, "charge_declined", "no", "later");
        app.change_card("inv_1", "pm_card_visa_chargeDeclinedInsufficientFunds").await;
        app.mock.add_fault(FaultRule { times: SENDS_MAX, ..FaultRule::once(Fault::DropAfter).for_key("charge:inv_1:3") });
        app.charge("inv_1").await.assert(202, "", "unknown", "later");
        assert_eq!(app.attempts("inv_1").await, ["failed", "failed", "pending"]);

        // Now the first one's payment is rolled forward.
        let ours = app.installation().await;
        let late = app.payment_from_nowhere("inv_1", &ours).await;
        assert_eq!(app.signed(&about(&late)).await.status, 200);
        app.attempt_is("inv_1", "needs_review").await;

        app.charge("inv_1").await.assert(409, "charge_needs_review", "unknown", "later");
        let paid = app.times_paid("inv_1");
        app.hours_later(25).await;
        app.sweep().await;
        app.charge("inv_1").await.assert(409, "charge_needs_review", "unknown", "later");
        assert_eq!(app.times_paid("inv_1"), paid, "nobody charged it again");
    }

    async fn money_that_comes_while_a_person_is_at_it_is_not_forgotten(engine) {
        let (mock, line) = (MockStripe::new(), crate::support::Line::default());
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).set("STRIPE_WEBHOOK_SECRET", SECRET).start().await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa"})).await;
        let conflict = MockRequest::post("/v1/customers", "charge:inv_1", "name=Ann");
        app.mock.handle(conflict).await;
        let parked = app.charge("inv_1").await;
        let id = parked.json()["charge"]["id"].as_str().unwrap().to_owned();
        let ours = app.installation().await;
        let late = app.payment_from_nowhere("inv_1", &ours).await;
        assert_eq!(app.signed(&about(&late)).await.status, 200);
        for _ in 0..3 {
            app.sweep().await;
            app.age(Duration::from_secs(300)).await;
        }
        assert!(app.events().await[0].starts_with("pending"), "{:?}", app.events().await);

        // The operator decides in the dark, and is wrong.
        line.refuse_gets(true);
        let forced = json!({"outcome": "failed", "note": "nothing there, I believe", "force": true});
        assert_eq!(app.post(&format!("/v1/charges/{id}/resolve"), &forced).await.status, 200);
        line.refuse_gets(false);
        app.events_are_over().await;

        assert_eq!(app.attempts("inv_1").await, ["failed", "needs_review"]);
        app.charge("inv_1").await.assert(409, "charge_needs_review", "unknown", "later");
    }

    async fn a_second_payment_of_a_paid_or_void_invoice_changes_nothing_and_is_told(engine) {
        let app = TestApp::with(engine).set("STRIPE_WEBHOOK_SECRET", SECRET).start().await;
        let ours = app.installation().await;
        app.invoice("void").await;
        app.post("/v1/invoices/void/void", &json!({})).await;
        app.invoice("paid").await;
        let paid = app.charge("paid").await;
        let payments = [app.payment_from_nowhere("void", &ours).await, app.payment_from_nowhere("paid", &ours).await];
        for payment in &payments {
            assert_eq!(app.signed(&about(payment)).await.status, 200);
        }
        app.events_are_over().await;

        assert_eq!(app.events().await, ["done contradiction payment_intent.succeeded"; 2]);
        let metrics = app.get("/metrics").await.body;
        assert!(metrics.contains("chargeonce_webhook_events_total{outcome=\"contradiction\"} 2"), "{metrics}");
        assert_eq!(app.attempts("void").await, Vec::<String>::new());
        assert_eq!(app.charge("paid").await.body, paid.body);
    }

    async fn an_event_while_the_provider_cannot_be_asked_waits(engine) {
        let (mock, line) = (MockStripe::new(), crate::support::Line::default());
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).set("STRIPE_WEBHOOK_SECRET", SECRET).start().await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::Processing, 1);
        let told = app.charge("inv_1").await;
        let payment_id = told.text("providerPaymentId");
        app.mock.settle_processing(&payment_id, true);
        line.refuse_gets(true);
        assert_eq!(app.signed(&about(&payment_id)).await.status, 200);
        for _ in 0..3 {
            app.sweep().await;
            app.age(Duration::from_secs(300)).await;
        }
        assert_eq!(app.attempts("inv_1").await, ["processing"]);
        assert!(app.events().await.iter().all(|event| event.starts_with("pending")));

        line.refuse_gets(false);
        app.events_are_over().await;

        assert_eq!(app.attempts("inv_1").await, ["succeeded"]);
        app.check_oracles(&[told]).await;
    }
}
