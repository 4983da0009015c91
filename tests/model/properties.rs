//! What must always hold, and what must happen sometimes so that the former means something.

use stateright::Property;

use crate::fair::WELL;
use crate::flow::Flow;
use crate::state::{
    FailKind, Finding, Heard, Memory, PaymentState, Place, Remembered, Stage, State, Status, Worker,
};

pub const ONE_PAYMENT: &str = "an invoice has at most one successful payment";
pub const NO_LIE: &str = "no answer lies";
/// One property for both, since one continuation shows both.
pub const ENDS_WELL: &str = "no payment stays unrecorded and no invoice stuck, for ever";

/// Not promised, but meant: see `scenes::a_decision_that_is_stale_by_now`.
pub const LEFT_ALONE: &str = "what waits for a person is left to a person";
pub const KEPT: &str = "a known payment is not forgotten";

/// The promises.
pub const PROMISES: [&str; 3] = [ONE_PAYMENT, NO_LIE, ENDS_WELL];

pub const TAKEN_OVER: &str = "an attempt is taken over";
pub const ARRIVES_LATE: &str = "a request arrives after its attempt was taken over";
pub const LEASE_LOST: &str = "a success comes when the lease is lost";
pub const LOOKS_PAST_WINDOW: &str = "a look-up comes past the window";
pub const PRUNED: &str = "a key is forgotten while its attempt is open";
pub const NEVER_EXECUTED: &str = "an attempt ends as never executed";
pub const PAID_AFTER_DECLINE: &str = "the second attempt is paid after a decline";
pub const SAME_PAYMENT: &str = "the second attempt is paid on the first one's payment";
pub const IN_REVIEW: &str = "an attempt waits for a person";
pub const WOKEN: &str = "a webhook settles an attempt before its lease is over";
pub const CANCELED: &str = "an unfinished payment is cancelled";
pub const RELEASED: &str = "a reservation is given back";
pub const IN_USE: &str = "a request meets another one under its key";
pub const TWO_WORKERS: &str = "two workers are at one attempt";
pub const FOUND_AFTER_500: &str = "a payment is found after a stored 500";

pub fn all() -> Vec<Property<Flow>> {
    let parts = [promises(), troubles(), endings()];
    parts.into_iter().flatten().collect()
}

fn promises() -> Vec<Property<Flow>> {
    let always = Property::<Flow>::always;
    vec![
        always(ONE_PAYMENT, |_, state| at_most_one_payment(state)),
        always(NO_LIE, |_, state| no_lie(state)),
        always(ENDS_WELL, |flow, state| flow.worst_ending(state) == WELL),
        always(LEFT_ALONE, |_, state| !state.told.review_touched),
        always(KEPT, |_, state| !state.told.payment_forgotten),
    ]
}

/// What goes wrong on the way.
fn troubles() -> Vec<Property<Flow>> {
    let sometimes = Property::<Flow>::sometimes;
    vec![
        sometimes(TAKEN_OVER, |_, state| {
            state.attempts.iter().any(|a| a.lease.taken_over)
        }),
        sometimes(ARRIVES_LATE, |_, state| arrives_late(state)),
        sometimes(LEASE_LOST, |_, state| {
            records(state, |worker, finding| {
                matches!(finding, Finding::Succeeded(_)) && has_lost_lease(state, worker)
            })
        }),
        sometimes(LOOKS_PAST_WINDOW, |flow, state| {
            let looks = |w: &&Worker| matches!(w.place, Place::Looking { .. });
            let mut looking = state.workers.iter().filter(looks);
            looking.any(|w| w.all_sends_are_old(flow.setting.window_ms()))
        }),
        sometimes(PRUNED, |_, state| pruned(state)),
        sometimes(IN_USE, |_, state| {
            let executing = |key| {
                let mut known = state.memory.iter();
                known.any(|r| r.key == key && r.memory == Memory::Executing)
            };
            let mut waiting = state.requests.iter().filter(|r| r.stage == Stage::OnTheWay);
            waiting.any(|r| executing(r.key))
        }),
        sometimes(TWO_WORKERS, |_, state| state.workers.len() > 1),
    ]
}

