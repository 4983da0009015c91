use super::*;

fn with(variables: &[(&str, &str)]) -> Result<Settings, ConfigError> {
    Settings::from_lookup(|name| {
        variables
            .iter()
            .find(|(variable, _)| *variable == name)
            .map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn nothing_needs_to_be_configured() {
    let settings = with(&[]).unwrap();
    assert_eq!(
        (settings.host.to_string().as_str(), settings.port),
        ("127.0.0.1", 3000)
    );
    assert_eq!(settings.store.engine(), Some(Engine::Sqlite));
    assert!(matches!(settings.provider, ProviderSettings::Mock { .. }));
    assert_eq!(settings.reservation_ttl, Duration::from_secs(600));
}

#[test]
fn an_empty_variable_is_an_absent_one() {
    assert_eq!(
        with(&[("PORT", ""), ("RESPONSE_WAIT", " ")]).unwrap().port,
        3000
    );
}

#[test]
fn a_bad_value_is_refused_with_its_name() {
    #[rustfmt::skip]
    let table: &[(&str, &[(&str, &str)])] = &[
        ("HOST", &[("HOST", "localhost")]),
        ("HOST", &[("HOST", "0.0.0.0")]),
        ("HOST", &[("HOST", "::")]),
        ("ALLOWED_HOSTS", &[("ALLOWED_HOSTS", "https://billing.example.com")]),
        ("ALLOWED_HOSTS", &[("ALLOWED_HOSTS", "billing.example.com:443")]),
        ("ALLOWED_HOSTS", &[("ALLOWED_HOSTS", "*")]),
        ("PORT", &[("PORT", "99999")]),
        ("PORT", &[("PORT", "http")]),
        ("DATABASE_URL", &[("DATABASE_URL", "mysql://x")]),
        ("DATABASE_URL", &[("DATABASE_URL", "chargeonce.db")]),
        ("DATABASE_URL", &[("DATABASE_URL", "sqlite://")]),
        ("DATABASE_POOL_SIZE", &[("DATABASE_POOL_SIZE", "0")]),
        ("DATABASE_TIMEOUT", &[("DATABASE_TIMEOUT", "5")]),
        ("DATABASE_TIMEOUT", &[("DATABASE_TIMEOUT", "1ms")]),
        ("DATABASE_STATEMENT_CACHE", &[("DATABASE_STATEMENT_CACHE", "maybe")]),
        ("PAYMENT_PROVIDER", &[("PAYMENT_PROVIDER", "paypal")]),
        ("STRIPE_SECRET_KEY", &[("PAYMENT_PROVIDER", "stripe")]),
        ("STRIPE_API", &[("PAYMENT_PROVIDER", "stripe"), ("STRIPE_SECRET_KEY", "sk_test_1"), ("STRIPE_API", "sources")]),
        ("MOCK_LATENCY_MS", &[("MOCK_LATENCY_MS", "20ms")]),
        ("PROVIDER_TIMEOUT", &[("PROVIDER_TIMEOUT", "80")]),
        ("PROVIDER_TIMEOUT", &[("PROVIDER_TIMEOUT", "0s")]),
        ("REQUEST_HEADER_TIME", &[("REQUEST_HEADER_TIME", "900ms")]),
        ("REQUEST_BODY_TIME", &[("REQUEST_BODY_TIME", "0s")]),
        ("MAX_CONNECTIONS", &[("MAX_CONNECTIONS", "0")]),
        ("MAX_CONNECTIONS", &[("MAX_CONNECTIONS", "12000")]),
        ("MAX_CONNECTIONS", &[("MAX_CONNECTIONS", "10"), ("REQUEST_CONCURRENCY", "10")]),
        ("CONNECTION_BACKLOG", &[("CONNECTION_BACKLOG", "0")]),
        ("CONNECTION_BACKLOG", &[("CONNECTION_BACKLOG", "65536")]),
        ("CONNECTION_IDLE_TIME", &[("CONNECTION_IDLE_TIME", "900ms")]),
        ("ANSWER_READ_TIME", &[("ANSWER_READ_TIME", "0s")]),
        ("REQUEST_CONCURRENCY", &[("REQUEST_CONCURRENCY", "0")]),
        ("CHARGE_CONCURRENCY", &[("CHARGE_CONCURRENCY", "0")]),
        ("CHARGE_CONCURRENCY", &[("CHARGE_CONCURRENCY", "many")]),
        ("PROVIDER_MAX_RETRIES", &[("PROVIDER_MAX_RETRIES", "-1")]),
        ("PROVIDER_RATE_LIMIT", &[("PROVIDER_RATE_LIMIT", "fast")]),
        ("PROVIDER_CONCURRENCY", &[("PROVIDER_CONCURRENCY", "-1")]),
        ("PROVIDER_KEY_PREFIX", &[("PROVIDER_KEY_PREFIX", "a b")]),
        ("PROVIDER_KEY_WINDOW", &[("PROVIDER_KEY_WINDOW", "24h")]),
        ("PROVIDER_KEY_WINDOW", &[("PROVIDER_KEY_WINDOW", "4h")]),
        ("RESERVATION_TTL", &[("RESERVATION_TTL", "4m")]),
        ("RESERVATION_TTL", &[("RESERVATION_TTL", "6h")]),
        ("CHARGE_MAX_ATTEMPTS", &[("CHARGE_MAX_ATTEMPTS", "16")]),
        ("CHARGE_MAX_ATTEMPTS", &[("CHARGE_MAX_ATTEMPTS", "0")]),
        ("RETRY_COOLDOWN", &[("RETRY_COOLDOWN", "later")]),
        ("RESPONSE_WAIT", &[("RESPONSE_WAIT", "584000000000y")]),
        ("PROVIDER_TIMEOUT", &[("PROVIDER_TIMEOUT", "31days")]),
        ("LOG_FORMAT", &[("LOG_FORMAT", "xml")]),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318")]),
        ("ADMIN_API_KEYS", &[("ADMIN_API_KEYS", "ops=short")]),
        ("ADMIN_API_KEYS", &[("ADMIN_API_KEYS", ",")]),
        ("ADMIN_API_KEYS", &[("ADMIN_API_KEYS", " ")]),
        ("AGENT_API_KEYS", &[("ADMIN_API_KEYS", "ops=0123456789abcdef"), ("AGENT_API_KEYS", "")]),
        ("AGENT_API_KEYS", &[("AGENT_API_KEYS", "a-secret-of-an-agent")]),
        ("AGENT_API_KEYS", &[("ADMIN_API_KEYS", "ops=0123456789abcdef"), ("AGENT_API_KEYS", "bot=0123456789abcdef")]),
        ("AGENT_API_KEYS", &[("ADMIN_API_KEYS", "ops=0123456789abcdef"), ("AGENT_API_KEYS", "ops=fedcba9876543210")]),
        ("AGENT_LIMITS", &[("AGENT_LIMITS", "*: usd day=1")]),
        ("AGENT_LIMITS", &[("AGENT_API_KEYS", "bot=0123456789abcdef"), ("AGENT_LIMITS", "bod: usd day=1")]),
        ("AGENT_LIMITS", &[("ADMIN_API_KEYS", "ops=0123456789abcdef"), ("AGENT_LIMITS", "ops: usd day=1")]),
        ("AGENT_RATE_LIMIT", &[("AGENT_RATE_LIMIT", "fast")]),
        ("IDEMPOTENCY_KEY_RETENTION", &[("IDEMPOTENCY_KEY_RETENTION", "23h")]),
        ("IDEMPOTENCY_KEY_RETENTION", &[("IDEMPOTENCY_KEY_RETENTION", "11years")]),
    ];
    for (name, variables) in table {
        let refused = with(variables).map(|_| ()).map_err(|error| error.name);
        assert_eq!(refused, Err(*name), "{variables:?}");
    }
}

#[test]
fn the_lease_must_outlast_a_whole_call_and_fit_the_window() {
    // 80s x 3 sends + 2 waits of at most 5s = 250s.
    assert!(with(&[("RESERVATION_TTL", "250s")]).is_err());
    assert!(with(&[("RESERVATION_TTL", "251s")]).is_ok());
    assert!(with(&[("RESERVATION_TTL", "5h")]).is_ok());
    assert!(with(&[("RESERVATION_TTL", "5h 1s")]).is_err());
}

#[test]
fn each_bound_leaves_room_for_what_passes_through_the_one_before_it() {
    let usual = with(&[]).unwrap().load;
    assert!(usual.charges > 5_000);
    assert!(usual.charges < usual.requests && usual.requests < usual.connections);
    let set = with(&[
        ("MAX_CONNECTIONS", "3"),
        ("CONNECTION_BACKLOG", "65535"),
        ("CONNECTION_IDLE_TIME", "75s"),
        ("REQUEST_CONCURRENCY", "2"),
        ("CHARGE_CONCURRENCY", "1"),
    ]);
    let set = set.unwrap().load;
    assert_eq!((set.connections, set.requests, set.charges), (3, 2, 1));
    assert_eq!(
        (set.backlog, set.idle_time),
        (65_535, Duration::from_secs(75))
    );
}

#[test]
fn an_address_that_others_reach_needs_keys() {
    for name in ["ADMIN_API_KEYS", "AGENT_API_KEYS"] {
        assert!(with(&[("HOST", "0.0.0.0"), (name, "one=0123456789abcdef")]).is_ok());
    }
}

#[test]
fn header_keys_are_kept_for_a_month_or_as_long_as_is_set() {
    let kept = |variables| with(variables).unwrap().reconciler.key_retention;
    let days = |count: u64| Some(Duration::from_secs(count * 86_400));
    assert_eq!(kept(&[]), days(30));
    assert_eq!(kept(&[("IDEMPOTENCY_KEY_RETENTION", "24h")]), days(1));
    assert_eq!(kept(&[("IDEMPOTENCY_KEY_RETENTION", "400days")]), days(400));
    assert_eq!(kept(&[("IDEMPOTENCY_KEY_RETENTION", "0s")]), None);
}

#[test]
fn secrets_do_not_show() {
    let settings = with(&[
        ("ADMIN_API_KEYS", "ops=topsecret-of-the-operator"),
        ("DATABASE_URL", "postgres://me:hunter2@db/x"),
        ("PAYMENT_PROVIDER", "stripe"),
        ("STRIPE_SECRET_KEY", "sk_test_topsecret"),
    ])
    .unwrap();
    let shown = format!("{settings:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("topsecret"),
        "{shown}"
    );
}
