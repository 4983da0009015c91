//! Finishing what a dead or silent owner left behind, without a caller. The path is a caller's takeover; nothing here
//! settles anything by itself.

use super::asking::name_of;
use super::lifecycle::{NextStep, recovery_step};
use super::model::RefundStatus;
use super::service::{Begun, RefundsService};
use crate::charges::recovery::{RUNNING_WAIT_MS, Recovered};
use crate::error::Problem;
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::{Claim, Recovery};

impl RefundsService {
    /// Finishes a refund if the claim on it holds, and waits for the end. Safe to call at any time, by any number of
    /// processes: one of them wins.
    pub async fn recover(&self, refund_id: String, claim: Claim) -> Result<Recovered, Problem> {
        let service = self.clone();
        let work = async move { service.recover_in_task(&refund_id, claim).await };
        let recovered = self.parts.tasks.run(work).await;
        recovered.map_err(|_| Problem::internal())?
    }

    async fn recover_in_task(&self, refund_id: &str, claim: Claim) -> Result<Recovered, Problem> {
        let busy = |retry_after_ms| Ok(Recovered::Busy { retry_after_ms });
        let Some(Reading {
            value: snapshot,
            now_ms,
        }) = self.parts.refunds.refund_by_id(refund_id).await?
        else {
            return Ok(Recovered::Nothing);
        };
        let Some((refund, reservation)) = &snapshot.own else {
            return Ok(Recovered::Nothing);
        };
        let name = name_of(&refund.charge_id, &refund.portion);
        if self.parts.running.find(&name).is_some() {
            return busy(RUNNING_WAIT_MS);
        }
        let window_ms = self.parts.config.key_window_ms;
        let lease_left_ms = reservation.lease_expires_at_ms.saturating_sub(now_ms);
        let (recovery, claim) = match recovery_step(refund, reservation, window_ms, now_ms) {
            Some(NextStep::TakeOver(recovery)) => (recovery, Claim::Expired),
            Some(NextStep::InProgress { .. } | NextStep::Processing)
                if reservation.idle && claim == Claim::ExpiredOrIdle =>
            {
                (Recovery::LookUp, claim)
            }
            Some(NextStep::InProgress { .. } | NextStep::Processing) => {
                return busy(lease_left_ms.max(1));
            }
            Some(NextStep::NeedsReview) => return Ok(Recovered::NeedsReview),
            Some(NextStep::Inconsistent(what)) => {
                tracing::error!(refund.id = %refund_id, what, "the tables contradict each other");
                return Ok(Recovered::Nothing);
            }
            // Whatever begins a refund or repeats an answer is a caller's.
            Some(
                NextStep::Start { .. }
                | NextStep::Replay(_)
                | NextStep::Returned
                | NextStep::KeyReused
                | NextStep::NotRefundable
                | NextStep::Exceeds { .. },
            )
            | None => return Ok(Recovered::Nothing),
        };
        if self.is_anothers(&snapshot) {
            return Ok(Recovered::Foreign);
        }
        let Some(held) = self.take_over(snapshot, recovery, claim).await? else {
            return busy(RUNNING_WAIT_MS);
        };
        if let Begun::Started { waiting, .. } = self.start(held, self.parts.config.room.take()) {
            waiting.result().await;
        }
        self.state_of(refund_id).await
    }

    /// What our books say of the refund now.
    async fn state_of(&self, refund_id: &str) -> Result<Recovered, Problem> {
        let refund = self.parts.refunds.find_refund(refund_id).await?;
        Ok(match refund.map(|refund| refund.status) {
            Some(RefundStatus::Succeeded) => Recovered::Succeeded,
            Some(RefundStatus::Failed(_) | RefundStatus::Returned(_)) => Recovered::Failed,
            Some(RefundStatus::Processing) => Recovered::Processing,
            Some(RefundStatus::NeedsReview) => Recovered::NeedsReview,
            Some(RefundStatus::Pending) => Recovered::Unknown,
            None => Recovered::Nothing,
        })
    }
}
