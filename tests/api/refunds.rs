//! Giving back what is left of a charge: once, whoever calls it and however often.

mod notices;
mod parts;
mod recovery;
mod review;
mod unknown;

use std::time::Duration;

use chargeonce::payments::mock::{Fault, MockStripe};
use futures_util::future::join_all;
use serde_json::json;

use crate::access::{AGENT, with_keys};
use crate::overload::in_flight;
use crate::support::{Engine, Line, Reply, SENDS_MAX, TestApp};

/// One of each refusal, for the table of all codes.
pub async fn refusals(engine: Engine) -> Vec<Reply> {
    let app = TestApp::start(engine).await;
    let [charge, taken, lost, given] = ["inv_1", "inv_2", "inv_3", "inv_4"];
    let (charge, taken) = (app.paid(charge).await, app.paid(taken).await);
    let (lost, given) = (app.paid(lost).await, app.paid(given).await);
    app.invoice("inv_5").await;
    app.fault("inv_5", Fault::DropAfter, SENDS_MAX);
    let unknown = app.charge("inv_5").await.text("id");
    let mut replies = vec![
        app.post(
            "/v1/refunds",
            &json!({"chargeId": charge, "amountCents": 1}),
        )
        .await,
        app.give_part(&charge, 1251, "k").await,
        app.give_back(&unknown).await,
        app.get("/v1/refunds/rfd_none").await,
    ];
    let payment = app.mock.ledger().payments[0].id.clone();
    app.refund(&payment).await;
    replies.push(app.give_back(&charge).await);
    app.by_another_program("/v1/customers", &format!("refund:{taken}"), "name=Ann")
        .await;
    replies.push(app.give_back(&taken).await);
    app.refund_fault(&lost, Fault::DropAfter, SENDS_MAX);
    app.give_back(&lost).await;
    replies.push(app.give_back(&lost).await);
    let done = app.give_back(&given).await.text("id");
    let verdict = json!({"outcome": "failed", "note": "Looked at by nobody"});
    replies.push(
        app.post(&format!("/v1/refunds/{done}/resolve"), &verdict)
            .await,
    );
    app.check_refunds(&replies).await;
    replies
}

