//! Reading charges and their history.

use std::sync::Arc;

use super::answer;
use super::model::Charge;
use super::repository::{ChargeFilter, Evidence};
use super::service::ChargesService;
use crate::error::Problem;
use crate::storage::StorageError;

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
