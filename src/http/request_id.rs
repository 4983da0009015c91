//! One span and one line for each request, under an id that the caller may give and always gets back.

use std::time::Instant;

use actix_web::HttpMessage;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use tracing::Instrument;
use uuid::Uuid;

/// Names a request in answers and logs.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken over from a caller.
const LENGTH_MAX: usize = 128;

/// The request's id, in its extensions.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// The middleware. Neither query strings nor bodies nor any header but the id reach the log.
pub async fn trace_request(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let id = accepted(request.headers().get(&REQUEST_ID)).unwrap_or_else(new_id);
    let route = request
        .match_pattern()
        .unwrap_or_else(|| "unmatched".into());
    // The name of the API key is filled in at the door.
    let span = tracing::info_span!(
        "request", request.id = %id, http.method = %request.method(), http.route = %route, access.key = tracing::field::Empty
    );
    request.extensions_mut().insert(RequestId(id.clone()));
    let began = Instant::now();
    let mut response = next.call(request).instrument(span.clone()).await?;
    let elapsed_ms = began.elapsed().as_millis();
    span.in_scope(|| {
        tracing::info!(
            http.status = response.status().as_u16(),
            elapsed_ms,
            "answered"
        )
    });
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    // Answers are about one moment and one customer.
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn accepted(header: Option<&HeaderValue>) -> Option<String> {
    let text = header?.to_str().ok()?;
    let is_fit =
        (1..=LENGTH_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_fit.then(|| text.to_owned())
}

fn new_id() -> String {
    format!("req_{}", Uuid::now_v7().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_id_is_taken_over_only_when_it_is_fit_for_a_log() {
        let id = |text: &str| accepted(HeaderValue::from_bytes(text.as_bytes()).ok().as_ref());
        assert_eq!(id("req-7"), Some("req-7".into()));
        assert_eq!(id(&"a".repeat(128)), Some("a".repeat(128)));
        assert_eq!(id(""), None);
        assert_eq!(id(&"a".repeat(129)), None);
        assert_eq!(id("a b"), None);
        assert_eq!(id("a\tb"), None);
        assert_eq!(accepted(None), None);
    }
}
