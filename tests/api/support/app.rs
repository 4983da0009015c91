//! A service in this process: the same parts as in production, on a free port, with the mock at hand.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use chargeonce::app::App;
use chargeonce::config::Settings;
use chargeonce::payments::mock::{MockStripe, serve};
use chargeonce::payments::provider::PaymentProvider;
use chargeonce::payments::stripe::{
    Backoff, HttpSettings, HttpTransport, InProcessTransport, LimiterSettings, StripeApi,
    StripeProvider, StripeSettings,
};
use chargeonce::server::BoundServer;
use chargeonce::storage::Engine;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Line, Reply, TestDatabase, document};

/// What a test may set before the start.
pub struct TestAppBuilder {
    engine: Engine,
    variables: Vec<(String, String)>,
    database: Option<Arc<TestDatabase>>,
    mock: Option<MockStripe>,
    provider: Option<Arc<dyn PaymentProvider>>,
    line: Line,
    api: StripeApi,
    key: Option<String>,
}

impl TestAppBuilder {
    /// Shows this API key with every request that does not bring its own.
    pub fn key(mut self, secret: &str) -> Self {
        self.key = Some(secret.into());
        self
    }

    /// Sets an environment variable of the service.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Puts another provider in the place of the mock.
    pub fn provider(mut self, provider: Arc<dyn PaymentProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// The provider's books, where the test made the provider itself.
    pub fn mock(mut self, mock: &MockStripe) -> Self {
        self.mock = Some(mock.clone());
        self
    }

    /// Charges through the legacy Charges API.
    pub fn charges_api(mut self) -> Self {
        self.api = StripeApi::Charges;
        self
    }

    pub async fn start(self) -> TestApp {
        // `RUST_LOG=chargeonce=debug cargo test` shows what the service has to say.
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init()
            .ok();
        let database = match self.database {
            Some(database) => database,
            None => Arc::new(TestDatabase::create(self.engine).await),
        };
        let mut variables = self.variables;
        variables.push(("DATABASE_URL".into(), database.url.clone()));
        variables.push(("PORT".into(), "0".into()));
        let settings = Settings::from_lookup(|name| {
            variables
                .iter()
                .rev()
                .find(|(variable, _)| variable == name)
                .map(|(_, value)| value.clone())
        })
        .unwrap();
        let mock = self.mock.unwrap_or_default();
        let provider = self
            .provider
            .clone()
            .unwrap_or_else(|| provider(self.engine, &mock, &settings, self.api, &self.line));
        let app = App::build_with(&settings, provider).await.unwrap();
        let parts = app.clone();
        let server = BoundServer::bind(app, &settings).unwrap();
        let url = format!("http://{}", server.address());
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run_until(async move {
            stopped.await.ok();
        }));
        TestApp {
            parts,
            url,
            mock,
            database,
            client: reqwest_client(self.key.as_deref()),
            key: self.key,
            engine: self.engine,
            variables,
            provider: self.provider,
            line: self.line,
            api: self.api,
            stop: Some(stop),
            running: Some(running),
        }
    }
}

/// The client needs a TLS provider to exist even where it speaks plain HTTP.
fn reqwest_client(key: Option<&str>) -> reqwest::Client {
    let header = |key| format!("Bearer {key}").parse().unwrap();
    let headers = key.map(|key| (reqwest::header::AUTHORIZATION, header(key)));
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    reqwest::Client::builder()
        .no_proxy()
        .default_headers(headers.into_iter().collect())
        // Well below the time after which the server closes an idle connection: a call that crosses the close has no answer.
        .pool_idle_timeout(Duration::from_secs(2))
        .timeout(Duration::from_secs(60))
        .build()
        .unwrap()
}

/// Stripe's dialect over the mock, with short waits between repeats. With SQLite the mock is in this process, as a newcomer
/// runs it; with PostgreSQL it is spoken to over HTTP, as production speaks to Stripe. So every case is seen on both ways.
fn provider(
    engine: Engine,
    mock: &MockStripe,
    settings: &Settings,
    api: StripeApi,
    line: &Line,
) -> Arc<dyn PaymentProvider> {
    let dialect = StripeSettings {
        name: "mock",
        api,
        key_prefix: settings.provider_key_prefix.clone(),
        timeout: settings.provider_timeout,
        max_retries: settings.provider_max_retries,
        backoff: Backoff {
            first: Duration::from_millis(5),
            longest: Duration::from_millis(20),
        },
        limits: LimiterSettings::unlimited(),
    };
    match engine {
        Engine::Sqlite => {
            let transport = InProcessTransport::new(mock.clone());
            Arc::new(StripeProvider::new(dialect, line.over(transport)))
        }
        Engine::Postgres => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let transport = HttpTransport::new(&HttpSettings {
                base_url: format!("http://{}", listener.local_addr().unwrap()),
                secret_key: "sk_test_123".to_owned().into(),
                connect_timeout: settings.provider_timeout / 2,
            });
            // It ends with the test's runtime.
            tokio::spawn(serve(mock.clone(), listener).unwrap());
            Arc::new(StripeProvider::new(dialect, line.over(transport.unwrap())))
        }
    }
}

