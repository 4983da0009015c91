//! Waiting for a refund that somebody else works on: in this process without a query, in another one by asking the store.

use std::time::Instant;

use super::answer;
use super::asking::Ask;
use super::model::{Portion, RefundStatus};
use super::service::{RefundAnswer, RefundResult, RefundsService};
use crate::charges::lifecycle::seconds_up;
use crate::error::{Code, Problem};
use crate::idempotency::reservation::ReservationState;
use crate::idempotency::running::{Waiting, ask_until, within};

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
        let peeked = ask_until(deadline, || self.peek_in_task(&ask.charge_id, &ask.portion));
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
        if let Ok(RefundAnswer::Undecided { .. }) = result {
            return Ok(Some(result));
        }
        let is_in_review =
            matches!(&result, Err(problem) if problem.code() == Code::RefundNeedsReview);
        let service = self.clone();
        let (charge_id, portion) = (ask.charge_id.clone(), ask.portion.clone());
        let look = async move { service.look(&charge_id, &portion).await };
        let seen = self.parts.tasks.run(look).await;
        Ok(match seen.map_err(|_| Problem::internal())?? {
            Seen::Answered(answer) => Some(Ok(answer)),
            Seen::Running if is_in_review => Some(result),
            Seen::Running => None,
            Seen::Gone => Some(result),
        })
    }

    async fn peek_in_task(
        &self,
        charge_id: &str,
        portion: &Portion,
    ) -> Result<Option<RefundAnswer>, Problem> {
        let service = self.clone();
        let (charge_id, portion) = (charge_id.to_owned(), portion.clone());
        let peek = async move { service.peek(&charge_id, &portion).await };
        self.parts
            .tasks
            .run(peek)
            .await
            .map_err(|_| Problem::internal())?
    }

    /// The stored answer of a refund, if it has one by now.
    pub(super) async fn peek(
        &self,
        charge_id: &str,
        portion: &Portion,
    ) -> Result<Option<RefundAnswer>, Problem> {
        Ok(match self.look(charge_id, portion).await? {
            Seen::Answered(answer) => Some(answer),
            Seen::Running | Seen::Gone => None,
        })
    }

    async fn look(&self, charge_id: &str, portion: &Portion) -> Result<Seen, Problem> {
        let read = self.parts.refunds.refund_snapshot(charge_id, portion);
        let own = read.await?.and_then(|reading| reading.value.own);
        let Some((refund, reservation)) = own else {
            return Ok(Seen::Gone);
        };
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
