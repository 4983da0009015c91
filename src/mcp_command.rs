//! `chargeonce mcp`: the tools over standard input and output, against a running service.

use std::sync::Arc;

use chargeonce::config::{LogFormat, secret};
use chargeonce::telemetry;
use chargeonce::tools::remote::RemoteBackend;
use chargeonce::tools::server::ToolServer;
use clap::Args;
use rmcp::ServiceExt;
use rmcp::transport::stdio;
use uuid::Uuid;

/// Serve the tools for AI agents as an MCP server over standard input and output, for clients that start their servers
/// themselves. It asks a running service and keeps nothing. Logs go to standard error.
#[derive(Args)]
pub struct McpCommand {
    /// The running service: scheme and host.
    #[arg(long, default_value = "http://127.0.0.1:3000")]
    url: String,

    /// The environment variable that holds the API key. The key itself is never an argument.
    #[arg(long, value_name = "VARIABLE", default_value = "CHARGEONCE_API_KEY")]
    api_key_env: String,
}

impl McpCommand {
    pub async fn run(&self) -> Result<(), Box<dyn std::error::Error>> {
        telemetry::start(LogFormat::Pretty);
        let api_key = secret(&self.api_key_env);
        // Whoever started this process is one agent's client: its attempts belong together.
        let session = format!("mcp-{}", Uuid::now_v7().simple());
        // What was given is not repeated: somebody may have put a password into the one or the key itself into the other.
        let backend = RemoteBackend::new(&self.url, api_key.as_ref(), Some(&session))
            .map_err(|error| format!("--url or --api-key-env: {error}"))?;
        let server = ToolServer::new(Arc::new(backend));
        // Until the client closes its end.
        server.serve(stdio()).await?.waiting().await?;
        Ok(())
    }
}