/// How it may end all the same.
fn endings() -> Vec<Property<Flow>> {
    let sometimes = Property::<Flow>::sometimes;
    vec![
        sometimes(NEVER_EXECUTED, |_, state| {
            has(state, Status::Failed(FailKind::NeverExecuted))
        }),
        sometimes(CANCELED, |_, state| {
            has(state, Status::Failed(FailKind::Canceled))
        }),
        sometimes(IN_REVIEW, |_, state| has(state, Status::NeedsReview)),
        sometimes(PAID_AFTER_DECLINE, |_, state| paid_after_decline(state)),
        sometimes(SAME_PAYMENT, |_, state| {
            paid_after_decline(state) && state.payments.len() == 1
        }),
        sometimes(WOKEN, |_, state| {
            records(state, |worker, finding| {
                worker.woken_early && matches!(finding, Finding::Succeeded(_) | Finding::Failed(_))
            })
        }),
        sometimes(RELEASED, |_, state| {
            records(state, |_, finding| finding == Finding::Released)
        }),
        sometimes(FOUND_AFTER_500, |_, state| {
            let broken = |r: &Remembered| matches!(r.memory, Memory::Answer(Heard::Unknown(_)));
            let success = |_: &Worker, finding| matches!(finding, Finding::Succeeded(_));
            state.memory.iter().any(broken) && records(state, success)
        }),
    ]
}

fn has(state: &State, status: Status) -> bool {
    state.attempts.iter().any(|a| a.status == status)
}

/// Some worker is about to record such a finding.
fn records(state: &State, is_such: impl Fn(&Worker, Finding) -> bool) -> bool {
    let mut workers = state.workers.iter();
    workers
        .any(|worker| matches!(worker.place, Place::Recording(finding) if is_such(worker, finding)))
}

fn at_most_one_payment(state: &State) -> bool {
    let paid = state
        .payments
        .iter()
        .filter(|p| p.state == PaymentState::Succeeded);
    paid.count() <= 1
}

/// What is stored is what every further call is told (`outlook` makes "yes" of a success and "no" of a failure), so it
/// must be true from that moment on for ever; and what anybody was told before must agree with it.
fn no_lie(state: &State) -> bool {
    let paid = |index: u8| state.payments[usize::from(index)].state == PaymentState::Succeeded;
    let paid_by = |number: u8| {
        let mut payments = state.payments.iter();
        payments.any(|p| p.state == PaymentState::Succeeded && p.tried_by.attempt == number)
    };
    let is_true = |(number, status, payment): (u8, Status, Option<u8>)| match status {
        Status::Succeeded => payment.is_some_and(paid),
        Status::Failed(_) => !paid_by(number),
        Status::Pending | Status::Processing | Status::NeedsReview => {
            state.told.failed & (1 << number) == 0
        }
    };
    let told_yes = |index: u8| {
        let mut attempts = state.attempts.iter();
        attempts.any(|a| a.status == Status::Succeeded && a.payment == Some(index))
    };
    let mut rows = (1_u8..)
        .zip(&state.attempts)
        .map(|(number, a)| (number, a.status, a.payment));
    rows.all(is_true) && !state.told.lie && state.told.paid_by.is_none_or(told_yes)
}

fn has_lost_lease(state: &State, worker: &Worker) -> bool {
    let row = state.attempt(worker.number);
    row.is_none_or(|row| row.lease.token != worker.held.lease.token)
}

fn arrives_late(state: &State) -> bool {
    let mut orphans = state.requests.iter().filter(|r| r.owner == 0);
    orphans.any(|r| {
        let row = state.attempt(r.key.attempt);
        row.is_some_and(|row| row.lease.taken_over && r.age > row.lease.last_age)
    })
}

fn pruned(state: &State) -> bool {
    let Some((number, latest)) = state.latest() else {
        return false;
    };
    let made = state.payments.iter().any(|p| p.tried_by.attempt == number);
    let known = state.memory.iter().any(|r| r.key.attempt == number);
    made && !known && !latest.status.is_settled()
}

fn paid_after_decline(state: &State) -> bool {
    matches!(state.attempts.as_slice(), [first, second, ..]
        if first.status == Status::Failed(FailKind::Declined) && second.status == Status::Succeeded)
}
