//! Time passes: leases run out, requests die on their way, the provider forgets keys.

use crate::setting::{REQUEST_LIFE, RETENTION, Setting, WINDOW};
use crate::state::{Lease, Memory, Request, Stage, State};

impl State {
    /// Lets time pass; `None` when a request is executing that would have to end before.
    pub fn wait(&mut self, minutes: u16, setting: &Setting) -> Option<()> {
        let oldest = setting.oldest();
        let pass = |lease: &mut Lease| {
            lease.left = lease.left.saturating_sub(minutes);
            lease.first_age = (lease.first_age + minutes).min(WINDOW);
            lease.last_age = (lease.last_age + minutes).min(oldest);
        };
        for request in &mut self.requests {
            request.age += minutes;
        }
        let is_over = |request: &Request| request.age >= REQUEST_LIFE;
        if self
            .requests
            .iter()
            .any(|r| r.stage == Stage::Executing && is_over(r))
        {
            return None;
        }
        // Whoever waits for a request that never arrives learns first that the connection was cut.
        if self.requests.iter().any(|r| r.owner != 0 && is_over(r)) {
            return None;
        }
        self.requests.retain(|r| !is_over(r));
        for attempt in self.attempts.iter_mut().filter(|a| !a.status.is_settled()) {
            pass(&mut attempt.lease);
        }
        for worker in &mut self.workers {
            pass(&mut worker.held.lease);
        }
        for remembered in &mut self.memory {
            remembered.age = (remembered.age + minutes).min(RETENTION);
        }
        self.memory
            .retain(|r| r.age < RETENTION || r.memory == Memory::Executing);
        Some(())
    }
}
