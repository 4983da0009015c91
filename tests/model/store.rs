//! The guarded updates of the storage, as `storage::statements` has them. Each is one step: a transaction.

use chargeonce::charges::settlement::recovery_of;
use chargeonce::idempotency::reservation::Recovery;

use crate::real;
use crate::setting::Setting;
use crate::state::{Attempt, Finding, Lease, State, Status, Worker};

impl State {
    /// The latest attempt, counted from 1.
    pub fn latest(&self) -> Option<(u8, &Attempt)> {
        let number = u8::try_from(self.attempts.len()).unwrap();
        self.attempts.last().map(|attempt| (number, attempt))
    }

    pub fn attempt(&self, number: u8) -> Option<&Attempt> {
        self.attempts.get(usize::from(number) - 1)
    }

    /// `begin_attempt`: the key is free and no other attempt of the invoice is live. Both together keep a paid invoice out.
    pub fn begin_attempt(&mut self, number: u8, attempt: Attempt) -> bool {
        let is_free = self.attempts.len() + 1 == usize::from(number);
        let is_failed = |a: &Attempt| matches!(a.status, Status::Failed(_));
        let begins = is_free && self.attempts.iter().all(is_failed);
        if begins {
            self.attempts.push(attempt);
        }
        begins
    }

    /// `take_over`: still in progress, still that token, and its lease is over; or, for a webhook, its owner has stopped.
    /// What comes back is the row's lease beside the charge as it was read before.
    pub fn take_over(
        &mut self,
        read: &Attempt,
        look_up: bool,
        woken: bool,
        setting: &Setting,
    ) -> Option<Attempt> {
        let protections = setting.protections;
        let token = self.new_token();
        let row = self.attempts.last_mut()?;
        let is_held = !protections.lease_token || row.lease.token == read.lease.token;
        let is_ready = row.lease.left == 0 || (woken && row.lease.idle);
        if protections.fresh_takeover && row.lease.idle != read.lease.idle {
            return None;
        }
        if row.status.is_settled() || !is_held || !is_ready {
            return None;
        }
        row.lease = Lease {
            token,
            left: setting.lease_minutes(),
            taken_over: true,
            idle: false,
            last_age: if look_up { row.lease.last_age } else { 0 },
            ..row.lease
        };
        if !protections.same_key && !look_up {
            row.variant += 1;
        }
        Some(Attempt {
            lease: row.lease,
            variant: row.variant,
            ..*read
        })
    }

    /// `record_attempt`: while the token holds the key and the attempt has no verdict. False when it wrote nothing.
    pub fn record(&mut self, worker: &Worker, finding: Finding, setting: &Setting) -> bool {
        let protections = setting.protections;
        let number = usize::from(worker.number);
        if !protections.reserve_first && self.attempts.len() + 1 == number {
            self.begin_attempt(worker.number, worker.held);
        }
        let Some(row) = self.attempts.get_mut(number - 1) else {
            return false;
        };
        let is_held = !protections.lease_token || row.lease.token == worker.held.lease.token;
        if row.status.is_settled() || !is_held {
            return false;
        }
        let known = worker.held.payment;
        let before = *row;
        match finding {
            Finding::Released if row.lease.taken_over => return false,
            Finding::Released => {
                self.attempts.pop();
            }
            Finding::Succeeded(payment) => row.settle(Status::Succeeded, Some(payment), false),
            Finding::Failed(fail) => {
                row.settle(Status::Failed(fail.kind), fail.payment.or(known), fail.open);
            }
            Finding::Processing(payment) => {
                row.stop(Status::Processing, Some(payment), true);
            }
            Finding::NeedsReview(payment) => {
                row.stop(Status::NeedsReview, payment.or(known), true);
            }
            Finding::Unknown(doubt) => row.stop(
                row.status,
                doubt.payment.or(known),
                worker.held.lease.look_up || recovery_of(&real::unknown(doubt)) == Recovery::LookUp,
            ),
        }
        if setting.records_are_watched {
            let forgets = |row: &Attempt| before.payment.is_some() && row.payment.is_none();
            self.told.payment_forgotten |= self.attempts.get(number - 1).is_some_and(forgets);
            self.told.review_touched |= before.status == Status::NeedsReview;
        }
        true
    }
}

impl Attempt {
    /// As it is reserved.
    pub fn new(confirms: Option<u8>, token: u8, lease_minutes: u16) -> Self {
        Self {
            status: Status::Pending,
            payment: confirms,
            confirms,
            leaves_open: false,
            variant: 0,
            lease: Lease {
                token,
                left: lease_minutes,
                ..Lease::default()
            },
        }
    }

    /// For ever. Nobody asks for the lease any more.
    fn settle(&mut self, status: Status, payment: Option<u8>, leaves_open: bool) {
        self.status = status;
        self.payment = payment;
        self.leaves_open = leaves_open;
        self.lease = Lease {
            taken_over: self.lease.taken_over,
            ..Lease::default()
        };
    }

    /// Its owner stops without a verdict; the lease stays.
    fn stop(&mut self, status: Status, payment: Option<u8>, look_up: bool) {
        self.status = status;
        self.payment = payment;
        self.lease.look_up = look_up;
        self.lease.idle = true;
    }
}
