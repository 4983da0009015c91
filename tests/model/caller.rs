//! Callers, the reconciler and the webhook's handler: look, decide, act. Acting is a step of its own, so that what was
//! decided may be stale by then.

use chargeonce::charges::lifecycle::{NextStep, next_step, outlook};
use chargeonce::charges::model::CustomerCharged;

use crate::real::{self, FINGERPRINT, NOW_MS};
use crate::setting::Setting;
use crate::state::{
    Action, Attempt, Caller, Finding, Lease, PaymentState, Place, State, Status, View, Worker,
};

/// What a look at the store leads to.
pub enum Look {
    Decided(View),
    /// The latest attempt is settled, and its answer is given.
    Answered,
    /// "Unknown yet": nothing changes.
    Nothing,
    /// The tables contradict each other.
    Inconsistent,
}

impl State {
    pub fn look(&self, setting: &Setting) -> Look {
        let step = next_step(
            &real::snapshot(self),
            FINGERPRINT,
            &setting.policy(),
            NOW_MS,
        );
        match step {
            NextStep::Start {
                attempt,
                open_payment_id,
            } => Look::Decided(View::Start {
                number: u8::try_from(attempt).unwrap(),
                confirms: real::open_payment(open_payment_id.as_deref()),
            }),
            NextStep::TakeOver(recovery) => Look::Decided(View::TakeOver {
                read: self.attempts.last().unwrap().as_read(),
                look_up: recovery == real::recovery(true),
                woken: false,
            }),
            NextStep::Replay(_)
            | NextStep::ReplayFailure { .. }
            | NextStep::NotAdvised
            | NextStep::Exhausted => Look::Answered,
            NextStep::InProgress { .. } | NextStep::Processing | NextStep::NeedsReview => {
                Look::Nothing
            }
            NextStep::NotChargeable | NextStep::Inconsistent(_) => Look::Inconsistent,
        }
    }

    pub fn caller_actions(&self, setting: &Setting, actions: &mut Vec<Action>) {
        let has_room = self.workers.len() < setting.workers;
        for (c, caller) in self.callers.iter().enumerate() {
            if c > 0 && self.callers[c - 1] == *caller {
                continue;
            }
            match caller {
                Caller::Idle => actions.push(Action::CallerLooks(c)),
                Caller::Decided(_) => {
                    actions.push(Action::CallerGoes(c));
                    if has_room {
                        actions.push(Action::CallerActs(c));
                    }
                }
            }
        }
        match self.background {
            None => {
                actions.push(Action::ReconcilerLooks);
                if setting.webhooks {
                    actions.push(Action::WebhookLooks);
                }
            }
            Some(_) => {
                actions.push(Action::BackgroundGoes);
                if has_room {
                    actions.push(Action::BackgroundActs);
                }
            }
        }
    }

    pub fn caller_looks(&mut self, c: usize, setting: &Setting) -> Option<()> {
        match self.look(setting) {
            Look::Decided(view) => self.callers[c] = Caller::Decided(view),
            Look::Answered => {
                let (number, _) = self.latest()?;
                self.tell_settled(number, setting);
            }
            Look::Nothing => return None,
            Look::Inconsistent => self.told.lie = true,
        }
        Some(())
    }

    /// The reconciler looks as a caller does, and does nothing but takeovers.
    pub fn reconciler_looks(&mut self, setting: &Setting) -> Option<()> {
        match self.look(setting) {
            Look::Decided(view @ View::TakeOver { .. }) => {
                self.background = Some(view);
                Some(())
            }
            Look::Decided(View::Start { .. })
            | Look::Answered
            | Look::Nothing
            | Look::Inconsistent => None,
        }
    }

