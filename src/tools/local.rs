//! Tools that are answered in this process, by the services that answer REST.

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use tracing::Instrument;

use super::arguments::{ListArguments, ToolCall};
use super::backend::{Backend, CallContext, ToolReply};
use crate::charges::dto::ChargeBody;
use crate::charges::service::{ChargeAnswer, ChargesService};
use crate::error::Problem;
use crate::idempotency::running::Wait;
use crate::invoices::dto::{InvoiceBody, ListInvoices};
use crate::invoices::listing;
use crate::invoices::service::InvoicesService;
use crate::tasks::holding;
use crate::telemetry::spans;

/// An agent would only ask again: a call that meets a running charge waits for it, as long as RESPONSE_WAIT allows.
const PATIENCE: Duration = Duration::MAX;

/// Over the services.
#[derive(Clone)]
pub struct LocalBackend {
    charges: ChargesService,
    invoices: InvoicesService,
}

impl LocalBackend {
    /// Over these services.
    pub fn new(charges: ChargesService, invoices: InvoicesService) -> Self {
        Self { charges, invoices }
    }

    /// The one place where a tool charges.
    async fn charge(
        &self,
        invoice_id: String,
        context: &CallContext,
    ) -> Result<ToolReply, Problem> {
        // Nobody charges here without having come through the door.
        let caller = context.caller.as_ref().ok_or_else(|| {
            tracing::error!("a tool was called by nobody");
            Problem::internal()
        })?;
        let wait = Wait {
            preferred: Some(PATIENCE),
        };
        spans::charges(&invoice_id);
        match self
            .charges
            .charge_invoice(invoice_id, wait, caller)
            .await?
        {
            ChargeAnswer::Stored {
                response,
                replayed,
                retry_after_seconds,
            } => Ok(ToolReply::parse(response.status, &response.body)
                .replayed(replayed, retry_after_seconds)),
            ChargeAnswer::Undecided {
                charge,
                retry_after_seconds,
            } => {
                let body = ChargeBody::new(&charge, self.charges.policy())
                    .retry_after(retry_after_seconds);
                reply(202, &body)
            }
        }
    }

    async fn list(&self, arguments: ListArguments) -> Result<ToolReply, Problem> {
        let query = ListInvoices {
            status: Some("open".into()),
            customer_id: arguments.customer_id,
            limit: arguments.limit.map(|limit| limit.to_string()),
            cursor: arguments.cursor,
        };
        reply(200, &listing::page(&self.invoices, query).await?)
    }

    async fn call(&self, call: ToolCall, context: &CallContext) -> Result<ToolReply, Problem> {
        match call {
            ToolCall::ChargeCustomer { invoice_id } => self.charge(invoice_id, context).await,
            ToolCall::GetInvoice { invoice_id } => {
                let invoice = self.invoices.find(invoice_id).await?;
                reply(200, &InvoiceBody::from(&invoice))
            }
            ToolCall::ListOpenInvoices(arguments) => self.list(arguments).await,
            ToolCall::GetChargeStatus { invoice_id } => {
                reply(200, &self.charges.status(invoice_id).await?)
            }
        }
    }
}

#[async_trait]
impl Backend for LocalBackend {
    async fn answer(&self, call: ToolCall, context: CallContext) -> ToolReply {
        let span = context.span.clone();
        let answering = holding(context.place.clone(), self.call(call, &context));
        let answered = answering.instrument(span).await;
        answered.unwrap_or_else(ToolReply::from)
    }
}

fn reply<T: Serialize>(status: u16, body: &T) -> Result<ToolReply, Problem> {
    match serde_json::to_value(body) {
        Ok(body) => Ok(ToolReply::new(status, body)),
        Err(error) => {
            tracing::error!(%error, "an answer could not be written");
            Err(Problem::internal())
        }
    }
}
