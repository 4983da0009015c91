//! Clients of MCP that go away in the middle: the answering stops, the charge does not.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{Engine, RawRequest, TestApp, tool_call};

/// Long enough that the caller is gone before the provider answers.
const LATENCY: Duration = Duration::from_millis(700);

async fn slow(engine: Engine) -> TestApp {
    let app = TestApp::start(engine).await;
    app.mock.set_latency(LATENCY);
    app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa"}))
        .await;
    app
}

/// Calls the tool and keeps the connection without reading from it.
async fn call_unread(app: &TestApp) -> TcpStream {
    let body = tool_call("charge_customer", &json!({"invoiceId": "inv_1"})).to_string();
    let request = RawRequest::json("POST", "/mcp", body)
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25");
    let address = app.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&request.bytes()).await.unwrap();
    app.until("sent", |app| app.mock.ledger().requests == 1)
        .await;
    stream
}

on_both_stores! {
    async fn a_call_that_is_cut_in_the_middle_is_issued_again_and_charged_once(engine) {
        let app = slow(engine).await;

        let stream = call_unread(&app).await;
        stream.set_zero_linger().unwrap();
        drop(stream);
        // Another request id, another connection.
        let again = app.tool_charge("inv_1").await;

        again.assert(false, "", "yes", "not_needed");
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[]).await;
    }

    async fn a_charge_whose_caller_is_gone_ends_without_a_further_call(engine) {
        let app = slow(engine).await;

        let stream = call_unread(&app).await;
        stream.set_zero_linger().unwrap();
        drop(stream);
        app.attempt_is("inv_1", "succeeded").await;

        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[]).await;
    }

    async fn a_cancelled_call_does_not_cancel_its_charge(engine) {
        let app = slow(engine).await;

        let stream = call_unread(&app).await;
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "the user"}});
        let told = app.post_mcp(&cancelled, &[]).await;
        drop(stream);
        app.attempt_is("inv_1", "succeeded").await;

        assert_eq!((told.status, told.body.as_str()), (202, ""));
        let result = app.tool_charge("inv_1").await;
        result.assert(false, "", "yes", "not_needed");
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[]).await;
    }

    async fn a_stop_lets_the_caller_of_a_tool_have_its_answer(engine) {
        let mut app = slow(engine).await;
        let replica = app.replica().start().await;
        let caller = {
            let message = tool_call("charge_customer", &json!({"invoiceId": "inv_1"}));
            let request = app
                .client
                .post(format!("{}/mcp", app.url))
                .header("Accept", "application/json, text/event-stream")
                .header("Content-Type", "application/json")
                .body(message.to_string());
            tokio::spawn(request.send())
        };
        app.until("sent", |app| app.mock.ledger().requests == 1).await;

        app.stop().await;

        let answer: serde_json::Value = serde_json::from_str(&caller.await.unwrap().unwrap().text().await.unwrap()).unwrap();
        assert_eq!(answer["result"]["structuredContent"]["customerCharged"], "yes", "{answer:#}");
        replica.check_oracles(&[]).await;
    }
}
