//! What of a span leaves this process, and in which words: those of OpenTelemetry's conventions where it has some. Only what is
//! listed here leaves: no path, no query, no header, no body, no key's name, nobody's name.

use opentelemetry::trace::{SpanKind, Status};
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::trace::SpanData;

use super::spans::{INVOICE_ID, PROVIDER, REQUEST, STATUS};

/// What a request may ask for. Anybody can think of other words, and each would be a name of its own.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
];

/// What a call of the provider comes to when it has no usable answer. A decline is one.
const UNUSABLE: [&str; 4] = ["unanswered", "unknown", "not_executed", "credentials"];

/// The span as it is exported.
pub(super) fn shaped(mut span: SpanData) -> SpanData {
    let fields = std::mem::take(&mut span.attributes);
    match &*span.name {
        REQUEST => request(span, &fields),
        PROVIDER => provider(span, &fields),
        _ => span,
    }
}

fn request(mut span: SpanData, fields: &[KeyValue]) -> SpanData {
    let method = text(fields, "http.method").filter(|method| METHODS.contains(&&**method));
    let route = text(fields, "http.route").filter(|route| route.starts_with('/'));
    span.span_kind = SpanKind::Server;
    let verb = method.as_deref().unwrap_or("HTTP");
    span.name = match &route {
        Some(route) => format!("{verb} {route}").into(),
        None => verb.to_owned().into(),
    };
    let method = method.unwrap_or_else(|| "_OTHER".to_owned());
    span.attributes
        .push(KeyValue::new("http.request.method", method));
    if let Some(route) = route {
        span.attributes.push(KeyValue::new("http.route", route));
    }
    if let Some(status) = value(fields, STATUS) {
        if matches!(status, Value::I64(500..)) {
            span.status = Status::error("");
        }
        span.attributes.push(KeyValue::new(STATUS, status.clone()));
    }
    if let Some(invoice_id) = text(fields, INVOICE_ID) {
        span.attributes.push(KeyValue::new(INVOICE_ID, invoice_id));
    }
    span
}

fn provider(mut span: SpanData, fields: &[KeyValue]) -> SpanData {
    let [name, operation, outcome] = ["name", "operation", "outcome"]
        .map(|field| text(fields, &format!("provider.{field}")).unwrap_or_default());
    span.span_kind = SpanKind::Client;
    span.name = format!("{name} {operation}").into();
    if UNUSABLE.contains(&&*outcome) {
        span.status = Status::error(outcome.clone());
    }
    span.attributes = vec![
        KeyValue::new("payment.provider", name),
        KeyValue::new("payment.operation", operation),
    ];
    // None: the call was cut off.
    if !outcome.is_empty() {
        span.attributes
            .push(KeyValue::new("payment.outcome", outcome));
    }
    span
}

fn value<'a>(fields: &'a [KeyValue], name: &str) -> Option<&'a Value> {
    let field = fields.iter().find(|field| field.key.as_str() == name)?;
    Some(&field.value)
}

fn text(fields: &[KeyValue], name: &str) -> Option<String> {
    value(fields, name).map(|value| value.as_str().into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use opentelemetry::InstrumentationScope;
    use opentelemetry::trace::{SpanContext, SpanId};

    use super::*;

    /// Name, kind, attributes and status of what leaves.
    fn leaves(
        name: &'static str,
        fields: &[(&'static str, Value)],
    ) -> (String, SpanKind, Vec<String>, Status) {
        let now = SystemTime::UNIX_EPOCH;
        let span = shaped(SpanData {
            span_context: SpanContext::empty_context(),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: now,
            end_time: now,
            attributes: fields
                .iter()
                .map(|(name, value)| KeyValue::new(*name, value.clone()))
                .collect(),
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        });
        let attributes = span.attributes.iter();
        let attributes = attributes
            .map(|field| format!("{}={}", field.key, field.value))
            .collect();
        (
            span.name.into_owned(),
            span.span_kind,
            attributes,
            span.status,
        )
    }

    #[test]
    fn a_request_is_a_servers_span_with_its_route_and_nothing_that_names_anybody() {
        let (name, kind, attributes, status) = leaves(
            REQUEST,
            &[
                ("request.id", "ann@example.com".into()),
                ("http.method", "POST".into()),
                ("http.route", "/v1/charges".into()),
                ("access.key", "ann".into()),
                ("trace.id", "7".into()),
                (INVOICE_ID, "inv_1".into()),
                (STATUS, 201_i64.into()),
            ],
        );
        assert_eq!(
            (&*name, kind, status),
            ("POST /v1/charges", SpanKind::Server, Status::Unset)
        );
        #[rustfmt::skip]
        assert_eq!(attributes, [
            "http.request.method=POST", "http.route=/v1/charges", "http.response.status_code=201", "invoice.id=inv_1"
        ]);
    }

    #[test]
    fn what_anybody_can_make_up_is_no_name() {
        let (name, _, attributes, _) = leaves(
            REQUEST,
            &[
                ("http.method", "ANN".into()),
                ("http.route", "unmatched".into()),
            ],
        );
        assert_eq!(
            (&*name, attributes),
            ("HTTP", vec!["http.request.method=_OTHER".to_owned()])
        );
    }

    #[test]
    fn a_fault_of_ours_is_an_error_and_a_refusal_is_none() {
        let status = |status: i64| leaves(REQUEST, &[(STATUS, status.into())]).3;
        assert_eq!(status(503), Status::error(""));
        assert_eq!(status(402), Status::Unset);
    }

    #[test]
    fn a_call_of_the_provider_is_a_clients_span_and_a_decline_is_no_error() {
        for (outcome, expected) in [
            ("failed", Status::Unset),
            ("unknown", Status::error("unknown")),
        ] {
            let fields = [
                ("provider.name", Value::from("stripe")),
                ("provider.operation", "send".into()),
                ("provider.outcome", outcome.into()),
                ("key", "secret".into()),
            ];
            let (name, kind, attributes, status) = leaves(PROVIDER, &fields);
            assert_eq!(
                (&*name, kind, status),
                ("stripe send", SpanKind::Client, expected)
            );
            #[rustfmt::skip]
            assert_eq!(attributes, [
                "payment.provider=stripe".to_owned(), "payment.operation=send".into(), format!("payment.outcome={outcome}")
            ]);
        }
    }
}
