//! Refunds over HTTP: parse, call, render.

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};

use super::answer;
use super::dto::{ListRefunds, RefundBody, RefundList, RefundRequest, ResolveRefundRequest};
use super::model::RefundStatus;
use super::repository::RefundFilter;
use super::review::RefundVerdict;
use super::service::{RefundAnswer, RefundsService};
use crate::access::caller::Caller;
use crate::charges::dto::{EvidenceBody, EvidenceList, ResolvedOutcome};
use crate::charges::review::NOTE_LENGTH_MAX;
use crate::error::{Code, Problem};
use crate::http::json::Json;
use crate::http::query::{Query, bad_cursor, cut_page, decode_cursor, invalid, page_limit};
use crate::http::{headers, respond, text};
use crate::idempotency::running::Wait;
use crate::openapi::examples;
use crate::openapi::problems::{CALL, JSON_BODY, PATH_WITH_ID, STORE, refusals};
use crate::openapi::schemas::{IdempotencyKey, RefundId, Replayed, Seconds, SessionName};
use crate::router::{Routes, resource};

/// Mounts the routes.
pub fn configure(routes: &mut Routes) {
    routes
        .service(
            resource("/v1/refunds", "GET, POST")
                .get_with_query(list)
                .post(create),
        )
        .service(resource("/v1/refunds/{id}", "GET").get(show))
        .service(resource("/v1/refunds/{id}/evidence", "GET").get(evidence))
        .service(resource("/v1/refunds/{id}/resolve", "POST").post(resolve));
}

refusals! {
    /// Of giving money back.
    CreateRefusals = [CALL, JSON_BODY, STORE], [
        InvalidIdempotencyKey, IdempotencyKeyRequired, IdempotencyKeyReused, ChargeNotFound, ChargeNotRefundable,
        RefundExceedsCharge, RefundInProgress, RefundNeedsReview, RefundFailed, ProviderUnavailable
    ];
    /// Of reading a refund or its history.
    ShowRefusals = [CALL, PATH_WITH_ID, STORE], [RefundNotFound];
    /// Of listing refunds.
    ListRefusals = [CALL, STORE], [];
    /// Of deciding about a refund.
    ResolveRefusals = [CALL, JSON_BODY, PATH_WITH_ID, STORE], [RefundNotFound, RefundNotInReview, ResolutionContradicted, ProviderUnavailable];
}

#[utoipa::path(
    post, path = "/v1/refunds", operation_id = "createRefund", tag = "refunds",
    summary = "Give a charge's money back, exactly once",
    description = "Without `amountCents`: all that is left of the charge. Call it as often as you like, it is given back once; to retry, send the same call again. With `amountCents`: a part, once for each `Idempotency-Key`. All refunds of a charge together never exceed it.",
    params(
        ("Idempotency-Key" = Option<IdempotencyKey>, Header, description = "Needed with `amountCents`: one key, one refund, one answer. Without it the charge is the key, and this one decides nothing."),
        ("X-Agent-Session" = Option<SessionName>, Header, description = "The caller's own name for its session, kept with the refund."),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait up to N seconds for a refund that runs already. A preference that cannot be read is ignored.", example = "wait=10"),
    ),
    request_body(content = RefundRequest, example = examples::refund_request),
    responses(
        (status = 201, description = "The money has been given back, now or by an earlier call.", body = RefundBody,
            headers(
                ("Location" = String, description = "The refund's path."),
                ("Idempotent-Replayed" = Replayed, description = "There when this answer was given before."),
                ("Preference-Applied" = String, description = "The wait that was asked for was understood."),
            ),
            example = examples::refund,
        ),
        (status = 202, description = "The refund runs, and its outcome is not known yet. Send the same call again after `Retry-After`.",
            body = RefundBody,
            headers(
                ("Retry-After" = Seconds, description = "Seconds to wait."),
                ("Preference-Applied" = String, description = "The wait that was asked for was understood."),
            ),
            example = examples::undecided_refund,
        ),
        CreateRefusals,
    )
)]
pub(crate) async fn create(
    caller: Result<Caller, Problem>,
    request: HttpRequest,
    service: Data<RefundsService>,
    body: Result<Json<RefundRequest>, Problem>,
) -> Result<HttpResponse, Problem> {
    let created = give_back(caller, &request, &service, body).await;
    created.map_err(Problem::of_refunds)
}

