//! The door: who calls, whether they may, and how often. The one place where a request is let in.

use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, FromRequest, HttpMessage, HttpRequest};

use super::caller::{Caller, SESSION_HEADER, session};
use super::hosts::OwnNames;
use super::keys::{ApiKeys, Scope};
use super::rate::RateLimits;
use super::routes::{Access, needed};
use crate::charges::lifecycle::Outlook;
use crate::charges::model::{CustomerCharged, Retry};
use crate::error::{Code, Problem};
use crate::http::request_id::RequestId;
use crate::http::respond::refuse;

/// What the door knows.
pub struct Guard {
    /// The keys.
    pub keys: ApiKeys,
    /// How often agents may call.
    pub rates: RateLimits,
    /// By what names the service is called.
    pub names: OwnNames,
}

impl Guard {
    /// True where callers need a key.
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }
}

/// Who was let in; for [`Caller`].
#[derive(Clone)]
struct Admitted {
    key_name: Option<Arc<str>>,
    scope: Scope,
}

/// The middleware. Refuses before anything of the body is read, so that nothing is reserved.
pub async fn admit(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let admitted = match request.app_data::<Data<Guard>>() {
        Some(guard) => guard.admit(&request),
        None => Err(Problem::internal()),
    };
    match admitted {
        Ok(admitted) => {
            request.extensions_mut().insert(admitted);
            Ok(next.call(request).await?.map_into_boxed_body())
        }
        Err(problem) => Ok(refuse(request, problem)),
    }
}

impl Guard {
    fn admit(&self, request: &ServiceRequest) -> Result<Admitted, Problem> {
        // The path as the router will read it, not as it was spelled.
        let path = request.match_info().unprocessed();
        let pattern = request.resource_map().match_pattern(path);
        let access = needed(request.method().as_str(), pattern.as_deref());
        if access == Access::Open {
            return Ok(Admitted {
                key_name: None,
                scope: Scope::Agent,
            });
        }
        if self.keys.is_empty() {
            self.called_by_its_name(request)?;
            return Ok(Admitted {
                key_name: None,
                scope: Scope::Admin,
            });
        }
        let owner = bearer(request.headers())
            .and_then(|secret| self.keys.owner_of(secret))
            .ok_or_else(unauthorized)?;
        tracing::Span::current().record("access.key", &*owner.name);
        if owner.scope == Scope::Agent {
            self.rates.count(&owner.name).map_err(rate_limited)?;
        }
        match (access, owner.scope) {
            (Access::Open | Access::Agent, _) | (Access::Admin, Scope::Admin) => Ok(Admitted {
                key_name: Some(Arc::clone(&owner.name)),
                scope: owner.scope,
            }),
            (Access::Admin, Scope::Agent) => Err(forbidden()),
        }
    }

    /// Refuses what a page of a stranger has a browser on this machine send; see [`hosts`](super::hosts). A key does that by itself: no
    /// browser adds it for a page.
    fn called_by_its_name(&self, request: &ServiceRequest) -> Result<(), Problem> {
        let headers = request.headers();
        // HTTP/2, and HTTP/1.1 with a whole URL, name the host in the target.
        let target = request
            .uri()
            .authority()
            .map(|authority| authority.as_str());
        let mut hosts = headers
            .get_all(HOST)
            .map(|value| value.to_str().unwrap_or_default());
        let mut origins = headers
            .get_all(ORIGIN)
            .map(|value| value.to_str().unwrap_or_default());
        let is_ours = target.is_none_or(|host| self.names.is_host(host))
            && hosts.all(|host| self.names.is_host(host))
            && origins.all(|origin| self.names.is_origin(origin));
        if is_ours { Ok(()) } else { Err(strange_host()) }
    }
}

/// The token of the one `Authorization` header, with the scheme in any case (RFC 9110, part 11.1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION);
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.as_bytes().split_at_checked("bearer ".len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

/// The invoice was not looked at, so what became of earlier calls cannot be told.
fn not_looked_at(retry: Retry) -> Outlook {
    Outlook {
        customer_charged: CustomerCharged::Unknown,
        retry,
        retry_after_seconds: None,
    }
}

/// The same for a missing, a malformed, a wrong and a revoked key.
fn unauthorized() -> Problem {
    Problem::new(
        Code::Unauthorized,
        "This call needs a valid API key and did nothing. Send the header Authorization: Bearer with your key, or ask the operator for one.",
    )
    .outlook(not_looked_at(Retry::AfterChange))
    .authenticate()
}

fn forbidden() -> Problem {
    Problem::new(
        Code::Forbidden,
        "This API key may read and charge invoices and nothing else, so this call did nothing. Ask the operator to do it.",
    )
    .outlook(not_looked_at(Retry::AfterChange))
}

fn strange_host() -> Problem {
    Problem::new(
        Code::HostNotAllowed,
        "This service has no API keys and is only called by its own names, and the Host or Origin header has another, so this call did nothing. Ask the operator to add the name to ALLOWED_HOSTS, or to set API keys.",
    )
    .outlook(not_looked_at(Retry::AfterChange))
}

fn rate_limited(wait_seconds: i64) -> Problem {
    Problem::new(
        Code::RateLimited,
        format!(
            "This API key has made too many requests, so this call did nothing. Send the same request again in {wait_seconds} seconds."
        ),
    )
    .later(CustomerCharged::Unknown, wait_seconds)
}

impl FromRequest for Caller {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _payload: &mut Payload) -> Self::Future {
        ready(caller(request))
    }
}

fn caller(request: &HttpRequest) -> Result<Caller, Problem> {
    let extensions = request.extensions();
    let (Some(admitted), Some(RequestId(request_id))) =
        (extensions.get::<Admitted>(), extensions.get::<RequestId>())
    else {
        tracing::error!("a request has not come through the door");
        return Err(Problem::internal());
    };
    let values: Vec<&[u8]> = request
        .headers()
        .get_all(SESSION_HEADER)
        .map(|value| value.as_bytes())
        .collect();
    Ok(Caller {
        key_name: admitted.key_name.clone(),
        scope: admitted.scope,
        request_id: request_id.clone(),
        session: session(&values)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn one_bearer_token_is_read_and_nothing_else() {
        let table: &[(&[&str], Option<&str>)] = &[
            (&["Bearer abc"], Some("abc")),
            (&["bearer abc"], Some("abc")),
            (&["BEARER   abc "], Some("abc")),
            (&["Bearer a b"], Some("a b")),
            (&["Bearer"], None),
            (&["Bearer "], None),
            (&["Bearer\tabc"], None),
            (&["Basic abc"], None),
            (&["abc"], None),
            (&[""], None),
            (&[], None),
            (&["Bearer abc", "Bearer abc"], None),
        ];
        for (values, right) in table {
            let mut request = TestRequest::default();
            for value in *values {
                request = request.append_header((AUTHORIZATION, *value));
            }
            let request = request.to_http_request();
            let token = bearer(request.headers());
            assert_eq!(token, right.map(str::as_bytes), "{values:?}");
        }
    }
}
