//! Nobody calls again: a refund that was left behind is finished all the same.

use std::time::Duration;

use chargeonce::payments::mock::{Fault, MockStripe};
use futures_util::future::join_all;
use serde_json::json;

use crate::support::{Line, Reply, SENDS_MAX, Swept, TestApp};

/// Leaves a refund behind whose money was given back and whose answer was lost.
async fn lost(app: &TestApp, invoice_id: &str) -> (String, Reply) {
    let charge = app.paid(invoice_id).await;
    app.refund_fault(&charge, Fault::DropAfter, SENDS_MAX);
    let lost = app.give_back(&charge).await;
    lost.assert_refund(202, "", "unknown", "later");
    (charge, lost)
}

on_both_stores! {
    async fn a_lost_answer_is_found_after_one_lease_without_a_call(engine) {
        let app = TestApp::start(engine).await;
        let (charge, told) = lost(&app, "inv_1").await;

        assert_eq!(app.sweep().await, Swept::default(), "the lease still runs");
        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of_refunds(&[("succeeded", 1)]));
        assert_eq!(app.sweep().await, Swept::default(), "nothing is left");

        assert_eq!(app.refunds_of(&charge).await, ["succeeded"]);
        let replay = app.give_back(&charge).await;
        replay.assert_refund(201, "", "yes", "not_needed");
        assert!(replay.is_replay());
        app.check_refunds(&[told, replay]).await;
    }

    async fn a_request_that_never_arrived_is_sent_by_the_background_worker_and_an_old_one_is_given_up(engine) {
        let app = TestApp::start(engine).await;
        let (sent, old) = (app.paid("sent").await, app.paid("old").await);
        app.refund_fault(&old, Fault::DropBefore, SENDS_MAX);
        app.give_back(&old).await;
        app.hours_later(25).await;
        app.refund_fault(&sent, Fault::DropBefore, SENDS_MAX);
        app.give_back(&sent).await;
        app.past_lease().await;

        assert_eq!(app.sweep().await, Swept::of_refunds(&[("succeeded", 1), ("failed", 1)]));

        assert_eq!((app.given(&sent), app.given(&old)), (vec![1250], vec![]));
        assert_eq!((app.refunded(&sent).await, app.refunded(&old).await), (1250, 0));
        app.check_refunds(&[]).await;
    }

    async fn two_workers_and_the_callers_finish_each_of_many_refunds_and_charges_once(engine) {
        const COUNT: usize = 20;
        let app = TestApp::with(engine).set("RECONCILE_BATCH", "7").set("RECONCILE_CONCURRENCY", "3").start().await;
        let other = app.replica().start().await;
        let mut charges = Vec::new();
        let mut replies = Vec::new();
        for n in 0..COUNT {
            let (charge, told) = lost(&app, &format!("inv_{n}")).await;
            charges.push(charge);
            replies.push(told);
            let id = format!("unpaid_{n}");
            app.invoice(&id).await;
            app.fault(&id, Fault::DropAfter, SENDS_MAX);
            app.charge(&id).await.assert(202, "", "unknown", "later");
        }
        let sent = app.sends().len();
        app.mock.set_latency(Duration::from_millis(5));

        app.past_lease().await;
        let callers = join_all(charges.iter().take(5).map(|charge| app.give_back(charge)));
        let (one, two, called) = tokio::join!(app.sweep(), other.sweep(), callers);

        let count = |word: &str| [&one, &two].iter().map(|swept| swept.refunds.get(word).copied().unwrap_or(0)).sum::<usize>();
        assert!((COUNT - 5..=COUNT).contains(&count("succeeded")), "{one:?} {two:?}");
        assert_eq!(one.count("succeeded") + two.count("succeeded"), COUNT, "{one:?} {two:?}");
        assert_eq!(one.count("error") + two.count("error") + count("error"), 0, "{one:?} {two:?}");
        for reply in &called {
            assert!([201, 409].contains(&reply.status), "{reply:#?}");
        }
        assert_eq!(app.sends().len(), sent + 2 * COUNT, "one send for each");
        assert!(charges.iter().all(|charge| app.given(charge) == [1250]));
        app.check_refunds(&[replies, called].concat()).await;
    }

    async fn a_refund_without_a_verdict_gets_the_providers_when_it_has_one(engine) {
        let app = TestApp::start(engine).await;
        let charge = app.paid_with("inv_1", json!({"paymentMethodId": "pm_card_pendingRefund"})).await;
        let told = app.give_back(&charge).await;
        told.assert_refund(202, "", "unknown", "later");
        assert_eq!(told.text("status"), "processing");
        assert_eq!(app.give_back(&charge).await.text("status"), "processing");
        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of_refunds(&[("processing", 1)]));

        app.hours_later(2).await;
        assert_eq!(app.sweep().await, Swept::of_refunds(&[("succeeded", 1)]));

        let replay = app.give_back(&charge).await;
        replay.assert_refund(201, "", "yes", "not_needed");
        assert_eq!(app.refund_sends().len(), 1);
        app.check_refunds(&[told, replay]).await;
    }

    async fn a_provider_that_is_away_leaves_it_unknown_and_a_foreign_one_is_left_alone(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        let (charge, told) = lost(&app, "inv_1").await;
        line.refuse_posts(true);
        line.refuse_gets(true);
        for _ in 0..2 {
            app.past_lease().await;
            assert_eq!(app.sweep().await, Swept::of_refunds(&[("unknown", 1)]));
            assert_eq!(app.sweep().await, Swept::default(), "its lease runs");
        }
        app.past_lease().await;
        let elsewhere = app.replica().provider(line.provider_named("another", &mock)).start().await;
        assert_eq!(elsewhere.sweep().await, Swept::of_refunds(&[("foreign", 1)]));
        assert_eq!(elsewhere.sweep().await, Swept::default(), "put off");
        line.refuse_posts(false);
        line.refuse_gets(false);
        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of_refunds(&[("succeeded", 1)]));

        let history = app.get(&format!("/v1/refunds/{}/evidence", told.text("id"))).await.json();
        let what: Vec<&str> = history["data"].as_array().unwrap().iter().map(|line| line["what"].as_str().unwrap()).collect();
        assert_eq!(what[..5], ["send", "record", "taken_over", "send", "record"]);
        assert_eq!(app.given(&charge), [1250]);
        app.check_refunds(&[told]).await;
    }

    async fn what_is_open_of_refunds_can_be_measured(engine) {
        let app = TestApp::start(engine).await;
        let value = |metrics: &str, name: &str| -> f64 {
            let line = metrics.lines().find(|line| line.starts_with(&format!("chargeonce_{name} ")));
            line.unwrap_or_else(|| panic!("{name}: {metrics}")).rsplit(' ').next().unwrap().parse().unwrap()
        };
        lost(&app, "inv_1").await;
        app.age(Duration::from_secs(7_200)).await;
        lost(&app, "inv_2").await;
        let charge = app.paid("inv_3").await;
        app.refund_fault(&charge, Fault::WrongAmount, 1);
        app.give_back(&charge).await;

        let some = app.get("/metrics").await.body;

        assert_eq!((value(&some, "unsettled_refunds"), value(&some, "refund_reviews_open")), (2.0, 1.0));
        let age = value(&some, "oldest_unsettled_refund_age_seconds");
        assert!((7_200.0..7_260.0).contains(&age), "{age}");
        assert!(value(&some, "oldest_open_refund_review_age_seconds") < 60.0);
        assert_eq!((value(&some, "unsettled_charges"), value(&some, "reviews_open")), (0.0, 0.0));
        app.check_refunds(&[]).await;
    }
}
