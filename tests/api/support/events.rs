//! Webhooks from the mock to the service, and webhooks that a test signs itself.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chargeonce::payments::mock::{HttpSender, MockRequest, Reach, RetryPolicy, WebhookEndpoint};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{Engine, Reply, TestApp, in_patience};

/// The endpoint's secret in these tests.
pub const SECRET: &str = "whsec_test_1";

impl TestApp {
    /// A service that takes webhooks, and a mock that sends them to it.
    pub async fn with_webhooks(engine: Engine) -> Self {
        let app = Self::with(engine)
            .set("STRIPE_WEBHOOK_SECRET", SECRET)
            .start()
            .await;
        app.send_webhooks_here();
        app
    }

    /// Has the mock send its events to this service from now on, and try again soon where that fails.
    pub fn send_webhooks_here(&self) {
        let policy = RetryPolicy {
            first_wait: Duration::from_millis(20),
            wait_max: Duration::from_millis(200),
            attempts_max: 50,
        };
        let sender = HttpSender::new(Reach::Loopback).unwrap();
        self.mock.deliver_webhooks(Arc::new(sender), policy);
        let url = format!("{}/v1/webhooks/stripe", self.url);
        let endpoint = WebhookEndpoint::new(url, vec![SECRET.to_owned()]).unwrap();
        self.mock.set_webhook_endpoint(Some(endpoint)).unwrap();
    }

    /// Posts an event with a signature header of one's own.
    pub async fn webhook(&self, body: &[u8], signature: Option<&str>) -> Reply {
        let mut request = self
            .client
            .post(format!("{}/v1/webhooks/stripe", self.url))
            .header("Content-Type", "application/json; charset=utf-8")
            .body(body.to_vec());
        if let Some(signature) = signature {
            request = request.header("Stripe-Signature", signature);
        }
        Reply::read(request.send().await.unwrap()).await
    }

    /// Posts an event that is signed as it should be.
    pub async fn signed(&self, body: &str) -> Reply {
        let signature = sign(SECRET, seconds_now(), body.as_bytes());
        self.webhook(body.as_bytes(), Some(&signature)).await
    }

    /// The stored events in words: status, outcome and type, oldest first.
    pub async fn events(&self) -> Vec<String> {
        let sql = "SELECT status || ' ' || COALESCE(outcome, '-') || ' ' || kind AS value FROM provider_events ORDER BY received_at_ms, id";
        self.database.words(sql).await
    }

    /// Waits until an attempt of the invoice has this status, without calling the service.
    pub async fn attempt_is(&self, invoice_id: &str, status: &str) {
        let probe = async || {
            let attempts = self.attempts(invoice_id).await;
            (attempts.last().map(String::as_str) == Some(status)).then_some(())
        };
        if in_patience(probe).await.is_none() {
            let now = self.attempts(invoice_id).await;
            panic!("never {status}: {now:?}, {:?}", self.events().await);
        }
    }

    /// Lets time pass, round after round, until no stored event waits any more.
    pub async fn events_are_over(&self) {
        for _ in 0..500 {
            let open = "SELECT COUNT(*) AS value FROM provider_events WHERE status = 'pending'";
            if self.database.number(open).await == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.age(Duration::from_secs(60)).await;
            self.sweep().await;
        }
        panic!("events are left: {:?}", self.events().await);
    }

    /// A payment that carries an invoice's metadata and was not made by any of our sends. Its id.
    pub async fn payment_from_nowhere(&self, invoice_id: &str, installation_id: &str) -> String {
        let body = format!(
            "amount=1250&currency=usd&customer=cus_1&payment_method=pm_card_visa&confirm=true&off_session=true\
             &metadata[invoice_id]={invoice_id}&metadata[installation_id]={installation_id}&metadata[charge_key]=charge:{invoice_id}"
        );
        let key = format!("nowhere:{invoice_id}:{}", self.mock.requests().len());
        self.by_another_program("/v1/payment_intents", &key, &body)
            .await;
        let payments = self.mock.ledger().payments;
        payments.last().unwrap().id.clone()
    }

    /// A request of somebody else on the provider's account, or of a person at its dashboard: none of our sends.
    pub async fn by_another_program(&self, path: &str, key: &str, body: &str) {
        let mut request = MockRequest::post(path, key, body);
        request
            .headers
            .push(("X-Another-Program".into(), "yes".into()));
        self.mock.handle(request).await;
    }

    /// Gives all of a payment back at the provider, by hand.
    pub async fn refund(&self, payment_id: &str) {
        let body = format!("payment_intent={payment_id}");
        let key = format!("refund:{payment_id}");
        self.by_another_program("/v1/refunds", &key, &body).await;
    }

    /// This installation's id, as payments carry it.
    pub async fn installation(&self) -> String {
        let ids = self.database.words("SELECT id AS value FROM installation");
        ids.await.pop().unwrap()
    }
}

/// Now, as Stripe signs it.
pub fn seconds_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

/// A `Stripe-Signature` header.
pub fn sign(secret: &str, seconds: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{seconds}.").as_bytes());
    mac.update(body);
    let mut header = format!("t={seconds},v1=");
    for byte in mac.finalize().into_bytes() {
        write!(header, "{byte:02x}").unwrap();
    }
    header
}
