//! The guard in front of the operations, as the document tells it.

use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};

use super::{operations, problems};
use crate::error::Code;

/// The scheme's name.
const BEARER: &str = "bearer";

/// The codes with which the guard refuses callers (401, 403, 429).
pub const GUARD: &[Code] = &[
    Code::Unauthorized,
    Code::Forbidden,
    Code::HostNotAllowed,
    Code::RateLimited,
];

/// The operations that need no key, by their ids: probes, this document, and what is signed instead.
pub const OPEN: &[&str] = &["isLive", "isReady", "getOpenApi", "receiveStripeEvent"];

/// Puts every operation but the open ones behind the guard: the responses of these codes and, where keys are asked for, the
/// scheme.
pub fn guard(document: &mut OpenApi, codes: &[Code], open: &[&str], has_keys: bool) {
    let scheme = SecurityScheme::Http(
        Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API key of this service, as `Authorization: Bearer KEY`.",
            ))
            .build(),
    );
    if has_keys {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(BEARER, scheme);
    }
    for operation in operations(document) {
        let id = operation.operation_id.clone().unwrap_or_default();
        if open.contains(&id.as_str()) {
            continue;
        }
        if has_keys {
            let required = SecurityRequirement::new(BEARER, Vec::<String>::new());
            operation.security = Some(vec![required]);
        }
        // An operation that has such a status for reasons of its own names the guard's code along with them.
        for (status, response) in problems::responses(codes) {
            operation
                .responses
                .responses
                .entry(status)
                .or_insert(response);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_shows_on_every_operation_but_the_open_ones() {
        let mut document = crate::openapi::annotated();
        // Any code with a status that no operation has will do.
        guard(&mut document, &[Code::MethodNotAllowed], OPEN, true);
        let mut open = Vec::new();
        for operation in operations(&mut document) {
            let has_response = operation.responses.responses.contains_key("405");
            assert_eq!(operation.security.is_some(), has_response);
            if !has_response {
                open.extend(operation.operation_id.clone());
            }
        }
        open.sort_unstable();
        let mut right = OPEN.to_vec();
        right.sort_unstable();
        assert_eq!(open, right);
        let schemes = document.components.unwrap().security_schemes;
        assert!(schemes.contains_key(BEARER));
    }
}
