//! Creating, reading and changing invoices.

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::dto::{CreateInvoice, InvoiceBody};
use super::model::{Invoice, InvoiceStatus};
use super::repository::{Changed, Inserted, InvoiceFilter, InvoiceInsert, InvoiceRepository};
use crate::charges::model::CustomerCharged;
use crate::error::{Code, Problem};
use crate::idempotency::fingerprint::fingerprint;
use crate::idempotency::key::{HeaderKey, invoice_key};
use crate::idempotency::reservation::{Ending, Reservation, ReservationState, StoredResponse};
use crate::idempotency::service::{
    Acted, Answered, HeldKey, IdempotencyService, KeyedAction, KeyedRequest,
};
use crate::money::Money;
use crate::storage::StorageError;
use crate::tasks::Tasks;

/// The operation's name in fingerprints and keys.
pub const CREATE: &str = "create_invoice";

/// Invoices. Cheap to clone.
#[derive(Clone)]
pub struct InvoicesService {
    invoices: Arc<dyn InvoiceRepository>,
    idempotency: IdempotencyService,
    tasks: Tasks,
}

/// What to create: checked, with its fingerprint.
#[derive(Clone)]
struct Creation {
    invoices: Arc<dyn InvoiceRepository>,
    request: CreateInvoice,
    money: Money,
    fingerprint: String,
    id: String,
}

impl InvoicesService {
    /// Over its port.
    pub fn new(
        invoices: Arc<dyn InvoiceRepository>,
        idempotency: IdempotencyService,
        tasks: Tasks,
    ) -> Self {
        Self {
            invoices,
            idempotency,
            tasks,
        }
    }

    /// Creates an invoice once: for its own id, where the caller gives one, and for the header's key, where there is one.
    pub async fn create(
        &self,
        mut request: CreateInvoice,
        principal: String,
        key: Option<HeaderKey>,
    ) -> Result<Answered, Problem> {
        let money = request.check()?;
        let fingerprint = fingerprint(CREATE, &request).map_err(|error| {
            tracing::error!(%error, "a fingerprint could not be made");
            Problem::internal()
        })?;
        let id = request
            .id
            .clone()
            .unwrap_or_else(|| format!("inv_{}", Uuid::now_v7().simple()));
        let creation = Creation {
            invoices: Arc::clone(&self.invoices),
            request,
            money,
            fingerprint,
            id,
        };
        let idempotency = self.idempotency.clone();
        let created = self.tasks.run(async move {
            match key {
                None => creation.without_key().await,
                Some(key) => {
                    let request = KeyedRequest {
                        key: key.scoped(&principal, CREATE),
                        operation: CREATE,
                        fingerprint: creation.fingerprint.clone(),
                    };
                    Ok(idempotency.run(&request, &creation).await?)
                }
            }
        });
        created.await.map_err(|_| Problem::internal())?
    }

    /// One invoice.
    pub async fn find(&self, id: String) -> Result<Invoice, Problem> {
        let invoices = Arc::clone(&self.invoices);
        let found = self
            .tasks
            .run(async move { invoices.find_invoice(&id).await })
            .await;
        found
            .map_err(|_| Problem::internal())??
            .ok_or_else(not_found)
    }

    /// A page of invoices, newest first.
    pub async fn list(&self, filter: InvoiceFilter) -> Result<Vec<Invoice>, Problem> {
        let invoices = Arc::clone(&self.invoices);
        let listed = self
            .tasks
            .run(async move { invoices.list_invoices(&filter).await })
            .await;
        Ok(listed.map_err(|_| Problem::internal())??)
    }

    /// Sets the payment method.
    pub async fn set_payment_method(
        &self,
        id: String,
        method: Option<String>,
    ) -> Result<Invoice, Problem> {
        let invoices = Arc::clone(&self.invoices);
        let set = self
            .tasks
            .run(async move { invoices.set_payment_method(&id, method.as_deref()).await })
            .await;
        changed(set.map_err(|_| Problem::internal())??)
    }

    /// Voids it.
    pub async fn void(&self, id: String) -> Result<Invoice, Problem> {
        let invoices = Arc::clone(&self.invoices);
        let voided = self
            .tasks
            .run(async move { invoices.void_invoice(&id).await })
            .await;
        changed(voided.map_err(|_| Problem::internal())??)
    }
}

