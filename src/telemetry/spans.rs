//! The spans that make a trace: a request, and a call of the provider. No other module knows OpenTelemetry.

use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use tracing::{Metadata, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::caller_trace::CallerTrace;

/// The span of a request.
pub(crate) const REQUEST: &str = "request";
/// The span of a call of the provider.
pub(super) const PROVIDER: &str = "provider";
/// The attribute for the invoice that a request charges.
pub(super) const INVOICE_ID: &str = "invoice.id";
/// The attribute for the status of an answer.
pub(super) const STATUS: &str = "http.response.status_code";

/// Spans of this crate only. The exporter's own HTTP client would otherwise be traced, and its traces exported, and so on.
pub(super) fn are_traced(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    metadata.is_span() && (target == "chargeonce" || target.starts_with("chargeonce::"))
}

/// Puts a request's span into its caller's trace, and the trace's id into its field `trace.id` for the log.
pub(crate) fn join(span: &Span, caller: Option<&CallerTrace>) {
    if let Some(caller) = caller {
        // Where nothing is traced nobody takes it.
        span.set_parent(context(caller)).ok();
    }
    let ours = span.context().span().span_context().trace_id();
    let theirs = caller.map(|caller| TraceId::from(caller.trace_id));
    let trace_id = Some(ours).filter(|id| *id != TraceId::INVALID).or(theirs);
    if let Some(trace_id) = trace_id {
        span.record("trace.id", tracing::field::display(trace_id));
    }
}

fn context(caller: &CallerTrace) -> Context {
    let flags = if caller.is_sampled {
        TraceFlags::SAMPLED
    } else {
        TraceFlags::default()
    };
    let state: TraceState = caller.state.parse().unwrap_or_default();
    Context::new().with_remote_span_context(SpanContext::new(
        TraceId::from(caller.trace_id),
        SpanId::from(caller.parent_id),
        flags,
        true,
        state,
    ))
}

/// Ends a request's span at its answer. Work that outlives it keeps it as its parent, but does not make it longer.
pub(crate) fn answered(span: &Span, status: u16) {
    let context = span.context();
    let traced = context.span();
    traced.set_attribute(KeyValue::new(STATUS, i64::from(status)));
    traced.end();
}

/// Says which invoice the current request charges, on its span only.
pub(crate) fn charges(invoice_id: &str) {
    let context = Span::current().context();
    let traced = context.span();
    if traced.is_recording() {
        traced.set_attribute(KeyValue::new(INVOICE_ID, invoice_id.to_owned()));
    }
}

/// The span of a call of the provider, with all its repeats. At a level that the usual log does not show, where its own line
/// says as much.
pub(crate) fn provider(name: &'static str, operation: &'static str) -> Span {
    tracing::debug_span!(
        PROVIDER,
        provider.name = name,
        provider.operation = operation,
        provider.outcome = tracing::field::Empty
    )
}
