//! The app module: the one list of parts. Picks the adapters, builds the services, mounts the controllers.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::{self, Data, PayloadConfig, ServiceConfig};

use crate::access::guard::Guard;
use crate::access::hosts::OwnNames;
use crate::access::keys::Scope;
use crate::access::rate::RateLimits;
use crate::audit::service::{AuditConfig, AuditService};
use crate::bound::Bound;
use crate::charges::config::ChargesConfig;
use crate::charges::service::ChargesService;
use crate::config::{ProviderSettings, Settings};
use crate::health::controller::Health;
use crate::http::crowd::Crowd;
use crate::http::json::{BODY_BYTES_MAX, BodyTime};
use crate::idempotency::reservation::millis;
use crate::idempotency::service::IdempotencyService;
use crate::invoices::service::InvoicesService;
use crate::metrics::Metrics;
use crate::metrics::controller::Scrape;
use crate::payments::measured::Measured;
use crate::payments::mock::MockStripe;
use crate::payments::provider::PaymentProvider;
use crate::payments::stripe::http::CONNECT_TIMEOUT;
use crate::payments::stripe::{
    Backoff, HttpSettings, HttpSetupError, HttpTransport, InProcessTransport, LimiterSettings,
    StripeApi, StripeProvider, StripeSettings,
};
use crate::reconciler::sweeper::{Finishers, Reconciler};
use crate::refunds::service::{RefundsConfig, RefundsService};
use crate::router::Routes;
use crate::storage::{self, SharedStore, StorageError};
use crate::tasks::{FewTasks, Tasks};
use crate::tools::controller::{McpHttp, mcp_http};
use crate::tools::local::LocalBackend;
use crate::tools::server::ToolServer;
use crate::webhooks::service::{Listeners, WebhooksConfig, WebhooksService};
use crate::{charges, health, invoices, metrics, openapi, refunds, router, tools, webhooks};

/// How many questions of probes and scrapes the store is asked at once. Each takes a moment, and a connection of the pool.
const PROBES_MAX: usize = 8;

/// How long the audit waits before it asks the provider a second time.
const AUDIT_RETRY_WAIT: Duration = Duration::from_secs(1);

/// The application: every part, ready to be served.
#[derive(Clone)]
pub struct App {
    /// Charges.
    pub charges: ChargesService,
    /// Invoices.
    pub invoices: InvoicesService,
    /// Refunds.
    pub refunds: RefundsService,
    /// The background worker; whoever serves runs it.
    pub reconciler: Reconciler,
    /// Webhooks.
    pub webhooks: WebhooksService,
    /// The comparison of our books with the provider's.
    pub audit: AuditService,
    mcp: McpHttp,
    metrics: Metrics,
    guard: Data<Guard>,
    crowd: Data<Crowd>,
    /// Work that outlives its callers; to be drained at the end.
    pub tasks: Tasks,
    probes: FewTasks,
    body_time: Duration,
    store: SharedStore,
}

/// Why the application could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The store.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The provider's client.
    #[error("the payment provider's client: {0}")]
    Provider(#[from] HttpSetupError),
}

impl App {
    /// Builds every part from the settings. To be called on the runtime that lives as long as the process.
    pub async fn build(settings: &Settings) -> Result<Self, BuildError> {
        let provider = provider(settings)?;
        Self::build_with(settings, provider).await
    }

