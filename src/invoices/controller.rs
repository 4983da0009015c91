//! Invoices over HTTP: parse, call, render.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};

use super::dto::{ChangeInvoice, CreateInvoice, InvoiceBody, ListInvoices};
use super::listing;
use super::model::Invoice;
use super::service::InvoicesService;
use crate::access::caller::Caller;
use crate::error::{Code, Problem};
use crate::http::json::Json;
use crate::http::query::Query;
use crate::http::{headers, respond, text};
use crate::router::resource;

/// Mounts the routes.
pub fn configure(routes: &mut ServiceConfig) {
    routes
        .service(resource("/v1/invoices", "GET, POST").get(list).post(create))
        .service(
            resource("/v1/invoices/{id}", "GET, PATCH")
                .get(show)
                .patch(change),
        )
        .service(resource("/v1/invoices/{id}/void", "POST").post(void));
}

async fn create(
    caller: Caller,
    request: HttpRequest,
    service: Data<InvoicesService>,
    body: Result<Json<CreateInvoice>, Problem>,
) -> Result<HttpResponse, Problem> {
    let key = headers::idempotency_key(&request)?;
    let principal = caller.principal().to_owned();
    let answered = service.create(body?.0, principal, key).await?;
    Ok(respond::stored(answered.response, answered.replayed, None))
}

async fn show(service: Data<InvoicesService>, path: Path<String>) -> Result<HttpResponse, Problem> {
    render(&service.find(known(path)?).await?)
}

async fn change(
    service: Data<InvoicesService>,
    path: Path<String>,
    body: Result<Json<ChangeInvoice>, Problem>,
) -> Result<HttpResponse, Problem> {
    let method = body?.0.payment_method_id;
    if let Some(method) = &method {
        text::provider_id("paymentMethodId", method)?;
    }
    render(&service.set_payment_method(known(path)?, method).await?)
}

async fn void(service: Data<InvoicesService>, path: Path<String>) -> Result<HttpResponse, Problem> {
    render(&service.void(known(path)?).await?)
}

async fn list(
    service: Data<InvoicesService>,
    query: Query<ListInvoices>,
) -> Result<HttpResponse, Problem> {
    respond::json(StatusCode::OK, &listing::page(&service, query.0).await?)
}

/// An id that could be one of ours; any other names no invoice.
fn known(path: Path<String>) -> Result<String, Problem> {
    let id = path.into_inner();
    if text::is_invoice_id(&id) {
        return Ok(id);
    }
    Err(Problem::new(
        Code::InvoiceNotFound,
        "There is no invoice with this id. Check the id.",
    )
    .field("id"))
}

fn render(invoice: &Invoice) -> Result<HttpResponse, Problem> {
    respond::json(StatusCode::OK, &InvoiceBody::from(invoice))
}
