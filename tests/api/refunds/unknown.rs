//! Answers about refunds that were lost or say nothing: never called failed, never sent under another key, found in the end.

use chargeonce::payments::mock::{Fault, MockStripe};

use crate::support::{Line, Reply, SENDS_MAX, TestApp};

/// Status, code, `refunded`, `retry`.
type Answer = (u16, &'static str, &'static str, &'static str);

/// A fault, how often; then twice, now and after the lease: the answer, the refund's status, how often money was given back.
type Row = (
    Fault,
    u32,
    Answer,
    &'static str,
    usize,
    Answer,
    &'static str,
    usize,
);

const GIVEN: Answer = (201, "", "yes", "not_needed");
const NO_VERDICT: Answer = (202, "", "unknown", "later");
const REVIEW: Answer = (409, "refund_needs_review", "unknown", "later");
const UNAVAILABLE: Answer = (503, "provider_unavailable", "no", "later");

#[rustfmt::skip]
const TABLE: &[Row] = &[
    (Fault::Delay, 1, GIVEN, "succeeded", 1, GIVEN, "succeeded", 1),
    (Fault::DropBefore, 1, GIVEN, "succeeded", 1, GIVEN, "succeeded", 1),
    (Fault::DropAfter, 1, GIVEN, "succeeded", 1, GIVEN, "succeeded", 1),
    (Fault::HangBefore, 1, GIVEN, "succeeded", 1, GIVEN, "succeeded", 1),
    (Fault::HangAfter, 1, GIVEN, "succeeded", 1, GIVEN, "succeeded", 1),
    (Fault::Error500Before, 1, NO_VERDICT, "pending", 0, NO_VERDICT, "pending", 0),
    (Fault::Error500After, 1, GIVEN, "succeeded", 1, GIVEN, "succeeded", 1),
    (Fault::Error503, 1, GIVEN, "succeeded", 1, GIVEN, "succeeded", 1),
    (Fault::RateLimit, 1, GIVEN, "succeeded", 1, GIVEN, "succeeded", 1),
    (Fault::LockTimeout, 1, GIVEN, "succeeded", 1, GIVEN, "succeeded", 1),
    (Fault::Unauthorized, 1, UNAVAILABLE, "", 0, GIVEN, "succeeded", 1),
    (Fault::GarbageAfter, 1, GIVEN, "succeeded", 1, GIVEN, "succeeded", 1),
    (Fault::WrongAmount, 1, REVIEW, "needs_review", 1, REVIEW, "needs_review", 1),
    (Fault::Processing, 1, NO_VERDICT, "processing", 0, NO_VERDICT, "processing", 0),
    (Fault::DropBefore, SENDS_MAX, NO_VERDICT, "pending", 0, GIVEN, "succeeded", 1),
    (Fault::DropAfter, SENDS_MAX, NO_VERDICT, "pending", 1, GIVEN, "succeeded", 1),
    (Fault::HangBefore, SENDS_MAX, NO_VERDICT, "pending", 0, GIVEN, "succeeded", 1),
    (Fault::HangAfter, SENDS_MAX, NO_VERDICT, "pending", 1, GIVEN, "succeeded", 1),
    (Fault::Error503, SENDS_MAX, NO_VERDICT, "pending", 0, GIVEN, "succeeded", 1),
    (Fault::RateLimit, SENDS_MAX, UNAVAILABLE, "", 0, GIVEN, "succeeded", 1),
    (Fault::LockTimeout, SENDS_MAX, UNAVAILABLE, "", 0, GIVEN, "succeeded", 1),
    (Fault::Unauthorized, 2, UNAVAILABLE, "", 0, UNAVAILABLE, "", 0),
    (Fault::GarbageAfter, SENDS_MAX, NO_VERDICT, "pending", 1, GIVEN, "succeeded", 1),
];

async fn every_fault(app: TestApp) {
    // Only where the provider hangs is anybody to give up waiting for it.
    let hurried = app.replica().set("PROVIDER_TIMEOUT", "500ms").start().await;
    let mut replies = Vec::new();
    for (row, (fault, times, first, status, given, second, status_at_last, given_at_last)) in
        TABLE.iter().enumerate()
    {
        let charge = app.paid(&format!("inv_{row}")).await;
        let case = format!("{fault:?}, {times} times");
        app.refund_fault(&charge, *fault, *times);

        let hangs = matches!(fault, Fault::HangBefore | Fault::HangAfter);
        let service = if hangs { &hurried } else { &app };
        let now = service.give_back(&charge).await;
        now.assert_refund(first.0, first.1, first.2, first.3);
        assert_eq!(app.refunds_of(&charge).await.concat(), *status, "{case}");
        assert_eq!(app.given(&charge).len(), *given, "{case}");
        app.past_lease().await;
        let later = app.give_back(&charge).await;

        later.assert_refund(second.0, second.1, second.2, second.3);
        assert_eq!(
            app.refunds_of(&charge).await.concat(),
            *status_at_last,
            "{case}"
        );
        assert_eq!(app.given(&charge).len(), *given_at_last, "{case}");
        replies.extend([now, later]);
    }
    app.check_refunds(&replies).await;
}

on_both_stores! {
    async fn every_fault_of_a_refund_ends_well(engine) {
        every_fault(TestApp::start(engine).await).await;
    }

    async fn every_fault_of_a_refund_of_a_legacy_charge_ends_well(engine) {
        every_fault(TestApp::with(engine).charges_api().start().await).await;
    }

    async fn three_lost_answers_in_a_row_stay_attempt_one_with_the_same_bytes(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        let mut replies = Vec::new();
        for _ in 0..3 {
            app.refund_fault(&charge, Fault::DropAfter, SENDS_MAX);
            let lost = app.give_back(&charge).await;
            lost.assert_refund(202, "", "unknown", "later");
            let busy = app.give_back(&charge).await;
            busy.assert_refund(409, "refund_in_progress", "unknown", "later");
            app.past_lease().await;
            replies.extend([lost, busy]);
        }
        let found = app.give_back(&charge).await;

        found.assert_refund(201, "", "yes", "not_needed");
        assert_eq!(found.text("attempt"), "1");
        assert_eq!(app.refund_sends(), vec![format!("refund:{charge}"); 10]);
        assert_eq!(app.given(&charge), [1250]);
        replies.push(found);
        app.check_refunds(&replies).await;
    }

    async fn a_takeover_that_is_turned_away_does_not_talk_the_refund_away(engine) {
        let mock = MockStripe::new();
        let line = Line::default();
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        let charge = app.paid("inv_1").await;
        app.refund_fault(&charge, Fault::DropAfter, SENDS_MAX);
        let mut replies = vec![app.give_back(&charge).await];
        assert_eq!(app.given(&charge), [1250]);
        for (fault, times) in [(Fault::Unauthorized, 1), (Fault::RateLimit, SENDS_MAX)] {
            app.past_lease().await;
            app.refund_fault(&charge, fault, times);
            replies.push(app.give_back(&charge).await);
        }
        app.past_lease().await;
        line.refuse_posts(true);
        replies.push(app.give_back(&charge).await);
        line.refuse_posts(false);
        for reply in &replies {
            reply.assert_refund(202, "", "unknown", "later");
        }
        assert_eq!(app.refunds_of(&charge).await, ["pending"]);
        app.past_lease().await;
        let found = app.give_back(&charge).await;

        found.assert_refund(201, "", "yes", "not_needed");
        assert_eq!(app.given(&charge), [1250]);
        replies.push(found);
        app.check_refunds(&replies).await;
    }

    async fn a_provider_that_cannot_be_reached_gives_the_reservation_and_its_room_back(engine) {
        let mock = MockStripe::new();
        let line = Line::default();
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        let charge = app.paid("inv_1").await;
        line.refuse_posts(true);
        let away = [app.give_back(&charge).await, app.give_part(&charge, 500, "k").await];
        for reply in &away {
            reply.assert_refund(503, "provider_unavailable", "no", "later");
        }
        assert_eq!((app.refunds_of(&charge).await, app.refunded(&charge).await), (Vec::new(), 0));
        line.refuse_posts(false);

        let part = app.give_part(&charge, 500, "k").await;
        let rest = app.give_back(&charge).await;

        part.assert_refund(201, "", "yes", "not_needed");
        assert_eq!((rest.text("amountCents"), rest.text("attempt")), ("750".into(), "1".into()));
        app.check_refunds(&[&away[..], &[part, rest]].concat()).await;
    }

    async fn past_the_keys_window_a_refund_is_looked_up_and_never_sent_again(engine) {
        let app = TestApp::start(engine).await;
        let (given, never) = (app.paid("given").await, app.paid("never").await);
        app.refund_fault(&given, Fault::DropAfter, SENDS_MAX);
        app.refund_fault(&never, Fault::DropBefore, SENDS_MAX);
        let mut replies = vec![app.give_back(&given).await, app.give_back(&never).await];
        let sent = app.refund_sends();

        app.hours_later(25).await;
        let found = app.give_back(&given).await;
        found.assert_refund(201, "", "yes", "not_needed");
        let ended = app.give_back(&never).await;
        ended.assert_refund(402, "refund_failed", "no", "now");
        assert_eq!(ended.json()["refund"]["failure"]["code"], "never_executed");
        assert_eq!(app.refund_sends(), sent, "nothing was sent again");
        let next = app.give_back(&never).await;

        next.assert_refund(201, "", "yes", "not_needed");
        assert_eq!(next.text("idempotencyKey"), format!("refund:{never}:2"));
        assert_eq!((app.given(&given), app.given(&never)), (vec![1250], vec![1250]));
        replies.extend([found, ended, next]);
        app.check_refunds(&replies).await;
    }

    async fn a_late_takeover_looks_before_it_sends(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid("inv_1").await;
        app.refund_fault(&charge, Fault::DropAfter, SENDS_MAX);
        let lost = app.give_back(&charge).await;
        let sent = app.refund_sends();

        app.hours_later(2).await;
        let found = app.give_back(&charge).await;

        found.assert_refund(201, "", "yes", "not_needed");
        assert_eq!(app.refund_sends(), sent);
        app.check_refunds(&[lost, found]).await;
    }

    async fn a_refund_that_comes_to_life_after_it_was_given_up_is_not_made_twice(engine) {
        let app = TestApp::start(engine).await;
        let (rest, part) = (app.paid("rest").await, app.paid("part").await);
        let mut replies = Vec::new();
        for (charge, key) in [(&rest, None), (&part, Some("k1"))] {
            let amount = if key.is_some() { 500 } else { 1250 };
            app.next_refund_fault(Fault::DropBefore, SENDS_MAX);
            replies.push(give(&app, charge, key).await);
            app.hours_later(25).await;
            let ended = give(&app, charge, key).await;
            assert_eq!((ended.status, ended.text("refunded")), (402, "no".into()), "{ended:#?}");
            let late = ended.json()["refund"]["idempotencyKey"].as_str().unwrap().to_owned();
            // The provider rolls the first send forward, under its own key and with its own bytes.
            let request = app.mock.requests().into_iter().find(|request| request.idempotency_key.as_deref() == Some(&late)).unwrap();
            app.by_another_program("/v1/refunds", &late, &String::from_utf8(request.body.clone()).unwrap()).await;
            let again = give(&app, charge, key.map(|_| "k2")).await;
            // Another key may be meant to make up for the one that was given up: it waits for a person, too.
            again.assert_refund(409, "refund_needs_review", "unknown", if key.is_some() { "after_change" } else { "later" });
            if key.is_some() {
                let once_more = give(&app, charge, Some("k2")).await;
                once_more.assert_refund(409, "refund_needs_review", "unknown", "after_change");
                let by_its_key = give(&app, charge, key).await;
                by_its_key.assert_refund(409, "refund_needs_review", "unknown", "later");
            }
            replies.extend([ended, again]);
            assert_eq!(app.refunds_of(charge).await, ["failed", "needs_review"]);
            assert_eq!((app.given(charge), app.refunded(charge).await), (vec![amount], amount));
        }
        // A person takes it into the books.
        for charge in [&rest, &part] {
            let listed = app.get(&format!("/v1/refunds?chargeId={charge}&status=needs_review")).await.json();
            let (id, given_by) = (listed["data"][0]["id"].as_str().unwrap(), listed["data"][0]["providerRefundId"].clone());
            let verdict = serde_json::json!({"outcome": "succeeded", "providerRefundId": given_by, "note": "it came late"});
            let resolved = app.post(&format!("/v1/refunds/{id}/resolve"), &verdict).await;
            assert_eq!((resolved.status, resolved.text("status")), (200, "succeeded".into()), "{resolved:#?}");
        }
        // Its own key hears that it was given back after all.
        let by_its_key = give(&app, &part, Some("k1")).await;
        by_its_key.assert_refund(201, "", "yes", "not_needed");
        assert_eq!((by_its_key.text("amountCents"), app.given(&part)), ("500".into(), vec![500]));
        let nothing_left = app.give_back(&rest).await;
        nothing_left.assert_refund(409, "refund_exceeds_charge", "yes", "never");
        replies.iter().for_each(Reply::check_refund_contract);
    }
}

async fn give(app: &TestApp, charge: &str, key: Option<&str>) -> Reply {
    match key {
        None => app.give_back(charge).await,
        Some(key) => app.give_part(charge, 500, key).await,
    }
}
