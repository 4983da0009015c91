//! The setting of traces.

use super::reader::Reader;
use super::{ConfigError, wrong};
use crate::telemetry::TraceEndpoint;

/// Where traces go; `None`: there are none.
pub(super) fn collector<F: Fn(&str) -> Option<String>>(
    reader: &Reader<F>,
) -> Result<Option<TraceEndpoint>, ConfigError> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let Some(text) = reader.text(NAME) else {
        return Ok(None);
    };
    // Not with its value: it may hold a password.
    let problem = "must be a collector's base URL for OTLP over HTTP, such as http://127.0.0.1:4318, without user, query or fragment";
    let endpoint = TraceEndpoint::parse(&text).ok_or_else(|| wrong(NAME, problem))?;
    Ok(Some(endpoint))
}
