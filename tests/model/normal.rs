//! One state for all that differ in names only, or in what can have no effect any more.
//!
//! Equals that have no order (workers, callers, requests) are sorted, and lease tokens are numbered anew.

use crate::setting::Protections;
use crate::state::{Caller, Stage, State, View};

impl State {
    /// Visits every lease token, wherever it is kept.
    pub fn each_token(&mut self, mut visit: impl FnMut(&mut u8)) {
        let leases = self.attempts.iter_mut().map(|a| &mut a.lease);
        leases
            .chain(self.workers.iter_mut().map(|w| &mut w.held.lease))
            .for_each(|lease| visit(&mut lease.token));
        for request in &mut self.requests {
            visit(&mut request.owner);
        }
        for caller in &mut self.callers {
            if let Caller::Decided(View::TakeOver { read, .. }) = caller {
                visit(&mut read.lease.token);
            }
        }
        if let Some(View::TakeOver { read, .. }) = &mut self.background {
            visit(&mut read.lease.token);
        }
    }

    /// One state for all that differ in names only.
    pub fn normalize(&mut self, protections: Protections) {
        if protections.reserve_first && protections.lease_token {
            self.forget_what_is_over();
        }
        self.memory.sort_unstable();
        let mut used = [false; 64];
        self.each_token(|token| used[usize::from(*token)] = true);
        used[0] = false;
        let mut names = [0_u8; 64];
        let mut last = 0;
        for (token, name) in names.iter_mut().enumerate().filter(|(t, _)| used[*t]) {
            debug_assert!(token > 0);
            last += 1;
            *name = last;
        }
        self.each_token(|token| *token = names[usize::from(*token)]);
        self.workers.sort_unstable();
        self.callers.sort_unstable();
        self.merge_requests();
    }

    /// Drops what can have no effect any more, as long as the guards hold: decisions that a guarded update would turn down,
    /// and the provider's memory of keys under which nothing will ever be sent again.
    fn forget_what_is_over(&mut self) {
        let attempts = &self.attempts;
        let is_over = |view: &View| match view {
            // A reservation that was never taken over may still be given back, and its key is free again then.
            View::Start { number, .. } => attempts
                .get(usize::from(*number) - 1)
                .is_some_and(|a| a.status.is_settled() || a.lease.taken_over),
            View::TakeOver { read, .. } => attempts
                .last()
                .is_none_or(|a| a.status.is_settled() || a.lease.token != read.lease.token),
        };
        for caller in &mut self.callers {
            if matches!(caller, Caller::Decided(view) if is_over(view)) {
                *caller = Caller::Idle;
            }
        }
        self.background = self.background.filter(|view| !is_over(view));
        for worker in &mut self.workers {
            worker.forget_what_is_over();
        }
        let (requests, workers) = (&self.requests, &self.workers);
        self.memory.retain(|remembered| {
            let number = remembered.key.attempt;
            let is_settled = attempts
                .get(usize::from(number) - 1)
                .is_some_and(|a| a.status.is_settled());
            !is_settled
                || requests.iter().any(|r| r.key.attempt == number)
                || workers.iter().any(|w| w.number == number)
        });
    }

    /// Of requests under one key for whose answers nobody waits the youngest stands for all: whatever an older one could
    /// do the youngest can, and once one of them was executed the others only repeat its answer to nobody.
    fn merge_requests(&mut self) {
        self.requests
            .sort_unstable_by_key(|r| (r.stage, r.key, r.owner, r.age));
        self.requests.dedup_by(|later, kept| {
            let same = (later.stage, later.key, later.owner) == (kept.stage, kept.key, kept.owner);
            same && kept.owner == 0 && kept.stage == Stage::OnTheWay
        });
    }
}
