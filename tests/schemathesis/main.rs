//! Schemathesis, a tester of APIs by their documents, against the built service: whatever the document allows is sent, and much
//! that it does not, and every answer is held against it.
//!
//! How it tries is in `schemathesis.toml` and `hooks.py` beside this file. `make test` installs it and names its Python:
//! `SCHEMATHESIS_PYTHON`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::explicit_write,
    reason = "a test fails by panicking and speaks on the terminal, its harness too"
)]

#[path = "../support/listening.rs"]
mod listening;
mod report;

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use self::listening::Listening;
use self::report::Report;

/// The secret with which events are signed, for the service and for `hooks.py`.
const SIGNING_SECRET: &str = "whsec_schemathesis";

const ADMIN: &str = "an-admin-of-schemathesis";
const AGENT: &str = "an-agent-of-schemathesis";

/// The seed of the first run; each next one has the next.
const SEED: u32 = 20_261_130;

/// Scenarios of calls that follow each other, at least. Where the same steps end otherwise the second time, Schemathesis ends
/// its run early and calls it passed; so they are counted, and what they have reached is looked at.
const SCENARIOS_MIN: usize = 120;

/// Runs of such scenarios at most.
const STATEFUL_RUNS_MAX: u32 = 8;

/// What the log may say to people: events that are signed and none are sent here on purpose.
const MISCONFIGURED: &str =
    "a signed webhook is no snapshot event: check the endpoint's payload style";

/// The operations that need no key. The document's own is not tried.
const OPEN: &[&str] = &[
    "GET /health/live",
    "GET /health/ready",
    "POST /v1/webhooks/stripe",
];

/// The operations that an agent may call.
const OF_AGENTS: &[&str] = &[
    "GET /v1/invoices",
    "GET /v1/invoices/{id}",
    "GET /v1/invoices/{id}/charge-status",
    "GET /v1/charges",
    "GET /v1/charges/{id}",
    "POST /v1/charges",
    "GET /v1/tools",
    "POST /mcp",
];

/// The operations that need an admin's key. Only those named `resolve` are not among them: nothing needs a review here.
const OF_ADMINS: &[&str] = &[
    "POST /v1/invoices",
    "PATCH /v1/invoices/{id}",
    "POST /v1/invoices/{id}/void",
    "GET /v1/charges/{id}/evidence",
    "GET /v1/refunds",
    "POST /v1/refunds",
    "GET /v1/refunds/{id}",
    "GET /v1/refunds/{id}/evidence",
    "GET /metrics",
];

/// Who calls, and how the service is set up.
struct Caller {
    key: Option<&'static str>,
    settings: &'static [(&'static str, &'static str)],
    /// What is there before the first call.
    invoices: fn() -> Vec<Value>,
}

/// A service with a database of its own, and a provider in its process.
struct Stage {
    service: Listening,
    folder: tempfile::TempDir,
}

impl Stage {
    fn set(caller: &Caller) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_chargeonce"));
        command
            .current_dir(folder.path())
            .env_clear()
            .env("PORT", "0")
            .env("DATABASE_URL", "sqlite://schemathesis.db")
            .env("STRIPE_WEBHOOK_SECRET", SIGNING_SECRET)
            // What is for people.
            .env("RUST_LOG", "chargeonce=error")
            .envs(caller.settings.iter().copied())
            .stderr(log);
        let service = Listening::start(&mut command, "chargeonce");
        let stage = Self { service, folder };
        for invoice in (caller.invoices)() {
            stage.create(&invoice);
        }
        stage
    }

    fn create(&self, invoice: &Value) {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client
            .post(format!("{}/v1/invoices", self.service.url))
            .header("Content-Type", "application/json")
            .header("Authorization", format!("Bearer {ADMIN}"))
            .body(invoice.to_string());
        let created = runtime.block_on(request.send()).unwrap();
        assert_eq!(created.status(), 201, "{invoice}");
    }

    /// Runs some phases of Schemathesis.
    fn run(&self, phases: &str, seed: u32, key: Option<&str>) -> Report {
        let python = std::env::var("SCHEMATHESIS_PYTHON");
        let python = python.expect("SCHEMATHESIS_PYTHON is not set; run make test");
        let [report, answers] =
            ["report.json", "answers"].map(|name| self.folder.path().join(name));
        let mut command = Command::new(python);
        command
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis"))
            .env("STRIPE_WEBHOOK_SECRET", SIGNING_SECRET)
            .env("ANSWERS", &answers)
            .args(["-B", "-m", "schemathesis.cli", "run", "--checks", "all"])
            .args(["--no-color", "--phases", phases])
            .args(["--seed", &seed.to_string()])
            .args(["--report", "json", "--report-json-path"])
            .arg(&report);
        if let Some(key) = key {
            command.args(["--header", &format!("Authorization: Bearer {key}")]);
        }
        command.arg(format!("{}/openapi.json", self.service.url));
        let ran = command.output().expect("it can be started");
        let report = Report::read(&ran, &report, &answers);
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        let mut for_people = log.lines().filter(|line| !line.ends_with(MISCONFIGURED));
        assert_eq!(for_people.next(), None, "{}", report.said);
        report
    }
}

