use super::*;
use crate::charges::fixtures::{answer, charge, failure, invoice, reservation};
use crate::idempotency::reservation::ReservationState;

const HOUR: i64 = 3_600_000;

const POLICY: RetryPolicy = RetryPolicy {
    attempts_max: 8,
    cooldown_ms: 0,
    key_window_ms: 20 * HOUR,
};

fn snapshot(status: InvoiceStatus, latest: Option<(Charge, Reservation)>) -> ChargeSnapshot {
    ChargeSnapshot {
        invoice: Invoice {
            status,
            ..invoice()
        },
        latest,
    }
}

/// An attempt whose key is in progress.
fn running(status: ChargeStatus) -> Option<(Charge, Reservation)> {
    Some((charge(status), reservation(ReservationState::InProgress)))
}

/// An attempt that failed at 0.
fn failed(failure: Failure) -> Option<(Charge, Reservation)> {
    let charge = Charge {
        settled_at_ms: Some(0),
        ..charge(ChargeStatus::Failed(failure))
    };
    Some((charge, reservation(ReservationState::Failed(answer(402)))))
}

fn start(attempt: i32, open_payment_id: Option<&str>) -> NextStep {
    NextStep::Start {
        attempt,
        open_payment_id: open_payment_id.map(str::to_owned),
    }
}

fn soft() -> Failure {
    failure(FailureKind::Declined, "insufficient_funds")
}

fn hard() -> Failure {
    failure(FailureKind::Declined, "stolen_card")
}

#[test]
fn every_state_of_an_invoice_has_one_next_step() {
    use ChargeStatus::{NeedsReview, Pending, Processing, Succeeded};
    use InvoiceStatus::{Open, Paid, Void};
    let lease_left = |retry_after_ms| NextStep::InProgress { retry_after_ms };
    let resend = NextStep::TakeOver(Recovery::Resend);
    let look_up = NextStep::TakeOver(Recovery::LookUp);
    let done = || {
        Some((
            charge(Succeeded),
            reservation(ReservationState::Done(answer(201))),
        ))
    };
    let parked = || {
        let known = Charge {
            evidence: Some("a lost answer".into()),
            ..charge(Pending)
        };
        Some((known, reservation(ReservationState::InProgress)))
    };
    #[rustfmt::skip]
    let table = vec![
        ("never charged", snapshot(Open, None), 0, start(1, None)),
        ("void", snapshot(Void, None), 0, NextStep::NotChargeable),
        ("void after a decline", snapshot(Void, failed(soft())), 0, NextStep::NotChargeable),
        ("just reserved", snapshot(Open, running(Pending)), 0, lease_left(2_000)),
        ("near the end of its lease", snapshot(Open, running(Pending)), 599_000, lease_left(1_000)),
        ("known to be unknown", snapshot(Open, parked()), 0, lease_left(600_000)),
        ("silent", snapshot(Open, running(Pending)), 600_000, resend),
        ("silent past the window", snapshot(Open, running(Pending)), 20 * HOUR, look_up.clone()),
        ("processing", snapshot(Open, running(Processing)), 0, NextStep::Processing),
        ("processing past its lease", snapshot(Open, running(Processing)), 600_000, look_up),
        ("under review", snapshot(Open, running(NeedsReview)), 0, NextStep::NeedsReview),
        ("under review past its lease", snapshot(Open, running(NeedsReview)), 600_000, NextStep::NeedsReview),
        ("paid", snapshot(Paid, done()), 0, NextStep::Replay(answer(201))),
        ("paid long ago", snapshot(Paid, done()), 100_000 * HOUR, NextStep::Replay(answer(201))),
        ("softly declined", snapshot(Open, failed(soft())), 0, start(2, Some("pi_1"))),
        ("declined, its payment closed", snapshot(Open, failed(Failure { payment_open: false, ..soft() })), 0, start(2, None)),
        ("refused", snapshot(Open, failed(failure(FailureKind::Refused, "resource_missing"))), 0, start(2, Some("pi_1"))),
        ("canceled", snapshot(Open, failed(failure(FailureKind::Canceled, "canceled_unfinished"))), 0, start(2, Some("pi_1"))),
        ("never executed", snapshot(Open, failed(failure(FailureKind::NeverExecuted, "never_executed"))), 0, start(2, Some("pi_1"))),
        ("stolen", snapshot(Open, failed(hard())), 100_000 * HOUR, NextStep::NotAdvised),
        ("to be authenticated", snapshot(Open, failed(failure(FailureKind::Declined, "authentication_required"))), 0, NextStep::NotAdvised),
        ("advised against", snapshot(Open, failed(Failure { advice_code: Some("do_not_try_again".into()), ..soft() })), 0, NextStep::NotAdvised),
    ];
    for (case, snapshot, now_ms, right) in table {
        assert_eq!(
            next_step(&snapshot, "same", &POLICY, now_ms),
            right,
            "{case}"
        );
    }
}

