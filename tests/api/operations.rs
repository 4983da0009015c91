//! What operators see: readiness and metrics.

use std::io::Write;
use std::process::{Command, Stdio};

use chargeonce::payments::mock::Fault;

use crate::support::{Engine, Reply, TestApp, eventually};

/// Every metric, each with its type. Dashboards and alerts name them; a line that changes breaks those.
const PINNED: [(&str, &str); 26] = [
    ("chargeonce_charge_calls_total", "counter"),
    ("chargeonce_charges_in_flight", "gauge"),
    ("chargeonce_database_connections", "gauge"),
    ("chargeonce_database_connections_awaited", "gauge"),
    ("chargeonce_database_connections_in_use", "gauge"),
    ("chargeonce_database_connections_max", "gauge"),
    ("chargeonce_oldest_open_refund_review_age_seconds", "gauge"),
    ("chargeonce_oldest_open_review_age_seconds", "gauge"),
    ("chargeonce_oldest_unsettled_charge_age_seconds", "gauge"),
    ("chargeonce_oldest_unsettled_refund_age_seconds", "gauge"),
    ("chargeonce_provider_call_duration_seconds", "histogram"),
    ("chargeonce_provider_events_pending", "gauge"),
    ("chargeonce_reconciler_attempts_total", "counter"),
    (
        "chargeonce_reconciler_last_round_timestamp_seconds",
        "gauge",
    ),
    ("chargeonce_reconciler_refunds_total", "counter"),
    ("chargeonce_reconciler_rounds_failed_total", "counter"),
    ("chargeonce_reconciler_rounds_total", "counter"),
    ("chargeonce_refund_reviews_open", "gauge"),
    ("chargeonce_requests_in_flight", "gauge"),
    ("chargeonce_requests_refused_total", "counter"),
    ("chargeonce_reviews_open", "gauge"),
    ("chargeonce_takeovers_total", "counter"),
    ("chargeonce_unsettled_charges", "gauge"),
    ("chargeonce_unsettled_refunds", "gauge"),
    ("chargeonce_verdicts_total", "counter"),
    ("chargeonce_webhook_events_total", "counter"),
];

/// A database on which no migration but the first has run, as far as its own table tells.
const FORGET_MIGRATIONS: &str =
    "DELETE FROM __diesel_schema_migrations WHERE version > '20261129000001'";

/// The one code that only readiness has.
pub async fn not_ready(engine: Engine) -> Reply {
    let app = TestApp::start(engine).await;
    app.database.execute(FORGET_MIGRATIONS).await;
    app.get("/health/ready").await
}

pub async fn metrics(app: &TestApp) -> String {
    let reply = app.get("/metrics").await;
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    reply.body
}

pub fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find(|line| {
        line.strip_prefix(series)
            .is_some_and(|rest| rest.starts_with(' '))
    });
    line.map_or(0.0, |line| {
        line.rsplit(' ').next().unwrap().parse().unwrap()
    })
}

/// Waits until a metric comes to what is right.
pub async fn comes_to(app: &TestApp, series: &str, is_right: impl Fn(f64) -> bool) {
    let probe = async || is_right(value(&metrics(app).await, series)).then_some(());
    eventually(series, probe).await;
}

