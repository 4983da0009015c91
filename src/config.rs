//! Settings, from the environment only. A bad value stops the start, with its name.

mod access;
mod load;
mod reader;
mod traces;

use std::net::IpAddr;
use std::time::Duration;

pub use access::AccessSettings;
pub use load::LoadSettings;
use reader::Reader;
use secrecy::SecretString;

use crate::charges::lifecycle::RetryPolicy;
use crate::http::json::BODY_TIME_DEFAULT;
use crate::idempotency::reservation::millis;
use crate::payments::stripe::{Backoff, LimiterSettings, STRIPE_API_BASE, StripeApi};
use crate::reconciler::sweeper::ReconcilerSettings;
use crate::storage::{Engine, StoreSettings};
use crate::telemetry::TraceEndpoint;

/// The longest that a provider's key may be used, in hours: Stripe may drop it after 24.
const KEY_WINDOW_HOURS_MAX: u64 = 23;

/// The shortest window, in hours. Past the window a request counts as dead, so it must be longer than any request lives.
const KEY_WINDOW_HOURS_MIN: u64 = 5;

/// No setting makes sense beyond it, and sums of such durations cannot overflow.
const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Attempts for an invoice at most, whatever is configured: card networks fine more (Visa: 15 in 30 days).
const ATTEMPTS_HARD_MAX: i32 = 15;

/// With the invoice id's 120 characters and the attempt's number, a key stays within the provider's 255.
const KEY_PREFIX_LENGTH_MAX: usize = 64;

/// How long a client may take for its headers.
const HEADER_TIME_DEFAULT: Duration = Duration::from_secs(10);

/// A secret that a command takes from a variable of the environment, never from its arguments, which everybody sees.
pub fn secret(variable: &str) -> Option<SecretString> {
    Reader(|name: &str| std::env::var(name).ok())
        .text(variable)
        .map(SecretString::from)
}

/// Everything that can be set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen.
    pub host: IpAddr,
    /// 0 takes a free port.
    pub port: u16,
    /// The store.
    pub store: StoreSettings,
    /// Who takes the money.
    pub provider: ProviderSettings,
    /// How long one request to the provider may take.
    pub provider_timeout: Duration,
    /// How often one call repeats a request at most.
    pub provider_max_retries: u32,
    /// Our own limit on requests to Stripe, below Stripe's.
    pub provider_limits: LimiterSettings,
    /// Stands before every key at the provider.
    pub provider_key_prefix: String,
    /// How long after the first send a key may be sent again.
    pub provider_key_window: Duration,
    /// How long a reservation's lease runs.
    pub reservation_ttl: Duration,
    /// How long a caller waits for its own charge.
    pub response_wait: Duration,
    /// How long a stop waits for running charges.
    pub shutdown_grace: Duration,
    /// Who may call what, and how much agents may spend.
    pub access: AccessSettings,
    /// How the background worker works.
    pub reconciler: ReconcilerSettings,
    /// The signing secrets of the webhook endpoint; none: webhooks are refused.
    pub webhook_secrets: Vec<SecretString>,
    /// By what names other than loopback ones callers reach this service: asked of every call where there are no API keys, and of
    /// `/mcp` always.
    pub allowed_hosts: Vec<String>,
    /// Attempts for an invoice at most.
    pub charge_max_attempts: i32,
    /// After a decline, a repeated call within this time replays it.
    pub retry_cooldown: Duration,
    /// How long a client may take for the headers of its first request on a connection.
    pub request_header_time: Duration,
    /// How long a client may take for a body.
    pub request_body_time: Duration,
    /// How much memory the answers of finished charges are kept in, in MiB.
    pub replay_cache_mib: u64,
    /// How much goes on at once.
    pub load: LoadSettings,
    /// How logs are written.
    pub log_format: LogFormat,
    /// The collector that traces are exported to.
    pub traces: Option<TraceEndpoint>,
}

/// Who takes the money.
#[derive(Debug, Clone)]
pub enum ProviderSettings {
    /// The in-process mock: nobody's money.
    Mock {
        /// How long it takes for a payment.
        latency: Duration,
    },
    /// Stripe, or a stand-in that speaks like it.
    Stripe {
        /// The secret key.
        secret_key: SecretString,
        /// Scheme and host.
        api_base: String,
        /// Which of its APIs charges.
        api: StripeApi,
    },
}