    /// The same with another provider; for tests that script it.
    pub async fn build_with(
        settings: &Settings,
        provider: Arc<dyn PaymentProvider>,
    ) -> Result<Self, BuildError> {
        let metrics = Metrics::new();
        let provider: Arc<dyn PaymentProvider> = Arc::new(Measured::new(provider, metrics.clone()));
        let store = storage::connect(&settings.store).await?;
        let installation_id = store.installation_id().await?;
        let tasks = Tasks::new();
        let audit = AuditService::new(
            store.clone(),
            store.clone(),
            Arc::clone(&provider),
            AuditConfig {
                installation_id: installation_id.clone(),
                key_window: settings.provider_key_window,
                retry_wait: AUDIT_RETRY_WAIT.min(settings.provider_timeout),
            },
        );
        let room = Bound::new(settings.load.charges);
        let config = ChargesConfig {
            policy: settings.retry_policy(),
            reservation_ttl: settings.reservation_ttl,
            response_wait: settings.response_wait,
            installation_id: installation_id.clone(),
            replay_cache_bytes: settings.replay_cache_mib * 1024 * 1024,
            limits: settings.access.limits.clone(),
            room: room.clone(),
            metrics: metrics.clone(),
        };
        let charges = ChargesService::new(
            store.clone(),
            store.clone(),
            Arc::clone(&provider),
            tasks.clone(),
            config,
        );
        let config = RefundsConfig {
            key_window_ms: millis(settings.provider_key_window),
            reservation_ttl: settings.reservation_ttl,
            response_wait: settings.response_wait,
            installation_id,
            room,
        };
        let refunds = RefundsService::new(
            store.clone(),
            store.clone(),
            provider,
            tasks.clone(),
            config,
        );
        let webhooks = WebhooksService::new(
            store.clone(),
            Listeners {
                charges: charges.clone(),
                refunds: refunds.clone(),
            },
            metrics.clone(),
            tasks.clone(),
            WebhooksConfig {
                secrets: settings.webhook_secrets.clone(),
                by_intent: settings.provider.api() == StripeApi::PaymentIntents,
            },
        );
        let finishers = Finishers {
            charges: charges.clone(),
            refunds: refunds.clone(),
            webhooks: webhooks.clone(),
        };
        let reconciler = Reconciler::new(
            finishers,
            store.clone(),
            metrics.clone(),
            tasks.clone(),
            settings.reconciler,
        );
        let idempotency = IdempotencyService::new(store.clone());
        let invoices = InvoicesService::new(store.clone(), idempotency, tasks.clone());
        let backend = LocalBackend::new(charges.clone(), invoices.clone());
        let tools = ToolServer::new(Arc::new(backend));
        let names = OwnNames::new(settings.host, &settings.allowed_hosts);
        let mcp = mcp_http(tools, &names);
        let keys = settings.access.keys.clone();
        let crowd = Crowd {
            requests: Bound::new(settings.load.requests),
            metrics: metrics.clone(),
        };
        let rates = RateLimits::new(settings.access.rate, &keys.names(Scope::Agent));
        Ok(Self {
            mcp,
            guard: Data::new(Guard { keys, rates, names }),
            crowd: Data::new(crowd),
            charges,
            invoices,
            refunds,
            reconciler,
            webhooks,
            audit,
            metrics,
            probes: FewTasks::new(tasks.clone(), PROBES_MAX),
            tasks,
            body_time: settings.request_body_time,
            store,
        })
    }

    /// Mounts every controller.
    pub fn configure(&self, routes: &mut ServiceConfig) {
        let health = Health {
            store: self.store.clone(),
            tasks: self.probes.clone(),
        };
        let scrape = Scrape {
            metrics: self.metrics.clone(),
            store: self.store.clone(),
            requests: self.crowd.requests.clone(),
            charges: self.charges.clone(),
            tasks: self.probes.clone(),
        };
        routes
            .app_data(self.guard.clone())
            .app_data(self.crowd.clone())
            .app_data(Data::new(self.charges.clone()))
            .app_data(Data::new(self.refunds.clone()))
            .app_data(Data::new(self.webhooks.clone()))
            .app_data(Data::new(scrape))
            .app_data(Data::new(self.invoices.clone()))
            .app_data(Data::new(self.mcp.clone()))
            .app_data(Data::new(health))
            .app_data(PayloadConfig::new(BODY_BYTES_MAX))
            .app_data(BodyTime(self.body_time))
            .configure(|routes| Self::routes().mount(routes))
            .default_service(web::to(router::not_found));
    }

    /// Every route that is mounted.
    pub fn routes() -> Routes {
        let mut routes = Routes::default();
        routes
            .configure(invoices::controller::configure)
            .configure(charges::controller::configure)
            .configure(refunds::controller::configure)
            .configure(tools::controller::configure)
            .configure(webhooks::controller::configure)
            .configure(health::controller::configure)
            .configure(metrics::controller::configure)
            .configure(openapi::controller::configure);
        routes
    }
}

/// The provider that the settings name.
pub(crate) fn provider(settings: &Settings) -> Result<Arc<dyn PaymentProvider>, HttpSetupError> {
    let dialect = |name, api, limits| StripeSettings {
        name,
        api,
        key_prefix: settings.provider_key_prefix.clone(),
        timeout: settings.provider_timeout,
        max_retries: settings.provider_max_retries,
        backoff: Backoff::default(),
        limits,
    };
    Ok(match &settings.provider {
        ProviderSettings::Mock { latency } => {
            let mock = MockStripe::new();
            mock.set_latency(*latency);
            let dialect = dialect(
                "mock",
                StripeApi::PaymentIntents,
                LimiterSettings::unlimited(),
            );
            Arc::new(StripeProvider::new(dialect, InProcessTransport::new(mock)))
        }
        ProviderSettings::Stripe {
            secret_key,
            api_base,
            api,
        } => {
            let transport = HttpTransport::new(&HttpSettings {
                base_url: api_base.clone(),
                secret_key: secret_key.clone(),
                // Below the whole request's limit, or a slow connect would count as "bytes may have left".
                connect_timeout: CONNECT_TIMEOUT.min(settings.provider_timeout / 2),
            })?;
            Arc::new(StripeProvider::new(
                dialect("stripe", *api, settings.provider_limits),
                transport,
            ))
        }
    })
}
