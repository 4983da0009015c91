//! An agent's limits on spending, applied to a charge that is about to begin.
//!
//! Only a new attempt is new spending. A replay, a charge that runs and a takeover never come here. An attempt counts from its
//! reservation on, on the day (UTC, by the database's clock) on which it was begun; one that fails, or is given back, gives
//! its room back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use super::answer;
use super::repository::{Capped, DayCap, NewAttempt};
use super::service::ChargesService;
use crate::access::caller::Caller;
use crate::access::limits::{Day, OverLimit};
use crate::bound::Bound;
use crate::error::Problem;
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::Reservation;
use crate::money::Money;

/// Of all the places for attempts, the part that may stand before one gate: one of so many.
const GATE_PART: usize = 4;

/// One reservation at a time for each key with a cap. The transactions of a key wait for each other at its row anyway, each with
/// a connection of the pool; here they wait without one, so that an agent's burst leaves the pool to the others.
///
/// Whoever waits has its place among the attempts already, because what comes before the gate (the provider's word on the payment
/// method) is work that needs one. So that a burst leaves places to the others, too, only a part of them may wait at one gate.
pub(super) struct Gates {
    by_key: Mutex<HashMap<String, Gate>>,
    waiting_max: usize,
}

#[derive(Clone)]
struct Gate {
    passing: Arc<tokio::sync::Mutex<()>>,
    waiting: Bound,
}

impl Gates {
    /// For a process with room for so many attempts.
    pub(super) fn new(room: &Bound) -> Self {
        Self {
            by_key: Mutex::default(),
            waiting_max: (room.most() / GATE_PART).max(1),
        }
    }

    /// Waits for the others of the same key.
    ///
    /// # Errors
    /// `overloaded` when too many of them wait.
    async fn pass(&self, key_name: &str) -> Result<OwnedMutexGuard<()>, Problem> {
        let gate = {
            let mut gates = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            let gate = gates.entry(key_name.to_owned()).or_insert_with(|| Gate {
                passing: Arc::default(),
                waiting: Bound::new(self.waiting_max),
            });
            gate.clone()
        };
        let _waiting = gate.waiting.enter()?;
        Ok(gate.passing.lock_owned().await)
    }
}

impl ChargesService {
    /// The cap under which this caller may charge this amount now; `None` where there is none.
    ///
    /// # Errors
    /// `limit_exceeded`, before anything is reserved or asked of the provider.
    pub(super) async fn cap_for(
        &self,
        caller: &Caller,
        money: Money,
        now_ms: i64,
    ) -> Result<Option<DayCap>, Problem> {
        let limits = &self.parts.config.limits;
        let Some((key_name, limits)) = caller
            .agent()
            .and_then(|name| limits.of(name).map(|limits| (name, limits)))
        else {
            return Ok(None);
        };
        let judged = limits.judge(money.amount_minor(), money.currency());
        let Some(limit_minor) = judged.map_err(|over| refused(caller, money, over))? else {
            return Ok(None);
        };
        let cap = DayCap {
            key_name: key_name.to_owned(),
            currency: money.currency().as_str().to_owned(),
            day: Day::of(now_ms),
            limit_minor,
        };
        let spent_minor = self.parts.charges.spent(&cap).await?;
        if spent_minor.saturating_add(money.amount_minor()) > limit_minor {
            return Err(over_the_day(caller, money, &cap, now_ms));
        }
        Ok(Some(cap))
    }

    /// Reserves an attempt, under the cap where there is one: the sum may have grown since it was asked for. `None` when
    /// somebody else was first.
    pub(super) async fn begin_under(
        &self,
        new: &Arc<NewAttempt>,
        cap: Option<&DayCap>,
        caller: &Caller,
        money: Money,
    ) -> Result<Option<Reading<Reservation>>, Problem> {
        let Some(cap) = cap else {
            return Ok(self.parts.reservations.run(Arc::clone(new)).await?);
        };
        let _passed = self.parts.gates.pass(&cap.key_name).await?;
        match self.parts.charges.begin_capped_attempt(new, cap).await? {
            Capped::Reserved(reading) => Ok(Some(reading)),
            Capped::Lost => Ok(None),
            Capped::Over => {
                let now_ms = new.charge.created_at_ms;
                Err(over_the_day(caller, money, cap, now_ms))
            }
        }
    }
}

fn over_the_day(caller: &Caller, money: Money, cap: &DayCap, now_ms: i64) -> Problem {
    let over = OverLimit::Day {
        limit_minor: cap.limit_minor,
        left_ms: cap.day.until_ms.saturating_sub(now_ms),
    };
    refused(caller, money, over)
}

fn refused(caller: &Caller, money: Money, over: OverLimit) -> Problem {
    tracing::warn!(
        access.key = caller.principal(), amount = money.amount_minor(), currency = %money.currency(), ?over,
        "a charge is over a limit of its key"
    );
    answer::limit_exceeded(money.currency().as_str(), over)
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn a_part_of_the_room_waits_at_one_gate_and_others_pass_theirs() {
        let gates = Gates::new(&Bound::new(8));
        let passing = gates.pass("busy").await.unwrap();
        let mut first = Box::pin(gates.pass("busy"));
        let second = &mut Box::pin(gates.pass("busy"));
        assert!(poll!(&mut first).is_pending() && poll!(&mut *second).is_pending());

        let refused = gates.pass("busy").await.unwrap_err();
        assert_eq!(refused.code(), crate::error::Code::Overloaded);
        gates.pass("other").await.unwrap();

        // Whoever goes away, or passes, makes room.
        drop(first);
        let mut third = Box::pin(gates.pass("busy"));
        assert!(poll!(&mut third).is_pending());
        assert!(gates.pass("busy").await.is_err());
        drop(passing);
        drop(second.await.unwrap());
        drop(third.await.unwrap());
        gates.pass("busy").await.unwrap();
    }

    #[tokio::test]
    async fn the_smallest_room_has_a_gate_to_wait_at() {
        let gates = Gates::new(&Bound::new(1));
        let passing = gates.pass("busy").await.unwrap();
        let mut waiting = Box::pin(gates.pass("busy"));
        assert!(poll!(&mut waiting).is_pending());
        drop(passing);
        waiting.await.unwrap();
    }
}
