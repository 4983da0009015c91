//! A running `chargeonce serve`, spoken to over HTTP.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::{Limits, Process, Ran};
use super::{PATIENCE, Reply, eventually};

/// A service to be started.
#[derive(Clone)]
pub struct ServiceBuilder {
    variables: Vec<(String, String)>,
    limits: Limits,
}

impl ServiceBuilder {
    pub fn new(database_url: &str, provider_url: &str) -> Self {
        let variables = [
            ("PORT", "0"),
            ("DATABASE_URL", database_url),
            // A pause of the machine must not pass for a database that is away.
            ("DATABASE_TIMEOUT", "60s"),
            ("PAYMENT_PROVIDER", "stripe"),
            ("STRIPE_SECRET_KEY", "sk_test_123"),
            ("STRIPE_API_BASE", provider_url),
            // The stand-in has no limits that would have to be kept.
            ("PROVIDER_RATE_LIMIT", "0"),
            ("PROVIDER_CONCURRENCY", "0"),
            ("PROVIDER_TIMEOUT", "10s"),
            ("PROVIDER_MAX_RETRIES", "1"),
            // A test says itself when something is recovered.
            ("RECONCILE_INTERVAL", "0s"),
            ("RUST_LOG", "warn,chargeonce=debug"),
        ];
        Self {
            variables: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            limits: Limits::default(),
        }
    }

    /// Sets an environment variable.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Leaves an environment variable out.
    pub fn unset(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    /// One send to the provider, at most a second; then a lease of two seconds is long enough.
    pub fn short_lease(self) -> Self {
        self.set("PROVIDER_TIMEOUT", "1s")
            .set("PROVIDER_MAX_RETRIES", "0")
            .set("RESERVATION_TTL", "2s")
    }

    /// Stops at a step of the charge flow until it is let go.
    pub fn hold_at(self, step: &str, point: &HeldPoint) -> Self {
        self.set(
            "CHARGEONCE_HOLD_AT",
            &format!("{step}={}", point.path().display()),
        )
    }

    pub fn open_files(mut self, count: u32) -> Self {
        self.limits.open_files = Some(count);
        self
    }

    /// All that is set.
    pub fn variables(self) -> Vec<(String, String)> {
        self.variables
    }

    /// Starts the process and leaves it alone.
    pub fn spawn(self) -> Process {
        self.command(&["serve"])
    }

    /// Starts another command with the same settings.
    pub fn command(self, arguments: &[&str]) -> Process {
        Process::start(arguments, &self.variables, self.limits)
    }

    /// Runs another command with the same settings to its end.
    pub async fn run(self, arguments: &[&str]) -> Ran {
        self.command(arguments).ran().await
    }

    /// Starts it and waits until it listens.
    pub async fn start(self) -> Service {
        let mut process = self.spawn();
        let url = process.announced("chargeonce listens on ").await;
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let client = reqwest::Client::builder()
            .no_proxy()
            // Well below the time after which the server closes an idle connection: a call that crosses the close on its way
            // has no answer, which here means that the process died.
            .pool_idle_timeout(Duration::from_secs(2))
            .timeout(PATIENCE)
            .build()
            .unwrap();
        Service {
            process,
            url,
            client,
        }
    }
}

/// A point at which a service waits, by a file that exists as long as it shall.
pub struct HeldPoint(tempfile::TempDir);

impl HeldPoint {
    pub fn new() -> Self {
        let point = Self::open();
        point.close();
        point
    }

    /// A point at which nobody is held yet.
    pub fn open() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// From now on a service waits there.
    pub fn close(&self) {
        std::fs::write(self.path(), "").unwrap();
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("hold")
    }

    /// Waits until a service waits there.
    pub async fn reached(&self) {
        let marker = self.0.path().join("hold.reached");
        eventually("the held point", async || marker.exists().then_some(())).await;
    }

    pub fn let_go(&self) {
        std::fs::remove_file(self.path()).unwrap();
    }
}

/// A running service.
pub struct Service {
    process: Process,
    pub url: String,
    client: reqwest::Client,
}

impl Deref for Service {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Service {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Service {
    pub async fn get(&self, path: &str) -> Reply {
        let url = format!("{}{path}", self.url);
        Reply::read(self.client.get(url).send().await.unwrap()).await
    }

