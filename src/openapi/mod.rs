//! The API as an OpenAPI 3.1 document, made of the code that it describes: the handlers' annotations, the request and
//! answer types, the limits that are enforced, the error codes. Served at `/openapi.json`, with a browser page at `/docs`.
//!
//! An operation is added by `#[utoipa::path]` on its handler, `refusals!` with its error codes, and its line in the list
//! below; a test holds that list against the routes that the app mounts.
pub mod controller;
pub mod examples;
mod headers;
mod links;
pub mod mcp;
pub mod problems;
pub mod schemas;
pub mod security;

use std::sync::OnceLock;

use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{RefOr, Schema};

use crate::charges::controller as charges;
use crate::health::controller as health;
use crate::invoices::controller as invoices;
use crate::metrics::controller as metrics;
use crate::refunds::controller as refunds;
use crate::tools::controller as tools;
use crate::webhooks::controller as webhooks;

/// The schema of a request's body.
type Body = RefOr<Schema>;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "chargeonce",
        description = "Charges an invoice exactly once, whoever calls it and however often.\n\n\
            Every charge and every problem says two things: `customerCharged` (has this customer been charged, as far as this answer can \
            tell?) and `retry` (should the same call be made again?). `unknown` is never `no`: do not charge the customer in another way, \
            repeat the call with the same `invoiceId`. \
            Answers about refunds say `refunded` in the same manner.\n\nA field or a query parameter that an operation does not have is refused. \
            Bytes that are no proper HTTP are answered with a bare 400, 408 or 431, and have done nothing.",
    ),
    paths(
        invoices::create, invoices::list, invoices::show, invoices::change, invoices::void,
        charges::charge, charges::list, charges::show, charges::status, charges::evidence, charges::resolve,
        refunds::create, refunds::list, refunds::show, refunds::evidence, refunds::resolve,
        tools::list, tools::mcp,
        webhooks::receive,
        health::live, health::ready, metrics::show, controller::document,
    ),
    components(schemas(crate::error::Document)),
    tags(
        (name = "invoices", description = "What is owed."),
        (name = "charges", description = "Taking the money, once."),
        (name = "refunds", description = "Giving it back, once."),
        (name = "tools", description = "What an agent is given."),
        (name = "webhooks", description = "What the payment provider tells."),
        (name = "service", description = "For those who run it."),
    ),
)]
struct Annotated;

/// The document's text, in JSON. `has_keys` tells whether this service asks for API keys; the answers are the same in both.
pub fn document(has_keys: bool) -> &'static str {
    static WITH_KEYS: OnceLock<String> = OnceLock::new();
    static WITHOUT_KEYS: OnceLock<String> = OnceLock::new();
    let text = match has_keys {
        true => &WITH_KEYS,
        false => &WITHOUT_KEYS,
    };
    text.get_or_init(|| {
        let mut document = annotated();
        security::guard(&mut document, security::GUARD, security::OPEN, has_keys);
        headers::everywhere(&mut document);
        links::everywhere(&mut document);
        let mut value = serde_json::to_value(&document).unwrap_or_else(|error| {
            // It is made of our own constants; a test reads all of it.
            tracing::error!(%error, "the API's document cannot be written");
            serde_json::Value::Null
        });
        headers::finish(&mut value);
        value.to_string()
    })
}

/// What the annotations say, with the shared parts.
fn annotated() -> OpenApi {
    let mut document = Annotated::openapi();
    let components = document.components.get_or_insert_default();
    for (name, schema) in schemas::all() {
        components.schemas.insert(name.to_owned(), schema);
    }
    let rules: [(&str, fn(Body) -> Body); 3] = [
        ("CreateInvoice", schemas::money_rule),
        ("ResolveRequest", schemas::verdict_rule),
        ("ResolveRefund", schemas::refund_verdict_rule),
    ];
    for (name, rule) in rules {
        if let Some(request) = components.schemas.remove(name) {
            components.schemas.insert(name.to_owned(), rule(request));
        }
    }
    for (name, code) in problems::OF_NO_OPERATION {
        let response = problems::response(code.status(), &[*code]);
        components
            .responses
            .insert((*name).to_owned(), response.into());
    }
    document
}

/// Every operation.
fn operations(document: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    document.paths.paths.values_mut().flat_map(|item| {
        [
            &mut item.get,
            &mut item.put,
            &mut item.post,
            &mut item.delete,
            &mut item.patch,
        ]
        .into_iter()
        .flatten()
    })
}
