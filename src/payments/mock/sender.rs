//! Webhooks over HTTP. The only file of the mock that knows an HTTP client.
//!
//! As Stripe does, it follows no redirect: a 3xx is a failed delivery. By default it talks to this machine only, so that a
//! test cannot reach a stranger.

use std::error::Error as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderName};
use reqwest::{Client, Url, redirect, retry};
use rustls_platform_verifier::BuilderVerifierExt;

use super::delivery::{WebhookPost, WebhookSink};

/// How long an endpoint may take to answer; Stripe's own limit is not published.
const TIMEOUT: Duration = Duration::from_secs(10);
const SIGNATURE: HeaderName = HeaderName::from_static("stripe-signature");
const USER_AGENT: &str = "Stripe/1.0 (chargeonce mock-stripe)";

/// Which machines webhooks may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// This machine only.
    Loopback,
    /// Any machine.
    AnyHost,
}

/// A [`WebhookSink`] over HTTP/1.1.
#[derive(Debug)]
pub struct HttpSender {
    client: Client,
    reach: Reach,
}

impl HttpSender {
    /// A sender; it fails if TLS cannot be set up.
    pub fn new(reach: Reach) -> Result<Self, Box<dyn std::error::Error>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?;
        // A machine without certificate authorities can still send to itself.
        let tls = match reach {
            Reach::Loopback => tls
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth(),
            Reach::AnyHost => tls.with_platform_verifier()?.with_no_client_auth(),
        };
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .timeout(TIMEOUT)
            .user_agent(USER_AGENT)
            .build()?;
        Ok(Self { client, reach })
    }
}

#[async_trait]
impl WebhookSink for HttpSender {
    fn check(&self, url: &str) -> Result<(), String> {
        let url = Url::parse(url).map_err(|error| format!("Not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("A webhook URL begins with http:// or https://.".to_owned());
        }
        let host = url.host_str().unwrap_or_default();
        if self.reach == Reach::Loopback && !is_loopback(host) {
            return Err(format!(
                "{host} is not this machine; start the mock with --webhook-any-host to send there."
            ));
        }
        Ok(())
    }

    async fn post(&self, post: WebhookPost) -> Result<u16, String> {
        let request = self
            .client
            .post(post.url)
            .header(CONTENT_TYPE, "application/json; charset=utf-8")
            .header(SIGNATURE, post.signature)
            .body(post.body);
        match request.send().await {
            Ok(response) => Ok(response.status().as_u16()),
            Err(error) if error.is_timeout() => {
                Err(format!("no answer within {} s", TIMEOUT.as_secs()))
            }
            Err(error) => Err(describe(error)),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The innermost cause, which is the one that helps: `Connection refused`.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_reached_unless_asked_for() {
        let table = [
            ("http://127.0.0.1:4242/webhook", true, true),
            ("http://localhost/", true, true),
            ("http://[::1]:80/", true, true),
            ("http://127.0.0.1.example.com/", false, true),
            ("http://localhost.example.com/", false, true),
            ("http://127.0.0.1@example.com/", false, true),
            ("http://10.0.0.1/", false, true),
            ("https://example.com/", false, true),
            ("file:///etc/hosts", false, false),
            ("example.com", false, false),
        ];
        let near = HttpSender::new(Reach::Loopback).unwrap();
        let far = HttpSender {
            reach: Reach::AnyHost,
            client: near.client.clone(),
        };
        for (url, loopback, any) in table {
            assert_eq!(near.check(url).is_ok(), loopback, "{url}");
            assert_eq!(far.check(url).is_ok(), any, "{url}");
        }
    }
}
