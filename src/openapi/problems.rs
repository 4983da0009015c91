//! Problem documents as answers of operations. An operation names its codes; the statuses follow from [`Code`].

use std::collections::BTreeMap;

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::AllOf;
use utoipa::openapi::{ContentBuilder, ObjectBuilder, Ref, RefOr, Response, Type};

use crate::error::{Code, PROBLEM_JSON};

/// What every call can be refused with: a query parameter that it does not have, or that there is too much to do.
pub const CALL: &[Code] = &[Code::InvalidParameter, Code::Overloaded];

/// What a call can be refused with that is answered however much there is to do.
pub const PROBE: &[Code] = &[Code::InvalidParameter];

/// What a JSON body can be refused with before anything is done.
pub const JSON_BODY: &[Code] = &[
    Code::MalformedJson,
    Code::BadRequest,
    Code::RequestTimeout,
    Code::PayloadTooLarge,
    Code::UnsupportedMediaType,
    Code::InvalidRequest,
];

/// What everything that asks the store can end with.
pub const STORE: &[Code] = &[Code::StorageUnavailable, Code::InternalError];

/// What a path with an id in it can be refused with: an id that is empty or has a slash makes it another path.
pub const PATH_WITH_ID: &[Code] = &[Code::RouteNotFound];

/// Problems that are stored and repeated as they are.
const STORED: &[Code] = &[
    Code::InvoiceExists,
    Code::ChargeDeclined,
    Code::ChargeRefused,
    Code::ChargeCanceled,
    Code::ChargeNeverExecuted,
    Code::RefundFailed,
];

/// What no operation answers with: the path is not there, or not with this method.
pub const OF_NO_OPERATION: &[(&str, Code)] = &[
    ("RouteNotFound", Code::RouteNotFound),
    ("MethodNotAllowed", Code::MethodNotAllowed),
];

/// Makes a type whose responses are the problems of an operation: groups of codes, and its own.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = [$($group:expr),*], [$($code:ident),*];)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;

            impl utoipa::IntoResponses for $name {
                fn responses() -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
                    $crate::openapi::problems::responses(
                        &[$($group,)* &[$($crate::error::Code::$code),*] as &[$crate::error::Code]].concat(),
                    )
                }
            }
        )*
    };
}
pub(crate) use refusals;

/// One response for each status of these codes.
pub fn responses(codes: &[Code]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status()).or_default().push(*code);
    }
    by_status
        .into_iter()
        .map(|(status, codes)| (status.to_string(), response(status, &codes).into()))
        .collect()
}

/// The response of a status: a problem document with one of these codes.
pub fn response(status: u16, codes: &[Code]) -> Response {
    let lines: Vec<String> = codes
        .iter()
        .map(|code| format!("`{}`: {}.", code.as_str(), code.title()))
        .collect();
    let narrowed = ObjectBuilder::new()
        .schema_type(Type::Object)
        .property(
            "status",
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .enum_values(Some([status])),
        )
        .property(
            "code",
            ObjectBuilder::new()
                .schema_type(Type::String)
                .enum_values(Some(codes.iter().map(|code| code.as_str()))),
        );
    let schema = AllOf::builder()
        .item(Ref::from_schema_name("Problem"))
        .item(narrowed);
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let mut response = ResponseBuilder::new()
        .description(lines.join(" "))
        .content(PROBLEM_JSON, content);
    // The statuses whose problems may say `retry: later`.
    if matches!(status, 402 | 403 | 409 | 429 | 500 | 503) {
        response = response.header(
            "Retry-After",
            header(Some("Seconds"), "With `retry: later`: seconds to wait."),
        );
    }
    if codes.iter().any(|code| STORED.contains(code)) {
        response = response.header(
            "Idempotent-Replayed",
            header(Some("Replayed"), "There when this answer was given before."),
        );
    }
    let waited = [
        Code::ChargeDeclined,
        Code::ChargeCanceled,
        Code::RefundFailed,
    ];
    if codes.iter().any(|code| waited.contains(code)) {
        response = response.header(
            "Preference-Applied",
            header(None, "The wait that was asked for was understood."),
        );
    }
    if status == 405 {
        response = response.header("Allow", header(None, "The methods that the path has."));
    }
    if status == 401 {
        response = response.header("WWW-Authenticate", header(None, "How to authenticate."));
    }
    response.build()
}

/// A response header whose values a component describes; none: any text.
pub(super) fn header(component: Option<&str>, text: &str) -> utoipa::openapi::header::Header {
    let builder = HeaderBuilder::new().description(Some(text));
    match component {
        Some(name) => builder.schema(Some(Ref::from_schema_name(name))).build(),
        None => builder.build(),
    }
}