impl Creation {
    async fn insert(
        &self,
        held_key: Option<HeldKey>,
    ) -> Result<(StoredResponse, Inserted), StorageError> {
        let now_ms = self.invoices.now_ms().await?;
        let invoice = Invoice {
            id: self.id.clone(),
            customer_id: self.request.customer_id.clone(),
            money: self.money,
            description: self.request.description.clone(),
            payment_method_id: self.request.payment_method_id.clone(),
            metadata: self.request.metadata.clone(),
            status: InvoiceStatus::Open,
            revision: 1,
            created_at_ms: now_ms,
            updated_at_ms: now_ms,
        };
        let body = serde_json::to_string(&InvoiceBody::from(&invoice))
            .map_err(|error| StorageError::Inconsistent(error.to_string()))?;
        let response = StoredResponse {
            status: 201,
            location: Some(format!("/v1/invoices/{}", self.id)),
            body,
        };
        let natural_key = self
            .request
            .id
            .as_deref()
            .map(|id| (invoice_key(id), self.fingerprint.clone()));
        let insert = InvoiceInsert {
            invoice,
            response,
            natural_key,
            held_key,
        };
        let inserted = self.invoices.insert_invoice(&insert).await?;
        Ok((insert.response, inserted))
    }

    async fn without_key(&self) -> Result<Answered, Problem> {
        let (response, inserted) = self.insert(None).await?;
        match inserted {
            Inserted::Yes => Ok(Answered {
                response,
                replayed: false,
            }),
            Inserted::Exists(first) => match self.same_as(&first) {
                Some(response) => Ok(Answered {
                    response,
                    replayed: true,
                }),
                None => Err(exists()),
            },
            Inserted::IdTaken => Err(exists()),
            Inserted::LeaseLost => Err(Problem::internal()),
        }
    }

    /// The first answer, when the invoice that is there was created with the same content.
    fn same_as(&self, first: &Reservation) -> Option<StoredResponse> {
        match &first.state {
            ReservationState::Done(response) if first.fingerprint == self.fingerprint => {
                Some(response.clone())
            }
            ReservationState::Done(_)
            | ReservationState::Failed(_)
            | ReservationState::InProgress => None,
        }
    }
}

#[async_trait]
impl KeyedAction for Creation {
    async fn act(&self, held: &HeldKey) -> Result<Acted, StorageError> {
        let (response, inserted) = self.insert(Some(held.clone())).await?;
        Ok(match inserted {
            Inserted::Yes => Acted::Settled(response),
            Inserted::LeaseLost => Acted::LeaseLost,
            Inserted::Exists(first) => match self.same_as(&first) {
                Some(response) => Acted::DoneBefore(response),
                None => refused(),
            },
            Inserted::IdTaken => refused(),
        })
    }
}

/// The refusal, to be kept under the header's key.
fn refused() -> Acted {
    let problem = exists();
    Acted::Ended(Ending::Failed(StoredResponse {
        status: problem.code().status(),
        location: None,
        body: problem.to_body(),
    }))
}

fn exists() -> Problem {
    Problem::new(
        Code::InvoiceExists,
        "An invoice with this id exists and has other content, and nothing was changed. Use another id, or read the invoice that is there.",
    )
    .field("id")
}

fn not_found() -> Problem {
    Problem::new(
        Code::InvoiceNotFound,
        "There is no invoice with this id. Check the id.",
    )
    .field("id")
}

fn changed(outcome: Changed) -> Result<Invoice, Problem> {
    match outcome {
        Changed::Yes(invoice) => Ok(invoice),
        Changed::NotFound => Err(not_found()),
        Changed::Refused { charge_running: true, .. } => Err(Problem::new(
            Code::ChargeInProgress,
            "A charge of this invoice has no outcome yet, so the invoice cannot be changed now. Try again when the charge has ended.",
        )
        .later(CustomerCharged::Unknown, 2)),
        Changed::Refused { status: InvoiceStatus::Paid, .. } => {
            Err(Problem::new(Code::InvoiceNotChangeable, "This invoice is paid and does not change any more.")
                .never(CustomerCharged::Yes))
        }
        Changed::Refused { status: InvoiceStatus::Open | InvoiceStatus::Void, .. } => {
            Err(Problem::new(Code::InvoiceNotChangeable, "This invoice is void and does not change any more.")
                .never(CustomerCharged::No))
        }
    }
}
