//! The `chargeonce` binary: reads the settings, builds the app, serves.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the command line talks to people"
)]

mod audit_command;
mod doctor_command;
mod mcp_command;
mod mock_command;
mod reconcile_command;
mod review_command;

use std::io::Write;
use std::process::ExitCode;

use chargeonce::app::App;
use chargeonce::config::{ProviderSettings, Settings};
use chargeonce::server::BoundServer;
use chargeonce::{storage, telemetry};
use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

use audit_command::AuditCommand;
use doctor_command::DoctorCommand;
use mcp_command::McpCommand;
use mock_command::MockCommand;
use reconcile_command::ReconcileCommand;
use review_command::ReviewCommand;

/// Short-lived texts make up much of a call's work; the allocator of the C library spends a fifth of it on them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A billing backend that charges an invoice exactly once. Configured by environment variables; see .env.example.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the HTTP API (the default).
    Serve,
    /// Bring the database's schema up to date and stop.
    Migrate,
    Reconcile(ReconcileCommand),
    Audit(AuditCommand),
    Review(ReviewCommand),
    Doctor(DoctorCommand),
    MockStripe(MockCommand),
    Mcp(McpCommand),
}

/// Where the system gives huge pages, the allocator takes them, and a few used bytes hold 2 MB: an idle service takes half as much memory
/// without them, and a crowd of idle connections, too. It saves memory and nothing else, so it may fail.
fn without_huge_pages() {
    #[cfg(target_os = "linux")]
    rustix::thread::disable_transparent_huge_pages(true).ok();
}

fn main() -> ExitCode {
    without_huge_pages();
    let command = Cli::parse().command.unwrap_or(Command::Serve);
    // Clients start the MCP server wherever they are: a .env there is none of ours.
    let reads_env_file = !matches!(command, Command::Mcp(_));
    if reads_env_file && let Err(problem) = read_env_file() {
        eprintln!("chargeonce cannot start: .env: {problem}");
        return ExitCode::from(2);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("chargeonce cannot start: {error}");
            return ExitCode::from(2);
        }
    };
    let outcome = match command {
        Command::Serve => runtime.block_on(serve()),
        Command::Migrate => runtime.block_on(migrate()),
        Command::Reconcile(command) => runtime.block_on(command.run()),
        Command::Audit(command) => return runtime.block_on(command.run()),
        Command::Review(command) => return runtime.block_on(command.run()),
        Command::Doctor(command) => return runtime.block_on(command.run()),
        Command::MockStripe(command) => runtime.block_on(command.run()),
        Command::Mcp(command) => runtime.block_on(command.run()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chargeonce cannot go on: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A missing .env is normal; a broken one is not. What is wrong is told without the line: it may hold a secret.
fn read_env_file() -> Result<(), String> {
    match dotenvy::dotenv() {
        Ok(_) => Ok(()),
        Err(error) if error.not_found() => Ok(()),
        Err(dotenvy::Error::LineParse(line, at)) => {
            let is_name = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let name = line.split_once('=').map(|(name, _)| name.trim());
            let name = name.filter(|name| is_name(name)).unwrap_or("something");
            let position = at + 1;
            Err(format!(
                "the line that sets {name} cannot be read, at its character {position}; a value with spaces or quotes stands in double quotes"
            ))
        }
        Err(error) => Err(error.to_string()),
    }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

async fn serve() -> Outcome {
    let settings = Settings::from_env()?;
    let traces = telemetry::start_with_traces(settings.log_format, settings.traces.as_ref())?;
    let app = App::build(&settings).await?;
    let server = BoundServer::bind(app, &settings)?;
    // Whoever closes our output early does not want the lines; the service goes on.
    let url = format!("http://{}", server.address());
    let greeted = greet(&settings, &url, &mut std::io::stdout().lock());
    drop(greeted);
    let ended = server.run().await;
    traces.end().await;
    Ok(ended?)
}

/// The first lines that a newcomer sees.
fn greet(settings: &Settings, url: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let store = settings.store.describe();
    let provider = match &settings.provider {
        ProviderSettings::Mock { .. } => "mock (in this process; nobody's money)".to_owned(),
        ProviderSettings::Stripe { api_base, .. } => format!("stripe at {api_base}"),
    };
    writeln!(out, "chargeonce listens on {url}")?;
    writeln!(out, "  store     {store}")?;
    writeln!(out, "  provider  {provider}")?;
    let header = if settings.access.keys.is_empty() {
        String::new()
    } else {
        writeln!(out, "  access    by API key")?;
        " -H \"Authorization: Bearer $API_KEY\"".to_owned()
    };
    writeln!(
        out,
        "Try it (charge the invoice twice: it is charged once):"
    )?;
    writeln!(
        out,
        "  curl -s {url}/v1/invoices{header} -H 'Content-Type: application/json' -d '{{\"id\":\"inv_1\",\"customerId\":\"cus_1\",\"amountCents\":1250,\"currency\":\"usd\"}}'"
    )?;
    writeln!(
        out,
        "  curl -is {url}/v1/charges{header} -H 'Content-Type: application/json' -d '{{\"invoiceId\":\"inv_1\"}}'"
    )?;
    Ok(())
}

async fn migrate() -> Outcome {
    let settings = Settings::from_env()?;
    telemetry::start(settings.log_format);
    storage::connect(&settings.store).await?;
    println!("The schema of {} is up to date.", settings.store.describe());
    Ok(())
}
