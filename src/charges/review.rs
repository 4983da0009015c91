//! Reading charges, and an operator's verdict on one that needs review.

use std::sync::Arc;

use super::answer;
use super::lifecycle::outlook;
use super::model::{Charge, ChargeStatus};
use super::repository::{AttemptRecord, ChargeFilter, Resolution};
use super::service::ChargesService;
use crate::error::{Code, Problem};
use crate::payments::outcome::{Failure, FailureKind};

impl ChargesService {
    /// One charge.
    pub async fn find(&self, id: String) -> Result<Charge, Problem> {
        let charges = Arc::clone(&self.parts.charges);
        let found = self
            .parts
            .tasks
            .run(async move { charges.find_charge(&id).await })
            .await;
        found
            .map_err(|_| Problem::internal())??
            .ok_or_else(answer::charge_not_found)
    }

    /// A page of charges, newest first.
    pub async fn list(&self, filter: ChargeFilter) -> Result<Vec<Charge>, Problem> {
        let charges = Arc::clone(&self.parts.charges);
        let listed = self
            .parts
            .tasks
            .run(async move { charges.list_charges(&filter).await })
            .await;
        Ok(listed.map_err(|_| Problem::internal())??)
    }

    /// Ends a charge in `needs_review` by an operator's verdict: with the payment that proves a success, or as failed.
    pub async fn resolve(
        &self,
        id: String,
        paid_by: Option<String>,
        note: String,
    ) -> Result<Charge, Problem> {
        let service = self.clone();
        let resolved = self
            .parts
            .tasks
            .run(async move { service.resolve_in_task(&id, paid_by, &note).await })
            .await;
        resolved.map_err(|_| Problem::internal())?
    }

    async fn resolve_in_task(
        &self,
        id: &str,
        paid_by: Option<String>,
        note: &str,
    ) -> Result<Charge, Problem> {
        let charges = &self.parts.charges;
        let mut charge = charges
            .find_charge(id)
            .await?
            .ok_or_else(answer::charge_not_found)?;
        let Some(reading) = charges.charge_snapshot(&charge.invoice_id).await? else {
            return Err(answer::charge_not_found());
        };
        let settled_at_ms = reading.now_ms;
        let evidence = format!(
            "{}\nresolved: {note}",
            charge.evidence.clone().unwrap_or_default()
        );
        let before = charge.clone();
        charge.settled_at_ms = Some(settled_at_ms);
        let record = match paid_by {
            Some(payment_id) => {
                charge.status = ChargeStatus::Succeeded;
                charge.provider_payment_id = Some(payment_id.clone());
                let response =
                    answer::succeeded(&charge, self.policy()).map_err(|_| Problem::internal())?;
                AttemptRecord::Succeeded {
                    payment_id,
                    settled_at_ms,
                    response,
                }
            }
            None => {
                let failure = Failure {
                    kind: FailureKind::Canceled,
                    code: "resolved_as_failed".into(),
                    decline_code: None,
                    advice_code: None,
                    message: Some(
                        "An operator has found that the customer was not charged.".into(),
                    ),
                    payment_id: None,
                    payment_open: false,
                };
                charge.status = ChargeStatus::Failed(failure.clone());
                let response = answer::failed(&charge, &failure, self.policy());
                AttemptRecord::Failed {
                    failure,
                    settled_at_ms,
                    response,
                }
            }
        };
        let resolution = Resolution {
            charge: before,
            record,
            evidence: evidence.trim().to_owned(),
        };
        if !charges.resolve_review(&resolution).await? {
            return Err(Problem::new(
                Code::ChargeNotInReview,
                "This charge is not waiting for a decision. Read it to see how it ended.",
            )
            .never(outlook(&resolution.charge, self.policy()).customer_charged));
        }
        tracing::warn!(charge.id = %id, outcome = charge.status.as_str(), "a review was resolved by an operator");
        Ok(charge)
    }
}