    /// A POST that has no answer when the process dies.
    pub async fn try_post(
        &self,
        path: &str,
        body: &Value,
        wait_seconds: Option<u32>,
    ) -> Option<Reply> {
        let mut request = self
            .client
            .post(format!("{}{path}", self.url))
            .header("Content-Type", "application/json")
            .body(body.to_string());
        if let Some(seconds) = wait_seconds {
            request = request.header("Prefer", format!("wait={seconds}"));
        }
        match request.send().await {
            Ok(response) => Some(Reply::read(response).await),
            Err(_) => None,
        }
    }

    /// The same with a key of the caller's, where there is one.
    pub async fn try_post_with(
        &self,
        path: &str,
        body: &Value,
        key: Option<&str>,
    ) -> Option<Reply> {
        let mut request = self
            .client
            .post(format!("{}{path}", self.url))
            .header("Content-Type", "application/json")
            .body(body.to_string());
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        match request.send().await {
            Ok(response) => Some(Reply::read(response).await),
            Err(_) => None,
        }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.try_post(path, body, None).await.expect("no answer")
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Reply {
        let request = self.client.patch(format!("{}{path}", self.url));
        let request = request.header("Content-Type", "application/json");
        Reply::read(request.body(body.to_string()).send().await.unwrap()).await
    }

    /// Creates an open invoice over 12.50 USD.
    pub async fn invoice(&self, id: &str) {
        self.invoice_with(id, "pm_card_visa").await;
    }

    pub async fn invoice_with(&self, id: &str, payment_method_id: &str) {
        // A customer each, so that a look-up lists one invoice's payments.
        let body = json!({
            "id": id, "customerId": format!("cus_{id}"), "amountCents": 1250, "currency": "usd", "paymentMethodId": payment_method_id
        });
        // Safe to repeat, under its own id: a store that is too busy for the moment is no reason to fail.
        let reply = eventually("an invoice", async || {
            let reply = self.post("/v1/invoices", &body).await;
            (reply.status != 503).then_some(reply)
        })
        .await;
        assert_eq!(reply.status, 201, "{reply:#?}");
    }

    pub async fn charge(&self, invoice_id: &str) -> Reply {
        self.try_charge(invoice_id).await.expect("no answer")
    }

    pub async fn try_charge(&self, invoice_id: &str) -> Option<Reply> {
        self.try_post("/v1/charges", &json!({"invoiceId": invoice_id}), None)
            .await
    }

    /// Charges with further headers.
    pub async fn charge_with(&self, invoice_id: &str, headers: &[(&str, &str)]) -> Reply {
        let body = json!({"invoiceId": invoice_id}).to_string();
        let mut request = self.client.post(format!("{}/v1/charges", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("Content-Type", "application/json");
        Reply::read(request.body(body).send().await.unwrap()).await
    }

    /// Charges, willing to wait for a charge that runs already.
    pub async fn charge_waiting(&self, invoice_id: &str, seconds: u32) -> Reply {
        let body = json!({"invoiceId": invoice_id});
        self.try_post("/v1/charges", &body, Some(seconds))
            .await
            .expect("no answer")
    }

    /// A connection on which nothing is sent yet.
    pub async fn connect(&self) -> TcpStream {
        let address = self.url.strip_prefix("http://").unwrap();
        TcpStream::connect(address).await.unwrap()
    }

    /// Asks on a connection that stays open, and waits for the answer: the service has accepted it then, and every one before it.
    pub async fn is_live_on(&self, stream: &mut TcpStream) {
        let address = self.url.strip_prefix("http://").unwrap();
        let request = format!("GET /health/live HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with('}') {
            let mut some = [0; 512];
            let count = stream.read(&mut some).await.unwrap();
            assert!(count > 0, "closed after {answer:?}");
            answer.push_str(&String::from_utf8_lossy(&some[..count]));
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// A connection that has sent a charge and does not read the answer.
    pub async fn charge_unread(&self, invoice_id: &str) -> TcpStream {
        self.charge_on(self.connect().await, invoice_id).await
    }

    /// Sends a charge on a connection, as the only request on it.
    pub async fn charge_on(&self, mut stream: TcpStream, invoice_id: &str) -> TcpStream {
        let address = self.url.strip_prefix("http://").unwrap();
        let body = json!({"invoiceId": invoice_id}).to_string();
        let request = format!(
            "POST /v1/charges HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

/// Reads the only answer on a connection; none when the connection breaks before it.
pub async fn answer_on(mut stream: TcpStream) -> Option<Reply> {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_owned(), value.to_owned())
    };
    Some(Reply {
        status: status.parse().unwrap(),
        headers: lines.map(header).collect(),
        body: body.to_owned(),
    })
}

/// Closes a connection with a TCP reset, which makes the server drop the handler; an orderly close would not.
pub fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}