/// A running service.
pub struct TestApp {
    /// The service's parts, for what has no path of its own.
    pub parts: App,
    pub url: String,
    pub mock: MockStripe,
    pub database: Arc<TestDatabase>,
    pub client: reqwest::Client,
    /// Between all replicas and the mock, unless the test has put another provider in its place.
    pub line: Line,
    engine: Engine,
    variables: Vec<(String, String)>,
    provider: Option<Arc<dyn PaymentProvider>>,
    api: StripeApi,
    key: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
}

impl TestApp {
    /// To be configured.
    pub fn with(engine: Engine) -> TestAppBuilder {
        TestAppBuilder {
            engine,
            variables: [
                // A pause of the machine must not pass for a provider that hangs: each repeat would be one send more than a test
                // counts. Where the provider does hang, the test sets a limit of its own.
                ("PROVIDER_TIMEOUT", "10s"),
                // Nor for a database that is away.
                ("DATABASE_TIMEOUT", "60s"),
                ("SHUTDOWN_GRACE", "10s"),
                // A test says itself when something is recovered.
                ("RECONCILE_INTERVAL", "0s"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
            database: None,
            mock: None,
            provider: None,
            line: Line::default(),
            api: StripeApi::PaymentIntents,
            key: None,
        }
    }

    /// With the usual settings.
    pub async fn start(engine: Engine) -> Self {
        Self::with(engine).start().await
    }

    /// Another replica: its own server, pool and tasks on the same database and the same provider.
    pub fn replica(&self) -> TestAppBuilder {
        TestAppBuilder {
            engine: self.engine,
            variables: self.variables.clone(),
            database: Some(Arc::clone(&self.database)),
            mock: Some(self.mock.clone()),
            provider: self.provider.clone(),
            line: self.line.clone(),
            api: self.api,
            key: self.key.clone(),
        }
    }

    pub async fn get(&self, path: &str) -> Reply {
        let request = self.client.get(format!("{}{path}", self.url));
        let reply = Reply::read(request.send().await.unwrap()).await;
        document::check("GET", path, &reply);
        reply
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_with(path, body, &[]).await
    }

    pub async fn post_with(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Reply {
        self.send(reqwest::Method::POST, path, body, headers).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Reply {
        self.send(reqwest::Method::PATCH, path, body, &[]).await
    }

    async fn send(
        &self,
        method: reqwest::Method,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Reply {
        let mut request = self
            .client
            .request(method.clone(), format!("{}{path}", self.url))
            .header("Content-Type", "application/json")
            .body(body.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let reply = Reply::read(request.send().await.unwrap()).await;
        document::check(method.as_str(), path, &reply);
        reply
    }

    /// Creates an open invoice over 12.50 USD.
    pub async fn invoice(&self, id: &str) {
        self.invoice_with(id, json!({})).await;
    }

    /// The same with more fields.
    pub async fn invoice_with(&self, id: &str, more: Value) {
        let mut body =
            json!({"id": id, "customerId": "cus_1", "amountCents": 1250, "currency": "usd"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let reply = self.post("/v1/invoices", &body).await;
        assert_eq!(reply.status, 201, "{reply:#?}");
    }

    pub async fn charge(&self, invoice_id: &str) -> Reply {
        self.post("/v1/charges", &json!({"invoiceId": invoice_id}))
            .await
    }

    /// Charges, willing to wait for a charge that runs already.
    pub async fn charge_waiting(&self, invoice_id: &str, seconds: u32) -> Reply {
        let wait = format!("wait={seconds}");
        self.post_with(
            "/v1/charges",
            &json!({"invoiceId": invoice_id}),
            &[("Prefer", &wait)],
        )
        .await
    }

    /// Moves the database's clock, as the service sees it.
    pub async fn age(&self, by: Duration) {
        self.database.age(by).await;
    }

    /// The statuses of all attempts of an invoice, first attempt first.
    pub async fn attempts(&self, invoice_id: &str) -> Vec<String> {
        let sql = format!(
            "SELECT status AS value FROM charges WHERE invoice_id = '{invoice_id}' ORDER BY attempt"
        );
        self.database.words(&sql).await
    }

    pub async fn invoice_status(&self, invoice_id: &str) -> String {
        self.get(&format!("/v1/invoices/{invoice_id}"))
            .await
            .text("status")
    }

    /// The provider keys under which payments of an invoice were asked for, in order, each repeat included.
    pub fn sends(&self) -> Vec<String> {
        self.mock
            .requests()
            .into_iter()
            .filter(|request| request.method == "POST" && !request.path.ends_with("/cancel"))
            .filter_map(|request| request.idempotency_key.as_deref().map(str::to_owned))
            .collect()
    }

    /// Stops as SIGTERM does: returns when the running charges have ended.
    pub async fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        if let Some(running) = self.running.take() {
            running.await.unwrap().unwrap();
        }
    }
}
