//! Invoices over HTTP: parse, call, render.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};

use super::dto::{ChangeInvoice, CreateInvoice, InvoiceBody, InvoiceList, ListInvoices};
use super::listing;
use super::model::Invoice;
use super::service::InvoicesService;
use crate::access::caller::Caller;
use crate::error::{Code, Problem};
use crate::http::json::Json;
use crate::http::query::Query;
use crate::http::{headers, respond, text};
use crate::openapi::examples;
use crate::openapi::problems::{CALL, JSON_BODY, PATH_WITH_ID, STORE, refusals};
use crate::openapi::schemas::{IdempotencyKey, InvoiceId, Replayed};
use crate::router::{Routes, resource};

/// Mounts the routes.
pub fn configure(routes: &mut Routes) {
    routes
        .service(
            resource("/v1/invoices", "GET, POST")
                .get_with_query(list)
                .post(create),
        )
        .service(
            resource("/v1/invoices/{id}", "GET, PATCH")
                .get(show)
                .patch(change),
        )
        .service(resource("/v1/invoices/{id}/void", "POST").post(void));
}

refusals! {
    /// Of creating an invoice.
    CreateRefusals = [CALL, JSON_BODY, STORE], [InvalidIdempotencyKey, IdempotencyKeyReused, IdempotencyKeyInUse, InvoiceExists];
    /// Of reading one.
    ShowRefusals = [CALL, PATH_WITH_ID, STORE], [InvoiceNotFound];
    /// Of changing one.
    ChangeRefusals = [CALL, JSON_BODY, PATH_WITH_ID, STORE], [InvoiceNotFound, ChargeInProgress, InvoiceNotChangeable];
    /// Of voiding one.
    VoidRefusals = [CALL, PATH_WITH_ID, STORE], [InvoiceNotFound, ChargeInProgress, InvoiceNotChangeable];
    /// Of listing them.
    ListRefusals = [CALL, STORE], [];
}

#[utoipa::path(
    post, path = "/v1/invoices", operation_id = "createInvoice", tag = "invoices",
    summary = "Create an invoice",
    description = "With an `id` of your own, or with an `Idempotency-Key`, a repetition gets the first answer again. Without both it makes a second invoice.",
    params(("Idempotency-Key" = Option<IdempotencyKey>, Header, description = "One key, one invoice, one answer.")),
    request_body(content = CreateInvoice, example = examples::create_invoice),
    responses(
        (status = 201, description = "The invoice, now or as it was created by an earlier call.", body = InvoiceBody, 
            headers(
                ("Location" = String, description = "The invoice's path."),
                ("Idempotent-Replayed" = Replayed, description = "There when this answer was given before."),
            ),
            example = examples::invoice,
        ),
        CreateRefusals,
    )
)]
pub(crate) async fn create(
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

#[utoipa::path(
    get, path = "/v1/invoices/{id}", operation_id = "getInvoice", tag = "invoices",
    summary = "Read an invoice",
    params(("id" = InvoiceId, Path, description = "The invoice.")),
    responses(
        (status = 200, description = "The invoice.", body = InvoiceBody, example = examples::invoice),
        ShowRefusals,
    )
)]
pub(crate) async fn show(
    service: Data<InvoicesService>,
    path: Path<String>,
) -> Result<HttpResponse, Problem> {
    render(&service.find(known(path)?).await?)
}

#[utoipa::path(
    patch, path = "/v1/invoices/{id}", operation_id = "changeInvoice", tag = "invoices",
    summary = "Set the payment method of an open invoice",
    params(("id" = InvoiceId, Path, description = "The invoice.")),
    request_body(content = ChangeInvoice, example = examples::change_invoice),
    responses(
        (status = 200, description = "The invoice with that payment method.", body = InvoiceBody, example = examples::changed_invoice),
        ChangeRefusals,
    )
)]
pub(crate) async fn change(
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

#[utoipa::path(
    post, path = "/v1/invoices/{id}/void", operation_id = "voidInvoice", tag = "invoices",
    summary = "Void an invoice that is not paid",
    description = "May be repeated. A void invoice is never charged.",
    params(("id" = InvoiceId, Path, description = "The invoice.")),
    responses(
        (status = 200, description = "The void invoice.", body = InvoiceBody, example = examples::void_invoice),
        VoidRefusals,
    )
)]
pub(crate) async fn void(
    service: Data<InvoicesService>,
    path: Path<String>,
) -> Result<HttpResponse, Problem> {
    render(&service.void(known(path)?).await?)
}

#[utoipa::path(
    get, path = "/v1/invoices", operation_id = "listInvoices", tag = "invoices",
    summary = "List invoices, newest first",
    params(ListInvoices),
    responses(
        (status = 200, description = "A page.", body = InvoiceList, example = examples::invoices),
        ListRefusals,
    )
)]
pub(crate) async fn list(
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
