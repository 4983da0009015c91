//! Every fault of the provider, once and on all sends of a call: what the caller is told, what is in the books right after,
//! and how it ends when the lease is over and somebody calls again.

use chargeonce::payments::mock::{Fault, FaultRule};

use crate::support::{Engine, SENDS_MAX, TestApp};

/// Status, code, `customerCharged`, `retry`.
type Answer = (u16, &'static str, &'static str, &'static str);

/// A fault, how often; then twice: the answer, the statuses of the attempts, how often money was taken.
type Row = (
    Fault,
    u32,
    Answer,
    &'static [&'static str],
    usize,
    Answer,
    &'static [&'static str],
    usize,
);

const PAID: Answer = (201, "", "yes", "not_needed");
const NO_VERDICT: Answer = (202, "", "unknown", "later");
const REVIEW: Answer = (409, "charge_needs_review", "unknown", "later");
const UNAVAILABLE: Answer = (503, "provider_unavailable", "no", "later");

const SUCCEEDED: &[&str] = &["succeeded"];
const PENDING: &[&str] = &["pending"];

#[rustfmt::skip]
const TABLE: &[Row] = &[
    (Fault::Delay, 1, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::DropBefore, 1, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::DropAfter, 1, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::HangBefore, 1, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::HangAfter, 1, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::Error500Before, 1, NO_VERDICT, PENDING, 0, NO_VERDICT, PENDING, 0),
    (Fault::Error500After, 1, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::Error503, 1, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::RateLimit, 1, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::LockTimeout, 1, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::Unauthorized, 1, UNAVAILABLE, &[], 0, PAID, SUCCEEDED, 1),
    (Fault::GarbageAfter, 1, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::WrongAmount, 1, REVIEW, &["needs_review"], 1, REVIEW, &["needs_review"], 1),
    (Fault::Processing, 1, NO_VERDICT, &["processing"], 0, NO_VERDICT, &["processing"], 0),
    (Fault::DropBefore, SENDS_MAX, NO_VERDICT, PENDING, 0, PAID, SUCCEEDED, 1),
    (Fault::DropAfter, SENDS_MAX, NO_VERDICT, PENDING, 1, PAID, SUCCEEDED, 1),
    (Fault::HangBefore, SENDS_MAX, NO_VERDICT, PENDING, 0, PAID, SUCCEEDED, 1),
    (Fault::HangAfter, SENDS_MAX, NO_VERDICT, PENDING, 1, PAID, SUCCEEDED, 1),
    (Fault::Error500Before, SENDS_MAX, NO_VERDICT, PENDING, 0, NO_VERDICT, PENDING, 0),
    (Fault::Error500After, SENDS_MAX, PAID, SUCCEEDED, 1, PAID, SUCCEEDED, 1),
    (Fault::Error503, SENDS_MAX, NO_VERDICT, PENDING, 0, PAID, SUCCEEDED, 1),
    (Fault::RateLimit, SENDS_MAX, UNAVAILABLE, &[], 0, PAID, SUCCEEDED, 1),
    (Fault::LockTimeout, SENDS_MAX, UNAVAILABLE, &[], 0, PAID, SUCCEEDED, 1),
    (Fault::Unauthorized, 2, UNAVAILABLE, &[], 0, UNAVAILABLE, &[], 0),
    (Fault::GarbageAfter, SENDS_MAX, NO_VERDICT, PENDING, 1, PAID, SUCCEEDED, 1),
];

