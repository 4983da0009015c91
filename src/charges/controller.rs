//! Charges over HTTP: parse, call, render.

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};

use super::answer;
use super::dto::{
    ChargeBody, ChargeList, ChargeRequest, EvidenceBody, EvidenceList, ListCharges, ResolveRequest,
    ResolvedOutcome,
};
use super::model::ChargeStatus;
use super::repository::ChargeFilter;
use super::review::{NOTE_LENGTH_MAX, OperatorVerdict};
use super::service::{ChargeAnswer, ChargesService};
use super::status::StatusBody;
use crate::access::caller::Caller;
use crate::error::{Code, Problem};
use crate::http::json::Json;
use crate::http::query::{Query, bad_cursor, cut_page, decode_cursor, invalid, page_limit};
use crate::http::{headers, respond, text};
use crate::idempotency::running::Wait;
use crate::openapi::examples;
use crate::openapi::problems::{CALL, JSON_BODY, PATH_WITH_ID, STORE, refusals};
use crate::openapi::schemas::{
    ChargeId, IdempotencyKey, InvoiceId, Replayed, Seconds, SessionName,
};
use crate::router::{Routes, resource};
use crate::telemetry::spans;

/// Mounts the routes.
pub fn configure(routes: &mut Routes) {
    routes
        .service(
            resource("/v1/charges", "GET, POST")
                .get_with_query(list)
                .post(charge),
        )
        .service(resource("/v1/charges/{id}", "GET").get(show))
        .service(resource("/v1/charges/{id}/evidence", "GET").get(evidence))
        .service(resource("/v1/charges/{id}/resolve", "POST").post(resolve))
        .service(resource("/v1/invoices/{id}/charge-status", "GET").get(status));
}

refusals! {
    /// Of charging an invoice.
    ChargeRefusals = [CALL, JSON_BODY, STORE], [
        InvalidIdempotencyKey, InvoiceNotFound, InvoiceNotChargeable, ChargeInProgress, ChargeNeedsReview, ChargeDeclined,
        ChargeRefused, ChargeCanceled, ChargeNeverExecuted, RetryNotAdvised, AttemptsExhausted, NoPaymentMethod,
        ProviderUnavailable, LimitExceeded, Forbidden, HostNotAllowed
    ];
    /// Of reading a charge or its history.
    ShowRefusals = [CALL, PATH_WITH_ID, STORE], [ChargeNotFound];
    /// Of asking what is true of an invoice's charge.
    StatusRefusals = [CALL, PATH_WITH_ID, STORE], [InvoiceNotFound];
    /// Of listing charges.
    ListRefusals = [CALL, STORE], [];
    /// Of deciding about a charge.
    ResolveRefusals = [CALL, JSON_BODY, PATH_WITH_ID, STORE], [ChargeNotFound, ChargeNotInReview, ResolutionContradicted, ProviderUnavailable];
}

