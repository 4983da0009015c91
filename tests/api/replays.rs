//! The same call again: while the first runs, right after it, days later, and before there was anything to charge.

use futures_util::future::join_all;
use serde_json::json;

use crate::support::{TestApp, all_but_one};

on_both_stores! {
    async fn a_caller_that_gave_up_on_a_slow_call_gets_the_first_charge_later(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let gate = app.line.hold_posts().await;

        let impatient = app.client.post(format!("{}/v1/charges", app.url)).json_body(r#"{"invoiceId":"inv_1"}"#);
        tokio::select! {
            answer = impatient.send() => panic!("{answer:?}"),
            () = app.line.posts_are_held(1) => {}
        }
        let meanwhile = app.charge("inv_1").await;
        meanwhile.assert(409, "charge_in_progress", "unknown", "later");
        assert!(meanwhile.text("detail").contains("Do not change the request"), "{meanwhile:?}");
        drop(gate);
        let later = app.charge_waiting("inv_1", 20).await;

        later.assert(201, "", "yes", "not_needed");
        assert!(later.is_replay());
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[meanwhile, later]).await;
    }

    async fn nine_identical_calls_in_one_turn_are_one_charge(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let gate = app.line.hold_posts().await;

        let (busy, charged) = all_but_one((0..9).map(|_| app.charge("inv_1")), gate).await;

        charged.assert(201, "", "yes", "not_needed");
        assert!(!charged.is_replay());
        for reply in &busy {
            reply.assert(409, "charge_in_progress", "unknown", "later");
        }
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[busy, vec![charged]].concat()).await;
    }

    async fn fifty_first_calls_at_once_never_find_nothing(engine) {
        let app = TestApp::start(engine).await;
        let mut all = Vec::new();
        for round in 0..15 {
            let id = format!("inv_{round}");
            app.invoice(&id).await;

            let replies = join_all((0..50).map(|_| app.charge(&id))).await;

            let fresh = replies.iter().filter(|reply| reply.status == 201 && !reply.is_replay());
            assert_eq!(fresh.count(), 1, "round {round}");
            for reply in replies.iter().filter(|reply| reply.status != 201) {
                reply.assert(409, "charge_in_progress", "unknown", "later");
            }
            assert_eq!(app.sends_for(&id), 1, "round {round}");
            all.extend(replies);
        }
        app.check_oracles(&all).await;
    }

    async fn a_call_repeated_in_sequence_gets_the_same_bytes(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;

        let mut replies = vec![app.charge("inv_1").await];
        for _ in 0..5 {
            replies.push(app.charge("inv_1").await);
        }

        assert!(!replies[0].is_replay());
        for replay in &replies[1..] {
            assert!(replay.is_replay());
            assert_eq!((replay.status, &replay.body), (201, &replies[0].body));
            assert_eq!(replay.header("location"), replies[0].header("location"));
        }
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&replies).await;
    }

    async fn days_later_the_answer_comes_from_our_own_store(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let first = app.charge("inv_1").await;
        let asked = app.mock.ledger().requests;

        for hours in [25, 24 * 400] {
            app.hours_later(hours).await;
            let later = app.charge("inv_1").await;
            assert!(later.is_replay());
            assert_eq!(later.body, first.body);
            app.check_oracles(&[first.clone(), later]).await;
        }

        assert_eq!(app.mock.ledger().requests, asked, "the provider was asked again");
    }

    async fn a_success_cannot_be_undone_by_hand_and_then_charged_again(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let first = app.charge("inv_1").await;

        for undo in ["UPDATE charges SET status = 'failed'", "UPDATE invoices SET status = 'open'"] {
            assert!(app.database.try_execute(undo).await.is_err(), "{undo}");
        }
        let again = app.charge("inv_1").await;

        assert!(again.is_replay());
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[first, again]).await;
    }

    async fn an_invoice_that_was_not_there_is_charged_once_it_is(engine) {
        let app = TestApp::start(engine).await;

        let early = app.charge("inv_1").await;
        early.assert(404, "invoice_not_found", "no", "after_change");
        assert_eq!(app.database.number("SELECT COUNT(*) AS value FROM idempotency_keys").await, 0);
        app.invoice("inv_1").await;
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[early, charged]).await;
    }

    async fn a_void_invoice_is_never_charged(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        assert_eq!(app.post("/v1/invoices/inv_1/void", &json!({})).await.status, 200);

        let refused = app.charge("inv_1").await;

        refused.assert(409, "invoice_not_chargeable", "no", "never");
        assert_eq!(app.mock.ledger().requests, 0);
        app.check_oracles(&[refused]).await;
    }

    async fn the_invoice_decides_and_not_the_header_key(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.invoice("inv_2").await;
        let charge = async |invoice_id: &str, key: &str| {
            app.post_with("/v1/charges", &json!({"invoiceId": invoice_id}), &[("Idempotency-Key", key)]).await
        };

        let first = charge("inv_1", "task-1-step-1").await;
        let other_key = charge("inv_1", "task-2-step-1").await;
        let other_invoice = charge("inv_2", "task-1-step-1").await;

        first.assert(201, "", "yes", "not_needed");
        assert!(other_key.is_replay());
        assert_eq!(other_key.body, first.body);
        other_invoice.assert(201, "", "yes", "not_needed");
        assert!(!other_invoice.is_replay());
        assert_eq!(app.sends(), ["charge:inv_1", "charge:inv_2"]);
        app.check_oracles(&[first, other_key, other_invoice]).await;
    }
}

trait JsonBody {
    fn json_body(self, text: &'static str) -> Self;
}

impl JsonBody for reqwest::RequestBuilder {
    fn json_body(self, text: &'static str) -> Self {
        self.header("Content-Type", "application/json").body(text)
    }
}
