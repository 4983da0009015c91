//! Each rule of the checker, with a history that breaks it and one that just does not.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Call, Payment, Truth, violations};
use crate::support::Reply;

fn reply(status: u16, body: &Value) -> Reply {
    Reply {
        status,
        headers: Vec::new(),
        body: body.to_string(),
    }
}

fn replay(mut reply: Reply) -> Reply {
    reply
        .headers
        .push(("Idempotent-Replayed".into(), "true".into()));
    reply
}

fn success() -> Reply {
    reply(
        201,
        &json!({"id": "chg_1", "attempt": 1, "customerCharged": "yes", "retry": "not_needed"}),
    )
}

fn declined(attempt: i32) -> Reply {
    problem(402, "charge_declined", "no", "after_change", Some(attempt))
}

fn unavailable(code: &str, charged: &str) -> Reply {
    problem(503, code, charged, "later", None)
}

fn problem(status: u16, code: &str, charged: &str, retry: &str, attempt: Option<i32>) -> Reply {
    let mut body = json!({"code": code, "customerCharged": charged, "retry": retry});
    if retry == "later" {
        body["retryAfterSeconds"] = json!(5);
    }
    if let Some(attempt) = attempt {
        body["charge"] = json!({"attempt": attempt});
    }
    reply(status, &body)
}

fn call(started_ms: i64, ended_ms: i64, reply: Reply) -> Call {
    Call {
        invoice_id: "inv_1".into(),
        started_ms,
        ended_ms,
        reply: Some(reply),
    }
}

/// Begun at 1,000 and 3,000; the money was taken in the second from 3,000 on, unless nothing was.
fn truth(paid_attempt: Option<i32>) -> Truth {
    let payment = |attempt| Payment {
        attempt,
        taken_from_ms: 3_000,
        taken_to_ms: 3_999,
    };
    Truth {
        payments: paid_attempt.map(payment).into_iter().collect(),
        begun_ms: BTreeMap::from([(1, 1_000), (2, 3_000)]),
    }
}

#[track_caller]
fn check(history: &[Call], truth: &Truth, right: Option<&str>) {
    let found = violations(
        history,
        &BTreeMap::from([("inv_1".to_owned(), truth.clone())]),
    );
    match right {
        None => assert_eq!(found, Vec::<String>::new()),
        Some(text) => assert!(
            found.iter().any(|line| line.contains(text)),
            "{text}: {found:#?}"
        ),
    }
}

#[test]
fn a_history_as_it_should_be_is_not_complained_of() {
    let history = [
        call(900, 2_000, declined(1)),
        call(
            1_500,
            1_600,
            problem(409, "charge_in_progress", "unknown", "later", None),
        ),
        call(2_500, 4_500, success()),
        Call {
            reply: None,
            ..call(2_600, 2_700, success())
        },
        call(4_600, 4_700, replay(success())),
        call(4_800, 4_900, unavailable("storage_unavailable", "unknown")),
    ];
    check(&history, &truth(Some(2)), None);
}

#[test]
fn a_yes_needs_money() {
    check(
        &[call(900, 2_000, success())],
        &truth(None),
        Some("no money was ever taken"),
    );
    check(
        &[call(900, 2_999, success())],
        &truth(Some(1)),
        Some("before any money was taken"),
    );
    check(&[call(900, 3_000, success())], &truth(Some(1)), None);
}

#[test]
fn a_no_excludes_every_payment_but_that_of_a_later_attempt() {
    let no = |started_ms, attempt| [call(started_ms, 9_000, declined(attempt))];
    check(
        &no(4_000, 1),
        &truth(Some(2)),
        Some("had been taken before the call"),
    );
    check(
        &no(900, 2),
        &truth(Some(2)),
        Some("of an attempt that took the money"),
    );
    check(
        &no(900, 1),
        &truth(Some(1)),
        Some("of an attempt that took the money"),
    );
    check(
        &no(3_001, 1),
        &truth(Some(2)),
        Some("while the attempt was under way"),
    );
    check(&no(3_000, 1), &truth(Some(2)), None);
    check(&no(900, 1), &truth(None), None);
}

#[test]
fn a_no_that_tells_of_no_attempt_is_held_against_the_time() {
    let no = |started_ms| {
        [call(
            started_ms,
            9_000,
            unavailable("provider_unavailable", "no"),
        )]
    };
    check(
        &no(1_001),
        &truth(Some(1)),
        Some("while the attempt was under way"),
    );
    check(&no(1_000), &truth(Some(1)), None);
    let unreserved = Truth {
        begun_ms: BTreeMap::new(),
        ..truth(Some(1))
    };
    check(&no(900), &unreserved, Some("never reserved"));
}

#[test]
fn money_is_taken_once() {
    let mut twice = truth(Some(1));
    twice.payments.push(twice.payments[0].clone());
    check(&[call(900, 5_000, success())], &twice, Some("paid 2 times"));
}

#[test]
fn all_successes_are_one_and_only_one_is_not_a_replay() {
    let other = reply(
        201,
        &json!({"id": "chg_2", "customerCharged": "yes", "retry": "not_needed"}),
    );
    let history = [call(900, 5_000, success()), call(901, 5_001, replay(other))];
    check(&history, &truth(Some(1)), Some("two successes differ"));
    let history = [call(900, 5_000, success()), call(901, 5_001, success())];
    check(&history, &truth(Some(1)), Some("more than one success"));
}

#[test]
fn after_a_success_there_is_nothing_but_its_replay() {
    let late = |reply| [call(900, 5_000, success()), call(5_001, 5_100, reply)];
    let busy = || problem(409, "charge_in_progress", "unknown", "later", None);
    check(
        &late(busy()),
        &truth(Some(1)),
        Some("called after the success"),
    );
    check(
        &late(unavailable("provider_unavailable", "no")),
        &truth(Some(1)),
        Some("called after the success"),
    );
    check(&late(replay(success())), &truth(Some(1)), None);
    check(
        &late(unavailable("storage_unavailable", "unknown")),
        &truth(Some(1)),
        None,
    );
    // Who called before the success was told may be told less.
    check(
        &[call(900, 5_000, success()), call(5_000, 5_100, busy())],
        &truth(Some(1)),
        None,
    );
}

#[test]
fn every_answer_keeps_the_contract() {
    #[rustfmt::skip]
    let broken = [
        (problem(500, "internal_error", "unknown", "later", None), "never answered so"),
        (problem(502, "", "unknown", "later", None), "never answered so"),
        (problem(404, "invoice_not_found", "no", "after_change", None), "never answered so"),
        (problem(402, "charge_declined", "unknown", "later", Some(1)), "customerCharged is not"),
        (problem(409, "charge_in_progress", "no", "later", None), "customerCharged is not"),
        (unavailable("storage_unavailable", "no"), "customerCharged is not"),
        (unavailable("provider_unavailable", "unknown"), "customerCharged is not"),
        (problem(409, "charge_in_progress", "unknown", "now", None), "retry is not"),
        (problem(402, "retry_not_advised", "no", "later", Some(1)), "retry is not"),
        (reply(202, &json!({"customerCharged": "unknown", "retry": "later"})), "later comes with a time"),
        (reply(201, &json!({"customerCharged": "yes", "retry": "not_needed", "retryAfterSeconds": 5})), "later comes with a time"),
    ];
    for (reply, right) in broken {
        let started_ms = 900;
        check(&[call(started_ms, 5_000, reply)], &truth(None), Some(right));
    }
}
