//! What a charge costs apart from the provider and the network: the pure decisions, and the statements on each store.
//!
//! Whoever measures a decision checks first that it is the one that is meant: a refusal is fast, too.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a benchmark fails by panicking and speaks on the terminal"
)]

#[path = "../tests/storage/support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the storage tests use more of it"
)]
mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use chargeonce::charges::answer;
use chargeonce::charges::lifecycle::{NextStep, RetryPolicy, next_step};
use chargeonce::charges::model::{Charge, ChargeStatus};
use chargeonce::charges::repository::ChargeSnapshot;
use chargeonce::charges::settlement::{LookUpContext, Plan, Verdict, after_look_up, after_send};
use chargeonce::idempotency::fingerprint::fingerprint;
use chargeonce::idempotency::reservation::{Recovery, Reservation, ReservationState};
use chargeonce::payments::outcome::{Outcome, PaymentStatus, ProviderPayment, Unknown};
use chargeonce::payments::stripe::decision::read;
use chargeonce::payments::stripe::request::Endpoint;
use chargeonce::payments::stripe::transport::{AnswerHeaders, HttpAnswer, TransportResult};
use chargeonce::telemetry::caller_trace::CallerTrace;
use criterion::{BatchSize, Criterion};
use serde_json::json;
use tokio::runtime::Runtime;

use support::{Begun, Engine, Fixture, attempt, invoice, succeeded};

const POLICY: RetryPolicy = RetryPolicy {
    attempts_max: 8,
    cooldown_ms: 0,
    key_window_ms: 20 * 3_600_000,
};

const INSTALLATION: &str = "ins_1";

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    decisions(&mut criterion);
    words(&mut criterion);
    store(&mut criterion, Engine::Sqlite);
    if std::env::var_os("TEST_DATABASE_URL").is_some() {
        store(&mut criterion, Engine::Postgres);
    } else {
        eprintln!("postgres: not measured, TEST_DATABASE_URL names no server");
    }
    criterion.final_summary();
}

/// What a call may do, and what an answer of the provider does.
fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    let first = snapshot(None);
    let paid = snapshot(Some(ReservationState::Done(support::response(201, "paid"))));
    let step = |snapshot| next_step(snapshot, "f", &POLICY, 1_000);
    assert!(matches!(step(&first), NextStep::Start { attempt: 1, .. }));
    assert!(matches!(step(&paid), NextStep::Replay(_)));
    group.bench_function("next_step/start", |bench| {
        bench.iter(|| step(black_box(&first)))
    });
    group.bench_function("next_step/replay", |bench| {
        bench.iter(|| step(black_box(&paid)))
    });

    let charge = charge();
    let sent = |outcome| after_send(outcome, &charge, INSTALLATION, false);
    let outcome = Outcome::Succeeded(payment(&charge, PaymentStatus::Succeeded));
    assert!(is_success(&sent(outcome.clone())));
    group.bench_function("after_send/succeeded", |bench| {
        bench.iter_batched(|| outcome.clone(), sent, BatchSize::SmallInput);
    });

    let mut found = vec![payment(&charge, PaymentStatus::Canceled); 9];
    found.push(payment(&charge, PaymentStatus::Succeeded));
    let context = LookUpContext {
        unknown: Unknown::look_up("no answer in time"),
        all_sends_are_old: false,
        installation_id: INSTALLATION.into(),
    };
    assert!(is_success(&after_look_up(&found, &charge, &context)));
    group.bench_function("after_look_up/one_of_ten_paid", |bench| {
        bench.iter(|| after_look_up(black_box(&found), &charge, &context));
    });
    group.finish();
}

/// What is read and written on the way.
fn words(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("words");
    let charge = charge();
    let answer = TransportResult::Answer(HttpAnswer {
        status: 200,
        headers: AnswerHeaders::from_pairs([("request-id", "req_1")]),
        body: intent(&charge).into(),
    });
    let asked = Endpoint::of_path("/v1/payment_intents").unwrap();
    assert!(matches!(read(asked, &answer), Outcome::Succeeded(_)));
    group.bench_function("providers_answer", |bench| {
        bench.iter(|| read(asked, black_box(&answer)));
    });

    let asked = json!({"invoiceId": charge.invoice_id});
    group.bench_function("fingerprint", |bench| {
        bench.iter(|| fingerprint("charge", black_box(&asked)).unwrap());
    });

    let charged = Charge {
        status: ChargeStatus::Succeeded,
        provider_payment_id: Some("pi_1".into()),
        settled_at_ms: Some(support::SETTLED_AT_MS),
        ..charge
    };
    assert_eq!(answer::succeeded(&charged, &POLICY).unwrap().status, 201);
    group.bench_function("stored_answer", |bench| {
        bench.iter(|| answer::succeeded(black_box(&charged), &POLICY).unwrap());
    });

    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert!(CallerTrace::read(parent, "").is_some());
    group.bench_function("traceparent", |bench| {
        bench.iter(|| CallerTrace::read(black_box(parent), ""));
    });
    group.finish();
}

