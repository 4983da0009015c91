//! How many refunds this process works on at once: they share the charges' bound.

use super::lifecycle::NextStep;
use super::service::RefundsService;
use crate::bound::Place;
use crate::error::Problem;

impl RefundsService {
    /// A place for a step that begins work, before anything is reserved or sent; none for one that only answers.
    pub(super) fn place_for(&self, step: &NextStep) -> Result<Option<Place>, Problem> {
        match step {
            NextStep::Start { .. } | NextStep::TakeOver(_) => {
                self.parts.config.room.enter().map(Some)
            }
            NextStep::Replay(_)
            | NextStep::Processing
            | NextStep::NeedsReview
            | NextStep::Returned
            | NextStep::KeyReused
            | NextStep::NotRefundable
            | NextStep::Exceeds { .. }
            | NextStep::InProgress { .. }
            | NextStep::Inconsistent(_) => Ok(None),
        }
    }
}
