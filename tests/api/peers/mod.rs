//! The Stripe client against stand-ins that we did not write, on loopback. What they can show is little (neither has an
//! idempotency layer), but it is not our own reading of Stripe: parameter names, shapes of answers, whole round trips.
//!
//! Each is a process of its own for one test, on a free port. `make test` fetches them and names them in its last lines.

mod localstripe;
mod stripe_mock;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::net::TcpStream;

use chargeonce::payments::provider::SendLimits;
use chargeonce::payments::refund::RefundOrder;
use chargeonce::payments::stripe::{
    Backoff, HttpSettings, HttpTransport, LimiterSettings, StripeApi, StripeProvider,
    StripeSettings,
};

use crate::support::free_port;

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
    /// Starts a stand-in that takes a free port by itself and says which: after `marker`, on a line of its output.
    async fn announcing(mut command: Command, marker: &'static str) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = BufReader::new(process.stdout.take().unwrap());
        let reader = tokio::task::spawn_blocking(move || {
            let mut lines = output.lines();
            let address = lines
                .by_ref()
                .map_while(Result::ok)
                .find_map(|line| Some(line.split_once(marker)?.1.to_owned()));
            // Whoever writes on must find a reader.
            std::thread::spawn(move || lines.for_each(drop));
            address
        });
        let address = reader.await.unwrap();
        let address = address.unwrap_or_else(|| panic!("{command:?} has ended"));
        Self {
            url: format!("http://{address}"),
            process,
        }
    }

    /// Starts one that has to be told its port, and waits until it answers.
    async fn listening(command: impl Fn(u16) -> Command) -> Self {
        // Somebody else may take a port that was free before the stand-in does.
        for _ in 0..5 {
            let port = free_port();
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
            if peer.is_reached(port).await {
                return peer;
            }
        }
        panic!("{:?} ends on every port", command(0));
    }

    /// Waits until it is reached at its port; false when it ends instead.
    async fn is_reached(&mut self, port: u16) -> bool {
        for _ in 0..600 {
            let is_reached = TcpStream::connect(("127.0.0.1", port)).await.is_ok();
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if is_reached {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} does not listen", self.url);
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

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// A first send, within these.
fn limits() -> SendLimits {
    SendLimits {
        wall_deadline: SystemTime::now() + Duration::from_secs(3_600),
        deadline: soon(),
        sent_before: false,
    }
}

/// Gives part of a payment back.
fn refund_order(payment_id: &str) -> RefundOrder {
    RefundOrder {
        charge_id: "chg_1".into(),
        invoice_id: "inv_1".into(),
        refund_key: "refund:chg_1".into(),
        attempt: 1,
        installation_id: "ins_1".into(),
        payment_id: payment_id.to_owned(),
        amount_minor: 400,
        currency: "usd".into(),
        reason: None,
    }
}