impl ProviderSettings {
    /// Which of Stripe's APIs charges.
    pub fn api(&self) -> StripeApi {
        match self {
            Self::Mock { .. } => StripeApi::PaymentIntents,
            Self::Stripe { api, .. } => *api,
        }
    }
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct ConfigError {
    /// The variable.
    pub name: &'static str,
    /// What is wrong with it, without its value where that may be secret.
    pub problem: String,
}

fn wrong(name: &'static str, problem: impl Into<String>) -> ConfigError {
    ConfigError {
        name,
        problem: problem.into(),
    }
}

impl Settings {
    /// From the process's environment.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    /// From any source of variables.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let reader = Reader(lookup);
        let seconds = Duration::from_secs;
        let settings = Self {
            host: reader
                .text("HOST")
                .map_or(Ok(IpAddr::from([127, 0, 0, 1])), |text| text.parse())
                .map_err(|_| wrong("HOST", "is no IP address such as 127.0.0.1"))?,
            port: reader.number("PORT", 3000, 0, u16::MAX)?,
            store: store(&reader)?,
            provider: provider(&reader)?,
            provider_timeout: reader.duration("PROVIDER_TIMEOUT", seconds(80))?,
            provider_max_retries: reader.number("PROVIDER_MAX_RETRIES", 2, 0, 10)?,
            provider_limits: load::provider_limits(&reader)?,
            provider_key_prefix: reader.text("PROVIDER_KEY_PREFIX").unwrap_or_default(),
            provider_key_window: reader.duration("PROVIDER_KEY_WINDOW", seconds(20 * 3_600))?,
            reservation_ttl: reader.duration("RESERVATION_TTL", seconds(600))?,
            response_wait: reader.duration("RESPONSE_WAIT", seconds(25))?,
            shutdown_grace: reader.duration("SHUTDOWN_GRACE", seconds(90))?,
            access: access::settings(&reader)?,
            reconciler: reconciler(&reader)?,
            webhook_secrets: webhook_secrets(&reader)?,
            allowed_hosts: reader.host_names("ALLOWED_HOSTS")?,
            charge_max_attempts: reader.number("CHARGE_MAX_ATTEMPTS", 8, 1, ATTEMPTS_HARD_MAX)?,
            retry_cooldown: reader.duration("RETRY_COOLDOWN", Duration::ZERO)?,
            request_header_time: reader.duration("REQUEST_HEADER_TIME", HEADER_TIME_DEFAULT)?,
            request_body_time: reader.duration("REQUEST_BODY_TIME", BODY_TIME_DEFAULT)?,
            replay_cache_mib: reader.number("REPLAY_CACHE_MIB", 32, 0, 65_536)?,
            load: load::settings(&reader)?,
            log_format: reader.choice(
                "LOG_FORMAT",
                LogFormat::Pretty,
                &[("pretty", LogFormat::Pretty), ("json", LogFormat::Json)],
            )?,
            traces: traces::collector(&reader)?,
        };
        settings.check()?;
        Ok(settings)
    }

    /// What the settings must keep among themselves.
    fn check(&self) -> Result<(), ConfigError> {
        if !self.host.is_loopback() && self.access.keys.is_empty() {
            return Err(wrong(
                "HOST",
                "is not a loopback address, and without API keys anybody who reaches this service could charge; set ADMIN_API_KEYS and AGENT_API_KEYS",
            ));
        }
        let prefix_is_fit = self.provider_key_prefix.len() <= KEY_PREFIX_LENGTH_MAX
            && self
                .provider_key_prefix
                .bytes()
                .all(|byte| byte.is_ascii_graphic());
        if !prefix_is_fit {
            return Err(wrong(
                "PROVIDER_KEY_PREFIX",
                "must have at most 64 visible ASCII characters",
            ));
        }
        // actix-http reads its clock twice a second. A shorter limit may already be over when it is set, and then never
        // ends: a silent connection would be kept for ever.
        if self.request_header_time < Duration::from_secs(1) {
            return Err(wrong("REQUEST_HEADER_TIME", "must be at least 1s"));
        }
        if self.request_body_time < Duration::from_millis(100) {
            return Err(wrong("REQUEST_BODY_TIME", "must be at least 100ms"));
        }
        if self.provider_timeout < Duration::from_millis(100) {
            return Err(wrong("PROVIDER_TIMEOUT", "must be at least 100ms"));
        }
        if self.provider_key_window > Duration::from_secs(KEY_WINDOW_HOURS_MAX * 3_600) {
            return Err(wrong(
                "PROVIDER_KEY_WINDOW",
                "must be at most 23h: the provider may drop a key after 24h, and would then charge again",
            ));
        }
        if self.provider_key_window < Duration::from_secs(KEY_WINDOW_HOURS_MIN * 3_600) {
            return Err(wrong(
                "PROVIDER_KEY_WINDOW",
                "must be at least 5h: past it a request that was sent counts as dead, and the next attempt may charge",
            ));
        }
        let whole_call = self.whole_call();
        if self.reservation_ttl <= whole_call {
            return Err(wrong(
                "RESERVATION_TTL",
                format!(
                    "must be longer than one whole call of the provider, which takes up to {}s (PROVIDER_TIMEOUT times the sends, and the waits between)",
                    whole_call.as_secs_f64().ceil()
                ),
            ));
        }
        if self.reservation_ttl > self.provider_key_window / 4 {
            return Err(wrong(
                "RESERVATION_TTL",
                "must be at most a quarter of PROVIDER_KEY_WINDOW",
            ));
        }
        Ok(())
    }

