//! A worker's turn, as `charges::worker` does it: every decision in it is production's own function.

use std::time::Duration;

use chargeonce::charges::settlement::{
    FirstMove, LookUpContext, Plan, after_cancel, after_look_up, after_send, all_sends_are_old,
    earlier_send, first_move, settles_before_sending,
};
use chargeonce::idempotency::reservation::{HeldLease, Moment};
use chargeonce::payments::outcome::{Outcome, after_unknown};

use crate::real::{self, Course, INSTALLATION, NOW_MS};
use crate::setting::Setting;
use crate::state::{
    Action, Attempt, Doubt, Finding, Heard, Key, Lease, Payment, Place, Request, Stage, State,
    Status, Worker,
};

/// Look-ups and cancels in one turn at most.
const ROUNDS_MAX: u8 = 5;

const RESEND: Doubt = Doubt {
    look_up: false,
    payment: None,
};
const LOOK_UP: Doubt = Doubt {
    look_up: true,
    payment: None,
};

impl Worker {
    /// On an attempt whose lease was just won.
    pub fn new(number: u8, held: Attempt, looks_up: bool, woken_early: bool) -> Self {
        let reservation = real::reservation(number, &held);
        let place = match first_move(&reservation, real::recovery(looks_up), NOW_MS) {
            FirstMove::Send => Place::Sending,
            FirstMove::LookThenSend => Place::Looking {
                doubt: RESEND,
                then_send: true,
            },
            FirstMove::LookUp => Place::Looking {
                doubt: real::doubt(&earlier_send(reservation.recovery)),
                then_send: false,
            },
        };
        Self {
            number,
            held,
            looks_up,
            place,
            earlier: held.lease.taken_over.then_some(RESEND),
            repeats: 0,
            rounds: u8::from(looks_up),
            canceled: None,
            woken_early,
        }
    }

    /// True once nothing may be sent, by production's own view of a lease.
    fn is_over(&self, setting: &Setting) -> bool {
        let reservation = real::reservation(self.number, &self.held);
        let window_ms = setting.window_ms().unsigned_abs();
        let window = (!self.looks_up).then(|| Duration::from_millis(window_ms));
        HeldLease::new(&reservation, NOW_MS, window, Moment::now()).is_over()
    }

    fn hears(&mut self, heard: Heard, payments: &[Payment], setting: &Setting) {
        let said = real::outcome(heard, payments);
        let joined = match self.earlier {
            Some(earlier) if setting.protections.own_answer_only => {
                after_unknown(&real::unknown(earlier), said)
            }
            Some(_) | None => said,
        };
        let may_say_more = matches!(joined, Outcome::NotExecuted(_) | Outcome::Unknown(_));
        if may_say_more && self.repeats < setting.repeats {
            self.place = Place::Heard(real::heard(&joined));
        } else {
            self.concludes(joined, setting);
        }
    }

    fn repeats(&mut self, heard: Heard) {
        if let Heard::Unknown(doubt) = heard {
            self.earlier = Some(doubt);
        }
        self.repeats += 1;
        self.place = Place::Sending;
    }

    fn concludes(&mut self, outcome: Outcome, setting: &Setting) {
        let sent_before = self.held.lease.taken_over && setting.protections.own_answer_only;
        let charge = real::charge(self.number, &self.held);
        self.follows(&after_send(outcome, &charge, INSTALLATION, sent_before));
    }

    fn follows(&mut self, plan: &Plan) {
        self.place = match (real::course(plan), self.canceled) {
            // A payment that was closed on the way is the better reason than "nothing found".
            (Course::Record(Finding::Failed(_)), Some(canceled)) => {
                Place::Recording(Finding::Failed(canceled))
            }
            (Course::Record(finding), _) => Place::Recording(finding),
            (Course::LookUp(_) | Course::Cancel(_), _) if self.rounds >= ROUNDS_MAX => {
                Place::Recording(Finding::Unknown(LOOK_UP))
            }
            (Course::LookUp(doubt), _) => Place::Looking {
                doubt,
                then_send: false,
            },
            (Course::Cancel(payment), _) => Place::Canceling(payment),
        };
        self.rounds += 1;
    }

    fn sees(&mut self, doubt: Doubt, then_send: bool, payments: &[Payment], setting: &Setting) {
        let all = (0_u8..).zip(payments);
        let mut found: Vec<_> = all
            .map(|(index, payment)| real::payment(index, payment))
            .collect();
        // Newest first.
        found.reverse();
        let context = LookUpContext {
            unknown: real::unknown(doubt),
            all_sends_are_old: self.all_sends_are_old(setting.window_ms()),
            installation_id: INSTALLATION.into(),
        };
        let charge = real::charge(self.number, &self.held);
        let plan = after_look_up(&found, &charge, &context);
        if then_send {
            self.sends_unless(settles_before_sending(plan));
        } else {
            self.follows(&plan);
        }
    }

    /// The provider cannot be asked. Since when that is so is not part of the state: that it was so for all of the second
    /// window is taken for granted, which parks attempts that production would still look up.
    fn sees_nothing(&mut self, doubt: Doubt, then_send: bool, setting: &Setting) {
        let is_beyond_hope = self.held.status != Status::Processing
            && self.all_sends_are_old(setting.window_ms().saturating_mul(2));
        if is_beyond_hope {
            self.place =
                Place::Recording(Finding::NeedsReview(doubt.payment.or(self.held.payment)));
        } else if then_send {
            self.place = Place::Sending;
        } else {
            self.place = Place::Recording(Finding::Unknown(doubt));
        }
    }

    fn sends_unless(&mut self, plan: Option<Plan>) {
        match plan {
            Some(plan) => self.follows(&plan),
            None => self.place = Place::Sending,
        }
    }

