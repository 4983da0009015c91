//! Reading refunds and their history.

use std::sync::Arc;

use super::answer;
use super::lifecycle::outlook;
use super::model::{Refund, RefundStatus};
use super::repository::RefundFilter;
use super::service::RefundsService;
use crate::charges::model::Charge;
use crate::charges::repository::Evidence;
use crate::error::Problem;
use crate::storage::StorageError;

/// How many refunds of one charge are looked through at most.
pub(super) const REFUNDS_LOOKED_AT_MAX: i64 = 1_000;

/// What refunds have given back, in minor units.
fn given_minor(refunds: &[Refund]) -> i64 {
    let given = refunds
        .iter()
        .filter(|refund| refund.status == RefundStatus::Succeeded);
    given.map(|refund| refund.amount_minor).sum()
}

impl RefundsService {
    /// Why nothing is left of a charge: what the refunds came to that have it all.
    pub(super) async fn nothing_left(&self, charge: &Charge) -> Result<Problem, StorageError> {
        let refunds = self.booked(&charge.id).await?;
        let find = |is: fn(&RefundStatus) -> bool| refunds.iter().find(|refund| is(&refund.status));
        if let Some(refund) = find(|status| *status == RefundStatus::NeedsReview) {
            return Ok(answer::needs_review(refund));
        }
        let running =
            find(|status| matches!(status, RefundStatus::Pending | RefundStatus::Processing));
        Ok(match running {
            Some(refund) => {
                let seconds = outlook(refund).retry_after_seconds;
                answer::nothing_left_yet(seconds.unwrap_or(1))
            }
            // Between the two looks a refund may have ended and given its room back.
            None if given_minor(&refunds) < charge.amount_minor => answer::nothing_left_yet(1),
            None => answer::nothing_left(),
        })
    }

    /// One refund.
    pub async fn find(&self, id: String) -> Result<Refund, Problem> {
        let refunds = Arc::clone(&self.parts.refunds);
        let find = async move { refunds.find_refund(&id).await };
        let found = self.parts.tasks.run(find).await;
        found
            .map_err(|_| Problem::internal())??
            .ok_or_else(answer::refund_not_found)
    }

    /// A page of refunds, newest first.
    pub async fn list(&self, filter: RefundFilter) -> Result<Vec<Refund>, Problem> {
        let refunds = Arc::clone(&self.parts.refunds);
        let list = async move { refunds.list_refunds(&filter).await };
        let listed = self.parts.tasks.run(list).await;
        Ok(listed.map_err(|_| Problem::internal())??)
    }

    /// The history of a refund, oldest first; empty for one that went straight to its verdict.
    pub async fn evidence(&self, id: String) -> Result<Vec<Evidence>, Problem> {
        let refunds = Arc::clone(&self.parts.refunds);
        let read = self.parts.tasks.run(async move {
            match refunds.find_refund(&id).await? {
                Some(_) => Ok(Some(refunds.list_refund_evidence(&id).await?)),
                None => Ok::<_, StorageError>(None),
            }
        });
        let lines = read.await.map_err(|_| Problem::internal())??;
        lines.ok_or_else(answer::refund_not_found)
    }
}
