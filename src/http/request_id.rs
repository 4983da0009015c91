//! One span and one line for each request, under an id that the caller may give and always gets back, and in the trace that the
//! caller names.

use std::time::Instant;

use actix_web::HttpMessage;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use tracing::Instrument;
use uuid::Uuid;

use crate::telemetry::caller_trace::CallerTrace;
use crate::telemetry::spans;

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
        spans::REQUEST, request.id = %id, http.method = %request.method(), http.route = %route,
        access.key = tracing::field::Empty, trace.id = tracing::field::Empty
    );
    spans::join(&span, callers_trace(request.headers()).as_ref());
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
    spans::answered(&span, response.status().as_u16());
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

/// Two parents are none: nobody can say which is meant.
fn callers_trace(headers: &HeaderMap) -> Option<CallerTrace> {
    let mut parents = headers.get_all("traceparent");
    let (Some(parent), None) = (parents.next(), parents.next()) else {
        return None;
    };
    let states = headers.get_all("tracestate").map(HeaderValue::to_str);
    let states: Vec<&str> = states.collect::<Result<_, _>>().unwrap_or_default();
    CallerTrace::read(parent.to_str().ok()?, &states.join(","))
}

fn new_id() -> String {
    format!("req_{}", Uuid::now_v7().simple())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderMap, HeaderName};

    use super::*;

    #[test]
    fn a_trace_has_one_parent_and_any_number_of_states() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            });
            callers_trace(&headers.collect::<HeaderMap>()).map(|trace| trace.state)
        };
        let states = [("tracestate", "a=1,b=2"), ("tracestate", "c=3")];
        assert_eq!(read(&[("traceparent", parent)]), Some(String::new()));
        assert_eq!(
            read(&[&[("traceparent", parent)], &states[..]].concat()),
            Some("a=1,b=2,c=3".into())
        );
        assert_eq!(
            read(&[("traceparent", parent), ("traceparent", parent)]),
            None
        );
        assert_eq!(read(&states), None);
    }

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