/// The three units of work of a charge, each on invoices that nobody has charged before.
fn store(criterion: &mut Criterion, engine: Engine) {
    let runtime = Runtime::new().unwrap();
    let fixture = runtime.block_on(Fixture::open(engine));
    let name = match engine {
        Engine::Sqlite => "sqlite",
        Engine::Postgres => "postgres",
    };
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10);
    let known = runtime.block_on(fixture.charging("inv_known"));
    group.bench_function("charge_snapshot", |bench| {
        bench.iter(|| {
            let read = fixture.charge_snapshot(&known.charge.invoice_id);
            runtime.block_on(read).unwrap().unwrap()
        });
    });
    group.bench_function("begin_attempt", |bench| {
        bench.iter_custom(|count| {
            runtime.block_on(async {
                let mut took = Duration::ZERO;
                for _ in 0..count {
                    let new = attempt(&fixture.insert(&invoice(&fresh_id())).await, 1);
                    let since = Instant::now();
                    fixture.begin(&new).await;
                    took += since.elapsed();
                }
                took
            })
        });
    });
    group.bench_function("record_attempt", |bench| {
        bench.iter_custom(|count| {
            runtime.block_on(async {
                let mut took = Duration::ZERO;
                for _ in 0..count {
                    let begun: Begun = fixture.charging(&fresh_id()).await;
                    let record = succeeded();
                    let since = Instant::now();
                    assert!(fixture.record(&begun, &record).await);
                    took += since.elapsed();
                }
                took
            })
        });
    });
    group.finish();
    // The database goes with it, and needs the runtime for that.
    let _entered = runtime.enter();
    drop(fixture);
}

fn fresh_id() -> String {
    format!("inv_{}", uuid::Uuid::now_v7().simple())
}

fn charge() -> Charge {
    attempt(&invoice("inv_1"), 1).charge
}

fn snapshot(state: Option<ReservationState>) -> ChargeSnapshot {
    let invoice = invoice("inv_1");
    let new = attempt(&invoice, 1);
    let latest = state.map(|state| {
        let reservation = Reservation {
            key: new.reservation.key,
            operation: new.reservation.operation.into(),
            state,
            attempt: 1,
            fingerprint: new.reservation.fingerprint,
            lease_token: new.reservation.lease_token,
            lease_expires_at_ms: support::LEASE_MS,
            recovery: Recovery::Resend,
            first_sent_at_ms: 0,
            last_sent_at_ms: 0,
            takeovers: 0,
            idle: false,
            unanswered_since_ms: None,
        };
        (new.charge, reservation)
    });
    ChargeSnapshot { invoice, latest }
}

fn payment(charge: &Charge, status: PaymentStatus) -> ProviderPayment {
    ProviderPayment {
        id: "pi_1".into(),
        status,
        amount_minor: charge.amount_minor,
        currency: charge.currency.clone(),
        invoice_id: Some(charge.invoice_id.clone()),
        installation_id: Some(INSTALLATION.into()),
        charge_key: Some(charge.idempotency_key.clone()),
        failure: None,
    }
}

fn is_success(plan: &Plan) -> bool {
    matches!(plan, Plan::Record(Verdict::Succeeded(_)))
}

/// As Stripe answers, with the parts that are not read.
fn intent(charge: &Charge) -> String {
    json!({
        "id": "pi_3MtwBwLkdIwHu7ix28a3tqPa", "object": "payment_intent", "amount": charge.amount_minor, "amount_capturable": 0,
        "amount_details": {"tip": {}}, "amount_received": charge.amount_minor, "application": null, "application_fee_amount": null,
        "automatic_payment_methods": null, "canceled_at": null, "cancellation_reason": null, "capture_method": "automatic",
        "client_secret": "pi_3MtwBwLkdIwHu7ix28a3tqPa_secret_YrKJUKribcBjcG8HVhfZluoGH", "confirmation_method": "automatic",
        "created": 1_680_800_504, "currency": charge.currency, "customer": charge.customer_id, "description": null,
        "last_payment_error": null, "latest_charge": "ch_3MtwBwLkdIwHu7ix28a3tqPb", "livemode": false,
        "metadata": {"invoice_id": charge.invoice_id, "installation_id": INSTALLATION, "charge_key": charge.idempotency_key},
        "next_action": null, "on_behalf_of": null, "payment_method": "pm_1MtwBwLkdIwHu7ixcard", "payment_method_options":
        {"card": {"installments": null, "mandate_options": null, "network": null, "request_three_d_secure": "automatic"}},
        "payment_method_types": ["card"], "processing": null, "receipt_email": null, "review": null, "setup_future_usage": null,
        "shipping": null, "source": null, "statement_descriptor": null, "status": "succeeded", "transfer_data": null
    })
    .to_string()
}
