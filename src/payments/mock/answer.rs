//! The outside of an answer: its headers, its bytes, and the API key that a request must bring.

use super::admission::Arrival;
use super::errors::ApiError;
use super::idempotency::StoredAnswer;
use super::message::{MockRequest, MockResponse};
use super::router::API_VERSION;

/// An error as it is stored and sent.
pub(super) fn stored_error(error: &ApiError, request_id: &str) -> StoredAnswer {
    StoredAnswer {
        status: error.status,
        headers: error.headers.clone(),
        body: to_bytes(&error.body(request_id)),
    }
}

/// Puts the headers of this very send around an answer.
pub(super) fn respond(arrival: &Arrival, stored: &StoredAnswer) -> MockResponse {
    let version = arrival
        .request
        .header("Stripe-Version")
        .unwrap_or(API_VERSION);
    let mut headers = vec![
        ("Content-Type".to_owned(), "application/json".to_owned()),
        ("Request-Id".to_owned(), arrival.request_id.to_string()),
        ("Stripe-Version".to_owned(), version.to_owned()),
    ];
    if let Some(key) = &arrival.key {
        headers.push(("Idempotency-Key".to_owned(), key.to_string()));
        headers.push(("Original-Request".to_owned(), arrival.original.to_string()));
    }
    let own = stored
        .headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    headers.extend(own);
    MockResponse {
        status: stored.status,
        headers,
        body: stored.body.clone(),
    }
}

/// Printed as Stripe prints it, for people who read it with curl.
pub(super) fn to_bytes(object: &serde_json::Value) -> Vec<u8> {
    // The same bytes as `{object:#}` gives, without the detour through texts.
    let mut bytes = serde_json::to_vec_pretty(object).unwrap_or_default();
    bytes.push(b'\n');
    // Answers under a key are kept.
    bytes.shrink_to_fit();
    bytes
}

/// A secret or restricted key, as a bearer token or as the user name of basic authentication (Stripe docs,
/// Authentication). Which key it is does not matter: the mock holds one account.
pub(super) fn check_api_key(request: &MockRequest) -> Result<(), ApiError> {
    use base64::Engine as _;
    let Some(header) = request.header("Authorization") else {
        return Err(ApiError::unauthorized(
            "You did not provide an API key. You need to provide your API key in the Authorization header, using \
             Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY').",
        ));
    };
    let (scheme, credentials) = header.split_once(' ').unwrap_or((header, ""));
    let api_key = if scheme.eq_ignore_ascii_case("bearer") {
        credentials.trim().to_owned()
    } else if scheme.eq_ignore_ascii_case("basic") {
        let decoded = base64::engine::general_purpose::STANDARD
            .decode(credentials.trim())
            .unwrap_or_default();
        let decoded = String::from_utf8(decoded).unwrap_or_default();
        decoded.split(':').next().unwrap_or_default().to_owned()
    } else {
        String::new()
    };
    if api_key.len() > 3 && (api_key.starts_with("sk_") || api_key.starts_with("rk_")) {
        return Ok(());
    }
    Err(ApiError::unauthorized("Invalid API Key provided."))
}
