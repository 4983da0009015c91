//! Logs and traces.
//!
//! Logs: one line a request, one line a verdict. `RUST_LOG` filters, `LOG_FORMAT` chooses the form. They go to standard
//! error, and hold no secrets, bodies or personal data. Traces: a span for each request and each call of the provider, sent to
//! a collector where one is set; `RUST_LOG` has no say in them.

pub mod caller_trace;
mod export;
mod shape;
pub(crate) mod spans;

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

use crate::config::LogFormat;

pub use export::{TraceEndpoint, TraceSetupError};

/// Without `RUST_LOG`: our own lines, and the warnings of everybody else. The reader of HTTP calls it an error when a stranger
/// sends what is no HTTP, and errors are for people.
const DEFAULT_FILTER: &str = "warn,chargeonce=info,actix_http::h1::dispatcher=off";

/// Stand above `RUST_LOG`. Below these levels the database's driver logs the values that it sends, and with them what customers
/// are called and what they are charged for; and the library of MCP logs what callers send.
const LIMITS: [&str; 2] = ["tokio_postgres=info", "rmcp=error"];

/// How long a stop waits for the last spans to be exported. With SHUTDOWN_GRACE it must stay below the time after which a
/// process is killed.
const FLUSH_TIME: Duration = Duration::from_secs(3);

/// Starts the log. Does nothing when one is started already.
pub fn start(format: LogFormat) {
    let log = fmt()
        .with_env_filter(filter())
        .with_writer(std::io::stderr)
        .with_target(false);
    let started = match format {
        LogFormat::Pretty => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    drop(started);
}

/// Starts the log, and traces where there is a collector for them. Without one this is [`start`], and spans cost nothing.
/// To be called on the runtime that lives as long as the process.
pub fn start_with_traces(
    format: LogFormat,
    collector: Option<&TraceEndpoint>,
) -> Result<Traces, TraceSetupError> {
    let Some(collector) = collector else {
        start(format);
        return Ok(Traces(None));
    };
    let provider = export::provider(collector)?;
    let traces = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(export::SERVICE))
        .with_location(false)
        .with_tracked_inactivity(false)
        .with_threads(false)
        .with_level(false)
        .with_target(false)
        // The parent is the current span of this crate, wherever a task took it.
        .with_context_activation(false)
        .with_filter(filter_fn(spans::are_traced).with_max_level_hint(LevelFilter::DEBUG));
    let log = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let log = match format {
        LogFormat::Pretty => log.boxed(),
        LogFormat::Json => log.json().flatten_event(true).boxed(),
    };
    let started = tracing_subscriber::registry()
        .with(log.with_filter(filter()))
        .with(traces)
        .try_init();
    drop(started);
    Ok(Traces(Some(provider)))
}

/// The traces of this process, to be ended when it stops.
#[must_use = "the last spans are exported by `end`"]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Exports what is left, for a bounded time.
    pub async fn end(self) {
        let Some(provider) = self.0 else {
            return;
        };
        // Blocks, while the runtime sends for it.
        let end = move || provider.shutdown_with_timeout(FLUSH_TIME);
        if !matches!(tokio::task::spawn_blocking(end).await, Ok(Ok(()))) {
            tracing::warn!("stopped before the last traces were exported");
        }
    }
}

fn filter() -> EnvFilter {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let limits = LIMITS.iter().filter_map(|limit| limit.parse().ok());
    limits.fold(filter, EnvFilter::add_directive)
}
