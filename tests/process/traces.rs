//! Traces: what a collector gets, what a caller's `traceparent` does, and that a collector that is away is in nobody's way.

use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::Value;

use crate::support::{Collector, Engine, Reply, Service, ServiceBuilder, TestApp, attributes};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Of a stop: the time for the flush, and a busy machine's slack.
const STOP_MAX: Duration = Duration::from_secs(15);

/// A service that exports to a collector, and logs whatever it can: what its own HTTP client logs must not be traced.
fn traced(app: &TestApp, url: &str) -> ServiceBuilder {
    app.service()
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        .set("RUST_LOG", "trace")
}

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

/// Ends a service, which exports what is left.
async fn stop(service: &mut Service) {
    service.signal("TERM");
    assert_eq!(service.ended().await.code(), Some(0));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The kind, the trace, the parent and the attributes of a span.
fn seen(span: &Span) -> (SpanKind, String, String, Vec<String>) {
    let fields = attributes(&span.attributes).into_iter();
    (
        span.kind(),
        hex(&span.trace_id),
        hex(&span.parent_span_id),
        fields
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
    )
}

fn status(span: &Span) -> StatusCode {
    span.status
        .clone()
        .map_or(StatusCode::Unset, |status| status.code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_continues_its_callers_trace_and_the_providers_call_is_within_it() {
    let app = TestApp::start(Engine::Sqlite).await;
    let collector = Collector::start().await;
    let mut service = traced(&app, &collector.url).start().await;
    service.invoice("inv_1").await;

    let headers = [
        ("traceparent", &*traceparent("01")),
        ("tracestate", "ours=7, theirs=8"),
    ];
    let reply = service.charge_with("inv_1", &headers).await;
    stop(&mut service).await;

    reply.assert(201, "", "yes", "not_needed");
    let charge = collector.span("POST /v1/charges");
    #[rustfmt::skip]
    let fields = [
        "http.request.method=POST", "http.route=/v1/charges", "http.response.status_code=201", "invoice.id=inv_1"
    ];
    let expected = (
        SpanKind::Server,
        TRACE.into(),
        PARENT.into(),
        fields.map(str::to_owned).to_vec(),
    );
    assert_eq!(seen(&charge), expected);
    assert_eq!(charge.trace_state, "ours=7,theirs=8");
    let send = collector.span("stripe send");
    let fields = [
        "payment.provider=stripe",
        "payment.operation=send",
        "payment.outcome=succeeded",
    ];
    let within = hex(&charge.span_id);
    let expected = (
        SpanKind::Client,
        TRACE.into(),
        within,
        fields.map(str::to_owned).to_vec(),
    );
    assert_eq!(seen(&send), expected);
    // Nothing else is traced, and of the exporter's own calls nothing at all.
    let spans = collector.spans();
    let mut names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
    names.sort_unstable();
    #[rustfmt::skip]
    assert_eq!(names, ["POST /v1/charges", "POST /v1/invoices", "stripe prepare", "stripe send"]);
    assert!(
        spans
            .iter()
            .all(|span| span.events.is_empty() && span.links.is_empty())
    );
    assert!(hex(&collector.span("POST /v1/invoices").trace_id) != TRACE);
    let resource = collector.resource();
    for (name, value) in [
        ("service.name", "chargeonce"),
        ("service.version", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(
            resource.contains(&(name.into(), value.into())),
            "{resource:?}"
        );
    }
    app.check_oracles(&[reply]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_outlives_its_caller_stays_in_the_callers_trace() {
    let app = TestApp::start(Engine::Sqlite).await;
    let collector = Collector::start().await;
    let mut service = traced(&app, &collector.url)
        .set("RESPONSE_WAIT", "1s")
        .start()
        .await;
    service.invoice("inv_1").await;
    app.mock.set_latency(Duration::from_secs(3));
    app.mock.fault("charge:inv_1", "error_500_before", 9);

    let headers = [("traceparent", &*traceparent("01"))];
    let reply = service.charge_with("inv_1", &headers).await;
    stop(&mut service).await;

    reply.assert(202, "", "unknown", "later");
    let (charge, send) = (
        collector.span("POST /v1/charges"),
        collector.span("stripe send"),
    );
    assert_eq!(
        (hex(&send.trace_id), &send.parent_span_id),
        (TRACE.into(), &charge.span_id)
    );
    assert!(
        send.end_time_unix_nano > charge.end_time_unix_nano,
        "the answer ends the request's span"
    );
    assert_eq!(
        (status(&charge), status(&send)),
        (StatusCode::Unset, StatusCode::Error)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_traceparent_begins_a_new_trace_and_what_is_not_sampled_is_not_exported() {
    let app = TestApp::start(Engine::Sqlite).await;
    let collector = Collector::start().await;
    let mut service = traced(&app, &collector.url).start().await;
    for id in ["inv_1", "inv_2", "inv_3"] {
        service.invoice(id).await;
    }

    let upper_case = traceparent("01").to_uppercase();
    service
        .charge_with("inv_1", &[("traceparent", &upper_case)])
        .await;
    let twice = traceparent("01");
    service
        .charge_with("inv_2", &[("traceparent", &twice), ("traceparent", &twice)])
        .await;
    service
        .charge_with("inv_3", &[("traceparent", &traceparent("00"))])
        .await;
    stop(&mut service).await;

    let spans = collector.spans();
    let charges: Vec<&Span> = spans
        .iter()
        .filter(|span| span.name == "POST /v1/charges")
        .collect();
    assert_eq!(charges.len(), 2, "{spans:?}");
    for charge in &charges {
        assert!(
            hex(&charge.trace_id) != TRACE && charge.parent_span_id.is_empty(),
            "{charge:?}"
        );
    }
    assert!(charges[0].trace_id != charges[1].trace_id);
    assert_eq!(
        spans
            .iter()
            .filter(|span| span.name == "stripe send")
            .count(),
        2
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_names_the_trace_with_and_without_a_collector() {
    let app = TestApp::start(Engine::Sqlite).await;
    let collector = Collector::start().await;
    let json = || {
        app.service()
            .set("LOG_FORMAT", "json")
            .set("RUST_LOG", "chargeonce=info")
    };
    let builders = [
        json(),
        json().set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url),
    ];
    for (n, builder) in builders.into_iter().enumerate() {
        let mut service = builder.start().await;
        let id = format!("inv_{n}");
        service.invoice(&id).await;
        service
            .charge_with(&id, &[("traceparent", &traceparent("01"))])
            .await;
        stop(&mut service).await;
        service.written_to_stderr("\"stopped\"").await;
        let log = service.stderr();
        let lines = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let answered: Vec<Value> = lines.filter(|line| line["message"] == "answered").collect();
        assert_eq!(answered.len(), 2, "{log}");
        assert_eq!(answered[1]["span"]["trace.id"], TRACE, "{log}");
        let of_its_own = answered[0]["span"]["trace.id"].as_str();
        assert_eq!(of_its_own.map(str::len), (n == 1).then_some(32), "{log}");
    }
}

/// It refuses connections, or takes them and never answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_is_in_nobodys_way() {
    let silent = Collector::start_silent().await;
    for url in ["http://127.0.0.1:9", &silent.url] {
        let app = TestApp::start(Engine::Sqlite).await;
        let mut service = app
            .service()
            .set("OTEL_EXPORTER_OTLP_ENDPOINT", url)
            // So small that it is full at once.
            .set("OTEL_BSP_MAX_QUEUE_SIZE", "2")
            .set("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
            .start()
            .await;
        let mut replies: Vec<Reply> = Vec::new();
        for n in 0..20 {
            let id = format!("inv_{n}");
            service.invoice(&id).await;
            replies.push(service.charge(&id).await);
        }
        let told = Instant::now();
        stop(&mut service).await;
        let took = told.elapsed();

        for reply in &replies {
            reply.assert(201, "", "yes", "not_needed");
        }
        assert!(took < STOP_MAX, "{url}: {took:?}");
        service.written_to_stderr("stopped").await;
        let log = service.stderr();
        let complaints = log
            .lines()
            .filter(|line| line.contains("traces are lost"))
            .count();
        assert!(complaints <= 1, "{url}: {log}");
        app.check_oracles(&replies).await;
    }
    assert!(silent.connections() > 0, "nothing was exported");
    assert_eq!(silent.spans().len(), 0);
}
