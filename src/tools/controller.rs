//! The tools over HTTP: their definitions, and the MCP server.

use actix_web::http::StatusCode;
use actix_web::http::header::{HOST, HeaderMap};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use http_body_util::{BodyDataStream, BodyExt, Full};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;

use super::backend::CallContext;
use super::dto::ListTools;
use super::render::Format;
use super::server::ToolServer;
use crate::access::caller::Caller;
use crate::access::hosts::OwnNames;
use crate::error::{Code, Problem};
use crate::http::json::{BODY_BYTES_MAX, read};
use crate::http::query::Query;
use crate::http::respond;
use crate::http::twins::NoTwins;
use crate::openapi::examples;
use crate::openapi::mcp::{McpMessage, McpResponses};
use crate::openapi::problems::{CALL, refusals};
use crate::openapi::schemas::SessionName;
use crate::router::{Routes, resource};
use crate::tasks;

/// JSON-RPC 2.0, "Error object".
const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;

/// The MCP server over HTTP, without sessions: any replica answers any request. Cheap to clone.
pub type McpHttp = StreamableHttpService<ToolServer, NeverSessionManager>;

/// Builds it. Callers name it by one of `names`, with keys and without, and so do pages in a browser: any other page may only
/// pretend to (MCP, "Streamable HTTP", Security).
pub fn mcp_http(server: ToolServer, names: &OwnNames) -> McpHttp {
    let origins = names
        .iter()
        .flat_map(|name| ["http", "https"].map(|scheme| format!("{scheme}://{name}:*")));
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_allowed_origins(origins)
        .with_allowed_hosts(names.iter().map(str::to_owned));
    StreamableHttpService::new(move || Ok(server.clone()), Default::default(), config)
}

/// Mounts the routes.
pub fn configure(routes: &mut Routes) {
    routes
        .service(resource("/v1/tools", "GET").get_with_query(list))
        .service(resource("/mcp", "POST").post(mcp));
}

refusals! {
    /// Of listing the tools.
    ListRefusals = [CALL], [InvalidRequest, InternalError];
}

#[utoipa::path(
    get, path = "/v1/tools", operation_id = "listTools", tag = "tools",
    summary = "The tools, as an agent is given them",
    description = "In the form of MCP, of Anthropic's Messages API, or of OpenAI's function calling.",
    params(ListTools),
    responses(
        (status = 200, description = "The definitions.", content_type = "application/json", body = Object, example = examples::tools),
        ListRefusals,
    )
)]
pub(crate) async fn list(query: Query<ListTools>) -> Result<HttpResponse, Problem> {
    let word = query.0.format.as_deref().unwrap_or("mcp");
    let format = Format::parse(word).ok_or_else(|| {
        Problem::new(
            Code::InvalidRequest,
            "format must be anthropic, openai or mcp.",
        )
        .field("format")
    })?;
    let tools = format.render().map_err(|error| {
        tracing::error!(%error, "the tools could not be written");
        Problem::internal()
    })?;
    respond::json(StatusCode::OK, &tools)
}

/// Reads the body within this service's limits, and hands the request to rmcp.
#[utoipa::path(
    post, path = "/mcp", operation_id = "mcp", tag = "tools",
    summary = "The tools as an MCP server",
    description = "Streamable HTTP without sessions. Needs `Accept: application/json, text/event-stream`; MCP clients send it.",
    params(("X-Agent-Session" = Option<SessionName>, Header, description = "The caller's own name for its session, kept with the attempt.")),
    request_body(content = McpMessage, example = examples::mcp_request),
    responses(McpResponses)
)]
pub(crate) async fn mcp(
    request: HttpRequest,
    payload: Payload,
    server: Data<McpHttp>,
    caller: Caller,
) -> Result<HttpResponse, Problem> {
    let body = read(&request, &mut payload.into_inner(), BODY_BYTES_MAX).await?;
    if let Some(refusal) = no_message(&body) {
        return Ok(refusal);
    }
    let response = server.handle(carried_over(&request, body, caller)?).await;
    let (head, body) = response.into_parts();
    let status =
        StatusCode::from_u16(head.status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = head
        .headers
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    if content_type.starts_with("text/event-stream") {
        let body = BodyDataStream::new(body);
        return Ok(HttpResponse::build(status)
            .content_type(content_type)
            .streaming(body));
    }
    let bytes = body.collect().await.unwrap_or_default().to_bytes();
    if status.is_client_error() && !content_type.starts_with("application/json") {
        return Ok(refused(
            status,
            INVALID_REQUEST,
            &String::from_utf8_lossy(&bytes),
        ));
    }
    let mut response = HttpResponse::build(status);
    if !content_type.is_empty() {
        response.content_type(content_type);
    }
    Ok(response.body(bytes))
}

/// The refusal of a body that is no message of MCP's; rmcp would take it for another media type.
fn no_message(body: &Bytes) -> Option<HttpResponse> {
    let refuse = |code, told| Some(refused(StatusCode::BAD_REQUEST, code, told));
    match serde_json::from_slice::<NoTwins>(body) {
        Err(error) if error.is_data() => refuse(
            INVALID_REQUEST,
            "A member is there more than once. Send each once.",
        ),
        Err(_) => refuse(
            PARSE_ERROR,
            "The body is not valid JSON. Send one JSON-RPC 2.0 message.",
        ),
        Ok(NoTwins) if serde_json::from_slice::<ClientJsonRpcMessage>(body).is_err() => refuse(
            INVALID_REQUEST,
            "The body is no JSON-RPC 2.0 message of the Model Context Protocol. Send one message, not a list.",
        ),
        Ok(NoTwins) => None,
    }
}

/// A refusal before anything was done, without a request's id: the message may have none.
fn refused(status: StatusCode, code: i32, told: &str) -> HttpResponse {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": told}});
    HttpResponse::build(status)
        .content_type("application/json")
        .body(body.to_string())
}

/// The request as rmcp's version of `http` has it, with what the tools need to know of it. Credentials are checked here
/// and go no further.
fn carried_over(
    request: &HttpRequest,
    body: Bytes,
    caller: Caller,
) -> Result<http::Request<Full<Bytes>>, Problem> {
    let unreadable = || Problem::new(Code::BadRequest, "The request cannot be read. Correct it.");
    let mut carried = http::Request::builder()
        .method(http::Method::POST)
        .uri(request.uri().to_string())
        .body(Full::new(body))
        .map_err(|_| unreadable())?;
    for (name, value) in readable(request.headers()) {
        carried.headers_mut().append(name, value);
    }
    if request.headers().get_all(HOST).count() > 1 {
        return Err(unreadable().field("Host"));
    }
    let context = CallContext {
        span: tracing::Span::current(),
        caller: Some(caller),
        place: tasks::held(),
    };
    carried.extensions_mut().insert(context);
    Ok(carried)
}

fn readable(headers: &HeaderMap) -> impl Iterator<Item = (http::HeaderName, http::HeaderValue)> {
    headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "authorization" | "cookie"))
        .filter_map(|(name, value)| {
            let name = http::HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
            let value = http::HeaderValue::from_bytes(value.as_bytes()).ok()?;
            Some((name, value))
        })
}
