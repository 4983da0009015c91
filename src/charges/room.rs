//! How many attempts this process works on at once. Callers that repeat a finished charge, and whoever reads, need no room.

use super::lifecycle::NextStep;
use super::service::ChargesService;
use crate::bound::Place;
use crate::error::Problem;

impl ChargesService {
    /// How many attempts this process works on now.
    pub fn in_flight(&self) -> usize {
        self.parts.running.count()
    }

    /// A place for a step that begins work, before anything is reserved or sent; none for one that only answers. Beyond the
    /// bound a takeover is refused like a new attempt: the background worker, which has a bound of its own, comes to it.
    pub(super) fn place_for(&self, step: &NextStep) -> Result<Option<Place>, Problem> {
        match step {
            NextStep::Start { .. } | NextStep::TakeOver(_) => {
                self.parts.config.room.enter().map(Some)
            }
            NextStep::Replay(_)
            | NextStep::ReplayFailure { .. }
            | NextStep::NotAdvised
            | NextStep::Exhausted
            | NextStep::Processing
            | NextStep::NeedsReview
            | NextStep::NotChargeable
            | NextStep::InProgress { .. }
            | NextStep::Inconsistent(_) => Ok(None),
        }
    }
}
