//! Answers that were lost or say nothing: never called failed, never sent under another key, and found in the end.

use chargeonce::payments::mock::{Fault, MockStripe};

use crate::support::{Line, SENDS_MAX, TestApp};

on_both_stores! {
    async fn three_lost_answers_in_a_row_stay_attempt_one_with_the_same_bytes(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let mut replies = Vec::new();

        for _ in 0..3 {
            app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
            let lost = app.charge("inv_1").await;
            lost.assert(202, "", "unknown", "later");
            assert_eq!((lost.text("status"), lost.text("attempt")), ("pending".into(), "1".into()));
            app.charge("inv_1").await.assert(409, "charge_in_progress", "unknown", "later");
            app.past_lease().await;
            replies.push(lost);
        }
        let found = app.charge("inv_1").await;

        found.assert(201, "", "yes", "not_needed");
        assert_eq!(found.text("attempt"), "1");
        assert_eq!(app.sends(), vec!["charge:inv_1"; 10]);
        assert_eq!(app.times_paid("inv_1"), 1);
        replies.push(found);
        app.check_oracles(&replies).await;
    }

    async fn a_takeover_that_is_turned_away_does_not_talk_the_money_away(engine) {
        let mock = MockStripe::new();
        let line = Line::default();
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        let mut replies = vec![app.charge("inv_1").await];
        assert_eq!(app.times_paid("inv_1"), 1);

        for (fault, times) in [(Fault::Unauthorized, 1), (Fault::RateLimit, SENDS_MAX), (Fault::LockTimeout, SENDS_MAX)] {
            app.past_lease().await;
            app.fault("inv_1", fault, times);
            replies.push(app.charge("inv_1").await);
        }
        app.past_lease().await;
        line.refuse_posts(true);
        replies.push(app.charge("inv_1").await);
        line.refuse_posts(false);
        for reply in &replies {
            reply.assert(202, "", "unknown", "later");
        }
        assert_eq!(app.attempts("inv_1").await, ["pending"]);
        app.past_lease().await;
        let found = app.charge("inv_1").await;

        found.assert(201, "", "yes", "not_needed");
        assert_eq!(app.times_paid("inv_1"), 1);
        replies.push(found);
        app.check_oracles(&replies).await;
    }

    async fn a_provider_that_cannot_be_reached_gives_the_reservation_back(engine) {
        let mock = MockStripe::new();
        let line = Line::default();
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        app.invoice("inv_1").await;
        let mut replies = Vec::new();

        for (gets, posts) in [(false, true), (true, false), (true, true)] {
            line.refuse_gets(gets);
            line.refuse_posts(posts);
            let away = app.charge("inv_1").await;
            away.assert(503, "provider_unavailable", "no", "later");
            assert_eq!(app.attempts("inv_1").await, Vec::<String>::new());
            replies.push(away);
        }
        line.refuse_gets(false);
        line.refuse_posts(false);
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(charged.text("attempt"), "1");
        replies.push(charged);
        app.check_oracles(&replies).await;
    }

    async fn a_stored_500_whose_look_up_fails_is_found_by_the_next_look_up_and_not_sent_again(engine) {
        let mock = MockStripe::new();
        let line = Line::default();
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        app.invoice_with("inv_1", serde_json::json!({"paymentMethodId": "pm_card_visa"})).await;
        app.fault("inv_1", Fault::Error500After, 1);
        line.refuse_gets(true);

        let lost = app.charge("inv_1").await;
        lost.assert(202, "", "unknown", "later");
        let sent = app.sends().len();
        line.refuse_gets(false);
        app.past_lease().await;
        let found = app.charge("inv_1").await;

        found.assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends().len(), sent);
        app.check_oracles(&[lost, found]).await;
    }

    async fn a_stored_500_that_took_nothing_ends_after_the_window_and_never_loops(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::Error500Before, 1);
        let mut replies = vec![app.charge("inv_1").await];
        let sent = app.sends().len();
        assert!(sent <= 2, "one repeat finds out that it is stored");

        for _ in 0..5 {
            app.past_lease().await;
            replies.push(app.charge("inv_1").await);
        }
        for reply in &replies {
            reply.assert(202, "", "unknown", "later");
        }
        assert_eq!(app.sends().len(), sent);
        app.hours_later(21).await;
        let ended = app.charge("inv_1").await;
        ended.assert(409, "charge_never_executed", "no", "now");
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(charged.text("idempotencyKey"), "charge:inv_1:2");
        assert_eq!(app.attempts("inv_1").await, ["failed", "succeeded"]);
        replies.extend([ended, charged]);
        app.check_oracles(&replies).await;
    }

    async fn a_decline_whose_answer_was_lost_is_a_decline_once_it_is_known(engine) {
        let app = TestApp::start(engine).await;
        for (id, fault, times) in [("inv_1", Fault::DropAfter, SENDS_MAX), ("inv_2", Fault::Error500After, 1)] {
            app.invoice_with(id, serde_json::json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;
            app.fault(id, fault, times);

            let lost = app.charge(id).await;
            app.past_lease().await;
            let mut known = app.charge(id).await;
            if fault == Fault::Error500After {
                // The look-up has found it within the first call.
                lost.assert(402, "charge_declined", "no", "later");
                app.change_card(id, "pm_card_visa").await;
                known = app.charge(id).await;
                known.assert(201, "", "yes", "not_needed");
            } else {
                lost.assert(202, "", "unknown", "later");
                known.assert(402, "charge_declined", "no", "later");
            }
            app.check_oracles(&[lost, known]).await;
        }
    }
}
