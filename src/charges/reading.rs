//! Reading charges and their history.

use std::sync::Arc;

use super::answer;
use super::lifecycle::next_step;
use super::model::Charge;
use super::repository::{ChargeFilter, Evidence};
use super::reserving::charge_fingerprint;
use super::service::ChargesService;
use super::status::StatusBody;
use crate::error::Problem;
use crate::idempotency::repository::Reading;
use crate::storage::StorageError;

/// More than an invoice can have attempts.
const ATTEMPTS_LISTED_MAX: i64 = 100;

impl ChargesService {
    /// What is true of an invoice's charge now. Charges nobody.
    pub async fn status(&self, invoice_id: String) -> Result<StatusBody, Problem> {
        let service = self.clone();
        let read = self.parts.tasks.run(async move {
            let charges = &service.parts.charges;
            let Some(Reading {
                value: snapshot,
                now_ms,
            }) = charges.charge_snapshot(&invoice_id).await?
            else {
                return Err(answer::invoice_not_found());
            };
            let newest = snapshot.latest.as_ref().map(|(charge, _)| charge.attempt);
            let mut attempts = service.attempts_of(&invoice_id).await?;
            // Both reads tell of one moment: an attempt that began between them is not in the first.
            attempts.retain(|charge| Some(charge.attempt) <= newest);
            if let Some((charge, _)) = &snapshot.latest
                && let Some(listed) = attempts
                    .iter_mut()
                    .find(|listed| listed.attempt == charge.attempt)
            {
                listed.clone_from(charge);
            }
            let fingerprint = charge_fingerprint(&invoice_id)?;
            let step = next_step(&snapshot, &fingerprint, service.policy(), now_ms);
            let told = StatusBody::new(&snapshot, &step, &attempts, service.policy(), now_ms);
            told.ok_or_else(|| {
                tracing::error!(invoice.id = %invoice_id, ?step, "the tables contradict each other");
                Problem::internal()
            })
        });
        read.await.map_err(|_| Problem::internal())?
    }

    /// Every attempt of an invoice, newest first.
    pub(super) async fn attempts_of(&self, invoice_id: &str) -> Result<Vec<Charge>, StorageError> {
        let filter = ChargeFilter {
            invoice_id: Some(invoice_id.to_owned()),
            limit: ATTEMPTS_LISTED_MAX,
            ..ChargeFilter::default()
        };
        self.parts.charges.list_charges(&filter).await
    }

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

    /// The history of a charge, oldest first; empty for one that went straight to its verdict.
    pub async fn evidence(&self, id: String) -> Result<Vec<Evidence>, Problem> {
        let charges = Arc::clone(&self.parts.charges);
        let read = self.parts.tasks.run(async move {
            match charges.find_charge(&id).await? {
                Some(_) => Ok(Some(charges.list_evidence(&id).await?)),
                None => Ok::<_, StorageError>(None),
            }
        });
        let lines = read.await.map_err(|_| Problem::internal())??;
        lines.ok_or_else(answer::charge_not_found)
    }
}