async fn give_back(
    caller: Result<Caller, Problem>,
    request: &HttpRequest,
    service: &RefundsService,
    body: Result<Json<RefundRequest>, Problem>,
) -> Result<HttpResponse, Problem> {
    let caller = caller?;
    let key = headers::idempotency_key(request)?;
    let body = body?.0;
    text::provider_id("chargeId", &body.charge_id)?;
    if body.amount_cents.is_some_and(|amount| amount < 1) {
        return Err(Problem::new(
            Code::InvalidRequest,
            "amountCents must be a whole number above zero. Leave it out to give back all that is left.",
        )
        .field("amountCents"));
    }
    let preferred = headers::preferred_wait(request);
    let wait = Wait { preferred };
    let answer = service.refund(body, key.as_ref(), wait, &caller).await;
    let mut response = render(answer?)?;
    if let Some(wait) =
        preferred.and_then(|wait| HeaderValue::from_str(&format!("wait={}", wait.as_secs())).ok())
    {
        response
            .headers_mut()
            .insert(HeaderName::from_static("preference-applied"), wait);
    }
    Ok(response)
}

fn render(answer: RefundAnswer) -> Result<HttpResponse, Problem> {
    match answer {
        RefundAnswer::Stored { response, replayed } => {
            Ok(respond::stored(response, replayed, None))
        }
        RefundAnswer::Undecided {
            refund,
            retry_after_seconds,
        } => {
            let body = RefundBody::new(&refund).retry_after(retry_after_seconds);
            let mut response = respond::json(StatusCode::ACCEPTED, &body)?;
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(retry_after_seconds));
            Ok(response)
        }
    }
}

#[utoipa::path(
    get, path = "/v1/refunds/{id}", operation_id = "getRefund", tag = "refunds",
    summary = "Read a refund",
    params(("id" = RefundId, Path, description = "The refund.")),
    responses(
        (status = 200, description = "The refund.", body = RefundBody, example = examples::seen_refund),
        ShowRefusals,
    )
)]
pub(crate) async fn show(
    service: Data<RefundsService>,
    path: Path<String>,
) -> Result<HttpResponse, Problem> {
    let read = async { service.find(known(path)?).await };
    let refund = read.await.map_err(Problem::of_refunds)?;
    respond::json(StatusCode::OK, &RefundBody::with_asker(&refund))
}

#[utoipa::path(
    get, path = "/v1/refunds/{id}/evidence", operation_id = "getRefundEvidence", tag = "refunds",
    summary = "Read the history of a refund",
    description = "For whoever has to judge it, oldest first. A refund that went straight to its verdict has none.",
    params(("id" = RefundId, Path, description = "The refund.")),
    responses(
        (status = 200, description = "The history.", body = EvidenceList, example = examples::evidence),
        ShowRefusals,
    )
)]
pub(crate) async fn evidence(
    service: Data<RefundsService>,
    path: Path<String>,
) -> Result<HttpResponse, Problem> {
    let read = async { service.evidence(known(path)?).await };
    let lines = read.await.map_err(Problem::of_refunds)?;
    let data = lines.into_iter().map(EvidenceBody::from).collect();
    respond::json(StatusCode::OK, &EvidenceList { data })
}

