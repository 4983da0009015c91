//! The tools of `chargeonce mcp`: the same answers from another process, and the truth when there are none.

use std::net::SocketAddr;
use std::time::Duration;

use chargeonce::payments::mock::Fault;
use chargeonce::tools::arguments::read;
use chargeonce::tools::backend::{Backend, CallContext, ToolReply};
use chargeonce::tools::catalogue::ToolName;
use chargeonce::tools::remote::RemoteBackend;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{TestApp, check_schema, service_away};

async fn ask(url: &str, tool: &str, arguments: Value) -> ToolReply {
    let backend = RemoteBackend::new(url, None, None).unwrap();
    let call = read(
        ToolName::parse(tool).unwrap(),
        arguments.as_object().unwrap().clone(),
    );
    let reply = backend.answer(call.unwrap(), CallContext::default()).await;
    check_schema(tool, &reply.body);
    reply
}

on_both_stores! {
    async fn a_tool_answers_the_same_in_the_service_and_over_http(engine) {
        // The last call waits as long as this for a charge that nobody works on.
        let app = TestApp::with(engine).set("RESPONSE_WAIT", "3s").start().await;
        for id in ["paid", "open", "unknown", "void"] {
            app.invoice(id).await;
        }
        app.invoice_with("stolen", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedStolenCard"})).await;
        app.fault("unknown", Fault::DropAfter, 50);
        app.post("/v1/invoices/void/void", &json!({})).await;
        for id in ["paid", "stolen", "unknown"] {
            app.charge(id).await;
        }
        let id = |id: &str| json!({"invoiceId": id});
        let table = [
            ("charge_customer", id("paid")),
            ("charge_customer", id("stolen")),
            ("charge_customer", id("void")),
            ("charge_customer", id("nobody")),
            ("get_invoice", id("open")),
            ("get_invoice", id("nobody")),
            ("list_open_invoices", json!({})),
            ("list_open_invoices", json!({"customerId": "cus_1", "limit": 1})),
            ("list_open_invoices", json!({"limit": 1_000})),
            ("list_open_invoices", json!({"cursor": "&status=paid"})),
            ("get_charge_status", id("paid")),
            ("get_charge_status", id("stolen")),
            ("get_charge_status", id("nobody")),
        ];
        for (tool, arguments) in table {
            let here = app.tool(tool, arguments.clone()).await;
            let there = ask(&app.url, tool, arguments.clone()).await;
            assert_eq!(there.body, here.body, "{tool} {arguments}");
            assert_eq!(there.is_error(), here.is_error, "{tool} {arguments}");
        }
        let running = ask(&app.url, "charge_customer", id("unknown")).await;
        assert!(!running.is_error());
        assert_eq!(running.body["customerCharged"], "unknown");
        app.check_oracles(&[]).await;
    }
}

#[tokio::test]
async fn a_first_charge_over_http_waits_for_its_result_and_a_second_joins_it() {
    let app = TestApp::start(crate::support::Engine::Sqlite).await;
    app.mock.set_latency(Duration::from_millis(700));
    app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa"}))
        .await;
    let charge = || ask(&app.url, "charge_customer", json!({"invoiceId": "inv_1"}));

    let (one, other) = tokio::join!(charge(), charge());

    assert_eq!(one.body["customerCharged"], "yes");
    assert_eq!(one.body, other.body);
    assert!(one.replayed != other.replayed);
    assert_eq!(app.sends(), ["charge:inv_1"]);
    app.check_oracles(&[]).await;
}

/// Listens, reads a request, and answers with these bytes or hangs up.
async fn stranger(answer: &'static [u8]) -> (SocketAddr, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = vec![0; 4_096];
        let length = stream.read(&mut seen).await.unwrap();
        stream.write_all(answer).await.unwrap();
        String::from_utf8_lossy(&seen[..length]).into_owned()
    });
    (address, serving)
}

#[tokio::test]
async fn whatever_is_not_the_services_answer_leaves_the_outcome_unknown() {
    let table: [(&str, &[u8]); 9] = [
        ("a hang-up", b""),
        ("half an answer", b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{"),
        ("a proxy's page", b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nOops"),
        ("somebody's JSON", b"HTTP/1.1 404 Not Found\r\nContent-Length: 13\r\n\r\n{\"error\":\"x\"}"),
        ("a redirect", b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 2\r\n\r\n{}"),
        ("a list", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"),
        ("a gateway's own word", b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}"),
        ("another invoice's charge", b"HTTP/1.1 201 Created\r\nContent-Length: 45\r\n\r\n{\"invoiceId\":\"inv_2\",\"customerCharged\":\"yes\"}"),
        ("a success that charged nobody", b"HTTP/1.1 201 Created\r\nContent-Length: 44\r\n\r\n{\"invoiceId\":\"inv_1\",\"customerCharged\":\"no\"}"),
    ];
    for (what, answer) in table {
        let (address, _serving) = stranger(answer).await;
        let url = format!("http://{address}");
        let reply = ask(&url, "charge_customer", json!({"invoiceId": "inv_1"})).await;
        assert!(reply.is_error(), "{what}");
        assert_eq!(reply.body["code"], "service_unreachable", "{what}");
        assert_eq!(reply.body["customerCharged"], "unknown", "{what}");
        assert_eq!(reply.body["retry"], "later", "{what}");
        let told = reply.body["detail"].as_str().unwrap();
        assert!(
            told.contains("the outcome of this call is not known"),
            "{what}: {told}"
        );
        assert!(
            told.contains("Call again with the same arguments"),
            "{what}: {told}"
        );
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_has_surely_not_been_asked() {
    let away = service_away().await;
    away.assert(503, "service_unreachable", "unknown", "later");
    assert!(
        away.text("detail").contains("this call did nothing"),
        "{away:#?}"
    );
}

#[tokio::test]
async fn the_key_goes_as_a_bearer_and_into_no_output() {
    let (address, serving) = stranger(b"").await;
    let key = SecretString::from("co_agent_secret_1");
    let backend =
        RemoteBackend::new(&format!("http://{address}"), Some(&key), Some("run-7")).unwrap();
    let call = read(ToolName::ListOpenInvoices, serde_json::Map::new()).unwrap();

    let reply = backend.answer(call, CallContext::default()).await;

    let seen = serving.await.unwrap();
    assert!(
        seen.starts_with("GET /v1/invoices?status=open HTTP/1.1"),
        "{seen}"
    );
    assert!(
        seen.contains("authorization: Bearer co_agent_secret_1"),
        "{seen}"
    );
    assert!(seen.contains("x-agent-session: run-7"), "{seen}");
    assert!(!reply.body.to_string().contains("secret"));
    for url in [
        "",
        "127.0.0.1:3000",
        "ftp://127.0.0.1",
        "http://user:pw@127.0.0.1",
    ] {
        assert!(RemoteBackend::new(url, None, None).is_err(), "{url}");
    }
    assert!(
        RemoteBackend::new("http://127.0.0.1", Some(&SecretString::from("a\nb")), None).is_err()
    );
}
