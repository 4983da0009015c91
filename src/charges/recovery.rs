//! Finishing what a dead or silent owner left behind, without a caller: by the clock, or because the provider told
//! something. The path is a caller's takeover; nothing here settles anything by itself.

use super::lifecycle::{NextStep, next_step};
use super::model::ChargeStatus;
use super::reserving::charge_fingerprint;
use super::service::{Begun, ChargesService};
use crate::error::Problem;
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::{Claim, Recovery};

/// How long a notice waits for a charge that this process works on, in milliseconds.
pub(crate) const RUNNING_WAIT_MS: i64 = 2_000;

/// How an attempt at recovery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovered {
    /// The money was taken, and it is recorded now.
    Succeeded,
    /// It took no money and never will, and that is recorded now.
    Failed,
    /// The provider has it and no verdict yet.
    Processing,
    /// Still not known.
    Unknown,
    /// Parked for a person.
    NeedsReview,
    /// Somebody else works on it, or has a lease that still runs for so many milliseconds.
    Busy {
        /// When it is worth looking again.
        retry_after_ms: i64,
    },
    /// It was made with another provider than the one that is set now.
    Foreign,
    /// There is nothing to finish.
    Nothing,
}

impl Recovered {
    /// A word for logs, events and counts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Processing => "processing",
            Self::Unknown => "unknown",
            Self::NeedsReview => "needs_review",
            Self::Busy { .. } => "busy",
            Self::Foreign => "foreign",
            Self::Nothing => "nothing",
        }
    }
}

impl ChargesService {
    /// Finishes the invoice's running attempt if the claim on it holds, and waits for the end. Safe to call at any time, by
    /// any number of processes: one of them wins.
    pub async fn recover(&self, invoice_id: String, claim: Claim) -> Result<Recovered, Problem> {
        let service = self.clone();
        let work = async move { service.recover_in_task(&invoice_id, claim).await };
        let recovered = self.parts.tasks.run(work).await;
        recovered.map_err(|_| Problem::internal())?
    }

    async fn recover_in_task(&self, invoice_id: &str, claim: Claim) -> Result<Recovered, Problem> {
        if self.parts.running.find(invoice_id).is_some() {
            return Ok(Recovered::Busy {
                retry_after_ms: RUNNING_WAIT_MS,
            });
        }
        let snapshot = self.parts.charges.charge_snapshot(invoice_id).await?;
        let Some(Reading {
            value: snapshot,
            now_ms,
        }) = snapshot
        else {
            return Ok(Recovered::Nothing);
        };
        let fingerprint = charge_fingerprint(invoice_id)?;
        let step = next_step(&snapshot, &fingerprint, self.policy(), now_ms);
        let latest = snapshot.latest.as_ref();
        let is_idle = latest.is_some_and(|(_, reservation)| reservation.idle);
        let lease_left_ms = latest.map_or(0, |(_, reservation)| {
            reservation.lease_expires_at_ms.saturating_sub(now_ms)
        });
        let (recovery, claim) = match step {
            NextStep::TakeOver(recovery) => (recovery, Claim::Expired),
            NextStep::InProgress { .. } | NextStep::Processing
                if is_idle && claim == Claim::ExpiredOrIdle =>
            {
                (Recovery::LookUp, claim)
            }
            NextStep::InProgress { .. } | NextStep::Processing => {
                return Ok(Recovered::Busy {
                    retry_after_ms: lease_left_ms.max(1),
                });
            }
            NextStep::NeedsReview => return Ok(Recovered::NeedsReview),
            NextStep::Start { .. }
            | NextStep::Replay(_)
            | NextStep::ReplayFailure { .. }
            | NextStep::NotAdvised
            | NextStep::Exhausted
            | NextStep::NotChargeable => return Ok(Recovered::Nothing),
            NextStep::Inconsistent(what) => {
                tracing::error!(invoice.id = %invoice_id, what, "the tables contradict each other");
                return Ok(Recovered::Nothing);
            }
        };
        if self.is_anothers(&snapshot) {
            return Ok(Recovered::Foreign);
        }
        let Some(held) = self.take_over(snapshot, recovery, claim).await? else {
            return Ok(Recovered::Busy {
                retry_after_ms: RUNNING_WAIT_MS,
            });
        };
        let charge_id = held.charge.id.clone();
        if let Begun::Started { waiting, .. } = self.start(held, self.parts.config.room.take()) {
            waiting.result().await;
        }
        self.state_of(&charge_id).await
    }

    /// What our books say of the attempt now.
    async fn state_of(&self, charge_id: &str) -> Result<Recovered, Problem> {
        let charge = self.parts.charges.find_charge(charge_id).await?;
        Ok(match charge.map(|charge| charge.status) {
            Some(ChargeStatus::Succeeded) => Recovered::Succeeded,
            Some(ChargeStatus::Failed(_)) => Recovered::Failed,
            Some(ChargeStatus::Processing) => Recovered::Processing,
            Some(ChargeStatus::NeedsReview) => Recovered::NeedsReview,
            Some(ChargeStatus::Pending) => Recovered::Unknown,
            None => Recovered::Nothing,
        })
    }
}
