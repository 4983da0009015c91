//! From method and path to the endpoint. The list of what the mock can do.

use serde_json::Value;

use super::errors::ApiError;
use super::form::Params;
use super::ledger::{Books, Context};
use super::message::MockRequest;
use super::{capture, charges, customers, events, intents, payment_methods, refunds, search};

/// The `Stripe-Version` of an account that has none pinned.
pub(super) const API_VERSION: &str = "2026-06-24.dahlia";

/// Executes one request against the books.
pub(super) fn execute(
    books: &mut Books,
    context: &Context,
    request: &MockRequest,
) -> Result<Value, ApiError> {
    check_content_type(request)?;
    let params = Params::parse(&request.query, &request.body);
    let mut answer = dispatch(books, context, request, &params);
    if let Ok(object) = &mut answer {
        books.expand(object, &params.list("expand"));
    }
    answer
}

fn dispatch(
    books: &mut Books,
    context: &Context,
    request: &MockRequest,
    params: &Params,
) -> Result<Value, ApiError> {
    let path = request.path.strip_prefix("/v1/").unwrap_or_default();
    let segments: Vec<&str> = path.split('/').collect();
    let unrecognized = || ApiError::unrecognized_url(&request.method, &request.path);
    // A trailing or doubled slash is another path, as with Stripe.
    if segments.iter().any(|segment| segment.is_empty()) {
        return Err(unrecognized());
    }
    match (request.method.as_str(), segments.as_slice()) {
        ("POST", ["payment_intents"]) => intents::create(books, context, params),
        ("GET", ["payment_intents"]) => intents::list(books, params),
        ("GET", ["payment_intents", "search"]) => search::intents(books, context, params),
        ("GET", [_, "search"]) => Err(unrecognized()),
        ("GET", ["payment_intents", id]) => intents::retrieve(books, id, params),
        ("POST", ["payment_intents", id]) => intents::update(books, id, params),
        ("POST", ["payment_intents", id, "confirm"]) => {
            intents::confirm(books, context, id, params)
        }
        ("POST", ["payment_intents", id, "capture"]) => {
            capture::capture(books, context, id, params)
        }
        ("POST", ["payment_intents", id, "cancel"]) => intents::cancel(books, context, id, params),

        ("POST", ["charges"]) => charges::create(books, context, params),
        ("GET", ["charges"]) => charges::list(books, params),
        ("GET", ["charges", id]) => charges::retrieve(books, id, params),

        ("POST", ["refunds"]) => refunds::create(books, context, params),
        ("GET", ["refunds"]) => refunds::list(books, params),
        ("GET", ["refunds", id]) => refunds::retrieve(books, id, params),

        ("POST", ["customers"]) => customers::create(books, context, params),
        ("GET", ["customers"]) => customers::list(books, params),
        ("GET", ["customers", id]) => customers::retrieve(books, context, id, params),
        ("POST", ["customers", id]) => customers::update(books, context, id, params),
        ("DELETE", ["customers", id]) => customers::delete(books, context, id),
        ("GET", ["customers", id, "payment_methods"]) => {
            payment_methods::list(books, Some(id), params)
        }

        ("POST", ["payment_methods"]) => payment_methods::create(books, context, params),
        ("GET", ["payment_methods"]) => payment_methods::list(books, None, params),
        ("GET", ["payment_methods", id]) => payment_methods::retrieve(books, id, params),
        ("POST", ["payment_methods", id, "attach"]) => {
            payment_methods::attach(books, context, id, params)
        }
        ("POST", ["payment_methods", id, "detach"]) => payment_methods::detach(books, id, params),

        ("GET", ["events"]) => events::list(books, params),
        ("GET", ["events", id]) => events::retrieve(books, id, params),
        _ => Err(unrecognized()),
    }
}

/// Version 1 of the API takes forms only; a JSON body would otherwise look like one unknown parameter.
fn check_content_type(request: &MockRequest) -> Result<(), ApiError> {
    let kind = request
        .header("Content-Type")
        .unwrap_or("application/x-www-form-urlencoded");
    if request.body.is_empty() || kind.starts_with("application/x-www-form-urlencoded") {
        return Ok(());
    }
    Err(ApiError::invalid(
        "Invalid request (check that your POST content type is application/x-www-form-urlencoded). If you have \
         questions, we can help at https://support.stripe.com/.",
    ))
}
