//! Traces, sent to a collector by OTLP over HTTP.
//!
//! Nothing here is ever in the way of a charge. A span that has ended is put into a bounded queue, which a thread of its own
//! empties; what does not fit is dropped, and so is what the collector does not take.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{self, SdkTracerProvider, SpanData};
use reqwest::{Client, Url, redirect, retry};
use tokio::runtime::Handle;

use super::shape::shaped;
use crate::payments::stripe::http::{HttpSetupError, tls_for};

/// The service's name in its traces.
pub(super) const SERVICE: &str = "chargeonce";

/// How long one request to the collector may take. Meanwhile spans wait in the queue.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The time between two complaints about a collector that is away.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(300);

/// Where a collector takes traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEndpoint(String);

impl TraceEndpoint {
    /// Reads a collector's base URL; traces go to `/v1/traces` below it. `None` for what cannot be called, and for what would be
    /// lost or written to a log: a user, a password, a query.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
        let base = url.as_str().trim_end_matches('/');
        (is_plain && is_http).then(|| Self(format!("{base}/v1/traces")))
    }
}

/// Traces cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum TraceSetupError {
    /// The client that would send them.
    #[error("traces cannot be exported: {0}")]
    Client(#[from] HttpSetupError),
    /// The exporter; it reads further variables of the environment.
    #[error("traces cannot be exported: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// Makes spans, and exports them in batches.
pub(super) fn provider(endpoint: &TraceEndpoint) -> Result<SdkTracerProvider, TraceSetupError> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&endpoint.0)
        .with_http_client(OnRuntime {
            client: client(endpoint)?,
            runtime: Handle::current(),
        })
        .build()?;
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder()
        .with_service_name(SERVICE)
        .with_attribute(version);
    Ok(SdkTracerProvider::builder()
        .with_resource(resource.build())
        .with_batch_exporter(Outlet {
            inner: exporter,
            complaints: Mutex::default(),
        })
        .build())
}

/// As everywhere here: no proxy, no redirect.
fn client(endpoint: &TraceEndpoint) -> Result<Client, HttpSetupError> {
    Client::builder()
        .tls_backend_preconfigured(tls_for(&endpoint.0)?)
        .http1_only()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        .retry(retry::never())
        .timeout(REQUEST_TIME)
        .user_agent(concat!("chargeonce/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| HttpSetupError::Client(error.without_url().to_string()))
}

/// Sends on the process's runtime: the exporter's thread has none.
#[derive(Debug)]
struct OnRuntime {
    client: Client,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = async move { client.send_bytes(request).await };
        self.runtime.spawn(sent).await?
    }
}

/// Exports what may leave, and says when nobody takes it, now and then.
#[derive(Debug)]
struct Outlet {
    inner: SpanExporter,
    complaints: Mutex<Complaints>,
}

impl trace::SpanExporter for Outlet {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let batch = batch.into_iter().map(shaped).collect();
        let exported = self.inner.export(batch).await;
        let told = {
            let complaints = self.complaints.lock();
            let mut complaints = complaints.unwrap_or_else(PoisonError::into_inner);
            complaints.told_of(exported.is_ok(), Instant::now())
        };
        match (told, &exported) {
            (true, Err(error)) => {
                tracing::warn!(%error, "traces are lost: the collector does not take them");
            }
            (true, Ok(())) => tracing::info!("the collector takes traces again"),
            (false, _) => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// When a failure was last told of, while failures go on.
#[derive(Debug, Default)]
struct Complaints {
    last: Option<Instant>,
}

impl Complaints {
    /// Whether this outcome is worth a line.
    fn told_of(&mut self, is_exported: bool, now: Instant) -> bool {
        if is_exported {
            return self.last.take().is_some();
        }
        let is_due = self
            .last
            .is_none_or(|last| now.duration_since(last) >= COMPLAINT_INTERVAL);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_go_below_the_collectors_address() {
        let path = |text| TraceEndpoint::parse(text).map(|endpoint| endpoint.0);
        let at = |url: &str| Some(url.to_owned());
        for base in ["http://127.0.0.1:4318", "http://127.0.0.1:4318/"] {
            assert_eq!(path(base), at("http://127.0.0.1:4318/v1/traces"));
        }
        assert_eq!(
            path("https://otlp.example.com/otlp/"),
            at("https://otlp.example.com/otlp/v1/traces")
        );
        for text in [
            "127.0.0.1:4318",
            "localhost:4318",
            "grpc://localhost:4317",
            "http://",
            "http://ann:secret@collector",
            "http://collector?key=secret",
            "http://collector#there",
        ] {
            assert_eq!(path(text), None, "{text}");
        }
    }

    #[test]
    fn a_collector_that_is_away_is_complained_of_at_first_and_now_and_then() {
        let mut complaints = Complaints::default();
        let begun = Instant::now();
        let mut told = |is_exported, seconds| {
            complaints.told_of(is_exported, begun + Duration::from_secs(seconds))
        };
        assert!(!told(true, 0));
        assert!(told(false, 1));
        assert!(!told(false, 300));
        assert!(told(false, 301));
        assert!(told(true, 302), "it is back");
        assert!(!told(true, 303));
        assert!(told(false, 304));
    }
}