on_both_stores! {
    async fn a_service_whose_schema_is_behind_is_not_ready(engine) {
        let app = TestApp::start(engine).await;
        assert_eq!(app.get("/health/ready").await.status, 200);
        app.database.execute(FORGET_MIGRATIONS).await;

        let reply = app.get("/health/ready").await;

        reply.assert(503, "not_ready", "unknown", "later");
        assert!(reply.text("detail").contains("older than this release"), "{reply:#?}");
        assert_eq!(app.get("/health/live").await.status, 200);
    }

    async fn calls_verdicts_and_the_provider_are_counted(engine) {
        let app = TestApp::start(engine).await;
        for id in ["paid", "declined", "lost"] {
            app.invoice(id).await;
        }
        app.patch("/v1/invoices/declined", &serde_json::json!({"paymentMethodId": "pm_card_visa_chargeDeclinedStolenCard"})).await;
        app.fault("lost", Fault::Error500Before, 1);
        let replies = [
            app.charge("paid").await,
            app.charge("paid").await,
            app.charge("paid").await,
            app.charge("declined").await,
            app.charge("declined").await,
            app.charge("lost").await,
            app.charge("nobody").await,
        ];

        let seen = metrics(&app).await;

        let calls = |outcome: &str| value(&seen, &format!("chargeonce_charge_calls_total{{outcome=\"{outcome}\"}}"));
        let verdicts = |outcome: &str| value(&seen, &format!("chargeonce_verdicts_total{{outcome=\"{outcome}\"}}"));
        let sent = |outcome: &str| {
            value(&seen, &format!("chargeonce_provider_call_duration_seconds_count{{operation=\"send\",outcome=\"{outcome}\"}}"))
        };
        assert_eq!([calls("succeeded"), calls("replayed"), calls("failed"), calls("retry_not_advised")], [1.0, 2.0, 1.0, 1.0], "{seen}");
        assert_eq!([calls("undecided"), calls("invoice_not_found")], [1.0, 1.0], "{seen}");
        assert_eq!([verdicts("succeeded"), verdicts("failed"), verdicts("unknown")], [1.0, 1.0, 1.0], "{seen}");
        assert_eq!([sent("succeeded"), sent("failed"), sent("unknown")], [1.0, 1.0, 1.0], "{seen}");
        assert_eq!(value(&seen, "chargeonce_takeovers_total"), 0.0);
        assert_eq!(value(&seen, "chargeonce_charges_in_flight"), 0.0);
        assert!(value(&seen, "chargeonce_database_connections_max") >= 1.0, "{seen}");
        assert!(value(&seen, "chargeonce_database_connections") >= 1.0, "{seen}");
        for id in ["paid", "declined", "lost", "cus_1", "chg_"] {
            assert!(!seen.contains(id) || id == "declined", "{id} is in {seen}");
        }

        app.past_lease().await;
        let found = app.charge("lost").await;
        assert_eq!(value(&metrics(&app).await, "chargeonce_takeovers_total"), 1.0);
        app.check_oracles(&[&replies[..], &[found]].concat()).await;
    }
}

#[tokio::test]
async fn the_metrics_are_the_published_ones_and_prometheus_reads_them() {
    let app = TestApp::start(Engine::Sqlite).await;
    app.invoice("inv_1").await;
    app.charge("inv_1").await;
    let text = metrics(&app).await;
    let mut types: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    types.sort_unstable();
    // A family without a member yet is not told.
    let told = |name: &str| types.iter().any(|(told, _)| *told == name);
    let right: Vec<(&str, &str)> = PINNED.into_iter().filter(|(name, _)| told(name)).collect();
    assert_eq!(types, right);
    assert!(types.len() >= 17, "{text}");

    // Of these the first one is an alert, and a series that begins with it shows no increase.
    for outcome in ["parked", "unknown_invoice", "contradiction"] {
        let series = format!("chargeonce_webhook_events_total{{outcome=\"{outcome}\"}} 0\n");
        assert!(text.contains(&series), "{text}");
    }
    promtool(&["check", "metrics"], &text);
}

#[test]
fn the_alerts_are_raised_when_they_should_and_name_metrics_that_are_there() {
    let rules = include_str!("../../deploy/prometheus/alerts.yml");
    let dashboard = include_str!("../../deploy/grafana/chargeonce.json");
    let panels: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    assert!(panels["panels"].as_array().unwrap().len() >= 10);
    for (place, text) in [("alerts", rules), ("dashboard", dashboard)] {
        let mut names = 0;
        for (at, _) in text.match_indices("chargeonce_") {
            let is_of_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            let name: String = text[at..].chars().take_while(is_of_name).collect();
            let base = ["_bucket", "_count", "_sum"]
                .iter()
                .find_map(|end| name.strip_suffix(end));
            let base = base.unwrap_or(&name);
            assert!(
                PINNED.iter().any(|(known, _)| *known == base),
                "{place}: {name}"
            );
            names += 1;
        }
        assert!(names >= 8, "{place}");
    }
    promtool(&["check", "rules", "deploy/prometheus/alerts.yml"], "");
    promtool(&["test", "rules", "deploy/prometheus/alerts_test.yml"], "");
}

/// Runs Prometheus's own tool from the project's root; what it says on standard error is a failure, too.
fn promtool(arguments: &[&str], input: &str) {
    let started = Command::new("promtool")
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut running = match started {
        Ok(running) => running,
        Err(error) => {
            // Not by a macro: the test harness would keep what that prints to itself.
            let line = format!("NOT RUN: promtool {} ({error})", arguments.join(" "));
            writeln!(std::io::stderr(), "{line}").unwrap();
            return;
        }
    };
    let mut stdin = running.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.is_empty(),
        "{arguments:?}: {said}{told}"
    );
}
