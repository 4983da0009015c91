//! Waiting for a refund that somebody else works on: in this process without a query, in another one by asking the store.

use std::time::Instant;

use super::answer;
use super::asking::Ask;
use super::lifecycle::Wanted;
use super::model::RefundStatus;
use super::service::{RefundAnswer, RefundResult, RefundsService};
use crate::charges::lifecycle::seconds_up;
use crate::error::{Code, Problem};
use crate::idempotency::reservation::ReservationState;
use crate::idempotency::running::{Waiting, ask_until, within};
use crate::idempotency::service::KeyedError;

/// What the store says of a refund that somebody works on.
enum Seen {
    /// It has an answer.
    Answered(RefundAnswer),
    /// It has none yet.
    Running,
    /// It is not there: the reservation was given back.
    Gone,
}

impl RefundsService {
    /// Waits for a refund that somebody else works on.
    pub(super) async fn join(
        &self,
        ask: Ask,
        waiting: Option<Waiting<RefundResult>>,
        retry_after_ms: i64,
        deadline: Instant,
    ) -> RefundResult {
        let busy = || Err(answer::in_progress(seconds_up(retry_after_ms).max(1)));
        if let Some(waiting) = waiting {
            return match within(deadline, waiting.result()).await {
                Some(Some(result)) => match self.confirmed(&ask, result).await? {
                    Some(result) => result,
                    None => busy(),
                },
                Some(None) | None => busy(),
            };
        }
        let peeked = ask_until(deadline, || self.peek_in_task(&ask));
        match peeked.await? {
            Some(answer) => Ok(answer),
            None => busy(),
        }
    }

    /// What a caller that came later may be told of the result; nothing when another attempt is under way. "Not given back" is
    /// true of one attempt at one time, and somebody may have begun the next one since: the store knows.
    async fn confirmed(
        &self,
        ask: &Ask,
        result: RefundResult,
    ) -> Result<Option<RefundResult>, Problem> {
        let is_in_review =
            matches!(&result, Err(problem) if problem.code() == Code::RefundNeedsReview);
        let service = self.clone();
        let asked = ask.clone();
        // Also for its content: what ran under this key may have been another refund.
        let look = async move { service.look(&asked).await };
        let seen = self.parts.tasks.run(look).await;
        Ok(match seen.map_err(|_| Problem::internal())?? {
            _ if matches!(result, Ok(RefundAnswer::Undecided { .. })) => Some(result),
            Seen::Answered(answer) => Some(Ok(answer)),
            Seen::Running if is_in_review => Some(result),
            Seen::Running => None,
            Seen::Gone => Some(result),
        })
    }

    async fn peek_in_task(&self, ask: &Ask) -> Result<Option<RefundAnswer>, Problem> {
        let service = self.clone();
        let ask = ask.clone();
        let peek = async move { service.peek(&ask).await };
        self.parts
            .tasks
            .run(peek)
            .await
            .map_err(|_| Problem::internal())?
    }

    /// The stored answer of a refund, if it has one by now.
    pub(super) async fn peek(&self, ask: &Ask) -> Result<Option<RefundAnswer>, Problem> {
        Ok(match self.look(ask).await? {
            Seen::Answered(answer) => Some(answer),
            Seen::Running | Seen::Gone => None,
        })
    }

    async fn look(&self, ask: &Ask) -> Result<Seen, Problem> {
        let repository = &self.parts.refunds;
        let read = repository.refund_snapshot(&ask.charge_id, &ask.portion);
        let own = read.await?.and_then(|reading| reading.value.own);
        let Some((refund, reservation)) = own else {
            return Ok(Seen::Gone);
        };
        if ask.wanted != Wanted::Rest && reservation.fingerprint != ask.fingerprint {
            return Err(KeyedError::Reused.into());
        }
        Ok(match (reservation.state, refund.status) {
            (ReservationState::InProgress, _) => Seen::Running,
            (_, RefundStatus::Returned(_)) => Seen::Gone,
            (ReservationState::Done(response) | ReservationState::Failed(response), _) => {
                Seen::Answered(RefundAnswer::Stored {
                    response,
                    replayed: true,
                })
            }
        })
    }
}
