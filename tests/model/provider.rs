//! The provider: what becomes of a request, and what it remembers. It knows keys and payments, nothing of the service.

use crate::setting::{Said, Setting};
use crate::state::{
    Action, Doubt, Fail, FailKind, Heard, Memory, Payment, PaymentState, Remembered, Request,
    Stage, State,
};

impl Said {
    /// Said in front of execution: nothing is stored under the key.
    fn is_before_execution(self) -> bool {
        matches!(self, Self::Refused | Self::TurnedAway | Self::BrokenBefore)
    }
}

const UNKNOWN: Heard = Heard::Unknown(Doubt {
    look_up: false,
    payment: None,
});

/// What the adapter makes of a 500.
const BROKEN: Heard = Heard::Unknown(Doubt {
    look_up: true,
    payment: None,
});

impl State {
    /// What may become of each request.
    pub fn request_actions(&self, setting: &Setting, actions: &mut Vec<Action>) {
        for (i, request) in self.requests.iter().enumerate() {
            let is_known = self.memory.iter().any(|r| r.key == request.key);
            match request.stage {
                Stage::OnTheWay if is_known => actions.push(Action::Arrives(i)),
                Stage::OnTheWay => {
                    if setting.slow_executions {
                        actions.push(Action::Begins(i));
                    }
                    let answers = self.answers_to(request, setting);
                    let now = |said: &Said| !setting.slow_executions || said.is_before_execution();
                    actions.extend(answers.filter(now).map(|said| Action::Executes(i, said)));
                }
                Stage::Executing => {
                    let answers = self.answers_to(request, setting);
                    let done = |said: &Said| !said.is_before_execution();
                    actions.extend(answers.filter(done).map(|said| Action::Executes(i, said)));
                }
                Stage::RunsOn => actions.push(Action::Executes(i, Said::Paid)),
            }
        }
        for (i, payment) in self.payments.iter().enumerate() {
            if matches!(
                payment.state,
                PaymentState::Processing | PaymentState::RequiresAction
            ) {
                actions.push(Action::PaymentEnds(i, true));
                actions.push(Action::PaymentEnds(i, false));
            }
        }
    }

    /// A payment that is not open any more leaves no choice.
    fn answers_to(&self, request: &Request, setting: &Setting) -> impl Iterator<Item = Said> {
        let is_open = request.confirms.is_none_or(|index| {
            self.payments[usize::from(index)].state == PaymentState::RequiresPaymentMethod
        });
        let answers = if is_open {
            setting.answers
        } else {
            &[Said::Paid][..]
        };
        answers.iter().copied()
    }

    /// A request whose key is known gets the stored answer, or a 409 while the first one executes.
    pub fn arrives(&mut self, index: usize, setting: &Setting) {
        let request = self.requests.remove(index);
        let found = self.memory.iter().find(|r| r.key == request.key);
        let heard = match found.map(|r| r.memory) {
            Some(Memory::Answer(heard)) => heard,
            Some(Memory::Executing) | None => UNKNOWN,
        };
        self.deliver(request.owner, heard, setting);
    }

    pub fn begins(&mut self, index: usize) {
        let request = &mut self.requests[index];
        request.stage = Stage::Executing;
        self.memory.push(Remembered {
            key: request.key,
            age: 0,
            memory: Memory::Executing,
        });
    }

    pub fn executes(&mut self, index: usize, said: Said, setting: &Setting) {
        let request = self.requests.remove(index);
        let heard = match said {
            Said::TurnedAway => Heard::NotExecuted,
            Said::BrokenBefore => BROKEN,
            Said::Refused => Heard::Failed(Fail {
                kind: FailKind::Refused,
                payment: request.confirms,
                open: request.confirms.is_some(),
            }),
            Said::Paid
            | Said::Declined
            | Said::BrokenPaid
            | Said::BrokenUnpaid
            | Said::BrokenRunning
            | Said::Processing
            | Said::ActionNeeded => self.perform(&request, said, setting),
        };
        if said.is_before_execution() {
            return self.deliver(request.owner, heard, setting);
        }
        if request.stage == Stage::RunsOn {
            return;
        }
        self.memory.retain(|r| r.key != request.key);
        self.memory.push(Remembered {
            key: request.key,
            age: 0,
            memory: Memory::Answer(heard),
        });
        self.deliver(request.owner, heard, setting);
    }

    fn perform(&mut self, request: &Request, said: Said, setting: &Setting) -> Heard {
        if let Some(index) = request.confirms {
            match self.payments[usize::from(index)].state {
                PaymentState::RequiresPaymentMethod | PaymentState::Failed => {}
                PaymentState::Succeeded => return Heard::Succeeded(index),
                PaymentState::Processing => return Heard::Processing(index),
                PaymentState::RequiresAction => {
                    return Heard::Unknown(Doubt {
                        look_up: true,
                        payment: Some(index),
                    });
                }
                PaymentState::Canceled => {
                    return Heard::Failed(Fail {
                        kind: FailKind::Canceled,
                        payment: Some(index),
                        open: false,
                    });
                }
            }
        }
        match said {
            Said::Paid => Heard::Succeeded(self.try_payment(request, PaymentState::Succeeded)),
            Said::Declined => {
                let state = declined(setting);
                Heard::Failed(Fail {
                    kind: FailKind::Declined,
                    payment: Some(self.try_payment(request, state)),
                    open: setting.intents,
                })
            }
            Said::Processing => {
                Heard::Processing(self.try_payment(request, PaymentState::Processing))
            }
            Said::ActionNeeded => {
                Heard::Processing(self.try_payment(request, PaymentState::RequiresAction))
            }
            Said::BrokenPaid => {
                self.try_payment(request, PaymentState::Succeeded);
                BROKEN
            }
            Said::BrokenRunning => {
                self.requests.push(Request {
                    owner: 0,
                    stage: Stage::RunsOn,
                    ..*request
                });
                BROKEN
            }
            Said::BrokenUnpaid | Said::Refused | Said::TurnedAway | Said::BrokenBefore => BROKEN,
        }
    }

    fn try_payment(&mut self, request: &Request, state: PaymentState) -> u8 {
        if let Some(index) = request.confirms {
            let payment = &mut self.payments[usize::from(index)];
            (payment.tried_by, payment.state) = (request.key, state);
            return index;
        }
        self.payments.push(Payment {
            made_by: request.key,
            tried_by: request.key,
            state,
        });
        u8::try_from(self.payments.len() - 1).unwrap()
    }

    /// The customer has acted, or the bank has spoken.
    pub fn payment_ends(&mut self, index: usize, well: bool, setting: &Setting) {
        self.payments[index].state = if well {
            PaymentState::Succeeded
        } else {
            declined(setting)
        };
    }

    /// Closes a payment; a one-shot charge cannot be closed, only looked at.
    pub fn cancel(&mut self, index: u8, setting: &Setting) {
        let state = &mut self.payments[usize::from(index)].state;
        match state {
            PaymentState::RequiresAction | PaymentState::RequiresPaymentMethod => {
                if setting.intents {
                    *state = PaymentState::Canceled;
                }
            }
            PaymentState::Succeeded
            | PaymentState::Processing
            | PaymentState::Canceled
            | PaymentState::Failed => {}
        }
    }
}

fn declined(setting: &Setting) -> PaymentState {
    if setting.intents {
        PaymentState::RequiresPaymentMethod
    } else {
        PaymentState::Failed
    }
}
