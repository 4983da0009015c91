//! Stripe's official SDKs against `chargeonce mock-stripe`, and the command itself: how it starts, refuses and ends.
//!
//! The checks of the SDKs are written in their own languages, beside this file. `make test` installs the SDKs and names
//! them: `SDK_PYTHON` is a Python that has one, `SDK_NODE_DIR` a folder whose `node_modules` has the other.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::explicit_write,
    reason = "a test fails by panicking and speaks on the terminal, its harness too"
)]

#[path = "../support/listening.rs"]
mod listening;

use std::path::Path;
use std::process::{Command, Output};

use self::listening::Listening;

fn mock(arguments: &[&str]) -> Listening {
    Listening::start(&mut command(arguments), "mock-stripe")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chargeonce"));
    command.args(["mock-stripe", "--port", "0"]).args(arguments);
    command
}

/// Runs a check and shows what it said if it failed.
fn check(mut command: Command, mock: &Listening) {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .env("MOCK_URL", &mock.url)
        .output()
        .expect("the check can be started");
    assert!(
        status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    );
}

fn script(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sdk")
        .join(name)
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run make test"))
}

#[test]
#[ignore = "needs the Python SDK: make test"]
fn the_python_sdk_works_against_the_mock() {
    let mock = mock(&["--webhook-retry-ms", "20"]);
    let mut python = Command::new(variable("SDK_PYTHON"));
    python.arg("-B").arg(script("python/check.py"));
    check(python, &mock);
}

#[test]
#[ignore = "needs the Node SDK: make test"]
fn the_node_sdk_works_against_the_mock() {
    let directory = variable("SDK_NODE_DIR");
    let mock = mock(&["--webhook-retry-ms", "20"]);
    let mut node = Command::new("node");
    node.arg("--test").arg(script("node/check.js"));
    node.env("SDK_NODE_DIR", directory);
    check(node, &mock);
}

#[test]
fn what_would_be_unsafe_is_refused_with_the_way_out() {
    let table: [(&[&str], &str); 4] = [
        (&["--host", "0.0.0.0"], "--allow-remote"),
        (
            &["--webhook-url", "http://example.com/"],
            "--webhook-any-host",
        ),
        (
            &[
                "--webhook-url",
                "http://127.0.0.1:1/",
                "--webhook-secret",
                "sk_test_1",
            ],
            "whsec_",
        ),
        (&["--webhook-secret", "whsec_1"], "--webhook-url"),
    ];
    for (arguments, way_out) in table {
        let output = command(arguments).output().expect("it can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said.contains(way_out), "{arguments:?}: {said}");
    }
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_cleanly() {
    for signal in ["-TERM", "-INT"] {
        let mut mock = mock(&[]);
        let pid = mock.process.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("kill can be started").success());
        let status = mock.process.wait().expect("it ends");
        assert!(status.success(), "{signal}: {status}");
    }
}

#[test]
fn the_help_names_every_fault() {
    let output = command(&["--help"]).output().expect("it can be started");
    let help = String::from_utf8_lossy(&output.stdout);
    for name in [
        "drop_after",
        "error_500_after",
        "lock_timeout",
        "webhook_duplicate",
        "/_mock/ledger",
        "whsec_",
    ] {
        assert!(help.contains(name), "{name}");
    }
}