#[utoipa::path(
    get, path = "/v1/refunds", operation_id = "listRefunds", tag = "refunds",
    summary = "List refunds: every attempt, newest first",
    params(ListRefunds),
    responses(
        (status = 200, description = "A page.", body = RefundList, example = examples::refunds),
        ListRefusals,
    )
)]
pub(crate) async fn list(
    service: Data<RefundsService>,
    query: Query<ListRefunds>,
) -> Result<HttpResponse, Problem> {
    let listed = page(&service, query.0).await.map_err(Problem::of_refunds)?;
    respond::json(StatusCode::OK, &listed)
}

async fn page(service: &RefundsService, query: ListRefunds) -> Result<RefundList, Problem> {
    let is_id = |id: &Option<String>| id.as_deref().is_none_or(text::is_provider_id);
    if !is_id(&query.charge_id) {
        return Err(invalid("chargeId", "chargeId must be the id of a charge."));
    }
    let words = RefundStatus::WORDS;
    if query
        .status
        .as_deref()
        .is_some_and(|word| !words.contains(&word))
    {
        let words = words.join(", ");
        return Err(invalid(
            "status",
            &format!("status must be one of {words}."),
        ));
    }
    let after = query.cursor.as_deref().map(decode_cursor).transpose()?;
    if !is_id(&after) {
        return Err(bad_cursor());
    }
    let limit = page_limit(query.limit.as_deref())?;
    let filter = RefundFilter {
        charge_id: query.charge_id,
        status: query.status,
        after,
        limit: limit + 1,
    };
    let mut refunds = service.list(filter).await?;
    let next_cursor = cut_page(&mut refunds, limit, |last| last.id.clone());
    let data = refunds.iter().map(RefundBody::with_asker).collect();
    Ok(RefundList { data, next_cursor })
}

#[utoipa::path(
    post, path = "/v1/refunds/{id}/resolve", operation_id = "resolveRefund", tag = "refunds",
    summary = "End a refund that needs review",
    description = "For operators. The provider is asked first; a verdict that contradicts it is refused unless `force` is true. A success needs a `providerRefundId`, a failure has none.",
    params(("id" = RefundId, Path, description = "The refund.")),
    request_body(content = ResolveRefundRequest, example = examples::resolve_refund),
    responses(
        (status = 200, description = "The refund with its verdict.", body = RefundBody, example = examples::refund),
        ResolveRefusals,
    )
)]
pub(crate) async fn resolve(
    service: Data<RefundsService>,
    path: Path<String>,
    body: Result<Json<ResolveRefundRequest>, Problem>,
) -> Result<HttpResponse, Problem> {
    let decide = async {
        let verdict = verdict(body?.0)?;
        service.resolve(known(path)?, verdict).await
    };
    let refund = decide.await.map_err(Problem::of_refunds)?;
    respond::json(StatusCode::OK, &RefundBody::new(&refund))
}

fn verdict(request: ResolveRefundRequest) -> Result<RefundVerdict, Problem> {
    text::free_text("note", &request.note, 1, NOTE_LENGTH_MAX)?;
    if let Some(id) = &request.provider_refund_id {
        text::provider_id("providerRefundId", id)?;
    }
    let proof =
        |detail: &str| Err(Problem::new(Code::InvalidRequest, detail).field("providerRefundId"));
    let given_by = match (request.outcome, request.provider_refund_id) {
        (ResolvedOutcome::Succeeded, Some(id)) => Some(id),
        (ResolvedOutcome::Failed, None) => None,
        (ResolvedOutcome::Succeeded, None) => {
            return proof(
                "A success needs the providerRefundId of the refund that gave the money back.",
            );
        }
        (ResolvedOutcome::Failed, Some(_)) => {
            return proof("A failure has no providerRefundId, because nothing was given back.");
        }
    };
    Ok(RefundVerdict {
        given_by,
        note: request.note,
        even_against_provider: request.force,
    })
}

/// An id that could be one of ours; any other names no refund.
fn known(path: Path<String>) -> Result<String, Problem> {
    let id = path.into_inner();
    if text::is_provider_id(&id) {
        return Ok(id);
    }
    Err(answer::refund_not_found())
}
