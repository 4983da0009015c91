//! The tools as an MCP server, whatever carries the protocol. The protocol itself (its revisions, the handshake, what a message
//! is) is rmcp's.

use std::sync::Arc;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};

use super::arguments;
use super::backend::{Backend, CallContext, ToolReply};
use super::catalogue::{ToolName, definition};
use super::render::{mcp_tool, mcp_tools};
use super::wording::sentence;
use crate::charges::lifecycle::Outlook;
use crate::charges::model::{CustomerCharged, Retry};

/// Said once, at the start, to whoever connects.
const INSTRUCTIONS: &str = "chargeonce charges an invoice exactly once, however often it is asked. \
    To retry charge_customer after a timeout, an error or a lost answer, call it again with the same invoiceId; that never charges twice. \
    customerCharged unknown is not no: never charge the customer in another way, ask again.";

/// The MCP server. One for all callers; it remembers nothing between two calls.
#[derive(Clone)]
pub struct ToolServer {
    backend: Arc<dyn Backend>,
}

impl ToolServer {
    /// Over whoever answers the calls.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend }
    }

    async fn answer(
        &self,
        tool: ToolName,
        request: CallToolRequestParams,
        context: CallContext,
    ) -> ToolReply {
        match arguments::read(tool, request.arguments.unwrap_or_default()) {
            Ok(call) => self.backend.answer(call, context).await,
            // No invoice was looked at: whether an earlier call has charged it, this one cannot tell.
            Err(problem) => problem
                .outlook(Outlook {
                    customer_charged: CustomerCharged::Unknown,
                    retry: Retry::AfterChange,
                    retry_after_seconds: None,
                })
                .into(),
        }
    }
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("chargeonce", env!("CARGO_PKG_VERSION"))
            .with_title("chargeonce: charge an invoice exactly once");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(mcp_tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        ToolName::parse(name).map(|tool| mcp_tool(definition(tool)))
    }

    /// A client that cancels or goes away is not answered any more; what it has started goes on.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::parse(&request.name) else {
            return Err(unknown_tool());
        };
        let over_http = context.extensions.get::<http::request::Parts>();
        let call = over_http.and_then(|parts| parts.extensions.get::<CallContext>());
        let answering = self.answer(tool, request, call.cloned().unwrap_or_default());
        tokio::select! {
            reply = answering => Ok(result(tool, reply).into()),
            () = context.ct.cancelled() => Err(ErrorData::new(
                ErrorCode::INTERNAL_ERROR,
                "The call was cancelled. A charge that it started goes on; call again with the same invoiceId to get its result.",
                None,
            )),
        }
    }

    /// Whatever rmcp does not know by its method and its shape.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method == "tools/call" {
            return Err(ErrorData::invalid_params(
                "The params of tools/call must be an object with the tool's name as text and arguments, an object.",
                None,
            ));
        }
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "This server has tools only: tools/list and tools/call.",
            None,
        ))
    }
}

/// A tool that is not there is the client's mistake, not the model's: it was not in the list.
fn unknown_tool() -> ErrorData {
    let names = ToolName::ALL.map(ToolName::as_str).join(", ");
    ErrorData::invalid_params(
        format!("There is no such tool. The tools are {names}."),
        None,
    )
}

/// The structure is REST's own answer. Clients that know no structure get it as text, after the sentence.
fn result(tool: ToolName, reply: ToolReply) -> CallToolResult {
    let content = vec![
        ContentBlock::text(sentence(tool, &reply)),
        ContentBlock::text(reply.body.to_string()),
    ];
    let mut result = if reply.is_error() {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = Some(reply.body);
    result
}
