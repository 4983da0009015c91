//! Parts of a charge, each under a key of the caller's: two keys are two refunds, a repeated key is one, and all of them
//! together never exceed the charge.

use std::time::Duration;

use chargeonce::payments::mock::Fault;
use futures_util::future::join_all;
use serde_json::json;

use crate::access::with_keys;
use crate::support::{Reply, SENDS_MAX, TestApp};

on_both_stores! {
    async fn two_keys_are_two_refunds_and_each_is_repeated_under_its_own(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        // Twice the same amount on purpose.
        let first = app.give_part(&charge, 500, "return-1").await;
        let second = app.give_part(&charge, 500, "return-2").await;
        for given in [&first, &second] {
            given.assert_refund(201, "", "yes", "not_needed");
            assert!(!given.is_replay(), "{given:#?}");
        }
        assert_ne!(first.text("id"), second.text("id"));

        let mut replies = vec![first.clone(), second.clone()];
        for (given, key) in [(&first, "return-1"), (&second, "return-2"), (&first, "\"return-1\"")] {
            let again = app.give_part(&charge, 500, key).await;
            assert_eq!((again.status, &again.body, again.is_replay()), (201, &given.body, true));
            replies.push(again);
        }
        // Keys of refunds stay as long as the refunds.
        app.age(Duration::from_secs(400 * 86_400)).await;
        app.sweep().await;
        let again = app.give_part(&charge, 500, "return-1").await;
        assert_eq!((&again.body, again.is_replay()), (&first.body, true));
        replies.push(again);

        assert_eq!(app.given(&charge), [500, 500]);
        app.check_refunds(&replies).await;
    }

    async fn a_part_without_a_key_is_refused(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        let refused = app.post("/v1/refunds", &json!({"chargeId": charge, "amountCents": 500})).await;
        refused.assert_refund(400, "idempotency_key_required", "no", "after_change");
        assert_eq!(refused.text("field"), "Idempotency-Key");
        assert_eq!(app.refund_sends(), Vec::<String>::new());
        app.check_refunds(&[refused]).await;
    }

    async fn a_key_with_other_content_is_refused_while_the_first_runs_and_after_it(engine) {
        let app = TestApp::start(engine).await;
        let (charge, other) = (app.paid("inv_1").await, app.paid("inv_2").await);
        app.next_refund_fault(Fault::DropAfter, SENDS_MAX);
        let mut replies = vec![app.give_part(&charge, 500, "k").await];
        replies[0].assert_refund(202, "", "unknown", "later");
        for _ in 0..2 {
            let with_reason = json!({"chargeId": charge, "amountCents": 500, "reason": "duplicate"});
            let reused = [
                app.give_part(&charge, 501, "k").await,
                app.give_part(&other, 500, "k").await,
                app.post_with("/v1/refunds", &with_reason, &[("Idempotency-Key", "k")]).await,
            ];
            for reply in &reused {
                reply.assert_refund(422, "idempotency_key_reused", "no", "after_change");
            }
            replies.extend(reused);
            app.past_lease().await;
            replies.push(app.give_part(&charge, 500, "k").await);
            replies.last().unwrap().assert_refund(201, "", "yes", "not_needed");
        }
        assert_eq!((app.given(&charge), app.given(&other)), (vec![500], vec![]));
        app.check_refunds(&replies).await;
    }

    async fn five_calls_at_once_under_one_key_whose_answers_are_lost_are_one_refund(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        app.next_refund_fault(Fault::DropAfter, SENDS_MAX);

        let mut replies = join_all((0..5).map(|_| app.give_part(&charge, 400, "k"))).await;
        app.past_lease().await;
        replies.extend(join_all((0..5).map(|_| app.give_part(&charge, 400, "k"))).await);
        let last = app.give_part(&charge, 400, "k").await;

        last.assert_refund(201, "", "yes", "not_needed");
        assert_eq!(app.given(&charge), [400]);
        replies.push(last);
        app.check_refunds(&replies).await;
    }

    async fn of_ten_parts_at_once_on_two_replicas_those_that_fit_are_given_and_no_more(engine) {
        let app = TestApp::start(engine).await;
        let replica = app.replica().start().await;
        let charge = app.paid("inv_1").await;
        app.mock.set_latency(Duration::from_millis(100));
        let keys: Vec<String> = (0..10).map(|n| format!("k{n}")).collect();

        let replies = join_all(keys.iter().enumerate().map(|(n, key)| {
            let app = if n % 2 == 0 { &app } else { &replica };
            app.give_part(&charge, 400, key)
        })).await;

        let (given, refused): (Vec<&Reply>, Vec<&Reply>) = replies.iter().partition(|reply| reply.status == 201);
        assert_eq!((given.len(), refused.len()), (3, 7), "{replies:#?}");
        for reply in refused {
            reply.assert_refund(409, "refund_exceeds_charge", "no", "after_change");
            assert_eq!(reply.text("field"), "amountCents");
        }
        assert_eq!((app.given(&charge), app.refunded(&charge).await), (vec![400; 3], 1200));
        assert_eq!(app.refund_sends().len(), 3, "the provider was asked for no more");
        app.check_refunds(&replies).await;
    }

    async fn the_rest_is_what_the_parts_have_left_and_after_it_nothing_is(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        let part = app.give_part(&charge, 450, "k1").await;
        let too_much = app.give_part(&charge, 801, "k2").await;
        too_much.assert_refund(409, "refund_exceeds_charge", "no", "after_change");
        assert!(too_much.text("detail").contains("USD 8.00"), "{too_much:#?}");
        let rest = app.give_back(&charge).await;
        rest.assert_refund(201, "", "yes", "not_needed");
        assert_eq!(rest.text("amountCents"), "800");
        let again = app.give_back(&charge).await;
        assert_eq!((&again.body, again.is_replay()), (&rest.body, true));
        let late = app.give_part(&charge, 1, "k3").await;
        late.assert_refund(409, "refund_exceeds_charge", "no", "after_change");
        assert_eq!(app.given(&charge), [450, 800]);

        // All of another one in parts: nothing is left for its natural key.
        let other = app.paid("inv_2").await;
        app.next_refund_fault(Fault::DropAfter, SENDS_MAX);
        let lost = app.give_part(&other, 1250, "k4").await;
        lost.assert_refund(202, "", "unknown", "later");
        let not_yet = app.give_back(&other).await;
        not_yet.assert_refund(409, "refund_in_progress", "unknown", "later");
        app.past_lease().await;
        let found = app.give_part(&other, 1250, "k4").await;
        let nothing_left = app.give_back(&other).await;
        nothing_left.assert_refund(409, "refund_exceeds_charge", "yes", "never");
        app.check_refunds(&[part, too_much, rest, again, late, lost, not_yet, found, nothing_left]).await;
    }

    async fn a_part_that_failed_is_repeated_under_its_key_and_takes_no_room(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        let payment = app.mock.ledger().payments[0].id.clone();
        app.by_another_program("/v1/refunds", "by hand", &format!("payment_intent={payment}&amount=1000")).await;

        let failed = app.give_part(&charge, 500, "k1").await;
        failed.assert_refund(402, "refund_failed", "no", "after_change");
        let sent = app.refund_sends().len();
        let again = app.give_part(&charge, 500, "k1").await;
        assert_eq!((again.status, &again.body, again.is_replay()), (402, &failed.body, true));
        assert_eq!((app.refund_sends().len(), app.refunded(&charge).await), (sent, 0));
        let other_key = app.give_part(&charge, 250, "k2").await;
        other_key.assert_refund(201, "", "yes", "not_needed");

        assert_eq!(app.refunds_of(&charge).await, ["failed", "succeeded"]);
        app.check_refunds(&[failed, again, other_key]).await;
    }

    async fn a_key_is_its_senders_own(engine) {
        let keys = "ops=secret-of-the-operators,support=secret-of-the-supporters";
        let app = with_keys(engine, &[("ADMIN_API_KEYS", keys)]).await;
        let charge = app.paid("inv_1").await;
        let mine = app.give_part(&charge, 500, "k").await;
        let headers = [("Authorization", "Bearer secret-of-the-supporters"), ("Idempotency-Key", "k")];
        let body = json!({"chargeId": charge, "amountCents": 500});

        let theirs = app.post_with("/v1/refunds", &body, &headers).await;

        theirs.assert_refund(201, "", "yes", "not_needed");
        assert_ne!(mine.text("id"), theirs.text("id"), "nobody sees another's answer");
        assert_eq!(app.given(&charge), [500, 500]);
        app.check_refunds(&[mine, theirs]).await;
    }
}
