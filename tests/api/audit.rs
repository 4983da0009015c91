//! The audit: every kind of difference made for real and found, and nothing found where there is none.

mod seen;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chargeonce::audit::model::{Finding, Sum};
use chargeonce::audit::report::Report;
use chargeonce::audit::service::{AuditError, Progress, Step};
use chargeonce::payments::mock::{Fault, MockStripe};
use serde_json::json;

use self::seen::Seen;
use crate::support::{Engine, SENDS_MAX, TestApp};

const MONTH: Duration = Duration::from_secs(30 * 24 * 3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// A service over a provider that the test has a hand in.
async fn seen(engine: Engine) -> (TestApp, Arc<Seen>) {
    let mock = MockStripe::new();
    let provider = Seen::over(&mock);
    let app = TestApp::with(engine).mock(&mock).provider(provider.clone());
    (app.start().await, provider)
}

async fn audit(app: &TestApp) -> Report {
    app.parts.audit.run(MONTH, &()).await.unwrap()
}

/// Each finding as `kind invoice`.
fn kinds(report: &Report) -> Vec<String> {
    let word = |finding: &Finding| {
        let invoice_id = finding.invoice_id.as_deref().unwrap_or("-");
        format!("{} {invoice_id}", finding.kind.as_str())
    };
    report.findings.iter().map(word).collect()
}

/// Fails unless the audit finds nothing; the report.
async fn clean(app: &TestApp) -> Report {
    let report = audit(app).await;
    assert!(report.is_clean(), "{report:#?}");
    report
}

/// Some other program on the account pays, with these marks.
async fn pay(app: &TestApp, key: &str, amount: i64, marks: &[(&str, &str)]) {
    let marks: Vec<String> = marks
        .iter()
        .map(|(name, value)| format!("&metadata[{name}]={value}"))
        .collect();
    let body = format!(
        "amount={amount}&currency=usd&customer=cus_1&payment_method=pm_card_visa&confirm=true&payment_method_types[]=card{}",
        marks.concat()
    );
    app.by_another_program("/v1/payment_intents", key, &body)
        .await;
}

async fn installation(app: &TestApp) -> String {
    app.database
        .words("SELECT id AS value FROM installation")
        .await
        .remove(0)
}

/// Every row of an invoice vanishes, as after a backup was restored.
async fn forget(app: &TestApp, invoice_id: &str) {
    for sql in [
        format!(
            "DELETE FROM charge_evidence WHERE charge_id IN (SELECT id FROM charges WHERE invoice_id = '{invoice_id}')"
        ),
        format!("DELETE FROM charges WHERE invoice_id = '{invoice_id}'"),
        format!(
            "DELETE FROM idempotency_keys WHERE key = 'charge:{invoice_id}' OR key LIKE 'charge:{invoice_id}:%'"
        ),
        format!("DELETE FROM invoices WHERE id = '{invoice_id}'"),
    ] {
        app.database.execute(&sql).await;
    }
}

async fn paid(app: &TestApp, invoice_id: &str) -> String {
    app.invoice(invoice_id).await;
    let reply = app.charge(invoice_id).await;
    reply.assert(201, "", "yes", "not_needed");
    reply.text("providerPaymentId")
}

on_both_stores! {
    async fn hundreds_of_charges_over_several_pages_are_clean(engine) {
        let app = TestApp::start(engine).await;
        for n in 0..230 {
            app.invoice(&format!("inv_{n}")).await;
            app.charge(&format!("inv_{n}")).await.assert(201, "", "yes", "not_needed");
        }
        app.invoice_with("inv_declined", json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;
        assert_eq!(app.charge("inv_declined").await.status, 402);
        for n in 0..150 {
            // Another installation's, and some that belong to nobody here.
            pay(&app, &format!("theirs-{n}"), 700, &[("invoice_id", "inv_1"), ("installation_id", "ins_other")]).await;
        }

        let report = clean(&app).await;
        assert_eq!((report.counts.charges, report.counts.payments), (231, 231), "{report:?}");
        assert_eq!((report.counts.in_flight, report.counts.skipped_other_provider), (0, 0));
        // One is forgotten: the others are no less clean for it.
        forget(&app, "inv_117").await;
        assert_eq!(kinds(&audit(&app).await), ["paid_there_not_here inv_117"]);
    }

    async fn money_that_our_books_forgot_is_found(engine) {
        let app = TestApp::start(engine).await;
        let payment_id = paid(&app, "inv_forgotten").await;
        paid(&app, "inv_kept").await;
        app.invoice("inv_unpaid").await;
        app.invoice("inv_void").await;
        app.post("/v1/invoices/inv_void/void", &json!({})).await;
        let ours = installation(&app).await;
        let mark = ("installation_id", ours.as_str());
        forget(&app, "inv_forgotten").await;
        pay(&app, "hand-1", 1250, &[mark, ("invoice_id", "inv_unpaid")]).await;
        pay(&app, "hand-2", 1250, &[mark, ("invoice_id", "inv_void")]).await;
        pay(&app, "hand-3", 99, &[mark]).await;
        pay(&app, "hand-4", 98, &[mark, ("invoice_id", "no: invoice of ours")]).await;

        let report = audit(&app).await;
        let right = [
            "paid_there_not_here -", "paid_there_not_here inv_forgotten",
            "paid_there_not_here inv_unpaid", "paid_there_not_here inv_void", "paid_there_not_here no: invoice of ours",
        ];
        assert_eq!(kinds(&report), right, "{report:#?}");
        let forgotten = &report.findings[1];
        assert_eq!((forgotten.payment_id.as_ref(), &forgotten.charge_id), (Some(&payment_id), &None));
        assert!(forgotten.detail.contains("no such invoice"), "{forgotten:?}");
        assert_eq!(forgotten.theirs.as_ref().map(|sum| sum.amount_cents), Some(1250));
    }

    async fn a_charge_that_only_our_books_call_paid_is_found(engine) {
        let app = TestApp::start(engine).await;
        for id in ["inv_gone", "inv_unpaid", "inv_ok", "inv_shared"] {
            paid(&app, id).await;
        }
        app.invoice_with("inv_declined", json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;
        let open = app.charge("inv_declined").await.json()["charge"]["providerPaymentId"].as_str().unwrap().to_owned();
        let shared = app.database.words("SELECT provider_payment_id AS value FROM charges WHERE invoice_id = 'inv_ok'").await.remove(0);
        // A database that has lost its guard.
        app.database.execute("DROP INDEX charges_paid_by_payment").await;
        for (invoice_id, payment_id) in [("inv_gone", "seen.by.ann"), ("inv_unpaid", open.as_str()), ("inv_shared", shared.as_str())] {
            let sql = format!("UPDATE charges SET provider_payment_id = '{payment_id}' WHERE invoice_id = '{invoice_id}'");
            assert_eq!(app.database.execute(&sql).await, 1);
        }

        let report = audit(&app).await;
        // Their own payments are left without a charge, so that each is told from both sides.
        let here: Vec<&str> = report.findings.iter().filter(|finding| finding.kind.as_str() == "paid_here_not_there")
            .map(|finding| finding.invoice_id.as_deref().unwrap()).collect();
        assert_eq!(here, ["inv_gone", "inv_shared", "inv_unpaid"], "{report:#?}");
        assert_eq!(report.findings.len(), 6, "{report:#?}");
        assert!(report.findings.iter().all(|finding| finding.invoice_id.as_deref() != Some("inv_ok")));
    }

    async fn an_invoice_that_was_paid_twice_is_found(engine) {
        let app = TestApp::start(engine).await;
        let first = paid(&app, "inv_1").await;
        paid(&app, "inv_2").await;
        let ours = installation(&app).await;
        pay(&app, "by-hand", 1250, &[("installation_id", &ours), ("invoice_id", "inv_1")]).await;

        let report = audit(&app).await;
        assert_eq!(kinds(&report), ["paid_twice inv_1"], "{report:#?}");
        assert!(report.findings[0].detail.contains(&first), "{report:#?}");
        assert_ne!(report.findings[0].payment_id.as_ref(), Some(&first));
    }

    async fn what_was_given_back_is_no_finding(engine) {
        let (app, _) = seen(engine).await;
        let id = paid(&app, "inv_1").await;
        let ours = installation(&app).await;
        pay(&app, "second", 1250, &[("invoice_id", "inv_1"), ("installation_id", &ours)]).await;
        assert_eq!(kinds(&audit(&app).await), ["paid_twice inv_1"]);
        let second = app.mock.ledger().payments.last().unwrap().id.clone();

        app.refund(&second).await;
        clean(&app).await;
        app.refund(&id).await;

        clean(&app).await;
    }

    async fn a_wrong_amount_is_an_open_review_and_stays_a_difference_after_it(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::WrongAmount, 1);
        let parked = app.charge("inv_1").await;
        parked.assert(409, "charge_needs_review", "unknown", "later");

        let report = audit(&app).await;
        assert_eq!(kinds(&report), ["amount_differs inv_1", "review_open inv_1"], "{report:#?}");
        let sums = |sum: &Option<Sum>| sum.as_ref().map(|sum| sum.amount_cents);
        assert_eq!((sums(&report.findings[0].ours), sums(&report.findings[0].theirs)), (Some(1250), Some(1251)));
        let charge = parked.json()["charge"].clone();
        let payment_id = app.mock.ledger().payments[0].id.clone();
        let verdict = json!({"outcome": "succeeded", "providerPaymentId": payment_id, "note": "the fee is ours"});
        let path = format!("/v1/charges/{}/resolve", charge["id"].as_str().unwrap());
        assert_eq!(app.post(&path, &verdict).await.status, 200);
        assert_eq!(kinds(&audit(&app).await), ["amount_differs inv_1"]);
    }

    async fn an_attempt_that_nobody_finishes_is_overdue_and_later_older_than_its_window(engine) {
        let app = TestApp::start(engine).await;
        for (id, fault) in [("inv_taken", Fault::DropAfter), ("inv_lost", Fault::DropBefore)] {
            app.invoice(id).await;
            app.fault(id, fault, SENDS_MAX);
            app.charge(id).await.assert(202, "", "unknown", "later");
        }
        assert_eq!(clean(&app).await.counts.in_flight, 2);
        app.age(11 * MINUTE).await;
        assert_eq!(clean(&app).await.counts.in_flight, 2, "the worker comes within minutes");

        app.age(10 * MINUTE).await;
        let report = audit(&app).await;
        assert_eq!(kinds(&report), ["overdue inv_lost", "overdue inv_taken"], "{report:#?}");
        assert!(report.findings[1].detail.contains("succeeded"), "{report:#?}");
        assert_eq!(report.findings[1].theirs.as_ref().map(|sum| sum.amount_cents), Some(1250));
        assert_eq!(report.counts.in_flight, 0);

        app.hours_later(20).await;
        let old = ["older_than_window inv_lost", "older_than_window inv_taken", "overdue inv_lost", "overdue inv_taken"];
        assert_eq!(kinds(&audit(&app).await), old);
        // Whatever its age: it is far older than what is compared by now.
        app.hours_later(24 * 60).await;
        assert_eq!(kinds(&audit(&app).await), old);

        app.charge("inv_taken").await.assert(201, "", "yes", "not_needed");
        app.charge("inv_lost").await.assert(409, "charge_never_executed", "no", "now");
        clean(&app).await;
    }

    async fn an_attempt_that_the_worker_looks_at_later_is_not_missed(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::Processing, 1);
        let processing = app.charge("inv_1").await;
        processing.assert(202, "", "unknown", "later");
        for _ in 0..3 {
            app.age(11 * MINUTE).await;
            app.charge("inv_1").await.assert(202, "", "unknown", "later");
        }

        app.age(12 * MINUTE).await;
        let put_off = app.database.execute("UPDATE idempotency_keys SET recover_after_ms = lease_expires_at_ms + 1200000 WHERE status = 'in_progress'").await;
        assert_eq!(put_off, 1);
        assert_eq!(clean(&app).await.counts.in_flight, 1);
        app.age(40 * MINUTE).await;
        assert_eq!(kinds(&audit(&app).await), ["overdue inv_1"]);
    }

    async fn payments_that_lie_before_the_pages_are_fetched_before_they_are_missed(engine) {
        let (app, provider) = seen(engine).await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa_chargeDeclined"})).await;
        assert_eq!(app.charge("inv_1").await.status, 402);
        app.change_card("inv_1", "pm_card_visa").await;
        let charged = app.charge("inv_1").await;
        charged.assert(201, "", "yes", "not_needed");
        // Made by an attempt of long ago, and confirmed by one of today.
        provider.hide(&charged.text("providerPaymentId"));

        let report = clean(&app).await;
        assert_eq!(report.counts.payments, 0);
        assert_eq!(provider.retrieved.load(Ordering::SeqCst), 1);
    }

    async fn charges_that_lie_before_the_period_are_looked_up_before_they_are_missed(engine) {
        let (app, provider) = seen(engine).await;
        paid(&app, "inv_1").await;
        paid(&app, "inv_2").await;
        // To our clock the charges are older than what is compared; the provider's pages still have the payments. Those of
        // the day before are read along, and cost nothing.
        app.age(MONTH + 6 * 60 * MINUTE).await;
        let report = clean(&app).await;
        assert_eq!((report.counts.charges, report.counts.payments), (0, 2));
        assert_eq!(provider.retrieved.load(Ordering::SeqCst), 0);
        app.age(5 * 24 * 60 * MINUTE).await;

        let report = clean(&app).await;
        assert_eq!((report.counts.charges, report.counts.payments), (0, 2));
        assert_eq!(provider.retrieved.load(Ordering::SeqCst), 2);
        app.database.execute("UPDATE charges SET provider_payment_id = 'pi_none' WHERE invoice_id = 'inv_2'").await;
        let report = audit(&app).await;
        assert_eq!(kinds(&report), ["paid_twice inv_2", "paid_here_not_there inv_2"], "{report:#?}");
    }

    async fn what_is_settled_while_the_audit_runs_is_no_finding(engine) {
        let (app, provider) = seen(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);
        app.charge("inv_1").await.assert(202, "", "unknown", "later");
        app.age(30 * MINUTE).await;
        assert_eq!(kinds(&audit(&app).await), ["overdue inv_1"], "that is what it looks like");

        *provider.meanwhile.lock().unwrap() = Some((app.url.clone(), "inv_1".into()));
        clean(&app).await;
        assert_eq!(app.attempts("inv_1").await, ["succeeded"]);
    }

    async fn a_charge_that_runs_is_in_flight(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let gate = app.line.hold_answers().await;
        app.charge_and_leave("inv_1").await;
        app.until("the payment is made", |app| app.times_paid("inv_1") == 1).await;

        let report = clean(&app).await;
        assert_eq!((report.counts.in_flight, report.counts.payments), (1, 1), "{report:?}");
        drop(gate);
        app.charge_waiting("inv_1", 20).await.assert(201, "", "yes", "not_needed");
        assert_eq!(clean(&app).await.counts.in_flight, 0);
    }

    async fn another_providers_charges_are_not_compared_and_not_passed_over_in_silence(engine) {
        let app = TestApp::start(engine).await;
        paid(&app, "inv_1").await;
        paid(&app, "inv_2").await;
        // The settings name another one now.
        let elsewhere = app.replica().provider(Seen::named("elsewhere", &app.mock)).start().await;
        paid(&elsewhere, "inv_3").await;

        let report = clean(&elsewhere).await;
        assert_eq!((report.counts.charges, report.counts.skipped_other_provider), (3, 2));
        assert!(report.to_text().contains("not compared 2 charges"), "{}", report.to_text());
    }

    async fn a_provider_that_does_not_answer_is_asked_again_and_is_never_called_clean(engine) {
        let (app, provider) = seen(engine).await;
        paid(&app, "inv_1").await;
        provider.refused_pages.store(3, Ordering::SeqCst);
        clean(&app).await;
        provider.refused_pages.store(4, Ordering::SeqCst);
        let refused = app.parts.audit.run(MONTH, &()).await;
        assert!(matches!(refused, Err(AuditError::Provider(_))), "{refused:?}");
    }

    async fn whoever_watches_sees_both_sides_and_the_second_look(engine) {
        let app = TestApp::start(engine).await;
        for n in 0..101 {
            paid(&app, &format!("inv_{n}")).await;
        }
        forget(&app, "inv_7").await;

        let steps = Steps::default();
        app.parts.audit.run(MONTH, &steps).await.unwrap();
        let seen = steps.0.lock().unwrap().clone();
        let right = [
            Step::TheirPage(100), Step::TheirPage(1), Step::OurPage(0), Step::OurPage(100), Step::Suspects(1), Step::Looked,
        ];
        assert_eq!(seen, right);
    }
}

#[derive(Default)]
struct Steps(Mutex<Vec<Step>>);

impl Progress for Steps {
    fn step(&self, step: Step) {
        self.0.lock().unwrap().push(step);
    }
}
