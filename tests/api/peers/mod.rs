//! The Stripe client against stand-ins that we did not write, on loopback. What they can show is little (neither has an
//! idempotency layer), but it is not our own reading of Stripe: parameter names, shapes of answers, whole round trips.
//!
//! Each is a process of its own for one test, on a free port. `make test` fetches them and names them in its last lines.

mod localstripe;
mod stripe_mock;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use chargeonce::payments::stripe::{
    Backoff, HttpSettings, HttpTransport, LimiterSettings, StripeApi, StripeProvider,
    StripeSettings,
};

/// A running stand-in; ends with its test.
struct Peer {
    url: String,
    process: Child,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Peer {
    /// Starts it on a free port and waits until it answers. Another test may take the port first: then on another one.
    async fn start(command: impl Fn(u16) -> Command) -> Self {
        for _ in 0..5 {
            if let Some(peer) = Self::try_start(&command).await {
                return peer;
            }
        }
        panic!("{:?} does not start", command(0));
    }

    async fn try_start(command: impl Fn(u16) -> Command) -> Option<Self> {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        drop(socket);
        let mut command = command(port);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let url = format!("http://127.0.0.1:{port}");
        let mut peer = Self { url, process };
        for _ in 0..600 {
            if peer.process.try_wait().unwrap().is_some() {
                return None;
            }
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return Some(peer);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    }

    /// Our client, as in production, speaking to it.
    fn provider(&self, api: StripeApi) -> Arc<StripeProvider<HttpTransport>> {
        let transport = HttpTransport::new(&HttpSettings {
            base_url: self.url.clone(),
            secret_key: "sk_test_123".to_owned().into(),
            connect_timeout: Duration::from_secs(5),
        });
        let settings = StripeSettings {
            name: "stripe",
            api,
            key_prefix: String::new(),
            timeout: Duration::from_secs(20),
            max_retries: 2,
            backoff: Backoff::default(),
            limits: LimiterSettings::default(),
        };
        Arc::new(StripeProvider::new(settings, transport.unwrap()))
    }
}