    /// An event about a payment of the invoice: whoever waits for the lease's end to look may look now.
    pub fn webhook_looks(&mut self) -> Option<()> {
        let row = self.attempts.last()?;
        let waits = matches!(row.status, Status::Pending | Status::Processing);
        if self.payments.is_empty() || !waits || !row.lease.idle || row.lease.left == 0 {
            return None;
        }
        self.background = Some(View::TakeOver {
            read: row.as_read(),
            look_up: true,
            woken: true,
        });
        Some(())
    }

    /// Does what was decided, as far as it still can be done.
    fn act(&mut self, view: View, setting: &Setting) -> Option<()> {
        let worker = match view {
            View::Start { number, confirms } => {
                let token = self.new_token();
                let attempt = Attempt::new(confirms, token, setting.lease_minutes());
                if setting.protections.reserve_first && !self.begin_attempt(number, attempt) {
                    return None;
                }
                Worker::new(number, attempt, false, false)
            }
            View::TakeOver {
                read,
                look_up,
                woken,
            } => {
                let (number, row) = self.latest()?;
                let is_early = row.lease.left > 0;
                let held = self.take_over(&read, look_up, woken, setting)?;
                Worker::new(number, held, look_up, woken && is_early)
            }
        };
        self.workers.push(worker);
        Some(())
    }

    /// The worker runs in a task of its own, so the caller is free again: it may wait, give up, or call once more.
    pub fn caller_acts(&mut self, c: usize, setting: &Setting) {
        if let Caller::Decided(view) = self.callers[c] {
            self.callers[c] = Caller::Idle;
            self.act(view, setting);
        }
    }

    pub fn background_acts(&mut self, setting: &Setting) {
        if let Some(view) = self.background.take() {
            self.act(view, setting);
        }
    }

    /// The worker records and ends, and its caller is told; if it has given up, nobody is told anything that the next
    /// caller would not be told.
    pub fn record_and_tell(&mut self, w: usize, setting: &Setting) {
        let worker = self.workers.remove(w);
        let Place::Recording(finding) = worker.place else {
            return;
        };
        let written = self.record(&worker, finding, setting);
        if written && finding == Finding::Released {
            self.told.lie |= !self.nothing_was_sent(worker.number);
            return;
        }
        // Of a lease that was lost, what stands in the store is told.
        let latest = self.latest().map(|(number, _)| number);
        let told = if written { Some(worker.number) } else { latest };
        if let Some(number) = told {
            self.tell_settled(number, setting);
        }
    }

    pub fn crash(&mut self, w: usize) {
        let token = self.workers.remove(w).held.lease.token;
        for request in self.requests.iter_mut().filter(|r| r.owner == token) {
            request.owner = 0;
        }
    }

    /// The answer of an attempt with a verdict; one without is "unknown", which is no statement.
    fn tell_settled(&mut self, number: u8, setting: &Setting) {
        let Some(attempt) = self.attempt(number).copied() else {
            return;
        };
        if !attempt.status.is_settled() {
            return;
        }
        let outlook = outlook(&real::charge(number, &attempt), &setting.policy());
        match outlook.customer_charged {
            CustomerCharged::Unknown => self.told.lie = true,
            CustomerCharged::Yes => {
                let differs = |told: u8| Some(told) != attempt.payment;
                self.told.lie |= self.told.paid_by.is_some_and(differs);
                self.told.paid_by = attempt.payment;
            }
            CustomerCharged::No => self.told.failed |= 1 << number,
        }
    }

    /// "Nothing was sent and the customer was not charged" is true.
    fn nothing_was_sent(&self, number: u8) -> bool {
        let is_paid = |state: PaymentState| state == PaymentState::Succeeded;
        !self.payments.iter().any(|payment| is_paid(payment.state))
            && !self.requests.iter().any(|r| r.key.attempt == number)
    }
}

impl Attempt {
    /// What a reader keeps of it until it acts.
    fn as_read(&self) -> Self {
        Self {
            lease: Lease {
                token: self.lease.token,
                idle: self.lease.idle,
                ..Lease::default()
            },
            ..*self
        }
    }
}