#[test]
fn tables_that_contradict_each_other_stop_everything() {
    use ChargeStatus::{Failed, NeedsReview, Pending, Processing, Succeeded};
    use InvoiceStatus::{Open, Paid};
    let with_failed_key = |status| {
        Some((
            charge(status),
            reservation(ReservationState::Failed(answer(402))),
        ))
    };
    let mut table = vec![
        ("paid by nothing", snapshot(Paid, None), 0),
        ("paid, yet failed", snapshot(Paid, failed(soft())), 0),
    ];
    for now_ms in [0, 600_000] {
        table.push((
            "a success in progress",
            snapshot(Open, running(Succeeded)),
            now_ms,
        ));
        table.push((
            "a failure in progress",
            snapshot(Open, running(Failed(soft()))),
            now_ms,
        ));
    }
    for status in [Pending, Processing, NeedsReview, Succeeded] {
        table.push((
            "a failed key without a failure",
            snapshot(Open, with_failed_key(status)),
            0,
        ));
    }
    for (case, snapshot, now_ms) in table {
        let step = next_step(&snapshot, "same", &POLICY, now_ms);
        assert!(
            matches!(step, NextStep::Inconsistent(_)),
            "{case}: {step:?}"
        );
    }
    let another = next_step(&snapshot(Open, running(Pending)), "another", &POLICY, 0);
    assert!(
        matches!(another, NextStep::Inconsistent(_)),
        "another operation's key: {another:?}"
    );
}

#[test]
fn another_attempt_follows_a_failure_only_as_the_policy_allows() {
    let cooling = RetryPolicy {
        cooldown_ms: 60_000,
        ..POLICY
    };
    let last = RetryPolicy {
        attempts_max: 1,
        ..POLICY
    };
    let replay = |retry_after_ms| NextStep::ReplayFailure {
        response: answer(402),
        retry_after_ms,
    };
    let never_executed = failure(FailureKind::NeverExecuted, "never_executed");
    #[rustfmt::skip]
    let table = [
        ("within the cooldown", soft(), cooling, false, 1, replay(59_999)),
        ("in its last millisecond", soft(), cooling, false, 59_999, replay(1)),
        ("after the cooldown", soft(), cooling, false, 60_000, start(2, Some("pi_1"))),
        ("a changed card lifts the cooldown", soft(), cooling, true, 1, start(2, Some("pi_1"))),
        ("a changed card lifts a hard decline", hard(), POLICY, true, 1, start(2, Some("pi_1"))),
        ("nothing to cool down from", never_executed, cooling, false, 1, start(2, Some("pi_1"))),
        ("no attempts left", soft(), last, false, 1, NextStep::Exhausted),
        ("no attempts left, whatever the card", soft(), last, true, 1, NextStep::Exhausted),
        ("no attempts left after a hard decline", hard(), last, false, 1, NextStep::Exhausted),
    ];
    for (case, failure, policy, card_changed, now_ms, right) in table {
        let mut snapshot = snapshot(InvoiceStatus::Open, failed(failure));
        if card_changed {
            snapshot.invoice.revision = 2;
            snapshot.invoice.payment_method_id = Some("pm_2".into());
        }
        assert_eq!(
            next_step(&snapshot, "same", &policy, now_ms),
            right,
            "{case}"
        );
    }
}

#[test]
fn a_card_that_was_changed_and_changed_back_lifts_nothing() {
    let mut snapshot = snapshot(InvoiceStatus::Open, failed(hard()));
    snapshot.invoice.revision = 3;
    snapshot.invoice.payment_method_id = Some("pm_1".into());
    assert_eq!(
        next_step(&snapshot, "same", &POLICY, 0),
        NextStep::NotAdvised
    );
}

#[test]
fn every_state_of_a_charge_says_whether_money_was_taken_and_whether_to_call_again() {
    use ChargeStatus::{Failed, NeedsReview, Pending, Processing, Succeeded};
    use CustomerCharged::{No, Unknown, Yes};
    use Retry::{AfterChange, Later, Never, NotNeeded, Now};
    let cooling = RetryPolicy {
        cooldown_ms: 60_001,
        ..POLICY
    };
    let last = RetryPolicy {
        attempts_max: 1,
        ..POLICY
    };
    let declined = |code| Failed(failure(FailureKind::Declined, code));
    let refused = || Failed(failure(FailureKind::Refused, "resource_missing"));
    let canceled = || Failed(failure(FailureKind::Canceled, "canceled_unfinished"));
    let never_executed = || Failed(failure(FailureKind::NeverExecuted, "never_executed"));
    #[rustfmt::skip]
    let table = [
        (Pending, POLICY, Unknown, Later, Some(2)),
        (Processing, POLICY, Unknown, Later, Some(60)),
        (NeedsReview, POLICY, Unknown, Later, Some(60)),
        (Succeeded, POLICY, Yes, NotNeeded, None),
        (Succeeded, last, Yes, NotNeeded, None),
        (declined("insufficient_funds"), POLICY, No, Later, Some(3_600)),
        (declined("insufficient_funds"), cooling, No, Later, Some(61)),
        (declined("insufficient_funds"), last, No, Never, None),
        (declined("expired_card"), POLICY, No, AfterChange, None),
        (declined("stolen_card"), POLICY, No, AfterChange, None),
        (declined("authentication_required"), POLICY, No, AfterChange, None),
        (refused(), POLICY, No, AfterChange, None),
        (refused(), last, No, Never, None),
        (canceled(), POLICY, No, Now, None),
        (never_executed(), POLICY, No, Now, None),
        (never_executed(), last, No, Never, None),
    ];
    for (status, policy, customer_charged, retry, retry_after_seconds) in table {
        let right = Outlook {
            customer_charged,
            retry,
            retry_after_seconds,
        };
        assert_eq!(
            outlook(&charge(status.clone()), &policy),
            right,
            "{status:?} {policy:?}"
        );
    }
}

#[test]
fn milliseconds_are_rounded_up_to_seconds() {
    for (milliseconds, seconds) in [
        (-5, 0),
        (0, 0),
        (1, 1),
        (1_000, 1),
        (1_001, 2),
        (i64::MAX, i64::MAX / 1_000),
    ] {
        assert_eq!(seconds_up(milliseconds), seconds, "{milliseconds}");
    }
}
