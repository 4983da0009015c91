//! Each fault, at its point of the call, and what a resend with the same key then gets.

use std::time::Duration;

use futures_util::FutureExt as _;

use super::super::{Fault, FaultRule, MockReply, MockStripe};
use super::{answer, charge, json, paid};

/// The status of an answer, or 0 for a cut connection.
fn status(reply: &MockReply) -> u16 {
    match reply {
        MockReply::Answer(answer) => answer.status,
        MockReply::Cut => 0,
    }
}

#[tokio::test]
async fn each_fault_strikes_at_its_point_and_the_resend_gets_what_was_stored() {
    // Fault, first status, paid after it, resend's status, whether the resend is a replay, paid after it.
    let table = [
        (Fault::Delay, 200, 1, 200, true, 1),
        (Fault::DropBefore, 0, 0, 200, false, 1),
        (Fault::DropAfter, 0, 1, 200, true, 1),
        (Fault::HangBefore, 0, 0, 200, false, 1),
        (Fault::HangAfter, 0, 1, 200, true, 1),
        (Fault::Error500Before, 500, 0, 500, true, 0),
        (Fault::Error500After, 500, 1, 500, true, 1),
        (Fault::Error503, 503, 0, 200, false, 1),
        (Fault::RateLimit, 429, 0, 200, false, 1),
        (Fault::LockTimeout, 429, 0, 200, false, 1),
        (Fault::Unauthorized, 401, 0, 200, false, 1),
        (Fault::GarbageAfter, 200, 1, 200, true, 1),
        (Fault::WrongAmount, 200, 1, 200, true, 1),
        (Fault::Processing, 200, 0, 200, true, 0),
    ];
    for (fault, first, paid_first, second, replayed, paid_second) in table {
        let mock = MockStripe::new();
        mock.add_fault(FaultRule {
            delay_ms: 5,
            ..FaultRule::once(fault).for_key("k")
        });
        let reply = mock.handle(charge("k")).await;
        assert_eq!(
            (status(&reply), paid(&mock)),
            (first, paid_first),
            "{fault:?}, first send"
        );

        let resend = answer(&mock, charge("k")).await;
        let marked = resend.header("idempotent-replayed") == Some("true");
        assert_eq!(
            (resend.status, marked, paid(&mock)),
            (second, replayed, paid_second),
            "{fault:?}, resend"
        );
        let seen: Vec<_> = mock
            .requests()
            .iter()
            .map(|request| (request.fault, request.replayed))
            .collect();
        assert_eq!(
            seen,
            [(Some(fault), false), (None, replayed)],
            "{fault:?}, recorded"
        );
    }
}

#[tokio::test]
async fn a_garbled_answer_is_no_json_and_the_resend_is_whole() {
    let mock = MockStripe::new();
    mock.add_fault(FaultRule::once(Fault::GarbageAfter));
    let garbled = answer(&mock, charge("k")).await;
    assert!(serde_json::from_slice::<serde_json::Value>(&garbled.body).is_err());
    assert_eq!(json(&mock, charge("k")).await.1["status"], "succeeded");
}

#[tokio::test]
async fn a_wrong_amount_shows_in_the_answer_and_in_the_ledger() {
    let mock = MockStripe::new();
    mock.add_fault(FaultRule::once(Fault::WrongAmount));
    let (_, intent) = json(&mock, charge("k")).await;
    assert_eq!(
        (&intent["amount"], &intent["amount_received"]),
        (&1001.into(), &1001.into())
    );
    assert_eq!(mock.ledger().payments[0].amount, 1001);
}

#[tokio::test]
async fn limiter_answers_carry_their_code_and_header() {
    let table = [
        (Fault::RateLimit, "rate_limit", Some("global-rate")),
        (Fault::LockTimeout, "lock_timeout", None),
    ];
    for (fault, code, reason) in table {
        let mock = MockStripe::new();
        mock.add_fault(FaultRule::once(fault));
        let limited = answer(&mock, charge("k")).await;
        let body: serde_json::Value = serde_json::from_slice(&limited.body).unwrap();
        assert_eq!(
            (
                &body["error"]["code"],
                limited.header("Stripe-Rate-Limited-Reason")
            ),
            (&code.into(), reason)
        );
    }
}

