//! What the log says of a request, and what it must never say.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::StripeApi::PaymentIntents;
use super::super::http::{HttpSettings, HttpTransport};
use super::super::{StripeProvider, StripeSettings};
use super::{deadline, intent, settings};
use crate::payments::provider::{FrozenRequest, PaymentProvider, PaymentQuery, SendLimits};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Answers every connection with a payment, whatever it is asked.
async fn stand_in() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let body = intent("pi_1", "succeeded");
    let answer = format!(
        "HTTP/1.1 200 OK\r\nRequest-Id: req_1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn the_log_names_the_request_but_no_secret_no_body_and_no_customer() {
    let captured = Captured::default();
    let writer = captured.clone();
    // Every level and every target: the libraries below must keep the secret too.
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let http = HttpSettings {
        base_url: stand_in().await,
        secret_key: SecretString::from("sk_test_4eC39HqLyjWDarjtT1zdp7dc"),
        connect_timeout: Duration::from_secs(20),
    };
    let transport = HttpTransport::new(&http).expect("a transport");
    let settings = StripeSettings {
        max_retries: 0,
        ..settings(PaymentIntents)
    };
    let provider = StripeProvider::new(settings, transport);
    let request = FrozenRequest {
        path: "/v1/payment_intents".to_owned(),
        body: "amount=1999&customer=cus_private".to_owned(),
    };
    let limits = SendLimits {
        wall_deadline: std::time::SystemTime::now() + Duration::from_secs(3_600),
        deadline: deadline(60),
        sent_before: false,
    };
    provider.send("charge:inv_1", &request, limits).await;
    let query = PaymentQuery {
        payment_id: None,
        customer_id: "cus_private".to_owned(),
        invoice_id: "inv_1".to_owned(),
        installation_id: "inst".to_owned(),
        since_ms: 0,
    };
    let _ = provider.find(&query, deadline(60)).await;

    let log = String::from_utf8(captured.0.lock().unwrap().clone()).expect("text");
    let ours: Vec<_> = log
        .lines()
        .filter(|line| line.contains("Request to the payment provider"))
        .collect();
    assert_eq!(ours.len(), 2, "{log}");
    for (line, method) in ours.iter().zip(["POST", "GET"]) {
        for part in [method, "/v1/payment_intents", "=200", "req_1", "elapsed_ms"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains("cus_private"), "{line}");
    }
    for secret in ["4eC39", "amount=1999", "a_field_of_tomorrow"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}
