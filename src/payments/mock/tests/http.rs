//! The server: Stripe's paths, the control paths, and a cut that is a cut.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::super::{Ledger, MockStripe, serve};
use super::{charge_body, paid};

/// A running server and the mock behind it.
async fn start() -> (MockStripe, SocketAddr) {
    let mock = MockStripe::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(mock.clone(), listener).unwrap());
    (mock, address)
}

/// Sends one request on a fresh connection and gives back every byte that came.
async fn exchange(address: SocketAddr, head: &str, body: &str) -> Vec<u8> {
    let request = format!(
        "{head} HTTP/1.1\r\nHost: mock\r\nConnection: close\r\nAuthorization: Bearer sk_test_1\r\n\
         Content-Length: {}\r\nIdempotency-Key: k\r\n\r\n{body}",
        body.len()
    );
    let exchange = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map(|_| bytes)
    };
    tokio::task::spawn_blocking(exchange)
        .await
        .unwrap()
        .unwrap()
}

/// The status and the body of an answer.
fn parse(bytes: &[u8]) -> (u16, String) {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}

#[tokio::test]
async fn a_cut_sends_no_byte_and_the_payment_is_in_the_ledger() {
    let (mock, address) = start().await;
    let body = charge_body("inv_1", "pm_card_visa");
    let rule = r#"[{"key": "k", "fault": "drop_after"}]"#;
    assert_eq!(
        parse(&exchange(address, "POST /_mock/faults", rule).await).0,
        200
    );

    assert_eq!(
        exchange(address, "POST /v1/payment_intents", &body).await,
        b""
    );
    assert_eq!(paid(&mock), 1);

    let replay = exchange(address, "POST /v1/payment_intents", &body).await;
    assert_eq!(parse(&replay).0, 200);
    assert!(
        String::from_utf8_lossy(&replay)
            .to_ascii_lowercase()
            .contains("idempotent-replayed: true")
    );

    let (_, ledger) = parse(&exchange(address, "GET /_mock/ledger", "").await);
    let ledger: Ledger = serde_json::from_str(&ledger).unwrap();
    assert_eq!((ledger.succeeded("inv_1").len(), ledger.requests), (1, 2));
}

/// Head, body and expected status of calls that a fresh mock takes one after the other.
const CONTROL_CALLS: &[(&str, &str, u16)] = &[
    ("GET /_mock/health", "", 200),
    ("POST /_mock/faults", r#"{"fault": "processing"}"#, 200),
    ("POST /_mock/faults", r#"{"fault": "unheard_of"}"#, 400),
    ("POST /_mock/clock", r#"{"advanceSeconds": 90000}"#, 200),
    ("POST /_mock/latency", r#"{"ms": 0}"#, 200),
    ("POST /_mock/latency", "{", 400),
    ("POST /_mock/customers", r#"{"id": "cus_missing_1"}"#, 200),
    ("GET /v1/customers/cus_missing_1", "", 200),
    (
        "POST /_mock/settle",
        r#"{"paymentId": "pi_1", "outcome": "succeeded"}"#,
        404,
    ),
    ("GET /_mock/requests", "", 200),
    ("GET /_mock/", "", 200),
    (
        "POST /_mock/faults",
        r#"[{"fault": "delay"}, {"fault": "webhook_delay", "key": "other"}]"#,
        200,
    ),
    ("POST /_mock/faults", r#"{"fault": "webhook_vanish"}"#, 400),
    ("POST /_mock/chaos", r#"{"seed": 42, "rate": 2.0}"#, 400),
    ("POST /_mock/chaos", r#"{"seed": 42, "rate": 0.0}"#, 200),
    ("GET /_mock/chaos", "", 200),
    ("GET /_mock/webhooks", "", 200),
    (
        "POST /_mock/webhooks",
        r#"{"url": "http://127.0.0.1:1/"}"#,
        400,
    ),
    ("POST /_mock/events/evt_1/redeliver", "", 409),
    ("DELETE /_mock/webhooks", "", 200),
    (
        "POST /_mock/authenticate",
        r#"{"paymentId": "pi_1", "outcome": "failed"}"#,
        404,
    ),
    ("GET /_mock/nothing", "", 404),
    ("GET /v1/nothing", "", 404),
];

#[tokio::test]
async fn the_control_paths_answer() {
    let (mock, address) = start().await;
    for (head, body, status) in CONTROL_CALLS {
        assert_eq!(
            parse(&exchange(address, head, body).await).0,
            *status,
            "{head} {body}"
        );
    }
    let body = charge_body("inv_1", "pm_card_visa");
    let (_, intent) = parse(&exchange(address, "POST /v1/payment_intents", &body).await);
    let intent: serde_json::Value = serde_json::from_str(&intent).unwrap();
    let settle =
        serde_json::json!({ "paymentId": intent["id"], "outcome": "succeeded" }).to_string();
    assert_eq!(
        (intent["status"].as_str(), paid(&mock)),
        (Some("processing"), 0)
    );
    assert_eq!(
        parse(&exchange(address, "POST /_mock/settle", &settle).await).0,
        200
    );
    assert_eq!(paid(&mock), 1);
    assert_eq!(
        parse(&exchange(address, "POST /_mock/reset", "").await).0,
        200
    );
    assert_eq!(
        (mock.ledger().payments.len(), mock.ledger().requests),
        (0, 0)
    );
}

#[tokio::test]
async fn a_body_of_more_than_a_mebibyte_is_refused() {
    let (mock, address) = start().await;
    // Only the length is sent: the answer must not wait for the body.
    let head = format!(
        "POST /v1/charges HTTP/1.1\r\nHost: mock\r\nContent-Length: {}\r\n\r\n",
        (1 << 20) + 1
    );
    let status_line = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = [0; 12];
        stream.read_exact(&mut bytes).map(|()| bytes)
    });
    assert_eq!(&status_line.await.unwrap().unwrap(), b"HTTP/1.1 413");
    assert_eq!(mock.ledger().requests, 0);
}
