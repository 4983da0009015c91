use super::*;
use crate::charges::fixtures::{answer, failure as charge_failure};
use crate::idempotency::reservation::ReservationState;
use crate::refunds::fixtures::{failure, part, refund, reservation, snapshot};
use FailureKind::{Canceled, Declined, NeverExecuted, Refused};
use ReservationState::{Done, Failed, InProgress};

const HOUR: i64 = 3_600_000;
const WINDOW: i64 = 20 * HOUR;

fn step(snapshot: &RefundSnapshot, wanted: &Wanted, now_ms: i64) -> NextStep {
    next_step(snapshot, wanted, "same", WINDOW, now_ms)
}

fn start(attempt: i32, amount_minor: i64) -> NextStep {
    NextStep::Start {
        attempt,
        amount_minor,
    }
}

fn declined() -> RefundStatus {
    RefundStatus::Failed(failure(Declined, "expired_or_canceled_card"))
}

fn returned() -> RefundStatus {
    RefundStatus::Returned(failure(Declined, "lost_or_stolen_card"))
}

#[test]
fn a_charge_without_a_refund_gives_back_what_it_has_room_for() {
    let exceeds = |rest_minor| NextStep::Exceeds { rest_minor };
    #[rustfmt::skip]
    let table = [
        ("all of it", 0, Wanted::Rest, start(1, 1250)),
        ("what others have left", 400, Wanted::Rest, start(1, 850)),
        ("nothing is left", 1250, Wanted::Rest, exceeds(0)),
        ("a part", 0, Wanted::Part(500), start(1, 500)),
        ("the last cent", 750, Wanted::Part(500), start(1, 500)),
        ("one cent too much", 751, Wanted::Part(500), exceeds(499)),
        ("more than the charge", 0, Wanted::Part(1251), exceeds(1250)),
        ("nothing", 0, Wanted::Part(0), exceeds(1250)),
        ("less than nothing", 0, Wanted::Part(-1), exceeds(1250)),
        ("the most that there is", 0, Wanted::Part(i64::MAX), exceeds(1250)),
    ];
    for (case, refunded_minor, wanted, right) in table {
        let snapshot = snapshot(refunded_minor, None);
        assert_eq!(step(&snapshot, &wanted, 0), right, "{case}");
    }
}

#[test]
fn only_a_charge_that_took_the_money_gives_it_back() {
    let failed = ChargeStatus::Failed(charge_failure(Declined, "card_declined"));
    for status in [
        ChargeStatus::Pending,
        ChargeStatus::Processing,
        ChargeStatus::NeedsReview,
        failed,
    ] {
        for wanted in [Wanted::Rest, Wanted::Part(1)] {
            let mut snapshot = snapshot(0, None);
            snapshot.charge.status = status.clone();
            assert_eq!(
                step(&snapshot, &wanted, 0),
                NextStep::NotRefundable,
                "{status:?}"
            );
        }
    }
}

#[test]
fn every_refund_that_is_there_has_one_meaning() {
    use RefundStatus::{NeedsReview, Pending, Processing, Succeeded};
    let rest = || Wanted::Rest;
    let part = || Wanted::Part(1250);
    let busy = |retry_after_ms| NextStep::InProgress { retry_after_ms };
    let replay = |status| NextStep::Replay(answer(status));
    let resend = NextStep::TakeOver(Recovery::Resend);
    let look_up = || NextStep::TakeOver(Recovery::LookUp);
    #[rustfmt::skip]
    let table = [
        ("just reserved", Pending, InProgress, rest(), 0, busy(POLL_MS)),
        ("near the lease's end", Pending, InProgress, part(), 599_000, busy(1_000)),
        ("the lease is over", Pending, InProgress, rest(), 600_000, resend),
        ("the window is over", Pending, InProgress, rest(), WINDOW, look_up()),
        ("in the provider's hands", Processing, InProgress, rest(), 0, NextStep::Processing),
        ("in its hands, the lease over", Processing, InProgress, part(), 600_000, look_up()),
        ("under review", NeedsReview, InProgress, rest(), 0, NextStep::NeedsReview),
        ("under review for long", NeedsReview, InProgress, part(), WINDOW, NextStep::NeedsReview),
        ("given back", Succeeded, Done(answer(201)), rest(), WINDOW, replay(201)),
        ("a part given back", Succeeded, Done(answer(201)), part(), WINDOW, replay(201)),
        ("the rest has failed", declined(), Failed(answer(402)), rest(), 1, start(2, 1250)),
        ("a part has failed", declined(), Failed(answer(402)), part(), WINDOW, replay(402)),
        ("the rest came back", returned(), Done(answer(201)), rest(), 1, start(2, 1250)),
        ("a part came back", returned(), Done(answer(201)), part(), 1, NextStep::Returned),
    ];
    for (case, status, state, wanted, now_ms, right) in table {
        // What has failed takes no room.
        let refunded_minor = match &status {
            RefundStatus::Failed(_) | RefundStatus::Returned(_) => 0,
            Pending | Processing | NeedsReview | Succeeded => 1250,
        };
        let snapshot = snapshot(refunded_minor, Some((refund(status), state)));
        assert_eq!(step(&snapshot, &wanted, now_ms), right, "{case}");
    }
}