async fn every_fault(app: TestApp) {
    // Only where the provider hangs is anybody to give up waiting for it.
    let hurried = app.replica().set("PROVIDER_TIMEOUT", "500ms").start().await;
    let mut replies = Vec::new();
    for (row, (fault, times, first, attempts, taken, second, attempts_at_last, taken_at_last)) in
        TABLE.iter().enumerate()
    {
        let id = format!("inv_{row}");
        let case = format!("{fault:?}, {times} times");
        app.invoice(&id).await;
        let ms = if *fault == Fault::Delay { 50 } else { 0 };
        let rule = FaultRule {
            times: *times,
            delay_ms: ms,
            ..FaultRule::once(*fault)
        };
        app.mock.add_fault(rule.for_key(format!("charge:{id}")));

        let hangs = matches!(fault, Fault::HangBefore | Fault::HangAfter);
        let service = if hangs { &hurried } else { &app };
        let now = service.charge(&id).await;
        now.assert(first.0, first.1, first.2, first.3);
        assert_eq!(app.attempts(&id).await, *attempts, "{case}");
        assert_eq!(app.times_paid(&id), *taken, "{case}");
        app.past_lease().await;
        let later = app.charge(&id).await;

        later.assert(second.0, second.1, second.2, second.3);
        assert_eq!(app.attempts(&id).await, *attempts_at_last, "{case}");
        assert_eq!(app.times_paid(&id), *taken_at_last, "{case}");
        let invoice_status = if attempts_at_last == &SUCCEEDED {
            "paid"
        } else {
            "open"
        };
        assert_eq!(app.invoice_status(&id).await, invoice_status, "{case}");
        replies.extend([now, later]);
    }
    app.check_oracles(&replies).await;
}

#[test]
fn the_table_names_every_fault() {
    use Fault::*;
    let all = [
        Delay,
        DropBefore,
        DropAfter,
        HangBefore,
        HangAfter,
        Error500Before,
        Error500After,
        Error503,
        RateLimit,
        LockTimeout,
        Unauthorized,
        GarbageAfter,
        WrongAmount,
        Processing,
    ];
    for fault in all {
        assert!(TABLE.iter().any(|row| row.0 == fault), "{fault:?}");
    }
}

on_both_stores! {
    async fn every_fault_of_the_payment_intents_ends_well(engine) {
        every_fault(TestApp::start(engine).await).await;
    }

    async fn every_fault_of_the_legacy_charges_ends_well(engine) {
        every_fault(over_charges(engine).await).await;
    }

    async fn a_limiter_or_a_lock_is_retried_under_the_same_key_and_uses_up_no_attempt(engine) {
        let app = TestApp::start(engine).await;
        let mut replies = Vec::new();
        for (row, fault) in [Fault::RateLimit, Fault::LockTimeout].into_iter().enumerate() {
            let (once, always) = (format!("inv_once_{row}"), format!("inv_always_{row}"));
            app.invoice(&once).await;
            app.invoice(&always).await;
            app.fault(&once, fault, 1);
            app.fault(&always, fault, SENDS_MAX);

            replies.push(app.charge(&once).await);
            assert_eq!(app.sends_for(&once), 2);
            let turned_away = app.charge(&always).await;
            turned_away.assert(503, "provider_unavailable", "no", "later");
            let reservations = format!("SELECT COUNT(*) AS value FROM idempotency_keys WHERE key = 'charge:{always}'");
            assert_eq!(app.database.number(&reservations).await, 0);
            let charged = app.charge(&always).await;

            charged.assert(201, "", "yes", "not_needed");
            assert_eq!(charged.text("attempt"), "1");
            replies.extend([turned_away, charged]);
        }
        app.check_oracles(&replies).await;
    }

    async fn refused_credentials_are_the_operators_trouble_and_not_the_customers(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::Unauthorized, 1);

        let refused = app.charge("inv_1").await;
        refused.assert(503, "provider_unavailable", "no", "later");
        assert!(!refused.body.contains("declined"), "{refused:?}");
        assert_eq!(app.sends(), ["charge:inv_1"], "a refused key is not tried again");
        let charged = app.charge("inv_1").await;

        charged.assert(201, "", "yes", "not_needed");
        assert_eq!((charged.text("attempt"), charged.text("idempotencyKey")), ("1".into(), "charge:inv_1".into()));
        app.check_oracles(&[refused, charged]).await;
    }
}

async fn over_charges(engine: Engine) -> TestApp {
    TestApp::with(engine).charges_api().start().await
}
