//! What only a person can judge: parked, told truthfully, and ended with evidence.

use chargeonce::payments::mock::{Fault, FaultRule, MockStripe};
use serde_json::{Value, json};

use crate::support::{Line, Reply, SENDS_MAX, Swept, TestApp};

/// Another program on the account has used our key for something else.
async fn take_the_key(app: &TestApp, key: &str) {
    app.by_another_program("/v1/customers", key, "name=Ann")
        .await;
}

pub fn charge_id(reply: &Reply) -> String {
    reply.json()["charge"]["id"].as_str().unwrap().to_owned()
}

pub async fn resolve(app: &TestApp, id: &str, body: Value) -> Reply {
    app.post(&format!("/v1/charges/{id}/resolve"), &body).await
}

on_both_stores! {
    async fn a_wrong_amount_is_parked_and_resolved_as_a_success(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::WrongAmount, 1);
        let mut replies = vec![app.charge("inv_1").await];
        let sent = app.sends();
        let payment_id = app.mock.ledger().payments[0].id.clone();

        replies.push(app.charge("inv_1").await);
        app.hours_later(30).await;
        replies.push(app.charge("inv_1").await);
        for reply in &replies {
            reply.assert(409, "charge_needs_review", "unknown", "later");
        }
        let id = charge_id(&replies[0]);
        let body = json!({"outcome": "succeeded", "providerPaymentId": payment_id, "note": "Seen in the dashboard."});
        let resolved = resolve(&app, &id, body).await;
        assert_eq!((resolved.status, resolved.text("status")), (200, "succeeded".into()), "{resolved:?}");
        let replay = app.charge("inv_1").await;

        replay.assert(201, "", "yes", "not_needed");
        assert!(replay.is_replay());
        assert_eq!((replay.text("id"), replay.text("providerPaymentId")), (id, payment_id));
        assert_eq!(app.sends(), sent);
        assert_eq!(app.invoice_status("inv_1").await, "paid");
        replies.push(replay);
        app.check_oracles(&replies).await;
    }

    async fn a_key_that_was_used_for_something_else_is_parked_and_resolved_as_a_failure(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        take_the_key(&app, "charge:inv_1").await;

        let parked = app.charge("inv_1").await;
        parked.assert(409, "charge_needs_review", "unknown", "later");
        app.change_card("inv_1", "pm_card_mastercard").await.assert(409, "charge_in_progress", "unknown", "later");
        let id = charge_id(&parked);
        let resolved = resolve(&app, &id, json!({"outcome": "failed", "note": "No payment there."})).await;
        assert_eq!((resolved.status, resolved.text("status")), (200, "failed".into()), "{resolved:?}");
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(charged.text("idempotencyKey"), "charge:inv_1:2");
        assert_eq!(app.attempts("inv_1").await, ["failed", "succeeded"]);
        app.check_oracles(&[parked, charged]).await;
    }

    async fn only_a_parked_charge_can_be_resolved_and_only_with_evidence(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        take_the_key(&app, "charge:inv_1").await;
        let parked = charge_id(&app.charge("inv_1").await);
        app.invoice("inv_2").await;
        let paid = app.charge("inv_2").await;
        app.invoice("inv_3").await;
        app.fault("inv_3", Fault::DropAfter, 3);
        let running = app.charge("inv_3").await.text("id");

        let success = json!({"outcome": "succeeded", "providerPaymentId": "pi_1", "note": "x"});
        #[rustfmt::skip]
        let table = [
            ("a success without a payment", parked.as_str(), json!({"outcome": "succeeded", "note": "x"}), 422, "invalid_request"),
            ("a failure with a payment", &parked, json!({"outcome": "failed", "providerPaymentId": "pi_1", "note": "x"}), 422, "invalid_request"),
            ("without a note", &parked, json!({"outcome": "failed"}), 422, "invalid_request"),
            ("with an empty note", &parked, json!({"outcome": "failed", "note": ""}), 422, "invalid_request"),
            ("another outcome", &parked, json!({"outcome": "perhaps", "note": "x"}), 422, "invalid_request"),
            ("an unknown field", &parked, json!({"outcome": "failed", "note": "x", "amount": 1}), 422, "invalid_request"),
            ("a paid charge, as failed", &paid.text("id"), json!({"outcome": "failed", "note": "x"}), 409, "charge_not_in_review"),
            ("a paid charge, as paid", &paid.text("id"), success.clone(), 409, "charge_not_in_review"),
            ("a running charge", &running, json!({"outcome": "failed", "note": "x"}), 409, "charge_not_in_review"),
            ("no charge", "chg_none", success, 404, "charge_not_found"),
        ];
        for (case, id, body, status, code) in table {
            let refused = resolve(&app, id, body).await;
            assert_eq!((refused.status, refused.text("code")), (status, code.to_owned()), "{case}: {refused:#?}");
        }

        assert_eq!(app.attempts("inv_1").await, ["needs_review"]);
        assert_eq!(app.attempts("inv_2").await, ["succeeded"]);
        assert_eq!(app.attempts("inv_3").await, ["pending"]);
        app.check_oracles(&[paid]).await;
    }

    async fn a_decision_is_checked_at_the_provider_first(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::WrongAmount, 1);
        let parked = app.charge("inv_1").await;
        let id = charge_id(&parked);
        app.invoice("inv_2").await;
        let paid = app.charge("inv_2").await;
        let unconfirmed = app.mock.ledger().payments.len();
        app.mock.add_fault(FaultRule::once(Fault::Processing).for_key("charge:inv_3"));
        app.invoice("inv_3").await;
        let processing = app.charge("inv_3").await;
        assert_eq!(app.mock.ledger().payments.len(), unconfirmed + 1);

        let failed = json!({"outcome": "failed", "note": "x"});
        let by = |payment: &str| json!({"outcome": "succeeded", "providerPaymentId": payment, "note": "x"});
        #[rustfmt::skip]
        let table = [
            ("it took money", failed.clone(), "has taken the money"),
            ("no such payment", by("pi_none"), "knows no payment"),
            ("another invoice's payment", by(&paid.text("providerPaymentId")), "already pays charge"),
            ("another invoice's payment without a verdict", by(&processing.text("providerPaymentId")), "not made for this invoice"),
        ];
        for (case, body, says) in table {
            let refused = resolve(&app, &id, body).await;
            assert_eq!((refused.status, refused.text("code")), (409, "resolution_contradicted".into()), "{case}: {refused:#?}");
            assert!(refused.text("detail").contains(says), "{case}: {refused:#?}");
        }
        line.refuse_gets(true);
        let away = resolve(&app, &id, failed.clone()).await;
        away.assert(503, "provider_unavailable", "unknown", "later");
        assert_eq!(app.attempts("inv_1").await, ["needs_review"]);

        // Money that was kept cannot be called a failure by anybody.
        line.refuse_gets(false);
        let forced = json!({"outcome": "failed", "note": "I know better", "force": true});
        let refused = resolve(&app, &id, forced.clone()).await;
        assert_eq!((refused.status, refused.text("customerCharged")), (409, "yes".into()), "{refused:#?}");
        app.refund(parked.json()["charge"]["providerPaymentId"].as_str().unwrap()).await;
        let resolved = resolve(&app, &id, failed).await;
        assert_eq!((resolved.status, resolved.text("status")), (200, "failed".into()), "{resolved:#?}");
        let charged = app.charge("inv_1").await;
        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(charged.text("attempt"), "2");
    }

    async fn an_operator_may_insist_where_the_provider_cannot_be_asked(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa"})).await;
        take_the_key(&app, "charge:inv_1").await;
        let parked = app.charge("inv_1").await;
        let id = charge_id(&parked);
        line.refuse_gets(true);
        let forced = json!({"outcome": "failed", "note": "seen in the dashboard", "force": true});

        let resolved = resolve(&app, &id, forced).await;

        assert_eq!((resolved.status, resolved.text("status")), (200, "failed".into()), "{resolved:#?}");
        let history = app.get(&format!("/v1/charges/{id}/evidence")).await.json();
        let last = history["data"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["what"], "resolution");
        assert!(last["detail"].as_str().unwrap().contains("decided all the same"), "{last}");
        app.check_oracles(&[parked]).await;
    }

    async fn a_charge_of_another_provider_is_not_decided_by_asking_this_one(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::WrongAmount, 1);
        let parked = app.charge("inv_1").await;
        let (mock, line) = (MockStripe::new(), Line::default());
        let other = line.provider_named("another", &mock);
        let changed = app.replica().mock(&mock).provider(other).start().await;

        let refused = resolve(&changed, &charge_id(&parked), json!({"outcome": "failed", "note": "none there"})).await;

        assert_eq!((refused.status, refused.text("code")), (409, "resolution_contradicted".into()), "{refused:#?}");
        assert_eq!(app.attempts("inv_1").await, ["needs_review"]);
        app.check_oracles(&[parked]).await;
    }

    async fn a_success_beside_another_payment_that_took_money_is_refused(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::WrongAmount, 1);
        let parked = app.charge("inv_1").await;
        let id = charge_id(&parked);
        let first = parked.json()["charge"]["providerPaymentId"].as_str().unwrap().to_owned();
        let ours = app.installation().await;
        let second = app.payment_from_nowhere("inv_1", &ours).await;
        let by_first = json!({"outcome": "succeeded", "providerPaymentId": first, "note": "x"});

        let refused = resolve(&app, &id, by_first.clone()).await;
        assert_eq!((refused.status, refused.text("code")), (409, "resolution_contradicted".into()), "{refused:#?}");
        assert!(refused.text("detail").contains(&second), "{refused:#?}");
        app.refund(&second).await;
        assert_eq!(resolve(&app, &id, by_first).await.status, 200);

        assert_eq!(app.attempts("inv_1").await, ["succeeded"]);
    }

    async fn a_payment_that_was_given_back_pays_nothing(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        let lost = app.charge("inv_1").await;
        let paid = app.mock.ledger().payments[0].id.clone();
        app.refund(&paid).await;

        // Looked up, not sent again.
        app.hours_later(21).await;
        assert_eq!(app.sweep().await, Swept::of(&[("needs_review", 1)]));

        let parked = app.charge("inv_1").await;
        let by_it = json!({"outcome": "succeeded", "providerPaymentId": paid, "note": "x"});
        let refused = resolve(&app, &charge_id(&parked), by_it).await;
        assert_eq!(refused.text("code"), "resolution_contradicted");
        let resolved = resolve(&app, &charge_id(&parked), json!({"outcome": "failed", "note": "refunded"})).await;
        assert_eq!(resolved.status, 200, "{resolved:#?}");
        // The next attempt does not take the refunded payment for its own success.
        app.mock.add_fault(FaultRule::once(Fault::Error500Before).for_key("charge:inv_1:2"));
        let unknown = app.charge("inv_1").await;
        unknown.assert(202, "", "unknown", "later");
        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of(&[("unknown", 1)]));
        app.hours_later(25).await;
        assert_eq!(app.sweep().await, Swept::of(&[("failed", 1)]));
        assert_eq!(app.attempts("inv_1").await, ["failed", "failed"]);
        lost.check_contract();
    }

    async fn a_payment_that_nobody_completed_is_closed_before_a_failure_is_recorded(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        take_the_key(&app, "charge:inv_1").await;
        let parked = app.charge("inv_1").await;
        let ours = app.installation().await;
        let body = format!(
            "amount=1250&currency=usd&customer=cus_1&payment_method=pm_card_visa&metadata[invoice_id]=inv_1&metadata[installation_id]={ours}"
        );
        app.by_another_program("/v1/payment_intents", "nowhere", &body).await;
        assert_eq!(app.mock.ledger().payments.last().unwrap().status, "requires_confirmation");

        let resolved = resolve(&app, &charge_id(&parked), json!({"outcome": "failed", "note": "nothing there"})).await;

        assert_eq!(resolved.status, 200, "{resolved:#?}");
        assert_eq!(app.mock.ledger().payments.last().unwrap().status, "canceled");
        let charged = app.charge("inv_1").await;
        charged.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[parked, charged]).await;
    }

    async fn a_conflict_over_a_key_that_cannot_be_looked_up_comes_to_a_person_at_once(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa"})).await;
        take_the_key(&app, "charge:inv_1").await;
        line.refuse_gets(true);

        let parked = app.charge("inv_1").await;

        parked.assert(409, "charge_needs_review", "unknown", "later");
        line.refuse_gets(false);
        app.hours_later(50).await;
        assert_eq!(app.sweep().await, Swept::default(), "nobody decides it by the clock");
        assert_eq!(app.attempts("inv_1").await, ["needs_review"]);
        app.check_oracles(&[parked]).await;
    }
}
