//! `chargeonce mock-stripe`: the stand-in for Stripe as a command of its own.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use chargeonce::config::LogFormat;
use chargeonce::payments::mock::{
    self, HttpSender, MockStripe, Reach, RetryPolicy, WebhookEndpoint,
};
use chargeonce::telemetry;
use clap::Args;

use crate::Outcome;

const LONG_HELP: &str = "\
A stateful stand-in for Stripe's API with a real idempotency layer, to test that you charge once.

Point an official SDK at it with any sk_test_... key: payments, refunds, customers and events behave as Stripe documents
them. Then make calls fail at the worst moment, and look at the ledger to see whether money was taken twice.
Nothing is stored on disk, and no real money is anywhere near.";

const EXAMPLES: &str = "\
Examples:
  Lose the answer to the next charge after it was made, then send it again with the same key:
    curl localhost:12111/_mock/faults -d '{\"fault\": \"drop_after\"}'
    curl localhost:12111/v1/payment_intents -u sk_test_1: -H 'Idempotency-Key: order-1' \\
      -d amount=500 -d currency=usd -d payment_method=pm_card_visa -d confirm=true
    curl localhost:12111/_mock/ledger
  Send signed events to your own server:
    chargeonce mock-stripe --webhook-url http://127.0.0.1:3000/webhook --webhook-secret whsec_test

Faults: delay, drop_before, drop_after, hang_before, hang_after, error_500_before, error_500_after, error_503,
rate_limit, lock_timeout, unauthorized, garbage_after, wrong_amount, processing; for webhooks: webhook_delay, webhook_drop,
webhook_duplicate. \"before\" means that nothing was executed, \"after\" that it was and the answer is lost.

docs/mock-stripe.md has the whole of it.";

/// Serve a stateful stand-in for Stripe, to test that you charge once.
#[derive(Args)]
#[command(long_about = LONG_HELP, after_long_help = EXAMPLES)]
pub struct MockCommand {
    /// Where to listen. The mock has no real authentication: anything but loopback needs --allow-remote.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// 0 takes a free port; the first line of the output says which.
    #[arg(long, default_value_t = 12111)]
    port: u16,
    /// Let other machines in, for a container or a test network.
    #[arg(long)]
    allow_remote: bool,
    /// Post every event to this URL, signed as Stripe signs it. It can be changed at run time: POST /_mock/webhooks.
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
    /// The signing secret, whsec_...; given twice, every event has both signatures, as while a secret is rotated. Without one,
    /// a secret is made and printed.
    #[arg(long, value_name = "SECRET", requires = "webhook_url")]
    webhook_secret: Vec<String>,
    /// Milliseconds before a failed delivery is tried again; doubled each time, at most a minute, six attempts in all.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    webhook_retry_ms: u64,
    /// Let webhooks go to other machines too.
    #[arg(long)]
    webhook_any_host: bool,
}

impl MockCommand {
    /// Serves until a signal ends it.
    pub async fn run(self) -> Outcome {
        telemetry::start(LogFormat::Pretty);
        if !self.host.is_loopback() && !self.allow_remote {
            let message =
                "{} is not loopback, and the mock takes any key; add --allow-remote if you mean it";
            return Err(message.replace("{}", &self.host.to_string()).into());
        }
        let mock = MockStripe::new();
        let reach = if self.webhook_any_host {
            Reach::AnyHost
        } else {
            Reach::Loopback
        };
        let policy = RetryPolicy {
            first_wait: Duration::from_millis(self.webhook_retry_ms),
            ..RetryPolicy::default()
        };
        mock.deliver_webhooks(Arc::new(HttpSender::new(reach)?), policy);
        let mut secret_to_show = None;
        if let Some(url) = &self.webhook_url {
            let endpoint = WebhookEndpoint::new(url, self.webhook_secret.clone())?;
            if self.webhook_secret.is_empty() {
                secret_to_show = endpoint.secrets.first().cloned();
            }
            mock.set_webhook_endpoint(Some(endpoint))?;
        }
        let listener = TcpListener::bind((self.host, self.port))?;
        let address = listener.local_addr()?;
        let server = mock::serve(mock, listener)?;
        let mut signals = Signals::new()?;
        self.greet(address, secret_to_show.as_deref());
        let handle = server.handle();
        tokio::spawn(async move {
            signals.wait().await;
            // Calls in flight are cut after a second: some of them hang on purpose.
            handle.stop(true).await;
        });
        Ok(server.await?)
    }

    /// The first lines that a newcomer sees.
    fn greet(&self, address: SocketAddr, secret: Option<&str>) {
        println!("mock-stripe listens on http://{address}");
        if let Some(url) = &self.webhook_url {
            println!("  events go to {url}");
        }
        if let Some(secret) = secret {
            println!("  signed with {secret}");
        }
        println!("Charge a card:");
        println!(
            "  curl http://{address}/v1/payment_intents -u sk_test_1: -H 'Idempotency-Key: order-1' -d amount=500 -d currency=usd -d payment_method=pm_card_visa -d confirm=true"
        );
        println!("Lose the answer to the next charge, after it was made:");
        println!("  curl http://{address}/_mock/faults -d '{{\"fault\": \"drop_after\"}}'");
        println!("Control, JSON in and out:");
        for (method, path, purpose) in mock::controls() {
            println!("  {method:<6} {path:<30} {purpose}");
        }
    }
}

/// What ends the mock. Listened to before the server starts, so that no signal is lost.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(unix)]
    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn wait(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
