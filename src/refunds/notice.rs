//! What the provider tells by itself of a payment's refunds: they are fetched, because an event named the payment, and compared
//! with our books. A refund without a verdict is looked up at once; one that had succeeded may have come back.

use std::time::{Duration, Instant};

use super::latecomer::latecomer;
use super::model::{Refund, RefundStatus};
use super::reserving::EVER;
use super::service::RefundsService;
use super::settlement::failure_of;
use crate::charges::notice::{NoticeError, Noticed};
use crate::charges::recovery::Recovered;
use crate::charges::repository::{Evidence, EvidenceKind};
use crate::error::Problem;
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::Claim;
use crate::payments::outcome::FailureKind;
use crate::payments::refund::{ProviderRefund, RefundQuery, RefundState};

/// How long fetching a payment's refunds may take.
const FETCH_TIME: Duration = Duration::from_secs(30);

/// The failure of a refund that gave nothing back in the end, by its state at the provider.
fn came_back(found: &ProviderRefund) -> Option<FailureKind> {
    match found.status {
        RefundState::Failed => Some(FailureKind::Declined),
        RefundState::Canceled => Some(FailureKind::Canceled),
        RefundState::Succeeded
        | RefundState::Pending
        | RefundState::RequiresAction
        | RefundState::Other(_) => None,
    }
}

impl RefundsService {
    /// Takes notice of the refunds of a payment that paid one of our charges. Safe to call at any time and any number of
    /// times.
    ///
    /// # Errors
    /// When the provider or the store cannot be asked.
    pub async fn notice(&self, payment_id: String) -> Result<Noticed, NoticeError> {
        let service = self.clone();
        let notice = async move { service.notice_in_task(&payment_id).await };
        let noticed = self.parts.tasks.run(notice).await;
        noticed.map_err(|_| Problem::internal())?
    }

    async fn notice_in_task(&self, payment_id: &str) -> Result<Noticed, NoticeError> {
        let own = self.parts.provider.name();
        let read = self.parts.refunds.refunds_of_payment(payment_id);
        let mut booked = read.await.map_err(Problem::from)?;
        booked.retain(|refund| refund.provider == own);
        let Some(oldest) = booked.last() else {
            return Ok(Noticed::Known);
        };
        let query = RefundQuery {
            payment_id: payment_id.to_owned(),
            refund_id: None,
            since_ms: EVER,
        };
        let provider = self.parts.provider.refunds();
        let found = provider.find_refunds(&query, Instant::now() + FETCH_TIME);
        let found = found.await?;
        let read = self.parts.refunds.refund_by_id(&oldest.id);
        let Some(Reading { now_ms, .. }) = read.await.map_err(Problem::from)? else {
            return Ok(Noticed::Known);
        };
        let mut noticed = Noticed::Known;
        for refund in &booked {
            match refund.status {
                RefundStatus::Pending | RefundStatus::Processing => {
                    let recovered = self.recover(refund.id.clone(), Claim::ExpiredOrIdle);
                    let recovered = recovered.await?;
                    // Whoever works on it is told last, so that the event is looked at again.
                    if matches!(recovered, Recovered::Busy { .. }) {
                        return Ok(Noticed::Recovered(recovered));
                    }
                    noticed = Noticed::Recovered(recovered);
                }
                RefundStatus::Succeeded => {
                    if self.has_come_back(refund, &found, now_ms).await? {
                        noticed = Noticed::Returned;
                    }
                }
                RefundStatus::NeedsReview | RefundStatus::Failed(_) | RefundStatus::Returned(_) => {
                }
            }
        }
        let marks = (payment_id, self.parts.config.installation_id.as_str());
        if let Some((late, given_up)) = latecomer(&found, &booked, marks) {
            self.park(late, given_up, &booked, now_ms).await?;
            noticed = Noticed::Parked;
        }
        Ok(noticed)
    }

    /// Records that the money of a refund that had succeeded came back, where the provider shows so. A refund that failed
    /// there never succeeds again.
    async fn has_come_back(
        &self,
        refund: &Refund,
        found: &[ProviderRefund],
        now_ms: i64,
    ) -> Result<bool, Problem> {
        let id = refund.provider_refund_id.as_deref();
        let its = found.iter().find(|found| id == Some(found.id.as_str()));
        let Some((its, kind)) = its.and_then(|its| Some((its, came_back(its)?))) else {
            return Ok(false);
        };
        let failure = failure_of(its, kind);
        let why = failure.decline_code.as_deref().unwrap_or(&failure.code);
        let line = Evidence {
            at_ms: now_ms,
            what: EvidenceKind::Notice,
            detail: format!("{} {}: {why}", its.id, its.status.as_str()),
        };
        let returned = self.parts.refunds.return_refund(refund, &failure, &line);
        let returned = returned.await?;
        if returned {
            tracing::error!(
                charge.id = %refund.charge_id, refund.id = %refund.id, outcome = "returned", why,
                "the money of a refund came back: the customer has not got it"
            );
        }
        Ok(returned)
    }
}