impl Caller {
    /// Runs everything, each time against a new service, and fails with all that was found. `reached` are the operations that
    /// answer with success, and no others may; `charged` are statuses with which charging is answered.
    fn finds_nothing(&self, reached: &[&[&str]], charged: &[u16]) {
        let mut reached = reached.concat();
        reached.sort_unstable();
        let run = |phases, seed| Stage::set(self).run(phases, seed, self.key);
        let is_done = |report: &Report| {
            let has_charged = |status: &u16| report.has_answered("POST /v1/charges", *status);
            report.scenarios >= SCENARIOS_MIN
                && report.succeeded() == reached
                && charged.iter().all(has_charged)
        };
        let mut report = run("examples,coverage,fuzzing", SEED);
        let mut runs = 0;
        while !is_done(&report) && runs < STATEFUL_RUNS_MAX {
            runs += 1;
            report.add(run("stateful", SEED + runs));
        }
        report.assert_nothing_found();
        let told = report.told();
        assert_eq!(report.succeeded(), reached, "{told}");
        assert!(is_done(&report), "{charged:?}\n{told}");
        println!("{told}in {} runs", runs + 1);
    }
}

#[test]
#[ignore = "needs Schemathesis: make test"]
fn schemathesis_finds_nothing_without_keys() {
    let anybody = Caller {
        key: None,
        settings: &[],
        invoices: Vec::new,
    };
    anybody.finds_nothing(&[OPEN, OF_AGENTS, OF_ADMINS], &[201, 402, 404, 409]);
}

#[test]
#[ignore = "needs Schemathesis: make test"]
fn schemathesis_finds_nothing_as_an_admin() {
    let admin = Caller {
        key: Some(ADMIN),
        settings: KEYS,
        invoices: Vec::new,
    };
    admin.finds_nothing(&[OPEN, OF_AGENTS, OF_ADMINS], &[201, 402, 404, 409]);
}

/// What an agent charges is limited and takes long here, so that those answers are met, too.
#[test]
#[ignore = "needs Schemathesis: make test"]
fn schemathesis_finds_nothing_as_an_agent() {
    let agent = Caller {
        key: Some(AGENT),
        settings: SLOW_AND_LIMITED,
        invoices: || {
            let amounts = [
                ("usd", 1_250),
                ("usd", 60_000),
                ("jpy", 5_000),
                ("eur", 900),
            ];
            let methods = [Value::Null, "pm_card_visa_chargeDeclined".into()];
            let of_method = |method: Value| {
                amounts.map(|(currency, amount)| {
                json!({"customerId": "cus_1", "amountCents": amount, "currency": currency, "paymentMethodId": method})
            })
            };
            methods.into_iter().flat_map(of_method).collect()
        },
    };
    agent.finds_nothing(&[OPEN, OF_AGENTS], &[202, 403, 404]);
}

const KEYS: &[(&str, &str)] = &[
    ("ADMIN_API_KEYS", "ops=an-admin-of-schemathesis"),
    ("AGENT_API_KEYS", "bot=an-agent-of-schemathesis"),
];

const SLOW_AND_LIMITED: &[(&str, &str)] = &[
    KEYS[0],
    KEYS[1],
    ("AGENT_LIMITS", "bot: usd charge=50000, eur day=100000"),
    ("MOCK_LATENCY_MS", "200"),
    ("RESPONSE_WAIT", "100ms"),
];