#[test]
fn a_refund_whose_outcome_is_known_to_be_unknown_is_asked_for_after_the_lease() {
    let mut pending = refund(RefundStatus::Pending);
    pending.evidence = Some("no answer in time".into());
    let snapshot = snapshot(1250, Some((pending, InProgress)));
    let right = NextStep::InProgress {
        retry_after_ms: 600_000,
    };
    assert_eq!(step(&snapshot, &Wanted::Rest, 0), right);
}

#[test]
fn a_header_key_with_other_content_is_misused_whatever_became_of_it() {
    for (status, state) in [
        (RefundStatus::Pending, InProgress),
        (RefundStatus::Succeeded, Done(answer(201))),
        (declined(), Failed(answer(402))),
        (returned(), Done(answer(201))),
    ] {
        let snapshot = snapshot(0, Some((refund(status), state)));
        let other = next_step(&snapshot, &Wanted::Part(1), "other", WINDOW, 0);
        assert_eq!(other, NextStep::KeyReused);
    }
}

#[test]
fn rows_that_contradict_each_other_move_nothing() {
    let table = [
        (RefundStatus::Succeeded, InProgress),
        (declined(), InProgress),
        (returned(), InProgress),
        (RefundStatus::Pending, Done(answer(201))),
        (declined(), Done(answer(201))),
        (RefundStatus::Succeeded, Failed(answer(402))),
        (RefundStatus::NeedsReview, Failed(answer(402))),
    ];
    for (status, state) in table {
        for wanted in [Wanted::Rest, Wanted::Part(1)] {
            let case = format!("{status:?} {state:?} {wanted:?}");
            let snapshot = snapshot(0, Some((refund(status.clone()), state.clone())));
            for now_ms in [0, 600_000] {
                let step = step(&snapshot, &wanted, now_ms);
                assert!(
                    matches!(step, NextStep::Inconsistent(_)),
                    "{case}: {step:?}"
                );
            }
        }
    }
}

#[test]
fn nobody_but_a_caller_begins_a_refund() {
    #[rustfmt::skip]
    let table = [
        (RefundStatus::Pending, InProgress, 0, Some(NextStep::InProgress { retry_after_ms: POLL_MS })),
        (RefundStatus::Pending, InProgress, 600_000, Some(NextStep::TakeOver(Recovery::Resend))),
        (RefundStatus::Processing, InProgress, 0, Some(NextStep::Processing)),
        (RefundStatus::Processing, InProgress, 600_000, Some(NextStep::TakeOver(Recovery::LookUp))),
        (RefundStatus::NeedsReview, InProgress, 600_000, Some(NextStep::NeedsReview)),
        (RefundStatus::Succeeded, Done(answer(201)), 0, None),
        (declined(), Failed(answer(402)), 0, None),
        (returned(), Done(answer(201)), 0, None),
    ];
    for (status, state, now_ms, right) in table {
        let refund = refund(status);
        let step = recovery_step(&refund, &reservation(state), WINDOW, now_ms);
        assert_eq!(step, right, "{:?}", refund.status);
    }
}

#[test]
fn the_two_answers_follow_from_the_state() {
    use Refunded::{No, Unknown, Yes};
    let failed = |kind, code: &str| RefundStatus::Failed(failure(kind, code));
    let later = |seconds| RefundOutlook::later(Unknown, seconds);
    let settled = RefundOutlook::settled;
    #[rustfmt::skip]
    let table = [
        (RefundStatus::Pending, later(2), later(2)),
        (RefundStatus::Processing, later(60), later(60)),
        (RefundStatus::NeedsReview, later(60), later(60)),
        (RefundStatus::Succeeded, settled(Yes, Retry::NotNeeded), settled(Yes, Retry::NotNeeded)),
        (declined(), settled(No, Retry::AfterChange), settled(No, Retry::AfterChange)),
        (failed(Refused, "parameter_invalid"), settled(No, Retry::AfterChange), settled(No, Retry::AfterChange)),
        (failed(Canceled, "refund_canceled"), settled(No, Retry::Now), settled(No, Retry::AfterChange)),
        (failed(NeverExecuted, "never_executed"), settled(No, Retry::Now), settled(No, Retry::AfterChange)),
        (failed(Refused, ALREADY_REFUNDED), settled(Yes, Retry::Never), settled(Yes, Retry::Never)),
        (returned(), settled(No, Retry::AfterChange), settled(No, Retry::AfterChange)),
    ];
    for (status, of_rest, of_part) in table {
        let rest = refund(status.clone());
        let part = Refund {
            portion: part(),
            ..rest.clone()
        };
        assert_eq!(outlook(&rest), of_rest, "{status:?}");
        assert_eq!(outlook(&part), of_part, "{status:?}");
    }
}