on_both_stores! {
    async fn a_charge_is_given_back_once_and_every_further_call_repeats_the_answer(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;

        let first = app.give_back(&charge).await;
        first.assert_refund(201, "", "yes", "not_needed");
        assert!(!first.is_replay());
        assert_eq!(first.header("location"), Some(format!("/v1/refunds/{}", first.text("id")).as_str()));
        assert_eq!((first.text("chargeId"), first.text("amountCents"), first.text("currency")), (charge.clone(), "1250".into(), "usd".into()));
        assert_eq!((first.text("idempotencyKey"), first.text("attempt")), (format!("refund:{charge}"), "1".into()));
        let mut replies = vec![first.clone()];
        for reason in [None, Some("duplicate")] {
            replies.push(app.post("/v1/refunds", &json!({"chargeId": charge, "reason": reason})).await);
        }
        replies.push(app.post_with("/v1/refunds", &json!({"chargeId": charge}), &[("Idempotency-Key", "decides nothing")]).await);
        app.age(Duration::from_secs(400 * 86_400)).await;
        replies.push(app.give_back(&charge).await);

        for again in &replies[1..] {
            assert!(again.is_replay(), "{again:#?}");
            assert_eq!((again.status, &again.body, again.header("location")), (201, &first.body, first.header("location")));
        }
        assert_eq!(app.given(&charge), [1250]);
        assert_eq!(app.refund_sends(), [format!("refund:{charge}")]);
        assert_eq!((app.refunds_of(&charge).await, app.refunded(&charge).await), (vec!["succeeded".to_owned()], 1250));
        // The charge's own answer stays what it was.
        app.charge("inv_1").await.assert(201, "", "yes", "not_needed");
        app.check_refunds(&replies).await;
    }

    async fn five_calls_at_once_whose_answers_are_lost_are_one_refund(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        app.refund_fault(&charge, Fault::DropAfter, SENDS_MAX);

        let mut replies = join_all((0..5).map(|_| app.give_back(&charge))).await;
        let lost = replies.iter().filter(|reply| reply.status == 202).count();
        assert_eq!(lost, 1, "{replies:#?}");
        for reply in replies.iter().filter(|reply| reply.status != 202) {
            reply.assert_refund(409, "refund_in_progress", "unknown", "later");
        }
        assert_eq!(app.given(&charge), [1250], "the money is on its way, and nobody knows");
        app.past_lease().await;
        let found = join_all((0..5).map(|_| app.give_back(&charge))).await;
        assert_eq!(found.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).count(), 1, "{found:#?}");
        replies.extend(found);
        replies.extend(join_all((0..5).map(|_| app.give_back(&charge))).await);

        assert!(replies[10..].iter().all(|reply| reply.status == 201 && reply.is_replay()), "{replies:#?}");
        assert_eq!(app.given(&charge), [1250]);
        app.check_refunds(&replies).await;
    }

    async fn two_hundred_calls_on_two_replicas_are_one_refund(engine) {
        let app = TestApp::start(engine).await;
        let replica = app.replica().start().await;
        let charge = app.paid("inv_1").await;
        app.mock.set_latency(Duration::from_millis(300));

        let replies = join_all((0..200).map(|n| if n % 2 == 0 { app.give_back(&charge) } else { replica.give_back(&charge) })).await;

        assert_eq!(replies.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).count(), 1);
        for reply in replies.iter().filter(|reply| reply.status != 201) {
            reply.assert_refund(409, "refund_in_progress", "unknown", "later");
        }
        assert_eq!(app.refund_sends(), [format!("refund:{charge}")]);
        app.check_refunds(&replies).await;
    }

    async fn a_call_that_meets_a_running_refund_waits_for_it_if_it_likes(engine) {
        let app = TestApp::start(engine).await;
        let replica = app.replica().start().await;
        let charge = app.paid("inv_1").await;
        let gate = app.line.hold_posts().await;
        let body = json!({"chargeId": charge});
        let left = app.post_with("/v1/refunds", &body, &[("Prefer", "wait=0")]).await;
        left.assert_refund(202, "", "unknown", "later");

        let busy = app.give_back(&charge).await;
        busy.assert_refund(409, "refund_in_progress", "unknown", "later");
        let waiting = [("Prefer", "wait=10")];
        let release = async {
            in_flight(&app, "requests", 1.0).await;
            in_flight(&replica, "requests", 1.0).await;
            drop(gate);
        };
        let (here, there) = (app.post_with("/v1/refunds", &body, &waiting), replica.post_with("/v1/refunds", &body, &waiting));
        let (here, there, ()) = tokio::join!(here, there, release);

        for reply in [&here, &there] {
            reply.assert_refund(201, "", "yes", "not_needed");
            assert_eq!((reply.is_replay(), reply.header("preference-applied")), (true, Some("wait=10")), "{reply:#?}");
        }
        assert_eq!(app.given(&charge), [1250]);
        app.check_refunds(&[left, busy, here, there]).await;
    }

    async fn only_a_charge_that_took_the_money_can_be_given_back(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("declined", json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;
        let declined = app.charge("declined").await.json()["charge"]["id"].as_str().unwrap().to_owned();
        app.invoice("lost").await;
        app.fault("lost", Fault::DropAfter, SENDS_MAX);
        let lost = app.charge("lost").await.text("id");

        let replies = [
            app.give_back("chg_none").await,
            app.give_back(&declined).await,
            app.give_part(&lost, 100, "k").await,
        ];

        replies[0].assert_refund(404, "charge_not_found", "no", "after_change");
        replies[1].assert_refund(409, "charge_not_refundable", "no", "never");
        replies[2].assert_refund(409, "charge_not_refundable", "no", "later");
        assert_eq!(app.refund_sends(), Vec::<String>::new());
        app.past_lease().await;
        app.charge("lost").await.assert(201, "", "yes", "not_needed");
        // The refusal has not used the key up.
        let given = app.give_part(&lost, 100, "k").await;
        given.assert_refund(201, "", "yes", "not_needed");
        app.check_refunds(&[&replies[..], &[given]].concat()).await;
    }

    async fn money_that_somebody_gave_back_by_hand_is_not_given_back_again(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        let payment = app.mock.ledger().payments[0].id.clone();
        let half = format!("payment_intent={payment}&amount=600");
        app.by_another_program("/v1/refunds", "by hand", &half).await;

        // Our books know nothing of it: the provider refuses what is too much.
        let too_much = app.give_back(&charge).await;
        too_much.assert_refund(402, "refund_failed", "no", "after_change");
        assert_eq!(app.refunded(&charge).await, 0);
        let again = app.give_back(&charge).await;
        again.assert_refund(402, "refund_failed", "no", "after_change");
        assert_eq!(again.json()["refund"]["idempotencyKey"], format!("refund:{charge}:2"), "another attempt");
        let part = app.give_part(&charge, 650, "the other half").await;
        part.assert_refund(201, "", "yes", "not_needed");
        let nothing_left = app.give_back(&charge).await;
        nothing_left.assert_refund(402, "refund_failed", "yes", "never");

        assert_eq!(app.refunds_of(&charge).await, ["failed", "failed", "succeeded", "failed"]);
        app.check_refunds(&[too_much, again, part, nothing_left]).await;
    }

    async fn one_key_on_an_invoice_a_charge_and_a_refund_is_three_keys(engine) {
        let app = TestApp::start(engine).await;
        let key = [("Idempotency-Key", "task-7")];
        let invoice = json!({"id": "inv_1", "customerId": "cus_1", "amountCents": 1250, "currency": "usd"});
        assert_eq!(app.post_with("/v1/invoices", &invoice, &key).await.status, 201);
        let charged = app.post_with("/v1/charges", &json!({"invoiceId": "inv_1"}), &key).await;
        charged.assert(201, "", "yes", "not_needed");
        let charge = charged.text("id");

        let given = app.post_with("/v1/refunds", &json!({"chargeId": charge, "amountCents": 1250}), &key).await;

        given.assert_refund(201, "", "yes", "not_needed");
        assert!(!given.is_replay(), "{given:#?}");
        assert_eq!(app.given(&charge), [1250]);
        app.check_refunds(&[given]).await;
    }

    async fn a_refund_of_another_providers_charge_is_refused(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        let (mock, line) = (MockStripe::new(), Line::default());
        let changed = app.replica().mock(&mock).provider(line.provider_named("another", &mock)).start().await;

        let refused = changed.give_back(&charge).await;

        refused.assert_refund(409, "charge_not_refundable", "no", "after_change");
        assert_eq!(mock.requests().len(), 0);
        app.check_refunds(&[refused]).await;
    }

    async fn who_asked_is_kept_and_a_refund_is_read_and_listed(engine) {
        let app = with_keys(engine, &[]).await;
        let charge = app.paid("inv_1").await;
        let headers = [("X-Request-Id", "req-7"), ("X-Agent-Session", "task-7"), ("Idempotency-Key", "k1")];
        let part = app.post_with("/v1/refunds", &json!({"chargeId": charge, "amountCents": 250, "reason": "duplicate"}), &headers).await;
        let rest = app.give_back(&charge).await;
        assert!(!part.body.contains("askedBy"), "{part:#?}");

        let read = app.get(&format!("/v1/refunds/{}", part.text("id"))).await;
        assert_eq!((read.text("reason"), read.text("amountCents")), ("duplicate".into(), "250".into()));
        assert_eq!(read.json()["askedBy"], json!({"keyName": "ops", "requestId": "req-7", "session": "task-7"}));
        let ids = |reply: &Reply| -> Vec<String> {
            let data = reply.json()["data"].as_array().unwrap().clone();
            data.iter().map(|refund| refund["id"].as_str().unwrap().to_owned()).collect()
        };
        let page = app.get(&format!("/v1/refunds?chargeId={charge}&limit=1")).await;
        assert_eq!(ids(&page), [rest.text("id")]);
        let next = app.get(&format!("/v1/refunds?chargeId={charge}&status=succeeded&limit=1&cursor={}", page.text("nextCursor"))).await;
        assert_eq!((ids(&next), next.text("nextCursor")), (vec![part.text("id")], String::new()));
        assert_eq!(ids(&app.get("/v1/refunds?chargeId=chg_other").await), Vec::<String>::new());
        for bad in ["chargeId=a%20b", "status=done", "limit=0", "cursor=%21"] {
            app.get(&format!("/v1/refunds?{bad}")).await.assert_refund(400, "invalid_parameter", "no", "after_change");
        }
        for missing in ["/v1/refunds/rfd_none", "/v1/refunds/rfd_none/evidence"] {
            app.get(missing).await.assert_refund(404, "refund_not_found", "unknown", "after_change");
        }
        app.check_refunds(&[part, rest]).await;
    }

    async fn an_agent_gives_nothing_back(engine) {
        let app = with_keys(engine, &[]).await;
        let charge = app.paid("inv_1").await;
        let mut replies = Vec::new();
        for (authorization, status, code) in [(format!("Bearer {AGENT}"), 403, "forbidden"), ("Bearer nobody".into(), 401, "unauthorized")] {
            let headers = [("Authorization", authorization.as_str())];
            let refused = app.post_with("/v1/refunds", &json!({"chargeId": charge}), &headers).await;
            refused.assert_refund(status, code, "unknown", "after_change");
            replies.push(refused);
        }
        assert_eq!((app.refund_sends(), app.refunds_of(&charge).await), (Vec::new(), Vec::new()));
        app.check_refunds(&replies).await;
    }

    async fn a_bad_request_gives_nothing_back_and_uses_no_key_up(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        let key = [("Idempotency-Key", "k")];
        let mut replies = Vec::new();
        for body in [
            json!({}),
            json!({"chargeId": 7}),
            json!({"chargeId": ""}),
            json!({"chargeId": "a/b"}),
            json!({"chargeId": charge, "amountCents": 0}),
            json!({"chargeId": charge, "amountCents": -1}),
            json!({"chargeId": charge, "amountCents": 1.5}),
            json!({"chargeId": charge, "amountCents": "100"}),
            json!({"chargeId": charge, "amountCents": 100, "currency": "eur"}),
            json!({"chargeId": charge, "amountCents": 100, "reason": "because"}),
        ] {
            let refused = app.post_with("/v1/refunds", &body, &key).await;
            refused.assert_refund(422, "invalid_request", "no", "after_change");
            replies.push(refused);
        }
        let huge = app.give_part(&charge, i64::MAX, "k").await;
        huge.assert_refund(409, "refund_exceeds_charge", "no", "after_change");
        let odd = app.post_with("/v1/refunds", &json!({"chargeId": charge}), &[("Idempotency-Key", "")]).await;
        odd.assert_refund(400, "invalid_idempotency_key", "no", "after_change");
        let session = app.post_with("/v1/refunds", &json!({"chargeId": charge}), &[("X-Agent-Session", "a b")]).await;
        session.assert_refund(422, "invalid_request", "no", "after_change");
        assert_eq!((app.refund_sends(), app.refunded(&charge).await), (Vec::new(), 0));
        let given = app.give_part(&charge, 100, "k").await;
        given.assert_refund(201, "", "yes", "not_needed");
        replies.extend([huge, odd, session, given]);
        app.check_refunds(&replies).await;
    }
}
