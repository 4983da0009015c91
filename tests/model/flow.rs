//! The transition system that the checker explores: every step that anybody can take, at any time.

use stateright::{Model, Property};

use crate::fair::EndsWell;
use crate::properties;
use crate::setting::{LONG_WAIT, SHORT_WAIT, Setting};
use crate::state::{Action, Caller, State};

/// The whole flow of one invoice under one setting.
pub struct Flow {
    pub setting: Setting,
    /// What is known of the continuations of the states so far.
    pub ends_well: EndsWell,
}

impl Model for Flow {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.setting)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        state.caller_actions(&self.setting, actions);
        state.worker_actions(&self.setting, actions);
        state.request_actions(&self.setting, actions);
        if state.short_waits < self.setting.short_waits {
            actions.push(Action::ShortWait);
        }
        actions.push(Action::LongWait);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        self.step(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl Flow {
    pub fn new(setting: Setting) -> Self {
        Self {
            setting,
            ends_well: EndsWell::default(),
        }
    }

    /// One step; `None` where it changes nothing or cannot be taken.
    pub fn step(&self, before: &State, action: Action) -> Option<State> {
        let setting = &self.setting;
        let mut state = before.clone();
        match action {
            Action::CallerLooks(c) => state.caller_looks(c, setting)?,
            Action::CallerActs(c) => state.caller_acts(c, setting),
            Action::CallerGoes(c) => state.callers[c] = Caller::Idle,
            Action::ReconcilerLooks => state.reconciler_looks(setting)?,
            Action::WebhookLooks => state.webhook_looks()?,
            Action::BackgroundActs => state.background_acts(setting),
            Action::BackgroundGoes => state.background = None,
            Action::Send(w) => state.send(w, setting),
            Action::ConnectionFails(w) => state.connection_fails(w, setting),
            Action::AnswerIsLost(w) => state.answer_is_lost(w, setting),
            Action::Repeat(w)
            | Action::GoOn(w)
            | Action::Find(w)
            | Action::FindFails(w)
            | Action::Cancel(w)
            | Action::CancelFails(w)
            | Action::CancelIsUnheard(w) => state.worker_step(w, action, setting),
            Action::Record(w) => state.record_and_tell(w, setting),
            Action::Crash(w) => state.crash(w),
            Action::Arrives(r) => state.arrives(r, setting),
            Action::Begins(r) => state.begins(r),
            Action::Executes(r, said) => state.executes(r, said, setting),
            Action::PaymentEnds(p, well) => state.payment_ends(p, well, setting),
            Action::ShortWait => {
                state.wait(SHORT_WAIT, setting)?;
                state.short_waits += 1;
            }
            Action::LongWait => state.wait(LONG_WAIT, setting)?,
        }
        state.normalize(setting.protections);
        (state != *before).then_some(state)
    }
}
