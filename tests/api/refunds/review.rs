//! Refunds that only a person can judge: parked, told truthfully, and ended with evidence.

use chargeonce::payments::mock::{Fault, MockStripe};
use serde_json::{Value, json};

use crate::support::{Line, Reply, SENDS_MAX, TestApp};

fn refund_id(reply: &Reply) -> String {
    reply.json()["refund"]["id"].as_str().unwrap().to_owned()
}

async fn resolve(app: &TestApp, id: &str, body: Value) -> Reply {
    app.post(&format!("/v1/refunds/{id}/resolve"), &body).await
}

on_both_stores! {
    async fn a_wrong_amount_is_parked_and_decided_by_a_person(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        app.refund_fault(&charge, Fault::WrongAmount, 1);
        let mut replies = vec![app.give_back(&charge).await];
        let sent = app.refund_sends();
        app.hours_later(30).await;
        app.sweep().await;
        replies.push(app.give_back(&charge).await);
        for reply in &replies {
            reply.assert_refund(409, "refund_needs_review", "unknown", "later");
        }
        let id = refund_id(&replies[0]);
        let given = app.mock.ledger().refunds[0].id.clone();

        let failed = json!({"outcome": "failed", "note": "no", "force": true});
        resolve(&app, &id, failed).await.assert_refund(409, "resolution_contradicted", "yes", "after_change");
        let by = |force: bool| json!({"outcome": "succeeded", "providerRefundId": given, "note": "a cent less, agreed", "force": force});
        let refused = resolve(&app, &id, by(false)).await;
        refused.assert_refund(409, "resolution_contradicted", "unknown", "after_change");
        let resolved = resolve(&app, &id, by(true)).await;
        assert_eq!((resolved.status, resolved.text("status"), resolved.text("refunded")), (200, "succeeded".into(), "yes".into()), "{resolved:#?}");
        resolve(&app, &id, by(true)).await.assert_refund(409, "refund_not_in_review", "yes", "never");
        let replay = app.give_back(&charge).await;

        replay.assert_refund(201, "", "yes", "not_needed");
        assert!(replay.is_replay());
        assert_eq!((replay.text("id"), replay.text("providerRefundId")), (id.clone(), given));
        assert_eq!(app.refund_sends(), sent);
        let history = app.get(&format!("/v1/refunds/{id}/evidence")).await.json();
        let what: Vec<&str> = history["data"].as_array().unwrap().iter().map(|line| line["what"].as_str().unwrap()).collect();
        assert_eq!(what, ["send", "record", "resolution"]);
        replies.push(replay);
        app.check_refunds(&replies).await;
    }

    async fn a_key_that_was_used_for_something_else_is_parked_and_ended_as_a_failure(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        app.by_another_program("/v1/customers", &format!("refund:{charge}"), "name=Ann").await;
        let parked = app.give_back(&charge).await;
        parked.assert_refund(409, "refund_needs_review", "unknown", "later");
        assert_eq!(app.refunded(&charge).await, 1250, "it takes its room until somebody has decided");

        let resolved = resolve(&app, &refund_id(&parked), json!({"outcome": "failed", "note": "none there"})).await;
        assert_eq!((resolved.status, resolved.text("status"), resolved.text("refunded")), (200, "failed".into(), "no".into()), "{resolved:#?}");
        let given = app.give_back(&charge).await;

        given.assert_refund(201, "", "yes", "not_needed");
        assert_eq!(given.text("idempotencyKey"), format!("refund:{charge}:2"));
        assert_eq!(app.refunds_of(&charge).await, ["failed", "succeeded"]);
        app.check_refunds(&[parked, given]).await;
    }

    async fn only_a_parked_refund_can_be_resolved_and_only_with_evidence(engine) {
        let app = TestApp::start(engine).await;
        let (charge, other, third) = (app.paid("inv_1").await, app.paid("inv_2").await, app.paid("inv_3").await);
        app.by_another_program("/v1/customers", &format!("refund:{charge}"), "name=Ann").await;
        let parked = refund_id(&app.give_back(&charge).await);
        let given = app.give_back(&other).await;
        app.refund_fault(&third, Fault::DropAfter, SENDS_MAX);
        let running = app.give_back(&third).await.text("id");
        let by = |id: &str| json!({"outcome": "succeeded", "providerRefundId": id, "note": "x"});
        let failed = || json!({"outcome": "failed", "note": "x"});
        #[rustfmt::skip]
        let table = [
            ("a success without a refund", parked.as_str(), json!({"outcome": "succeeded", "note": "x"}), 422, "invalid_request"),
            ("a failure with a refund", &parked, json!({"outcome": "failed", "providerRefundId": "re_1", "note": "x"}), 422, "invalid_request"),
            ("without a note", &parked, json!({"outcome": "failed"}), 422, "invalid_request"),
            ("an unknown field", &parked, json!({"outcome": "failed", "note": "x", "amount": 1}), 422, "invalid_request"),
            ("no such refund there", &parked, by("re_none"), 409, "resolution_contradicted"),
            ("another refund of ours", &parked, by(&given.text("providerRefundId")), 409, "resolution_contradicted"),
            ("one that was given", &given.text("id"), failed(), 409, "refund_not_in_review"),
            ("a running one", &running, failed(), 409, "refund_not_in_review"),
            ("no refund", "rfd_none", failed(), 404, "refund_not_found"),
        ];
        for (case, id, body, status, code) in table {
            let refused = resolve(&app, id, body).await;
            assert_eq!((refused.status, refused.text("code")), (status, code.to_owned()), "{case}: {refused:#?}");
            refused.check_refund_contract();
        }
        assert_eq!(app.refunds_of(&charge).await, ["needs_review"]);
        assert_eq!(app.refunds_of(&third).await, ["pending"]);
        app.check_refunds(&[given]).await;
    }

    async fn an_operator_may_insist_where_the_provider_cannot_be_asked(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        let charge = app.paid("inv_1").await;
        app.by_another_program("/v1/customers", &format!("refund:{charge}"), "name=Ann").await;
        let parked = app.give_back(&charge).await;
        line.refuse_gets(true);
        let failed = |force: bool| json!({"outcome": "failed", "note": "seen in the dashboard", "force": force});

        let away = resolve(&app, &refund_id(&parked), failed(false)).await;
        away.assert_refund(503, "provider_unavailable", "unknown", "later");
        let resolved = resolve(&app, &refund_id(&parked), failed(true)).await;

        assert_eq!((resolved.status, resolved.text("status")), (200, "failed".into()), "{resolved:#?}");
        // The provider cannot be asked for a latecomer: no further attempt starts.
        app.give_back(&charge).await.assert_refund(503, "provider_unavailable", "no", "later");
        line.refuse_gets(false);
        app.give_back(&charge).await.assert_refund(201, "", "yes", "not_needed");
        app.check_refunds(&[parked, away]).await;
    }
}
