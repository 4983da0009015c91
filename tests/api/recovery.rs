//! Nobody calls again: the background worker finishes what was left behind, once, and leaves alone what it cannot.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chargeonce::payments::mock::{Fault, MockStripe};
use futures_util::future::join_all;
use serde_json::json;

use crate::operations::{comes_to, metrics};
use crate::support::{Engine, Line, SENDS_MAX, Swept, TestApp};

/// Leaves an attempt behind whose money was taken and whose answer was lost.
async fn lost(app: &TestApp, id: &str) -> crate::support::Reply {
    app.invoice(id).await;
    app.fault(id, Fault::DropAfter, SENDS_MAX);
    let lost = app.charge(id).await;
    lost.assert(202, "", "unknown", "later");
    lost
}

/// The clock by which the store puts attempts off.
async fn database_clock_ms(app: &TestApp) -> i64 {
    match app.database.engine {
        Engine::Sqlite => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            i64::try_from(now.as_millis()).unwrap()
        }
        Engine::Postgres => app.database.number("SELECT clock_ms(0) AS value").await,
    }
}

on_both_stores! {
    async fn a_lost_answer_is_found_after_one_lease_without_a_call(engine) {
        let app = TestApp::start(engine).await;
        let told = lost(&app, "inv_1").await;

        assert_eq!(app.sweep().await, Swept::default(), "the lease still runs");
        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of(&[("succeeded", 1)]));
        assert_eq!(app.sweep().await, Swept::default(), "nothing is left");

        assert_eq!(app.attempts("inv_1").await, ["succeeded"]);
        assert_eq!(app.invoice_status("inv_1").await, "paid");
        let replay = app.charge("inv_1").await;
        replay.assert(201, "", "yes", "not_needed");
        assert!(replay.is_replay());
        app.check_oracles(&[told, replay]).await;
    }

    async fn a_request_that_never_arrived_is_sent_by_the_background_worker(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropBefore, SENDS_MAX);
        let told = app.charge("inv_1").await;
        assert_eq!(app.times_paid("inv_1"), 0);

        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of(&[("succeeded", 1)]));

        assert_eq!(app.times_paid("inv_1"), 1);
        app.check_oracles(&[told]).await;
    }

    async fn a_lost_decline_is_recorded_and_the_next_call_replays_or_retries_it(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedStolenCard"})).await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        let told = app.charge("inv_1").await;

        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of(&[("failed", 1)]));

        assert_eq!(app.attempts("inv_1").await, ["failed"]);
        let refused = app.charge("inv_1").await;
        refused.assert(402, "retry_not_advised", "no", "after_change");
        app.check_oracles(&[told, refused]).await;
    }

    async fn two_workers_at_once_finish_each_of_many_attempts_once(engine) {
        const COUNT: usize = 60;
        let app = TestApp::with(engine).set("RECONCILE_BATCH", "7").set("RECONCILE_CONCURRENCY", "3").start().await;
        let other = app.replica().start().await;
        let ids: Vec<String> = (0..COUNT).map(|n| format!("inv_{n}")).collect();
        let told = join_all(ids.iter().map(|id| lost(&app, id))).await;
        let sent = app.sends().len();
        app.mock.set_latency(Duration::from_millis(5));

        app.past_lease().await;
        let (one, two) = tokio::join!(app.sweep(), other.sweep());

        assert_eq!(one.count("succeeded") + two.count("succeeded"), COUNT, "{one:?} {two:?}");
        assert_eq!(one.count("error") + two.count("error"), 0);
        assert_eq!(app.sends().len(), sent + COUNT, "one send for each");
        let takeovers = app.database.words("SELECT DISTINCT CAST(takeovers AS TEXT) AS value FROM idempotency_keys WHERE operation = 'charge'").await;
        assert_eq!(takeovers, ["1"]);
        assert!(ids.iter().all(|id| app.times_paid(id) == 1));
        app.check_oracles(&told).await;
    }

    async fn a_caller_and_the_worker_at_the_same_moment_are_one_takeover(engine) {
        let app = TestApp::start(engine).await;
        let other = app.replica().start().await;
        for round in 0..20 {
            let id = format!("inv_{round}");
            let told = lost(&app, &id).await;
            app.past_lease().await;

            let (swept, reply) = tokio::join!(other.sweep(), app.charge(&id));

            assert!(swept.count("error") == 0, "{swept:?}");
            assert!([201, 409].contains(&reply.status), "{reply:#?}");
            let settled = app.charge(&id).await;
            let settled = if settled.status == 201 { settled } else { app.charge_waiting(&id, 5).await };
            settled.assert(201, "", "yes", "not_needed");
            assert_eq!(app.times_paid(&id), 1);
            app.check_oracles(&[told, reply, settled]).await;
        }
    }

    async fn an_attempt_past_the_keys_window_is_looked_up_and_never_sent_again(engine) {
        let app = TestApp::start(engine).await;
        let told = lost(&app, "paid").await;
        app.invoice("unpaid").await;
        app.fault("unpaid", Fault::DropBefore, SENDS_MAX);
        app.charge("unpaid").await;
        let sent = app.sends();

        app.hours_later(25).await;
        assert_eq!(app.sweep().await, Swept::of(&[("succeeded", 1), ("failed", 1)]));

        assert_eq!(app.sends(), sent, "nothing was sent again");
        assert_eq!(app.attempts("paid").await, ["succeeded"]);
        assert_eq!(app.attempts("unpaid").await, ["failed"]);
        let charged = app.charge("unpaid").await;
        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(charged.text("attempt"), "2");
        app.check_oracles(&[told, charged]).await;
    }

    async fn a_provider_that_is_away_leaves_it_unknown_and_is_asked_again_after_each_lease(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        let told = lost(&app, "inv_1").await;
        line.refuse_posts(true);
        line.refuse_gets(true);

        for _ in 0..3 {
            app.past_lease().await;
            assert_eq!(app.sweep().await, Swept::of(&[("unknown", 1)]));
            assert_eq!(app.sweep().await, Swept::default(), "its lease runs");
        }
        line.refuse_posts(false);
        line.refuse_gets(false);
        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of(&[("succeeded", 1)]));

        let history = app.get(&format!("/v1/charges/{}/evidence", told.text("id"))).await.json();
        let what: Vec<&str> = history["data"].as_array().unwrap().iter().map(|line| line["what"].as_str().unwrap()).collect();
        assert_eq!(what[..2], ["send", "record"]);
        assert_eq!(what[2..5], ["taken_over", "send", "record"]);
        assert_eq!(what.len(), 2 + 4 * 3);
        app.check_oracles(&[told]).await;
    }

    async fn what_a_look_up_cannot_settle_is_asked_less_and_less_often(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::Error500Before, 1);
        let told = app.charge("inv_1").await;
        told.assert(202, "", "unknown", "later");

        let mut looks = 0;
        for _ in 0..40 {
            app.past_lease().await;
            looks += app.sweep().await.count("unknown");
        }
        // 40 leases are seven hours: without growing waits there would be 40 looks.
        assert!((8..=20).contains(&looks), "{looks} looks");
        // A caller is not kept waiting by that.
        app.past_lease().await;
        app.charge("inv_1").await.assert(202, "", "unknown", "later");
        app.hours_later(25).await;
        assert_eq!(app.sweep().await, Swept::of(&[("failed", 1)]));
        app.check_oracles(&[told]).await;
    }

    async fn an_attempt_of_another_provider_does_not_stand_in_the_way_of_others(engine) {
        let app = TestApp::with(engine).set("RECONCILE_BATCH", "1").start().await;
        lost(&app, "foreign").await;
        let drop = match engine {
            Engine::Postgres => "DROP TRIGGER charges_request_is_frozen ON charges",
            Engine::Sqlite => "DROP TRIGGER charges_request_is_frozen",
        };
        app.database.execute(drop).await;
        let told = lost(&app, "ours").await;
        app.past_lease().await;
        app.database.execute("UPDATE charges SET provider = 'another' WHERE invoice_id = 'foreign'").await;

        let swept = app.sweep().await;

        assert_eq!(swept, Swept::of(&[("foreign", 1), ("succeeded", 1)]));
        assert_eq!(app.sweep().await, Swept::default(), "put off");
        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of(&[("foreign", 1)]));
        assert_eq!(app.attempts("foreign").await, ["pending"]);
        app.check_oracles(&[told]).await;
    }

    async fn attempts_that_nobody_can_read_do_not_stand_in_the_way_of_others(engine) {
        let app = TestApp::with(engine).set("RECONCILE_BATCH", "2").start().await;
        for id in ["broken_1", "broken_2", "broken_3"] {
            lost(&app, id).await;
        }
        let told = lost(&app, "sound").await;
        app.past_lease().await;
        app.database.execute("UPDATE invoices SET metadata = 'no JSON' WHERE id LIKE 'broken%'").await;

        let swept = app.sweep().await;

        assert_eq!(swept, Swept::of(&[("error", 3), ("succeeded", 1)]));
        assert_eq!(app.sweep().await, Swept::default(), "put off");
        app.database.execute("UPDATE invoices SET metadata = '{}' WHERE id LIKE 'broken%'").await;
        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of(&[("succeeded", 3)]), "mended");
        app.check_oracles(&[told]).await;
    }

    async fn a_store_that_is_away_for_a_moment_puts_an_attempt_off_for_a_moment(engine) {
        let app = TestApp::start(engine).await;
        let told = lost(&app, "inv_1").await;
        app.past_lease().await;
        // What is due can be read, and what it takes to finish it cannot.
        app.database.execute("ALTER TABLE invoices RENAME TO gone").await;
        let before_ms = database_clock_ms(&app).await;
        assert_eq!(app.sweep().await, Swept::of(&[("error", 1)]));
        let after_ms = database_clock_ms(&app).await;
        app.database.execute("ALTER TABLE gone RENAME TO invoices").await;
        let due_ms = app.database.number("SELECT recover_after_ms AS value FROM idempotency_keys WHERE key = 'charge:inv_1'").await;
        // A second, and what rounding may make of it.
        assert!((before_ms + 998..=after_ms + 1_002).contains(&due_ms), "{before_ms}, {due_ms}, {after_ms}");
        // A longer moment, so that it is not over before the next round.
        app.database.execute("UPDATE idempotency_keys SET recover_after_ms = recover_after_ms + 600000 WHERE key = 'charge:inv_1'").await;
        assert_eq!(app.sweep().await, Swept::default(), "put off");

        app.age(Duration::from_secs(602)).await;

        assert_eq!(app.sweep().await, Swept::of(&[("succeeded", 1)]));
        app.check_oracles(&[told]).await;
    }

    async fn the_service_itself_recovers_and_a_round_that_fails_is_not_the_last(engine) {
        let app = TestApp::start(engine).await;
        let told = lost(&app, "inv_1").await;
        let worker = app.replica().set("RECONCILE_INTERVAL", "20ms").start().await;
        app.database.execute("ALTER TABLE charges RENAME TO gone").await;
        comes_to(&worker, "chargeonce_reconciler_rounds_failed_total", |seen| seen >= 1.0).await;
        app.database.execute("ALTER TABLE gone RENAME TO charges").await;
        assert_eq!(app.attempts("inv_1").await, ["pending"]);

        app.past_lease().await;
        app.attempt_is("inv_1", "succeeded").await;

        assert_eq!(app.invoice_status("inv_1").await, "paid");
        // Counted a moment after it is recorded.
        let finished = "chargeonce_reconciler_attempts_total{outcome=\"succeeded\"}";
        comes_to(&worker, finished, |seen| seen >= 1.0).await;
        assert!(metrics(&worker).await.contains(&format!("{finished} 1\n")));
        app.check_oracles(&[told]).await;
    }

    async fn a_stop_begins_nothing_and_finishes_what_has_begun(engine) {
        let app = TestApp::with(engine).set("RECONCILE_CONCURRENCY", "1").start().await;
        let mut stopping = app.replica().start().await;
        for n in 0..5 {
            // Never executed, so that each that is sent again can be counted.
            let id = format!("inv_{n}");
            app.invoice(&id).await;
            app.fault(&id, Fault::DropBefore, SENDS_MAX);
            app.charge(&id).await.assert(202, "", "unknown", "later");
        }
        app.past_lease().await;
        let sent = app.sends().len();
        let gate = app.line.hold_posts().await;

        let worker = stopping.parts.reconciler.clone();
        let round = tokio::spawn(async move { worker.sweep().await.unwrap() });
        app.line.posts_are_held(1).await;
        let told = stopping.parts.tasks.stopping();
        let release = async {
            told.cancelled().await;
            drop(gate);
        };
        tokio::join!(stopping.stop(), release);
        let swept = round.await.unwrap();

        assert_eq!(swept.attempts.values().sum::<usize>(), 1, "{swept:?}");
        assert_eq!(app.sends().len(), sent + 1);
        assert_eq!(app.sweep().await, Swept::of(&[("succeeded", 4)]));
        app.check_oracles(&[]).await;
    }

    async fn what_is_open_can_be_measured(engine) {
        let app = TestApp::start(engine).await;
        let value = |metrics: &str, name: &str| -> f64 {
            let line = metrics.lines().find(|line| line.starts_with(&format!("chargeonce_{name} ")));
            line.unwrap_or_else(|| panic!("{name}: {metrics}")).rsplit(' ').next().unwrap().parse().unwrap()
        };
        let none = app.get("/metrics").await.body;
        assert_eq!((value(&none, "unsettled_charges"), value(&none, "reviews_open")), (0.0, 0.0));
        assert_eq!(value(&none, "oldest_unsettled_charge_age_seconds"), 0.0);
        lost(&app, "inv_1").await;
        app.age(Duration::from_secs(7_200)).await;
        lost(&app, "inv_2").await;
        app.invoice("inv_3").await;
        app.fault("inv_3", Fault::WrongAmount, 1);
        app.charge("inv_3").await;

        let some = app.get("/metrics").await.body;

        assert_eq!((value(&some, "unsettled_charges"), value(&some, "reviews_open")), (2.0, 1.0));
        let age = value(&some, "oldest_unsettled_charge_age_seconds");
        assert!((7_200.0..7_260.0).contains(&age), "{age}");
        assert!(value(&some, "oldest_open_review_age_seconds") < 60.0);
        app.check_oracles(&[]).await;
    }
}
