//! The way to Stripe: one HTTP call in, one result out. No retries, no reading of bodies.
//!
//! A result says three things apart: an answer came; nothing left; something may have left. Doubt is
//! [`TransportResult::Lost`], never [`TransportResult::NotSent`].

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

/// Carries one call to Stripe, or to what stands in for it.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Makes exactly one call and waits no longer than `timeout` for the whole of its answer.
    async fn call(&self, call: HttpCall<'_>, timeout: Duration) -> TransportResult;
}

/// The methods that we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads; safe to repeat.
    Get,
    /// Acts; carries an idempotency key always.
    Post,
}

impl Method {
    /// The method as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HttpCall<'a> {
    /// The method.
    pub method: Method,
    /// Path and query, already encoded, beginning with `/`.
    pub path_and_query: &'a str,
    /// The `Idempotency-Key` header, complete with its prefix.
    pub idempotency_key: Option<&'a str>,
    /// The form-encoded body.
    pub body: Option<&'a str>,
}

impl<'a> HttpCall<'a> {
    /// A read.
    pub fn get(path_and_query: &'a str) -> Self {
        Self {
            method: Method::Get,
            path_and_query,
            idempotency_key: None,
            body: None,
        }
    }

    /// An action. There is no way to make one without a key.
    pub fn post(path: &'a str, idempotency_key: &'a str, body: &'a str) -> Self {
        Self {
            method: Method::Post,
            path_and_query: path,
            idempotency_key: Some(idempotency_key),
            body: Some(body),
        }
    }

    /// The path without its query, for the log.
    pub fn path(&self) -> &'a str {
        let path_and_query = self.path_and_query;
        match path_and_query.split_once('?') {
            Some((path, _query)) => path,
            None => path_and_query,
        }
    }
}

/// Bodies and queries stay out of logs.
impl fmt::Debug for HttpCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpCall")
            .field("method", &self.method)
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

/// What became of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportResult {
    /// A complete answer, whatever its status.
    Answer(HttpAnswer),
    /// Name resolution, connect or TLS failed: not one byte of the request left.
    NotSent(String),
    /// Bytes may have left, and no complete answer came back.
    Lost(Lost),
}

/// A complete answer.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers that mean something to us.
    pub headers: AnswerHeaders,
    /// The body, complete and bounded.
    pub body: Vec<u8>,
}

/// Bodies stay out of logs.
impl fmt::Debug for HttpAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpAnswer")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// An answer that did not arrive, or not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// A short text for the log; no secrets, no bodies.
    pub reason: String,
    /// Status and headers, when the head arrived and only the body was cut, too large or too slow.
    pub head: Option<(u16, AnswerHeaders)>,
}

impl Lost {
    /// Nothing came back.
    pub fn without_head(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            head: None,
        }
    }
}

/// The response headers that mean something (Stripe docs, Low-level error handling; Idempotent requests; Rate limits).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerHeaders {
    /// `Request-Id`: what Stripe's support asks for.
    pub request_id: Option<String>,
    /// `Idempotent-Replayed: true`: a stored answer, a snapshot of the first moment.
    pub replayed: bool,
    /// `Stripe-Should-Retry`: Stripe's own word on a repeat; absent when it cannot tell.
    pub should_retry: Option<bool>,
    /// `Retry-After` in seconds. Stripe does not document it; gateways send it.
    pub retry_after: Option<Duration>,
    /// `Stripe-Rate-Limited-Reason`: which limit was hit.
    pub rate_limited_reason: Option<String>,
}

impl AnswerHeaders {
    /// Picks the known headers out of name and value pairs; names in any case, values that cannot be read left out.
    pub fn from_pairs<'h>(pairs: impl IntoIterator<Item = (&'h str, &'h str)>) -> Self {
        let mut headers = Self::default();
        for (name, value) in pairs {
            let value = value.trim();
            if name.eq_ignore_ascii_case("request-id") {
                headers.request_id = Some(short(value));
            } else if name.eq_ignore_ascii_case("idempotent-replayed") {
                headers.replayed = value.eq_ignore_ascii_case("true");
            } else if name.eq_ignore_ascii_case("stripe-should-retry") {
                headers.should_retry = value.to_ascii_lowercase().parse().ok();
            } else if name.eq_ignore_ascii_case("retry-after") {
                headers.retry_after = value.parse().ok().map(Duration::from_secs);
            } else if name.eq_ignore_ascii_case("stripe-rate-limited-reason") {
                headers.rate_limited_reason = Some(short(value));
            }
        }
        headers
    }
}

/// Header values go into logs: bounded, without control characters.
fn short(value: &str) -> String {
    value
        .chars()
        .filter(|c| !c.is_control())
        .take(100)
        .collect()
}

impl TransportResult {
    /// The HTTP status, when at least the head of an answer arrived.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Answer(answer) => Some(answer.status),
            Self::Lost(lost) => lost.head.as_ref().map(|(status, _)| *status),
            Self::NotSent(_) => None,
        }
    }

    /// The headers, when at least the head of an answer arrived.
    pub fn headers(&self) -> Option<&AnswerHeaders> {
        match self {
            Self::Answer(answer) => Some(&answer.headers),
            Self::Lost(lost) => lost.head.as_ref().map(|(_, headers)| headers),
            Self::NotSent(_) => None,
        }
    }

    /// A short text for the log and for errors; no secrets, no bodies.
    pub fn summary(&self) -> String {
        match self {
            Self::Answer(answer) => format!("status {}", answer.status),
            Self::NotSent(reason) => format!("not sent: {reason}"),
            Self::Lost(lost) => match &lost.head {
                Some((status, _)) => format!("status {status}, then {}", lost.reason),
                None => lost.reason.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_headers_are_read_in_any_case_and_bad_values_are_left_out() {
        let headers = AnswerHeaders::from_pairs([
            ("Request-Id", "req_1"),
            ("IDEMPOTENT-REPLAYED", "true"),
            ("Stripe-Should-Retry", "false"),
            ("retry-after", "7"),
            ("stripe-rate-limited-reason", "global-rate"),
            ("content-type", "application/json"),
        ]);
        assert_eq!(headers.request_id.as_deref(), Some("req_1"));
        assert!(headers.replayed);
        assert_eq!(headers.should_retry, Some(false));
        assert_eq!(headers.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(headers.rate_limited_reason.as_deref(), Some("global-rate"));

        let odd = AnswerHeaders::from_pairs([
            ("stripe-should-retry", "maybe"),
            ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"),
        ]);
        assert_eq!(odd, AnswerHeaders::default());
    }

    #[test]
    fn debug_output_shows_no_body_and_no_query() {
        let call = HttpCall::post("/v1/x?customer=cus_secret", "key", "body_secret");
        let answer = TransportResult::Answer(HttpAnswer {
            status: 200,
            headers: AnswerHeaders::default(),
            body: b"body_secret".to_vec(),
        });
        let text = format!("{call:?} {answer:?} {}", answer.summary());
        assert!(!text.contains("secret"), "{text}");
        assert!(!text.contains("98, 111, 100"), "{text}");
    }
}