#[utoipa::path(
    post, path = "/v1/charges", operation_id = "chargeInvoice", tag = "charges",
    summary = "Charge an invoice, exactly once",
    description = "Names the invoice and nothing else: amount, currency and customer are the invoice's. Call it as often as you like, it is charged once. To retry, send the same call again.",
    params(
        ("Idempotency-Key" = Option<IdempotencyKey>, Header, description = "May be there and decides nothing: the invoice is the key."),
        ("X-Agent-Session" = Option<SessionName>, Header, description = "The caller's own name for its session, kept with the attempt."),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait up to N seconds for a charge that runs already. A preference that cannot be read is ignored.", example = "wait=10"),
    ),
    request_body(content = ChargeRequest, example = examples::charge_request),
    responses(
        (status = 201, description = "The customer has been charged, now or by an earlier call.", body = ChargeBody,
            headers(
                ("Location" = String, description = "The charge's path."),
                ("Idempotent-Replayed" = Replayed, description = "There when this answer was given before."),
                ("Preference-Applied" = String, description = "The wait that was asked for was understood."),
            ),
            example = examples::charge,
        ),
        (status = 202, description = "The charge runs, and its outcome is not known yet. Send the same call again after `Retry-After`.",
            body = ChargeBody,
            headers(
                ("Retry-After" = Seconds, description = "Seconds to wait."),
                ("Preference-Applied" = String, description = "The wait that was asked for was understood."),
            ),
            example = examples::undecided_charge,
        ),
        ChargeRefusals,
    )
)]
pub(crate) async fn charge(
    caller: Caller,
    request: HttpRequest,
    service: Data<ChargesService>,
    body: Result<Json<ChargeRequest>, Problem>,
) -> Result<HttpResponse, Problem> {
    // The natural key wins over any header key; one that is there must still be well formed.
    headers::idempotency_key(&request)?;
    let invoice_id = body?.0.invoice_id;
    text::invoice_id("invoiceId", &invoice_id)?;
    let preferred = headers::preferred_wait(&request);
    let wait = Wait { preferred };
    spans::charges(&invoice_id);
    let answer = service.charge_invoice(invoice_id, wait, &caller).await;
    let mut response = render(answer?, &service)?;
    if let Some(wait) =
        preferred.and_then(|wait| HeaderValue::from_str(&format!("wait={}", wait.as_secs())).ok())
    {
        response
            .headers_mut()
            .insert(HeaderName::from_static("preference-applied"), wait);
    }
    Ok(response)
}

fn render(answer: ChargeAnswer, service: &ChargesService) -> Result<HttpResponse, Problem> {
    match answer {
        ChargeAnswer::Stored {
            response,
            replayed,
            retry_after_seconds,
        } => Ok(respond::stored(response, replayed, retry_after_seconds)),
        ChargeAnswer::Undecided {
            charge,
            retry_after_seconds,
        } => {
            let body = ChargeBody::new(&charge, service.policy()).retry_after(retry_after_seconds);
            let mut response = respond::json(StatusCode::ACCEPTED, &body)?;
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(retry_after_seconds));
            Ok(response)
        }
    }
}

#[utoipa::path(
    get, path = "/v1/charges/{id}", operation_id = "getCharge", tag = "charges",
    summary = "Read a charge",
    params(("id" = ChargeId, Path, description = "The charge.")),
    responses(
        (status = 200, description = "The charge.", body = ChargeBody, example = examples::seen_charge),
        ShowRefusals,
    )
)]
pub(crate) async fn show(
    caller: Caller,
    service: Data<ChargesService>,
    path: Path<String>,
) -> Result<HttpResponse, Problem> {
    let charge = service.find(known(path)?).await?;
    let body = ChargeBody::new(&charge, service.policy()).seen_by(&caller, &charge);
    respond::json(StatusCode::OK, &body)
}

#[utoipa::path(
    get, path = "/v1/charges/{id}/evidence", operation_id = "getChargeEvidence", tag = "charges",
    summary = "Read the history of a charge",
    description = "For whoever has to judge it, oldest first. A charge that went straight to its verdict has none.",
    params(("id" = ChargeId, Path, description = "The charge.")),
    responses(
        (status = 200, description = "The history.", body = EvidenceList, example = examples::evidence),
        ShowRefusals,
    )
)]
pub(crate) async fn evidence(
    service: Data<ChargesService>,
    path: Path<String>,
) -> Result<HttpResponse, Problem> {
    let lines = service.evidence(known(path)?).await?;
    let data = lines.into_iter().map(EvidenceBody::from).collect();
    respond::json(StatusCode::OK, &EvidenceList { data })
}

#[utoipa::path(
    get, path = "/v1/invoices/{id}/charge-status", operation_id = "getChargeStatus", tag = "charges",
    summary = "What is true of an invoice's charge now",
    description = "Charges nothing: was the customer charged, should a call be repeated, and every attempt so far.",
    params(("id" = InvoiceId, Path, description = "The invoice.")),
    responses(
        (status = 200, description = "What is true now.", body = StatusBody, example = examples::charge_status),
        StatusRefusals,
    )
)]
pub(crate) async fn status(
    service: Data<ChargesService>,
    path: Path<String>,
) -> Result<HttpResponse, Problem> {
    let id = path.into_inner();
    if !text::is_invoice_id(&id) {
        return Err(answer::invoice_not_found());
    }
    respond::json(StatusCode::OK, &service.status(id).await?)
}

