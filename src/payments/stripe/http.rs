//! Stripe over HTTP.
//!
//! What this transport does not do, each on purpose:
//! - It follows no redirect: a POST would be sent to a place that nobody chose.
//! - It uses no proxy, whatever `HTTP_PROXY` and the like say: charges go where the settings say.
//! - It repeats nothing. reqwest's own retries are off. hyper-util still moves a request to a new connection when a
//!   pooled one turns out to be closed before the request's first byte was written; nothing has left then, and the key
//!   and the bytes are the same.
//! - It speaks HTTP/1.1 only: one connection carries one charge, so a broken connection leaves one outcome unknown and
//!   not all that run.
//! - It decompresses nothing: the limit on bodies then holds for what is kept in memory.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url, redirect, retry};
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout_at};

use super::transport::{
    AnswerHeaders, HttpAnswer, HttpCall, Lost, Method, Transport, TransportResult,
};

/// Stripe's own address.
pub const STRIPE_API_BASE: &str = "https://api.stripe.com";
/// The API version that this code was written for. Within one name the monthly versions do not break (Stripe docs,
/// API upgrades).
pub const STRIPE_VERSION: &str = "2026-06-24.dahlia";
/// As the official SDKs.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer that is read. A full page of a hundred payments with their Charges is about a fifth of it.
pub const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

const USER_AGENT: &str = concat!("chargeonce/", env!("CARGO_PKG_VERSION"));
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Where Stripe is, and who we are there.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Scheme, host and, if need be, port and path: [`STRIPE_API_BASE`], or a stand-in's address, which may be `http`.
    pub base_url: String,
    /// The secret key.
    pub secret_key: SecretString,
    /// The limit on resolving, connecting and TLS together. A time-out of it means surely that nothing was sent.
    pub connect_timeout: Duration,
}

/// The transport cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum HttpSetupError {
    /// Not an address that can be called.
    #[error("the base URL must be http(s)://host, without user, path, query or fragment")]
    BaseUrl,
    /// Not a key that can be sent.
    #[error("the secret key is empty or has characters that cannot be sent in a header")]
    SecretKey,
    /// No TLS.
    #[error("TLS could not be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// No client.
    #[error("the HTTP client could not be built: {0}")]
    Client(String),
}

/// A [`Transport`] over pooled HTTP/1.1 connections.
pub struct HttpTransport {
    client: Client,
    base_url: String,
}

/// The client knows the key.
impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport")
            .field("base_url", &self.base_url)
            .finish_non_exhaustive()
    }
}

impl HttpTransport {
    /// A transport that trusts the system's certificate authorities.
    pub fn new(settings: &HttpSettings) -> Result<Self, HttpSetupError> {
        Self::with_tls(settings, tls_for(&settings.base_url)?)
    }

    pub(super) fn with_tls(
        settings: &HttpSettings,
        mut tls: rustls::ClientConfig,
    ) -> Result<Self, HttpSetupError> {
        let base = checked_base_url(&settings.base_url)?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .https_only(base.scheme() == "https")
            .http1_only()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .retry(retry::never())
            .connect_timeout(settings.connect_timeout)
            .user_agent(USER_AGENT)
            .default_headers(default_headers(&settings.secret_key)?)
            .build()
            .map_err(|error| HttpSetupError::Client(describe(error)))?;
        Ok(Self {
            client,
            base_url: base.as_str().trim_end_matches('/').to_owned(),
        })
    }

    fn request(&self, call: &HttpCall<'_>) -> Result<reqwest::Request, String> {
        let url = format!("{}{}", self.base_url, call.path_and_query);
        let mut request = match call.method {
            Method::Get => self.client.get(url),
            Method::Post => self.client.post(url).header(CONTENT_TYPE, FORM),
        };
        if let Some(key) = call.idempotency_key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        if let Some(body) = call.body {
            request = request.body(body.to_owned());
        }
        request.build().map_err(describe)
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn call(&self, call: HttpCall<'_>, timeout: Duration) -> TransportResult {
        let deadline = Instant::now() + timeout;
        let request = match self.request(&call) {
            Ok(request) => request,
            Err(reason) => return TransportResult::NotSent(reason),
        };
        match timeout_at(deadline, self.client.execute(request)).await {
            // Perhaps only the connect was slow; that cannot be told from here.
            Err(_elapsed) => TransportResult::Lost(Lost::without_head("no answer in time")),
            // Only what failed while resolving, connecting or in TLS is a connect error; there is no proxy, so no
            // connect error comes from after the request.
            Ok(Err(error)) if error.is_connect() => TransportResult::NotSent(describe(error)),
            Ok(Err(error)) => TransportResult::Lost(Lost::without_head(describe(error))),
            Ok(Ok(response)) => read(response, deadline).await,
        }
    }
}

/// Reads a body up to its end, its limit or the deadline.
async fn read(mut response: Response, deadline: Instant) -> TransportResult {
    let status = response.status().as_u16();
    let pairs = response
        .headers()
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let headers = AnswerHeaders::from_pairs(pairs);
    let mut body = Vec::new();
    let reason = loop {
        match timeout_at(deadline, response.chunk()).await {
            Err(_elapsed) => break "the body did not end in time".to_owned(),
            Ok(Err(error)) => break describe(error),
            Ok(Ok(Some(chunk))) if body.len() + chunk.len() > MAX_BODY_BYTES => {
                break format!("the body is larger than {MAX_BODY_BYTES} bytes");
            }
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            Ok(Ok(None)) => {
                return TransportResult::Answer(HttpAnswer {
                    status,
                    headers,
                    body,
                });
            }
        }
    };
    TransportResult::Lost(Lost {
        reason,
        head: Some((status, headers)),
    })
}

fn default_headers(secret_key: &SecretString) -> Result<HeaderMap, HttpSetupError> {
    let key = secret_key.expose_secret();
    if key.is_empty() {
        return Err(HttpSetupError::SecretKey);
    }
    let mut authorization =
        HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| HttpSetupError::SecretKey)?;
    // Keeps it out of every Debug output of the client and its requests.
    authorization.set_sensitive(true);
    Ok(HeaderMap::from_iter([
        (AUTHORIZATION, authorization),
        (
            HeaderName::from_static("stripe-version"),
            HeaderValue::from_static(STRIPE_VERSION),
        ),
    ]))
}

/// An address that can be called: scheme and host, and nothing that would be lost or misread.
pub(crate) fn checked_base_url(url: &str) -> Result<Url, HttpSetupError> {
    let base = Url::parse(url).map_err(|_| HttpSetupError::BaseUrl)?;
    let plain = base.username().is_empty()
        && base.password().is_none()
        && base.path() == "/"
        && base.query().is_none()
        && base.fragment().is_none();
    if !plain || !base.has_host() || !matches!(base.scheme(), "http" | "https") {
        return Err(HttpSetupError::BaseUrl);
    }
    Ok(base)
}

/// TLS for such an address, trusting the system's certificate authorities. A container without any can still talk over plain
/// HTTP.
pub(crate) fn tls_for(base_url: &str) -> Result<rustls::ClientConfig, HttpSetupError> {
    Ok(if base_url.starts_with("https:") {
        tls_builder()?
            .with_platform_verifier()?
            .with_no_client_auth()
    } else {
        tls_without_roots()?
    })
}

fn tls_builder()
-> Result<rustls::ConfigBuilder<rustls::ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

/// Trusts nobody: for plain HTTP, where it is never used.
pub(super) fn tls_without_roots() -> Result<rustls::ClientConfig, rustls::Error> {
    Ok(tls_builder()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

/// An error and its causes in one line, without the URL (its query names customers).
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}
