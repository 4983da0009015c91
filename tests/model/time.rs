//! Time passes: leases run out, requests die on their way, the provider forgets keys.

use crate::setting::{RETENTION, Setting, WINDOW};
use crate::state::{Lease, Memory, Request, Stage, State};

impl State {
    /// Lets time pass; `None` where something has to happen before: a request that executes must end, and whoever waits for
    /// one that never arrives must learn that the connection was cut.
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
        let is_over = |request: &Request| request.age >= setting.request_life;
        let holds_up = |r: &Request| r.stage == Stage::Executing || r.owner != 0;
        if self.requests.iter().any(|r| is_over(r) && holds_up(r)) {
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
