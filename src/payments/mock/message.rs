//! What goes into the engine and what comes out: requests and answers as plain bytes, without any HTTP library.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::fault::Fault;

/// One request as it would arrive over HTTP.
#[derive(Debug, Clone, Default)]
pub struct MockRequest {
    /// The method in capitals: `GET`, `POST` or `DELETE`.
    pub method: String,
    /// The path without the query, for example `/v1/payment_intents`.
    pub path: String,
    /// The raw query without the question mark; empty when there is none.
    pub query: String,
    /// The headers in order; names are compared without regard to case.
    pub headers: Vec<(String, String)>,
    /// The raw body, form-encoded for a POST.
    pub body: Vec<u8>,
}

impl MockRequest {
    /// A form-encoded POST with a test key and the given `Idempotency-Key`.
    pub fn post(path: &str, idempotency_key: &str, body: &str) -> Self {
        let mut request = Self::unkeyed("POST", path, body);
        request
            .headers
            .push(("Idempotency-Key".into(), idempotency_key.into()));
        request
    }

    /// A GET with a test key. A query may follow the path after a question mark.
    pub fn get(path_and_query: &str) -> Self {
        let (path, query) = path_and_query
            .split_once('?')
            .unwrap_or((path_and_query, ""));
        Self {
            query: query.into(),
            ..Self::unkeyed("GET", path, "")
        }
    }

    /// A request with a test key and no `Idempotency-Key`.
    pub fn unkeyed(method: &str, path: &str, body: &str) -> Self {
        Self {
            method: method.into(),
            path: path.into(),
            query: String::new(),
            headers: vec![("Authorization".into(), "Bearer sk_test_mock".into())],
            body: body.as_bytes().to_vec(),
        }
    }

    /// The first header of that name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }
}

/// What the caller sees of its request.
#[derive(Debug, Clone)]
pub enum MockReply {
    /// An HTTP answer.
    Answer(MockResponse),
    /// The connection is closed without an answer.
    Cut,
}

/// An HTTP answer.
#[derive(Debug, Clone)]
pub struct MockResponse {
    /// The HTTP status code.
    pub status: u16,
    /// The headers, `Request-Id` among them.
    pub headers: Vec<(String, String)>,
    /// The raw body, JSON unless a fault garbled it.
    pub body: Vec<u8>,
}

impl MockResponse {
    /// The first header of that name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }
}

/// One request that the mock has seen, in the order of arrival. Its parts are the request's own.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// As it was sent.
    pub(super) request: Arc<MockRequest>,
    /// The `Request-Id` it was given.
    pub request_id: Arc<str>,
    /// The `Idempotency-Key`; always `None` for a GET or DELETE, where Stripe ignores it.
    pub idempotency_key: Option<Arc<str>>,
    /// Whether the stored answer of an earlier request was given, and nothing was executed.
    pub replayed: bool,
    /// The fault that was applied, if any.
    pub fault: Option<Fault>,
}

impl Deref for RecordedRequest {
    type Target = MockRequest;

    fn deref(&self) -> &MockRequest {
        &self.request
    }
}

/// As `GET /_mock/requests` shows it: the body as text, and without the value of `Authorization`.
impl Serialize for RecordedRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Shown<'a> {
            request_id: &'a str,
            method: &'a str,
            path: &'a str,
            query: &'a str,
            idempotency_key: Option<&'a str>,
            #[serde(serialize_with = "without_credentials")]
            headers: &'a [(String, String)],
            body: &'a str,
            replayed: bool,
            fault: Option<Fault>,
        }
        let Self {
            request,
            request_id,
            idempotency_key,
            replayed,
            fault,
        } = self;
        let shown = Shown {
            request_id,
            method: &request.method,
            path: &request.path,
            query: &request.query,
            idempotency_key: idempotency_key.as_deref(),
            headers: &request.headers,
            body: &String::from_utf8_lossy(&request.body),
            replayed: *replayed,
            fault: *fault,
        };
        shown.serialize(serializer)
    }
}

/// Looks a header up without regard to case, as HTTP demands.
fn find_header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

/// A recording is printed in test logs; a key that was pointed at the mock by mistake must not end up there.
fn without_credentials<S: Serializer>(
    headers: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(headers.iter().map(|(name, value)| {
        let secret = name.eq_ignore_ascii_case("authorization");
        (
            name.as_str(),
            if secret { "[redacted]" } else { value.as_str() },
        )
    }))
}