#[tokio::test]
async fn a_rule_without_a_key_hits_any_keyed_post_as_often_as_it_says() {
    let mock = MockStripe::new();
    mock.add_fault(FaultRule {
        times: 2,
        ..FaultRule::once(Fault::Error503)
    });
    mock.add_fault(FaultRule::once(Fault::Error503).for_key("other"));
    let unkeyed = super::post(&mock, "/v1/payment_intents", "amount=100&currency=usd")
        .await
        .0;
    let mut statuses = vec![unkeyed];
    for _ in 0..3 {
        statuses.push(answer(&mock, charge("k")).await.status);
    }
    assert_eq!(statuses, [200, 503, 503, 200]);
}

#[tokio::test]
async fn a_caller_who_hangs_up_during_a_delay_is_charged_all_the_same() {
    let mock = MockStripe::new();
    mock.add_fault(FaultRule {
        delay_ms: 5,
        ..FaultRule::once(Fault::Delay)
    });
    let hung_up = mock.handle(charge("k")).now_or_never();
    assert!(hung_up.is_none());
    assert_eq!(
        (paid(&mock), answer(&mock, charge("k")).await.status),
        (0, 409)
    );
    wait_until(|| paid(&mock) == 1).await;
    assert_eq!(
        answer(&mock, charge("k"))
            .await
            .header("Idempotent-Replayed"),
        Some("true")
    );
}

#[tokio::test]
async fn a_caller_who_hangs_up_on_a_hanging_answer_loses_only_the_answer() {
    let mock = MockStripe::new();
    mock.add_fault(FaultRule::once(Fault::HangAfter));
    assert!(mock.handle(charge("k")).now_or_never().is_none());
    assert_eq!(paid(&mock), 1);
    assert_eq!(
        answer(&mock, charge("k"))
            .await
            .header("Idempotent-Replayed"),
        Some("true")
    );
}

#[tokio::test]
async fn a_replay_can_be_lost_as_well_and_executes_nothing() {
    for fault in [
        Fault::DropAfter,
        Fault::WrongAmount,
        Fault::Error500After,
        Fault::Error500Before,
    ] {
        let mock = MockStripe::new();
        let first = answer(&mock, charge("k")).await;
        mock.add_fault(FaultRule::once(fault));
        let hit = mock.handle(charge("k")).await;
        assert_eq!(
            status(&hit),
            if fault == Fault::DropAfter { 0 } else { 200 },
            "{fault:?}"
        );
        assert_eq!(
            answer(&mock, charge("k")).await.body,
            first.body,
            "{fault:?}"
        );
        assert_eq!(
            (paid(&mock), mock.ledger().payments[0].amount),
            (1, 1000),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn latency_holds_the_key_in_flight_and_a_reset_cuts_the_call() {
    let mock = MockStripe::new();
    mock.set_latency(Duration::from_millis(20));
    let (waiting, early) = tokio::join!(mock.handle(charge("k")), answer(&mock, charge("k")));
    assert_eq!((status(&waiting), early.status, paid(&mock)), (200, 409, 1));

    mock.set_latency(Duration::from_millis(20));
    let (cut, ()) = tokio::join!(mock.handle(charge("other")), async { mock.reset() });
    assert_eq!((status(&cut), mock.ledger().payments.len()), (0, 0));
}

#[tokio::test]
async fn a_processing_payment_is_settled_once() {
    for (success, status) in [(true, "succeeded"), (false, "requires_payment_method")] {
        let mock = MockStripe::new();
        mock.add_fault(FaultRule::once(Fault::Processing));
        let id = json(&mock, charge("k")).await.1["id"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(mock.ledger().payments[0].status, "processing");
        let settled = [
            mock.settle_processing(&id, success),
            mock.settle_processing(&id, true),
        ];
        assert_eq!(
            (settled, mock.ledger().payments[0].status.as_str()),
            ([true, false], status)
        );
        assert!(!mock.settle_processing("pi_unknown", true));
    }
}

/// Lets other tasks run until something is true; fails after half a second.
async fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..100 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not become true");
}
