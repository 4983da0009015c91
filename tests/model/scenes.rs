//! The promises hold, whatever happens. One scene for each kind of trouble, so that each stays small enough to be explored
//! to its end in a moment; `scripts/model.sh` widens the bounds of all, and adds one scene with everything at once.

use crate::checks::{explore, holds, is_broken};
use crate::properties::*;
use crate::setting::{Protections, Said, Setting};

#[test]
fn lost_answers_late_requests_and_crashes() {
    let setting = Setting::new("lost answers", &[Said::Paid]);
    let reaches = [
        TAKEN_OVER,
        ARRIVES_LATE,
        LEASE_LOST,
        LOOKS_PAST_WINDOW,
        PRUNED,
        NEVER_EXECUTED,
        RELEASED,
        TWO_WORKERS,
    ];
    holds(&setting.widened(), &reaches);
}

#[test]
fn declines_and_the_next_attempt() {
    let setting = Setting {
        attempts: 2,
        callers: 1,
        short_waits: 0,
        ..Setting::new("declines", &[Said::Paid, Said::Declined])
    };
    let reaches = [PAID_AFTER_DECLINE, TAKEN_OVER, LEASE_LOST, NEVER_EXECUTED];
    holds(&setting.widened(), &reaches);
}

#[test]
fn declines_and_the_next_attempt_on_the_same_payment() {
    let setting = Setting {
        intents: true,
        attempts: 2,
        callers: 1,
        short_waits: 0,
        connections_fail: false,
        ..Setting::new("declines of one payment", &[Said::Paid, Said::Declined])
    };
    holds(
        &setting.widened(),
        &[PAID_AFTER_DECLINE, SAME_PAYMENT, CANCELED],
    );
}

#[test]
fn refusals_that_settle_only_their_own_send() {
    let answers = &[Said::Paid, Said::Refused, Said::TurnedAway];
    let setting = Setting {
        repeats: 1,
        ..Setting::new("refusals", answers)
    };
    holds(
        &setting.widened(),
        &[RELEASED, ARRIVES_LATE, LEASE_LOST, PRUNED],
    );
}

#[test]
fn five_hundreds_with_and_without_a_payment() {
    let answers = &[
        Said::Paid,
        Said::BrokenPaid,
        Said::BrokenUnpaid,
        Said::BrokenRunning,
        Said::BrokenBefore,
    ];
    let setting = Setting {
        callers: 1,
        ..Setting::new("stored 500s", answers)
    };
    let reaches = [FOUND_AFTER_500, NEVER_EXECUTED, LOOKS_PAST_WINDOW];
    holds(&setting.widened(), &reaches);
}

#[test]
fn payments_without_a_verdict_and_webhooks() {
    let answers = &[Said::Processing, Said::ActionNeeded];
    let setting = Setting {
        intents: true,
        webhooks: true,
        callers: 1,
        short_waits: 0,
        connections_fail: false,
        ..Setting::new("processing", answers)
    };
    holds(&setting.widened(), &[WOKEN, CANCELED, LOOKS_PAST_WINDOW]);
}

#[test]
fn look_ups_that_fail() {
    let setting = Setting {
        look_ups_fail: true,
        ..Setting::new("look-ups fail", &[Said::Paid])
    };
    holds(&setting.widened(), &[IN_REVIEW, NEVER_EXECUTED, PRUNED]);
}

#[test]
fn requests_that_meet_under_one_key() {
    let setting = Setting {
        slow_executions: true,
        repeats: 1,
        ..Setting::new("slow executions", &[Said::Paid])
    };
    holds(&setting.widened(), &[IN_USE, ARRIVES_LATE, PRUNED]);
}

/// Whoever decides on a takeover may find the attempt with the same token and its lease still over, and yet with a record
/// that its slow owner has made meanwhile. Without a guard no promise is broken by that, but a charge that was parked is
/// worked on again, and a payment that was known is overwritten with nothing.
#[test]
fn a_decision_that_is_stale_by_now() {
    let setting = Setting {
        look_ups_fail: true,
        callers: 1,
        workers: 1,
        connections_fail: false,
        records_are_watched: true,
        protections: Protections {
            fresh_takeover: false,
            ..Protections::ALL
        },
        ..Setting::new("a stale takeover", &[Said::Processing])
    };
    is_broken(&setting, LEFT_ALONE);
    is_broken(&setting, KEPT);
    let setting = Setting {
        protections: Protections::ALL,
        ..setting
    };
    explore(&setting, &[LEFT_ALONE, KEPT]);
}

/// One caller, the reconciler and one worker in the short form; the size grows fast here.
#[test]
fn everything_at_once() {
    const ANSWERS: &[Said] = &[
        Said::Paid,
        Said::Declined,
        Said::Refused,
        Said::TurnedAway,
        Said::BrokenPaid,
        Said::BrokenUnpaid,
        Said::BrokenRunning,
        Said::BrokenBefore,
        Said::Processing,
        Said::ActionNeeded,
    ];
    // A one-shot charge never waits for its customer.
    let (_, of_charges) = ANSWERS.split_last().unwrap();
    for (intents, answers) in [(false, of_charges), (true, ANSWERS)] {
        let setting = Setting {
            intents,
            webhooks: true,
            slow_executions: true,
            look_ups_fail: true,
            callers: 1,
            workers: 1,
            short_waits: 0,
            ..Setting::new("everything at once", answers)
        };
        let reaches = [TAKEN_OVER, NEVER_EXECUTED, IN_REVIEW, WOKEN];
        holds(&setting.widened(), &reaches);
    }
}
