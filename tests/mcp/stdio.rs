//! `chargeonce mcp` as a process: what it writes where, and what it says when the service is away.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{BINARY, Stage, closed, http};

/// A running `chargeonce mcp`, spoken to line by line.
struct Session {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Session {
    fn start(url: &str) -> Self {
        Self::start_with(Command::new(BINARY).args(["mcp", "--url", url]))
    }

    fn start_with(command: &mut Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut session = Self {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
            last_id: 0,
        };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let result = session.ask("initialize", hello);
        assert_eq!(result["result"]["serverInfo"]["name"], "chargeonce");
        session.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    fn tell(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.tell(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next line of the output, which must be a message.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer:#}");
        answer
    }

    fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        self.ask("tools/call", params)["result"].clone()
    }

    /// Closes the input, as a client does that is done. What was written to standard error.
    fn end(mut self) -> String {
        drop(self.input.take());
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}");
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "the output is the protocol's");
        let mut log = String::new();
        let mut stderr = self.process.stderr.take().unwrap();
        stderr.read_to_string(&mut log).unwrap();
        log
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It has ended already when all went well.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn invoice(stage: &Stage, id: &str) -> Value {
    let body = json!({"id": id, "customerId": "cus_1", "amountCents": 1250, "currency": "usd"});
    http(&format!("{}/v1/invoices", stage.service.url), Some(&body));
    json!({"invoiceId": id})
}

#[test]
fn the_output_is_the_protocols_and_the_log_is_elsewhere() {
    let stage = Stage::set();
    let arguments = invoice(&stage, "inv_1");
    let mut command = Command::new(BINARY);
    command
        .args(["mcp", "--url", &stage.service.url])
        .env("RUST_LOG", "debug");
    let mut session = Session::start_with(&mut command);

    let first = session.tool("charge_customer", &arguments);
    let again = session.tool("charge_customer", &arguments);

    assert_eq!(first["structuredContent"]["customerCharged"], "yes");
    assert_eq!(again["structuredContent"], first["structuredContent"]);
    let told = again["content"][0]["text"].as_str().unwrap();
    assert!(told.contains("this call charged nothing"), "{told}");
    let log = session.end();
    assert!(log.contains("DEBUG"), "{log}");
    stage.assert_paid_once(1);
}

#[test]
fn a_cancelled_call_is_not_answered_and_its_charge_is_made() {
    let stage = Stage::set();
    let arguments = invoice(&stage, "inv_1");
    stage.slow_down(3_000);
    let mut session = Session::start(&stage.service.url);

    let call = json!({"name": "charge_customer", "arguments": arguments});
    let id = session.send("tools/call", call);
    // The provider has it by now, or the charge has not begun and the next call begins it: once, either way.
    let cancelled = json!({"requestId": id, "reason": "the user"});
    session
        .tell(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}));
    // The next answer is the next call's.
    let again = session.tool("charge_customer", &arguments);

    assert_eq!(
        again["structuredContent"]["customerCharged"], "yes",
        "{again:#}"
    );
    session.end();
    stage.assert_paid_once(1);
}

#[test]
fn a_service_that_is_away_is_told_as_an_error_with_the_way_out() {
    let closed = closed();
    let url = format!("http://{}", closed.local_addr().unwrap());
    let mut session = Session::start(&url);

    let listed = session.ask("tools/list", json!({}));
    let charge = session.tool("charge_customer", &json!({"invoiceId": "inv_1"}));

    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 4);
    assert_eq!(charge["isError"], true);
    assert_eq!(charge["structuredContent"]["code"], "service_unreachable");
    assert_eq!(charge["structuredContent"]["customerCharged"], "unknown");
    let told = charge["content"][0]["text"].as_str().unwrap();
    assert!(told.contains("this call did nothing"), "{told}");
    assert!(
        told.contains("Call again with the same arguments"),
        "{told}"
    );
    session.end();
}

#[test]
fn a_service_that_dies_in_the_middle_leaves_the_outcome_unknown_until_the_call_is_made_again() {
    // Short leases, so that whoever comes after the dead one need not wait long.
    let mut stage = Stage::set_with(&[
        ("PROVIDER_TIMEOUT", "4s"),
        ("PROVIDER_MAX_RETRIES", "0"),
        ("RESERVATION_TTL", "5s"),
        ("RECONCILE_INTERVAL", "100ms"),
    ]);
    let arguments = invoice(&stage, "inv_1");
    stage.slow_down(1_000);
    let mut session = Session::start(&stage.service.url);

    let call = json!({"name": "charge_customer", "arguments": arguments});
    let id = session.send("tools/call", call);
    while stage.requests() == 0 {
        std::thread::yield_now();
    }
    stage.kill_service();
    let cut = session.next();
    let away = session.tool("charge_customer", &arguments);
    stage.restart_service();
    let mut again = session.tool("charge_customer", &arguments);
    let begun = Instant::now();
    while again["structuredContent"]["customerCharged"] == "unknown" {
        assert!(begun.elapsed() < Duration::from_secs(60), "{again:#}");
        std::thread::sleep(Duration::from_millis(50));
        again = session.tool("charge_customer", &arguments);
    }

    assert_eq!(cut["id"], id);
    for told in [&cut["result"], &away] {
        assert_eq!(told["isError"], true, "{told:#}");
        let structure = &told["structuredContent"];
        assert_eq!(structure["customerCharged"], "unknown", "{told:#}");
        assert_eq!(structure["retry"], "later", "{told:#}");
    }
    assert_eq!(again["isError"], false, "{again:#}");
    assert_eq!(again["structuredContent"]["customerCharged"], "yes");
    session.end();
    stage.assert_paid_once(1);
}

#[test]
fn the_key_comes_from_the_environment_only() {
    let stage = Stage::set();
    let mut command = Command::new(BINARY);
    command
        .args([
            "mcp",
            "--url",
            &stage.service.url,
            "--api-key-env",
            "BILLING_KEY",
        ])
        .env("BILLING_KEY", "co_agent_secret_1")
        .env("RUST_LOG", "trace");
    let mut session = Session::start_with(&mut command);
    session.tool("list_open_invoices", &json!({}));
    let log = session.end();
    assert!(!log.contains("co_agent_secret_1"), "{log}");

    let refused = Command::new(BINARY)
        .args(["mcp", "--api-key", "co_agent_secret_1"])
        .output()
        .unwrap();
    assert!(!refused.status.success());
    let unusable = Command::new(BINARY)
        .args(["mcp", "--url", "localhost:3000"])
        .output()
        .unwrap();
    assert!(!unusable.status.success());
    let told = String::from_utf8_lossy(&unusable.stderr);
    assert!(told.contains("--url"), "{told}");
    // What was given may have a password in it.
    assert!(!told.contains("localhost:3000"), "{told}");
    assert!(unusable.stdout.is_empty());
}