    pub fn all_sends_are_old(&self, window_ms: i64) -> bool {
        let reservation = real::reservation(self.number, &self.held);
        all_sends_are_old(&reservation, window_ms, NOW_MS)
    }

    fn has_canceled(&mut self, index: u8, payment: &Payment) {
        let charge = real::charge(self.number, &self.held);
        let payment = real::payment(index, payment);
        match real::finding(&after_cancel(payment, &charge, INSTALLATION)) {
            Finding::Failed(fail) => {
                // Others may be open besides it: look again until none is.
                self.canceled = Some(fail);
                self.follows(&Plan::LookUp(real::unknown(LOOK_UP)));
            }
            finding @ (Finding::Succeeded(_)
            | Finding::Processing(_)
            | Finding::NeedsReview(_)
            | Finding::Unknown(_)
            | Finding::Released) => self.place = Place::Recording(finding),
        }
    }

    /// What no later step of this worker asks for would only make equal states look different.
    pub fn forget_what_is_over(&mut self) {
        let lease = self.held.lease;
        match self.place {
            Place::Recording(_) => {
                (self.earlier, self.canceled, self.looks_up) = (None, None, false);
                (self.repeats, self.rounds) = (0, 0);
                self.held.lease = Lease {
                    token: lease.token,
                    look_up: lease.look_up,
                    ..Lease::default()
                };
            }
            Place::Looking { .. } | Place::Canceling(_) if self.looks_up => {
                (self.held.lease.left, self.held.lease.first_age) = (0, 0);
            }
            Place::Sending
            | Place::Waiting
            | Place::Heard(_)
            | Place::Looking { .. }
            | Place::Canceling(_) => {}
        }
    }
}

impl State {
    pub fn worker_actions(&self, setting: &Setting, actions: &mut Vec<Action>) {
        for (w, worker) in self.workers.iter().enumerate() {
            actions.push(Action::Crash(w));
            match worker.place {
                Place::Sending => {
                    actions.push(Action::Send(w));
                    if setting.connections_fail {
                        actions.push(Action::ConnectionFails(w));
                    }
                }
                Place::Waiting => actions.push(Action::AnswerIsLost(w)),
                Place::Heard(_) => actions.extend([Action::Repeat(w), Action::GoOn(w)]),
                Place::Looking { .. } => {
                    actions.push(Action::Find(w));
                    if setting.look_ups_fail {
                        actions.push(Action::FindFails(w));
                    }
                }
                Place::Canceling(_) => {
                    actions.push(Action::Cancel(w));
                    if setting.look_ups_fail {
                        actions.extend([Action::CancelFails(w), Action::CancelIsUnheard(w)]);
                    }
                }
                Place::Recording(_) => actions.push(Action::Record(w)),
            }
        }
    }

    /// Sends, unless the time for it is over; that counts as "not executed", and leaves it to what was before.
    pub fn send(&mut self, w: usize, setting: &Setting) {
        let worker = &mut self.workers[w];
        if worker.is_over(setting) {
            return self.refuses_to_send(w, setting);
        }
        worker.place = Place::Waiting;
        self.requests.push(Request {
            key: Key {
                attempt: worker.number,
                variant: worker.held.variant,
            },
            confirms: worker.held.confirms,
            owner: worker.held.lease.token,
            age: 0,
            stage: Stage::OnTheWay,
        });
    }

    /// Out of time: no repeat can help.
    fn refuses_to_send(&mut self, w: usize, setting: &Setting) {
        let worker = &mut self.workers[w];
        worker.repeats = setting.repeats;
        worker.hears(Heard::NotExecuted, &self.payments, setting);
    }

    pub fn connection_fails(&mut self, w: usize, setting: &Setting) {
        self.workers[w].hears(Heard::NotExecuted, &self.payments, setting);
    }

    pub fn answer_is_lost(&mut self, w: usize, setting: &Setting) {
        let worker = &mut self.workers[w];
        for request in &mut self.requests {
            if request.owner == worker.held.lease.token {
                request.owner = 0;
            }
        }
        worker.hears(Heard::Unknown(RESEND), &self.payments, setting);
    }

    pub fn deliver(&mut self, owner: u8, heard: Heard, setting: &Setting) {
        let is_owner = |worker: &&mut Worker| {
            owner != 0 && worker.held.lease.token == owner && worker.place == Place::Waiting
        };
        if let Some(worker) = self.workers.iter_mut().find(is_owner) {
            worker.hears(heard, &self.payments, setting);
        }
    }

    /// The steps of a worker that are no send.
    pub fn worker_step(&mut self, w: usize, action: Action, setting: &Setting) {
        let Self {
            workers, payments, ..
        } = self;
        let worker = &mut workers[w];
        match (worker.place, action) {
            (Place::Heard(heard), Action::Repeat(_)) => worker.repeats(heard),
            (Place::Heard(heard), _) => worker.concludes(real::outcome(heard, payments), setting),
            (Place::Looking { doubt, then_send }, Action::FindFails(_)) => {
                worker.sees_nothing(doubt, then_send, setting);
            }
            (Place::Looking { doubt, then_send }, _) => {
                worker.sees(doubt, then_send, payments, setting);
            }
            (Place::Canceling(index), Action::Cancel(_)) => {
                self.cancel(index, setting);
                let payment = self.payments[usize::from(index)];
                self.workers[w].has_canceled(index, &payment);
            }
            (Place::Canceling(index), action) => {
                worker.place = Place::Recording(Finding::Unknown(Doubt {
                    look_up: true,
                    payment: Some(index),
                }));
                if matches!(action, Action::CancelIsUnheard(_)) {
                    self.cancel(index, setting);
                }
            }
            (Place::Sending | Place::Waiting | Place::Recording(_), _) => {}
        }
    }
}