#[utoipa::path(
    get, path = "/v1/charges", operation_id = "listCharges", tag = "charges",
    summary = "List charges: every attempt, newest first",
    params(ListCharges),
    responses(
        (status = 200, description = "A page.", body = ChargeList, example = examples::charges),
        ListRefusals,
    )
)]
pub(crate) async fn list(
    caller: Caller,
    service: Data<ChargesService>,
    query: Query<ListCharges>,
) -> Result<HttpResponse, Problem> {
    let query = query.0;
    if query
        .invoice_id
        .as_deref()
        .is_some_and(|id| !text::is_invoice_id(id))
    {
        return Err(invalid(
            "invoiceId",
            "invoiceId must be the id of an invoice.",
        ));
    }
    if query
        .status
        .as_deref()
        .is_some_and(|word| !ChargeStatus::WORDS.contains(&word))
    {
        let words = ChargeStatus::WORDS.join(", ");
        return Err(invalid(
            "status",
            &format!("status must be one of {words}."),
        ));
    }
    let after = query.cursor.as_deref().map(decode_cursor).transpose()?;
    if after.as_deref().is_some_and(|id| !text::is_provider_id(id)) {
        return Err(bad_cursor());
    }
    let limit = page_limit(query.limit.as_deref())?;
    let filter = ChargeFilter {
        invoice_id: query.invoice_id,
        status: query.status,
        after,
        limit: limit + 1,
    };
    let mut charges = service.list(filter).await?;
    let next_cursor = cut_page(&mut charges, limit, |last| last.id.clone());
    let data = charges
        .iter()
        .map(|charge| ChargeBody::new(charge, service.policy()).seen_by(&caller, charge))
        .collect();
    respond::json(StatusCode::OK, &ChargeList { data, next_cursor })
}

#[utoipa::path(
    post, path = "/v1/charges/{id}/resolve", operation_id = "resolveCharge", tag = "charges",
    summary = "End a charge that needs review",
    description = "For operators. The provider is asked first; a verdict that contradicts it is refused unless `force` is true. A success needs a `providerPaymentId`, a failure has none.",
    params(("id" = ChargeId, Path, description = "The charge.")),
    request_body(content = ResolveRequest, example = examples::resolve_request),
    responses(
        (status = 200, description = "The charge with its verdict.", body = ChargeBody, example = examples::charge),
        ResolveRefusals,
    )
)]
pub(crate) async fn resolve(
    service: Data<ChargesService>,
    path: Path<String>,
    body: Result<Json<ResolveRequest>, Problem>,
) -> Result<HttpResponse, Problem> {
    let request = body?.0;
    text::free_text("note", &request.note, 1, NOTE_LENGTH_MAX)?;
    if let Some(id) = &request.provider_payment_id {
        text::provider_id("providerPaymentId", id)?;
    }
    let paid_by = match (request.outcome, request.provider_payment_id) {
        (ResolvedOutcome::Succeeded, Some(id)) => Some(id),
        (ResolvedOutcome::Failed, None) => None,
        (ResolvedOutcome::Succeeded, None) => {
            return Err(proof(
                "A success needs the providerPaymentId of the payment that took the money.",
            ));
        }
        (ResolvedOutcome::Failed, Some(_)) => {
            return Err(proof(
                "A failure has no providerPaymentId, because no payment took the money.",
            ));
        }
    };
    let verdict = OperatorVerdict {
        paid_by,
        note: request.note,
        even_against_provider: request.force,
    };
    let charge = service.resolve(known(path)?, verdict).await?;
    respond::json(StatusCode::OK, &ChargeBody::new(&charge, service.policy()))
}

fn proof(detail: &str) -> Problem {
    Problem::new(Code::InvalidRequest, detail).field("providerPaymentId")
}

/// An id that could be one of ours; any other names no charge.
fn known(path: Path<String>) -> Result<String, Problem> {
    let id = path.into_inner();
    if text::is_provider_id(&id) {
        return Ok(id);
    }
    Err(answer::charge_not_found())
}
