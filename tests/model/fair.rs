//! What becomes of a state if nothing bad happens any more.
//!
//! Two promises are about the future: no payment stays unrecorded for ever, and no invoice stays stuck for ever. The
//! checker's own `eventually` is not used for them: it judges a path by its last state, and may miss a counterexample on a
//! cycle or behind a state that two paths share. Instead, from EVERY reachable state a continuation is run to its end: no
//! further crash and no further fault, time passes, and the reconciler gets its rounds. That it ends well is an `always`
//! property. Every crash, loss and delay is a step of the model, so the states that it is run from are all that faults can
//! leave behind, in whatever order they came; none of them is a trap.
//!
//! What is still open at that moment may turn out either way, so there are four continuations: requests on their way arrive
//! or never do, and what is executed or ends from now on does so well or badly.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};

use crate::caller::Look;
use crate::flow::Flow;
use crate::setting::Said;
use crate::state::{Action, Attempt, Caller, PaymentState, Place, Stage, State, Status, View};

/// How the open things turn out.
#[derive(Clone, Copy)]
struct Weather {
    requests_arrive: bool,
    payments_end_well: bool,
}

const ALL_WEATHERS: [Weather; 4] = {
    const fn weather(requests_arrive: bool, payments_end_well: bool) -> Weather {
        Weather {
            requests_arrive,
            payments_end_well,
        }
    }
    [
        weather(true, true),
        weather(true, false),
        weather(false, true),
        weather(false, false),
    ]
};

/// More steps than any attempt needs; whoever needs more is going round in circles.
const STEPS_MAX: usize = 200;

/// How such a continuation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Every payment that took money is recorded, or waits for a person with its attempt.
    pub is_recorded: bool,
    /// The invoice is paid, can be charged again, has used up its attempts, or waits for a person.
    pub is_free: bool,
}

pub const WELL: Ending = Ending {
    is_recorded: true,
    is_free: true,
};

impl Flow {
    /// The worst of the four continuations.
    pub fn worst_ending(&self, state: &State) -> Ending {
        let state = self.calm(state);
        let print = EndsWell::print(&state, None);
        if self.ends_well.knows(print) {
            return WELL;
        }
        let endings = ALL_WEATHERS.map(|weather| self.ending(&state, weather));
        let worst = Ending {
            is_recorded: endings.iter().all(|ending| ending.is_recorded),
            is_free: endings.iter().all(|ending| ending.is_free),
        };
        if worst == WELL {
            self.ends_well.learn(vec![print]);
        }
        worst
    }

    fn ending(&self, state: &State, weather: Weather) -> Ending {
        let mut state = state.clone();
        if !weather.requests_arrive {
            state
                .requests
                .retain(|r| r.owner != 0 || r.stage == Stage::Executing);
        }
        let mut path = Vec::new();
        while path.len() < STEPS_MAX {
            let print = EndsWell::print(&state, Some(weather.payments_end_well));
            if self.ends_well.knows(print) {
                self.ends_well.learn(path);
                return WELL;
            }
            path.push(print);
            let Some(next) = self.fair_step(&state, weather) else {
                let ending = self.judge(&state);
                if ending == WELL {
                    self.ends_well.learn(path);
                }
                return ending;
            };
            state = next;
        }
        Ending {
            is_free: false,
            ..self.judge(&state)
        }
    }

    /// The callers are gone, and so is whoever had decided something without doing it. What happens to the attempt is
    /// not theirs any more.
    fn calm(&self, state: &State) -> State {
        let mut state = state.clone();
        state.callers.fill(Caller::Idle);
        state.background = None;
        state.told = Default::default();
        state.short_waits = 0;
        state.normalize(self.setting.protections);
        state
    }

    fn fair_step(&self, state: &State, weather: Weather) -> Option<State> {
        let action = request_step(state, weather)
            .or_else(|| worker_step(state))
            .or_else(|| payment_step(state, weather))
            .or_else(|| self.reconciler_step(state));
        action.and_then(|action| self.step(state, action))
    }

    fn reconciler_step(&self, state: &State) -> Option<Action> {
        let (_, latest) = state.latest()?;
        if latest.status.is_settled() || latest.status == Status::NeedsReview {
            return None;
        }
        Some(match (state.background, self.look(state)) {
            (Some(_), _) => Action::BackgroundActs,
            (None, Look::Decided(View::TakeOver { .. })) => Action::ReconcilerLooks,
            (None, _) => Action::LongWait,
        })
    }

    fn look(&self, state: &State) -> Look {
        state.look(&self.setting)
    }

    fn judge(&self, state: &State) -> Ending {
        let in_review = state
            .latest()
            .is_some_and(|(_, latest)| latest.status == Status::NeedsReview);
        let is_recorded = |index: u8| {
            let records = |a: &Attempt| a.status == Status::Succeeded && a.payment == Some(index);
            in_review || state.attempts.iter().any(records)
        };
        let mut paid = (0_u8..)
            .zip(&state.payments)
            .filter(|(_, payment)| payment.state == PaymentState::Succeeded);
        Ending {
            is_recorded: paid.all(|(index, _)| is_recorded(index)),
            is_free: in_review
                || matches!(
                    self.look(state),
                    Look::Answered | Look::Decided(View::Start { .. })
                ),
        }
    }
}

fn request_step(state: &State, weather: Weather) -> Option<Action> {
    let request = state.requests.first()?;
    let said = if weather.payments_end_well {
        Said::Paid
    } else {
        Said::Declined
    };
    let is_known = state.memory.iter().any(|r| r.key == request.key);
    Some(match request.stage {
        Stage::OnTheWay if is_known => Action::Arrives(0),
        Stage::OnTheWay | Stage::Executing | Stage::RunsOn => Action::Executes(0, said),
    })
}

fn worker_step(state: &State) -> Option<Action> {
    let worker = state.workers.first()?;
    Some(match worker.place {
        Place::Sending => Action::Send(0),
        Place::Waiting => Action::AnswerIsLost(0),
        Place::Heard(_) => Action::GoOn(0),
        Place::Looking { .. } => Action::Find(0),
        Place::Canceling(_) => Action::Cancel(0),
        Place::Recording(_) => Action::Record(0),
    })
}

/// A bank speaks in the end; a customer who does not want to pay never acts.
fn payment_step(state: &State, weather: Weather) -> Option<Action> {
    let well = weather.payments_end_well;
    let ends = |state: PaymentState| {
        state == PaymentState::Processing || (well && state == PaymentState::RequiresAction)
    };
    let index = state.payments.iter().position(|p| ends(p.state))?;
    Some(Action::PaymentEnds(index, well))
}

/// States whose continuation is known to end well, so that none is run twice. By hash, as the checker's own states are.
#[derive(Default)]
pub struct EndsWell {
    shards: [Mutex<HashSet<u64>>; 16],
}

impl EndsWell {
    fn print(state: &State, well: Option<bool>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (state, well).hash(&mut hasher);
        hasher.finish()
    }

    fn shard(&self, print: u64) -> MutexGuard<'_, HashSet<u64>> {
        let index = usize::try_from(print % 16).unwrap();
        self.shards[index].lock().unwrap()
    }

    fn knows(&self, print: u64) -> bool {
        self.shard(print).contains(&print)
    }

    fn learn(&self, path: Vec<u64>) {
        for print in path {
            self.shard(print).insert(print);
        }
    }
}
