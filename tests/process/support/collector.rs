//! A stand-in for a collector: it takes traces by OTLP over HTTP and keeps them.

use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// It lives as long as its test's runtime.
pub struct Collector {
    pub url: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    exports: Vec<ExportTraceServiceRequest>,
    connections: usize,
}

impl Collector {
    /// One that takes what it gets.
    pub async fn start() -> Self {
        Self::listen(true).await
    }

    /// One that reads and never answers.
    pub async fn start_silent() -> Self {
        Self::listen(false).await
    }

    async fn listen(answers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Seen::default()));
        let kept = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                kept.lock().unwrap().connections += 1;
                tokio::spawn(serve(stream, answers, Arc::clone(&kept)));
            }
        });
        Self { url, seen }
    }

    /// All spans that were exported, in the order of their ends.
    pub fn spans(&self) -> Vec<Span> {
        let seen = self.seen.lock().unwrap();
        let scopes = seen.exports.iter().flat_map(|export| {
            let resources = export.resource_spans.iter();
            resources.flat_map(|resource| &resource.scope_spans)
        });
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// The only span with this name.
    pub fn span(&self, name: &str) -> Span {
        let mut spans = self.spans();
        let names: Vec<String> = spans.iter().map(|span| span.name.clone()).collect();
        spans.retain(|span| span.name == name);
        assert_eq!(spans.len(), 1, "{name} in {names:?}");
        spans.remove(0)
    }

    /// What the first export says of its sender.
    pub fn resource(&self) -> Vec<(String, String)> {
        let seen = self.seen.lock().unwrap();
        let resource = seen.exports[0].resource_spans[0].resource.clone();
        attributes(&resource.unwrap().attributes)
    }

    /// How many connections were made to it.
    pub fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }
}

/// Attributes as text.
pub fn attributes(list: &[KeyValue]) -> Vec<(String, String)> {
    let text = |field: &KeyValue| match field.value.clone().and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    };
    list.iter()
        .map(|field| (field.key.clone(), text(field)))
        .collect()
}

/// Request after request on one connection, until it is closed.
async fn serve(mut stream: TcpStream, answers: bool, seen: Arc<Mutex<Seen>>) {
    while let Some(body) = request(&mut stream).await {
        if !answers {
            continue;
        }
        let export = ExportTraceServiceRequest::decode(&*body).unwrap();
        seen.lock().unwrap().exports.push(export);
        let answer =
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// The next request's body; none once the connection is closed.
async fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf\r\n"),
        "{head}"
    );
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some(body)
}
