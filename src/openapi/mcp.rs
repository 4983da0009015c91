//! What `POST /mcp` answers with: messages of MCP, and the problems of whatever stands before its server.

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::IntoResponses;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{ContentBuilder, ObjectBuilder, RefOr, Response, Type};

use super::problems;
use crate::error::Code;

/// The responses of the MCP server.
pub struct McpResponses;

impl IntoResponses for McpResponses {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut responses = problems::responses(&[
            Code::BadRequest,
            Code::RequestTimeout,
            Code::PayloadTooLarge,
            Code::InvalidRequest,
            // The guard's own 403, which this one would else hide.
            Code::Forbidden,
            Code::InternalError,
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
                "The `Host` or `Origin` is not one of this service (`MCP_HOSTS`).",
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
            Code::InvalidParameter,
}
