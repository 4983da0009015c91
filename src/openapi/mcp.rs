//! What `POST /mcp` answers with: messages of MCP, and the problems of whatever stands before its server.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::json;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{AnyOf, Schema, SchemaType};
use utoipa::openapi::{ContentBuilder, ObjectBuilder, RefOr, Response, Type};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use super::problems;
use crate::error::Code;

/// A message to the MCP server, as far as HTTP can tell whether it is one: a wrong method or wrong params are told by a
/// message of MCP.
pub struct McpMessage;

impl PartialSchema for McpMessage {
    fn schema() -> RefOr<Schema> {
        let id = AnyOf::builder()
            .item(ObjectBuilder::new().schema_type(Type::String))
            .item(
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .minimum(Some(i64::MIN))
                    .maximum(Some(i64::MAX)),
            )
            .description(Some(
                "Names a request. A message without one is a notification.",
            ));
        let maybe_object = || {
            let types = SchemaType::from_iter([Type::Object, Type::Null]);
            ObjectBuilder::new().schema_type(types)
        };
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some(
                "A request or a notification of MCP, in JSON-RPC 2.0. No list of them, and no answer: this server asks for nothing.",
            ))
            .property(
                "jsonrpc",
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .enum_values(Some(["2.0"])),
            )
            .property("id", id)
            .property("method", ObjectBuilder::new().schema_type(Type::String))
            .property("params", maybe_object().property("_meta", maybe_object()))
            .required("jsonrpc")
            .required("method")
            .examples([
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
                json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_open_invoices", "arguments": {}}}),
                json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            ])
            .build()
            .into()
    }
}

impl ToSchema for McpMessage {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("McpMessage")
    }
}

/// The responses of the MCP server.
pub struct McpResponses;

impl IntoResponses for McpResponses {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut responses = problems::responses(&[
            Code::InvalidParameter,
            Code::BadRequest,
            Code::RequestTimeout,
            Code::PayloadTooLarge,
            Code::InvalidRequest,
            // The guard's own 403, which this one would else hide.
            Code::Forbidden,
            Code::HostNotAllowed,
            Code::InternalError,
            Code::Overloaded,
        ]);
        let message =
            || ContentBuilder::new().schema(Some(ObjectBuilder::new().schema_type(Type::Object)));
        let result = message()
            .example(Some(json!({"jsonrpc": "2.0", "id": 1, "result": {}})))
            .build();
        let stream = ContentBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .example(Some(
                "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n".into(),
            ))
            .build();
        let answer = ResponseBuilder::new()
            .description("The answer to a request, as one message or as a stream of them.")
            .content("application/json", result)
            .content("text/event-stream", stream);
        responses.insert("200".into(), answer.build().into());
        let taken = ResponseBuilder::new().description("A notification was taken.");
        responses.insert("202".into(), taken.build().into());
        let refusals = [
            (
                400,
                "The body is no message of MCP, or of no revision that is spoken here.",
            ),
            (
                403,
                "The `Host` or `Origin` is not one of this service (`ALLOWED_HOSTS`).",
            ),
            (404, "The server knows no sessions."),
            (
                406,
                "`Accept` must name application/json and text/event-stream.",
            ),
            (415, "The body must be application/json."),
        ];
        for (status, told) in refusals {
            let mut response = match responses.remove(&status.to_string()) {
                Some(RefOr::T(problem)) => problem,
                Some(RefOr::Ref(_)) | None => Response::new(""),
            };
            response.description = format!("{told} {}", response.description).trim().to_owned();
            response
                .content
                .insert("application/json".into(), message().build().into());
            responses.insert(status.to_string(), response.into());
        }
        responses
    }
}
