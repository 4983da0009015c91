//! Money that comes where nobody expects it any more: after its attempt was given up, under another attempt's name, while the
//! list of payments cannot be read, or against the books.

use chargeonce::payments::mock::{Fault, MockStripe};
use serde_json::json;

use crate::review::{charge_id, resolve};
use crate::support::{Line, SENDS_MAX, Swept, TestApp};

/// An invoice whose first attempt was sent, is not to be found, and was given up a day later.
async fn given_up(app: &TestApp) {
    app.invoice("inv_1").await;
    app.fault("inv_1", Fault::DropBefore, SENDS_MAX);
    app.charge("inv_1")
        .await
        .assert(202, "", "unknown", "later");
    app.hours_later(25).await;
    app.charge("inv_1")
        .await
        .assert(409, "charge_never_executed", "no", "now");
}

on_both_stores! {
    async fn a_payment_that_comes_after_its_attempt_was_given_up_is_not_made_twice(engine) {
        let app = TestApp::start(engine).await;
        given_up(&app).await;
        let ours = app.installation().await;
        let late = app.payment_from_nowhere("inv_1", &ours).await;
        let sent = app.sends();

        let parked = app.charge("inv_1").await;

        parked.assert(409, "charge_needs_review", "unknown", "later");
        assert_eq!(app.sends(), sent);
        assert_eq!(app.attempts("inv_1").await, ["failed", "needs_review"]);
        let by_it = json!({"outcome": "succeeded", "providerPaymentId": late, "note": "It came late."});
        assert_eq!(resolve(&app, &charge_id(&parked), by_it).await.status, 200);
        app.charge("inv_1").await.assert(201, "", "yes", "not_needed");
        assert_eq!(app.times_paid("inv_1"), 1);
    }

    async fn a_payment_that_comes_two_attempts_later_is_not_made_twice(engine) {
        let app = TestApp::start(engine).await;
        given_up(&app).await;
        app.patch("/v1/invoices/inv_1", &json!({"paymentMethodId": "pm_card_visa_chargeDeclinedInsufficientFunds"})).await;
        app.charge("inv_1").await.assert(402, "charge_declined", "no", "later");
        let ours = app.installation().await;
        app.payment_from_nowhere("inv_1", &ours).await;
        app.patch("/v1/invoices/inv_1", &json!({"paymentMethodId": "pm_card_visa"})).await;

        let parked = app.charge("inv_1").await;

        parked.assert(409, "charge_needs_review", "unknown", "later");
        assert_eq!(app.attempts("inv_1").await, ["failed", "failed", "needs_review"]);
        assert_eq!(app.times_paid("inv_1"), 1);
    }

    async fn no_attempt_follows_one_that_was_given_up_before_the_provider_can_be_asked(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        given_up(&app).await;
        line.refuse_lists(true);

        let refused = app.charge("inv_1").await;
        refused.assert(503, "provider_unavailable", "unknown", "later");
        assert_eq!(app.attempts("inv_1").await, ["failed"]);
        line.refuse_lists(false);
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[refused, charged]).await;
    }

    async fn a_payment_of_another_installation_proves_nothing(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::WrongAmount, 1);
        let parked = app.charge("inv_1").await;
        let first = parked.json()["charge"]["providerPaymentId"].as_str().unwrap().to_owned();
        app.refund(&first).await;
        let strangers = app.payment_from_nowhere("inv_1", "another program").await;
        let by_it = json!({"outcome": "succeeded", "providerPaymentId": strangers, "note": "x"});

        let refused = resolve(&app, &charge_id(&parked), by_it.clone()).await;

        assert_eq!((refused.status, refused.text("code")), (409, "resolution_contradicted".into()), "{refused:#?}");
        assert!(refused.text("detail").contains("installation"), "{refused:#?}");
        // Whoever insists on it hears of it from every audit.
        let mut forced = by_it;
        forced["force"] = json!(true);
        assert_eq!(resolve(&app, &charge_id(&parked), forced).await.status, 200);
        let month = std::time::Duration::from_secs(30 * 24 * 3_600);
        let report = app.parts.audit.run(month, &()).await.unwrap();
        let kinds: Vec<&str> = report.findings.iter().map(|finding| finding.kind.as_str()).collect();
        assert_eq!(kinds, ["paid_here_not_there"], "{report:#?}");
    }

    async fn an_attempt_is_not_called_uncharged_while_its_own_request_may_still_arrive(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let body = format!(
            "amount=1250&currency=usd&customer=cus_1&payment_method=pm_card_visa&confirm=true&off_session=true\
             &metadata[invoice_id]=inv_1&metadata[installation_id]={}&metadata[charge_key]=charge:inv_1:0",
            app.installation().await
        );
        app.by_another_program("/v1/payment_intents", "of another attempt", &body).await;
        let others = app.mock.ledger().payments[0].id.clone();
        app.fault("inv_1", Fault::Error500Before, 1);
        let parked = app.charge("inv_1").await;
        parked.assert(409, "charge_needs_review", "unknown", "later");
        app.refund(&others).await;
        let failed = json!({"outcome": "failed", "note": "Refunded by hand."});

        let refused = resolve(&app, &charge_id(&parked), failed.clone()).await;
        assert_eq!((refused.status, refused.text("code")), (409, "resolution_contradicted".into()), "{refused:#?}");
        assert!(refused.text("detail").contains("own request"), "{refused:#?}");
        app.hours_later(21).await;
        let resolved = resolve(&app, &charge_id(&parked), failed).await;

        assert_eq!((resolved.status, resolved.text("status")), (200, "failed".into()), "{resolved:#?}");
    }

    async fn a_strangers_payment_is_not_cancelled_with_a_review(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::WrongAmount, 1);
        let parked = app.charge("inv_1").await;
        let own = parked.json()["charge"]["providerPaymentId"].as_str().unwrap().to_owned();
        app.refund(&own).await;
        let strangers = app.payment_from_nowhere("inv_2", "another program").await;
        let sql = format!("UPDATE charges SET provider_payment_id = '{strangers}' WHERE invoice_id = 'inv_1'");
        app.database.execute(&sql).await;

        let resolved = resolve(&app, &charge_id(&parked), json!({"outcome": "failed", "note": "x"})).await;

        assert_eq!((resolved.status, resolved.text("status")), (200, "failed".into()), "{resolved:#?}");
        let payments = app.mock.ledger().payments;
        let kept = payments.iter().find(|payment| payment.id == strangers).unwrap();
        assert_eq!(kept.status, "succeeded");
    }

    async fn a_payment_that_is_known_is_recorded_although_no_list_can_be_read(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine).mock(&mock).provider(line.provider(&mock)).start().await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::Processing, 1);
        let told = app.charge("inv_1").await;
        line.refuse_lists(true);
        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of(&[("processing", 1)]));

        app.mock.settle_processing(&told.text("providerPaymentId"), true);
        app.hours_later(2).await;
        assert_eq!(app.sweep().await, Swept::of(&[("succeeded", 1)]));

        let replay = app.charge("inv_1").await;
        replay.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[told, replay]).await;
    }

    async fn a_success_that_the_books_cannot_take_up_comes_to_a_person(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::Processing, 1);
        let told = app.charge("inv_1").await;
        app.database.execute("UPDATE invoices SET status = 'void' WHERE id = 'inv_1'").await;
        app.mock.settle_processing(&told.text("providerPaymentId"), true);

        app.past_lease().await;
        assert_eq!(app.sweep().await, Swept::of(&[("needs_review", 1)]));

        assert_eq!(app.attempts("inv_1").await, ["needs_review"]);
    }

    async fn a_payment_that_was_cancelled_by_hand_ends_its_attempt_by_that_name(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        let lost = app.charge("inv_1").await;
        lost.assert(202, "", "unknown", "later");
        let own = app.mock.ledger().payments[0].id.clone();
        let path = format!("/v1/payment_intents/{own}/cancel");
        app.by_another_program(&path, "by hand", "").await;

        app.hours_later(21).await;
        let ended = app.charge("inv_1").await;

        ended.assert(409, "charge_canceled", "no", "now");
        app.check_oracles(&[lost, ended]).await;
    }
}
