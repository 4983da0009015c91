//! Waiting for a charge that somebody else works on: in this process without a query, in another one by asking the store.

use std::sync::Arc;
use std::time::Instant;

use super::answer;
use super::lifecycle::{outlook, seconds_up};
use super::model::ChargeStatus;
use super::service::{ChargeAnswer, ChargeResult, ChargesService};
use crate::error::Problem;
use crate::idempotency::reservation::{ReservationState, StoredResponse};
use crate::idempotency::running::{Waiting, ask_until, within};

impl ChargesService {
    /// Waits for a charge that somebody else works on.
    pub(super) async fn join(
        &self,
        invoice_id: &str,
        waiting: Option<Waiting<ChargeResult>>,
        retry_after_ms: i64,
        deadline: Instant,
    ) -> ChargeResult {
        let busy = || Err(answer::in_progress(seconds_up(retry_after_ms).max(1)));
        if let Some(waiting) = waiting {
            return match within(deadline, waiting.result()).await {
                Some(Some(result)) => match self.confirmed(invoice_id, result).await? {
                    Some(result) => result,
                    None => busy(),
                },
                Some(None) | None => busy(),
            };
        }
        let peeked = ask_until(deadline, || {
            let service = self.clone();
            let id = invoice_id.to_owned();
            async move {
                let peek = self.parts.tasks.run(async move { service.peek(&id).await });
                peek.await.map_err(|_| Problem::internal())?
            }
        });
        match peeked.await? {
            Some(answer) => Ok(answer),
            None => busy(),
        }
    }

    /// What a caller that came later may be told of the result of a charge; nothing when another attempt is under way.
    ///
    /// A success is for ever, and "unknown" is never wrong. But "not charged" is true of one attempt at one time: this process
    /// may have slept since, and another one may have charged the invoice before this caller even called. The store knows.
    async fn confirmed(
        &self,
        invoice_id: &str,
        result: ChargeResult,
    ) -> Result<Option<ChargeResult>, Problem> {
        let replay = |response, retry_after_seconds| {
            Ok(Some(Ok(ChargeAnswer::Stored {
                response,
                replayed: true,
                retry_after_seconds,
            })))
        };
        let result = match result {
            Ok(ChargeAnswer::Stored { response, .. }) if is_success(&response) => {
                return replay(response, None);
            }
            Ok(ChargeAnswer::Undecided { .. }) => return Ok(Some(result)),
            result @ (Ok(ChargeAnswer::Stored { .. }) | Err(_)) => result,
        };
        let charges = Arc::clone(&self.parts.charges);
        let id = invoice_id.to_owned();
        let read = async move { charges.charge_snapshot(&id).await };
        let read = self.parts.tasks.run(read).await;
        let snapshot = read.map_err(|_| Problem::internal())??;
        let Some((charge, reservation)) = snapshot.and_then(|reading| reading.value.latest) else {
            return Ok(Some(result));
        };
        match (reservation.state, result) {
            (ReservationState::InProgress, result)
                if charge.status == ChargeStatus::NeedsReview =>
            {
                Ok(Some(result))
            }
            (ReservationState::InProgress, _) => Ok(None),
            (ReservationState::Done(response), _) | (ReservationState::Failed(response), Ok(_)) => {
                replay(
                    response,
                    outlook(&charge, self.policy()).retry_after_seconds,
                )
            }
            // The attempt was given back; the latest one is an older failure.
            (ReservationState::Failed(_), Err(problem)) => Ok(Some(Err(problem))),
        }
    }

    /// The stored answer of an invoice's latest attempt, if it has one by now.
    pub(super) async fn peek(&self, invoice_id: &str) -> Result<Option<ChargeAnswer>, Problem> {
        let snapshot = self.parts.charges.charge_snapshot(invoice_id).await?;
        let latest = snapshot.and_then(|reading| reading.value.latest);
        Ok(match latest {
            Some((charge, reservation)) => match reservation.state {
                ReservationState::Done(response) | ReservationState::Failed(response) => {
                    Some(ChargeAnswer::Stored {
                        response,
                        replayed: true,
                        retry_after_seconds: outlook(&charge, self.policy()).retry_after_seconds,
                    })
                }
                ReservationState::InProgress => None,
            },
            None => None,
        })
    }
}

fn is_success(response: &StoredResponse) -> bool {
    (200..300).contains(&response.status)
}