    /// The longest that one whole call of the provider takes: every send up to its limit, and the waits between.
    fn whole_call(&self) -> Duration {
        Backoff::default().longest_send(self.provider_timeout, self.provider_max_retries)
    }

    /// The rules after a failed attempt.
    pub fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            attempts_max: self.charge_max_attempts,
            cooldown_ms: millis(self.retry_cooldown),
            key_window_ms: millis(self.provider_key_window),
        }
    }
}

fn store<F: Fn(&str) -> Option<String>>(reader: &Reader<F>) -> Result<StoreSettings, ConfigError> {
    let url = reader
        .text("DATABASE_URL")
        .unwrap_or_else(|| "sqlite://chargeonce.db".into());
    if Engine::of(&url).is_none() {
        return Err(wrong(
            "DATABASE_URL",
            "must begin with postgres:// or be sqlite:// and a path",
        ));
    }
    let mut settings = StoreSettings::new(url);
    settings.pool_size = reader.number("DATABASE_POOL_SIZE", settings.pool_size, 1, 1_000)?;
    settings.timeout = reader.duration("DATABASE_TIMEOUT", settings.timeout)?;
    if settings.timeout < Duration::from_millis(100) {
        return Err(wrong("DATABASE_TIMEOUT", "must be at least 100ms"));
    }
    settings.statement_cache = reader.choice(
        "DATABASE_STATEMENT_CACHE",
        true,
        &[("on", true), ("off", false)],
    )?;
    Ok(settings)
}

fn reconciler<F: Fn(&str) -> Option<String>>(
    reader: &Reader<F>,
) -> Result<ReconcilerSettings, ConfigError> {
    let interval = reader.duration("RECONCILE_INTERVAL", Duration::from_secs(30))?;
    if !interval.is_zero() && interval < Duration::from_millis(10) {
        return Err(wrong(
            "RECONCILE_INTERVAL",
            "must be at least 10ms, or 0s to switch it off",
        ));
    }
    Ok(ReconcilerSettings {
        interval,
        batch: reader.number("RECONCILE_BATCH", 100, 1, 10_000)?,
        concurrency: reader.number("RECONCILE_CONCURRENCY", 8, 1, 64)?,
        key_retention: access::key_retention(reader)?,
    })
}

fn webhook_secrets<F: Fn(&str) -> Option<String>>(
    reader: &Reader<F>,
) -> Result<Vec<SecretString>, ConfigError> {
    const NAME: &str = "STRIPE_WEBHOOK_SECRET";
    let text = reader.text(NAME).unwrap_or_default();
    let secrets: Vec<&str> = text
        .split(',')
        .map(str::trim)
        .filter(|secret| !secret.is_empty())
        .collect();
    if secrets
        .iter()
        .any(|secret| !secret.starts_with("whsec_") || secret.len() <= "whsec_".len())
    {
        return Err(wrong(
            NAME,
            "must be one or more signing secrets (whsec_...), separated by commas",
        ));
    }
    Ok(secrets.into_iter().map(SecretString::from).collect())
}

fn provider<F: Fn(&str) -> Option<String>>(
    reader: &Reader<F>,
) -> Result<ProviderSettings, ConfigError> {
    let is_stripe = reader.choice(
        "PAYMENT_PROVIDER",
        false,
        &[("mock", false), ("stripe", true)],
    )?;
    if !is_stripe {
        let latency_ms = reader.number("MOCK_LATENCY_MS", 0, 0, 600_000)?;
        return Ok(ProviderSettings::Mock {
            latency: Duration::from_millis(latency_ms),
        });
    }
    let secret_key = reader.text("STRIPE_SECRET_KEY").ok_or_else(|| {
        wrong(
            "STRIPE_SECRET_KEY",
            "must be set when PAYMENT_PROVIDER is stripe",
        )
    })?;
    Ok(ProviderSettings::Stripe {
        secret_key: secret_key.into(),
        api_base: reader
            .text("STRIPE_API_BASE")
            .unwrap_or_else(|| STRIPE_API_BASE.into()),
        api: reader.choice(
            "STRIPE_API",
            StripeApi::PaymentIntents,
            &[
                ("payment_intents", StripeApi::PaymentIntents),
                ("charges", StripeApi::Charges),
            ],
        )?,
    })
}

#[cfg(test)]
mod tests;
