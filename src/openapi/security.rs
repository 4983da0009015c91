//! The guard in front of the operations, as the document tells it.

use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};

use super::{operations, problems};
use crate::error::Code;

/// The scheme's name.
const BEARER: &str = "bearer";

/// The codes with which a guard refuses callers (401, 403, 429). While there are none the API has no guard, and the
/// document has no security scheme.
pub const GUARD: &[Code] = &[];

/// The operations that need no key, by their ids: probes, this document, and what is signed instead.
pub const OPEN: &[&str] = &["isLive", "isReady", "getOpenApi", "receiveStripeEvent"];

/// Puts every operation but the open ones behind the guard: the scheme, and the responses of these codes.
pub fn guard(document: &mut OpenApi, codes: &[Code], open: &[&str]) {
    if codes.is_empty() {
        return;
    }
    let scheme = SecurityScheme::Http(
        Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API key of this service, as `Authorization: Bearer KEY`.",
            ))
            .build(),
    );
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(BEARER, scheme);
    for operation in operations(document) {
        let id = operation.operation_id.clone().unwrap_or_default();
        if open.contains(&id.as_str()) {
            continue;
        }
        operation.security = Some(vec![SecurityRequirement::new(BEARER, Vec::<String>::new())]);
        for (status, response) in problems::responses(codes) {
            let before = operation.responses.responses.insert(status, response);
            debug_assert!(
                before.is_none(),
                "{id} has this status for reasons of its own; name its codes there, too"
            );
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
        guard(&mut document, &[Code::MethodNotAllowed], OPEN);
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
