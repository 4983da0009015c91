//! Logs: one line a request, one line a verdict. `RUST_LOG` filters, `LOG_FORMAT` chooses the form. They go to standard
//! error, and hold no secrets, bodies or personal data.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::LogFormat;

/// Without `RUST_LOG`: our own lines, and the warnings of everybody else. The reader of HTTP calls it an error when a stranger
/// sends what is no HTTP, and errors are for people.
const DEFAULT_FILTER: &str = "warn,chargeonce=info,actix_http::h1::dispatcher=off";

/// Stand above `RUST_LOG`. Below these levels the database's driver logs the values that it sends, and with them what customers
/// are called and what they are charged for; and the library of MCP logs what callers send.
const LIMITS: [&str; 2] = ["tokio_postgres=info", "rmcp=error"];

/// Starts the log. Does nothing when one is started already.
pub fn start(format: LogFormat) {
    let mut filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    for limit in LIMITS.iter().filter_map(|limit| limit.parse().ok()) {
        filter = filter.add_directive(limit);
    }
    let log = fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    let started = match format {
        LogFormat::Pretty => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    drop(started);
}
