//! Answers.

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;

use crate::error::{PROBLEM_JSON, Problem};
use crate::idempotency::reservation::StoredResponse;

/// Marks an answer that was given before; the body and status are those of the first time.
pub const REPLAYED: &str = "Idempotent-Replayed";

/// Answers at these paths say what is known of the money that was to be given back.
const REFUNDS: &str = "/v1/refunds";

/// The answer of a middleware that lets a request in no further.
pub fn refuse(request: ServiceRequest, problem: Problem) -> ServiceResponse<BoxBody> {
    let problem = match request.path().starts_with(REFUNDS) {
        true => problem.of_refunds(),
        false => problem,
    };
    request.into_response(problem.error_response())
}

/// A stored answer, byte for byte.
pub fn stored(
    response: StoredResponse,
    replayed: bool,
    retry_after_seconds: Option<i64>,
) -> HttpResponse {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut builder = HttpResponse::build(status);
    let is_problem = status.is_client_error() || status.is_server_error();
    builder.insert_header((
        CONTENT_TYPE,
        if is_problem {
            PROBLEM_JSON
        } else {
            "application/json"
        },
    ));
    if let Some(location) = response.location {
        builder.insert_header((LOCATION, location));
    }
    if replayed {
        builder.insert_header((REPLAYED, "true"));
    }
    if let Some(seconds) = retry_after_seconds {
        builder.insert_header((RETRY_AFTER, seconds.to_string()));
    }
    builder.body(response.body)
}

/// A fresh JSON answer.
pub fn json<T: Serialize>(status: StatusCode, body: &T) -> Result<HttpResponse, Problem> {
    let text = serde_json::to_string(body).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        Problem::internal()
    })?;
    Ok(HttpResponse::build(status)
        .content_type("application/json")
        .body(text))
}
