//! The HTTP transport against raw TCP listeners: what surely was not sent, and what may have been.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::super::http::{
    HttpSettings, HttpSetupError, HttpTransport, MAX_BODY_BYTES, STRIPE_API_BASE, tls_without_roots,
};
use super::super::transport::{HttpCall, Lost, Transport, TransportResult};

const KEY: &str = "sk_test_4eC39HqLyjWDarjtT1zdp7dc";
const PATIENCE: Duration = Duration::from_secs(20);
/// For a TLS handshake that never comes.
const IMPATIENCE: Duration = Duration::from_millis(100);
/// For answers that end half way: long enough for the half that comes.
const SILENCE: Duration = Duration::from_secs(3);

fn settings(base_url: &str) -> HttpSettings {
    HttpSettings {
        base_url: base_url.to_owned(),
        secret_key: SecretString::from(KEY),
        connect_timeout: PATIENCE,
    }
}

fn transport(scheme: &str, address: SocketAddr, connect_timeout: Duration) -> HttpTransport {
    let settings = HttpSettings {
        connect_timeout,
        ..settings(&format!("{scheme}://{address}"))
    };
    let tls = tls_without_roots().expect("TLS settings");
    HttpTransport::with_tls(&settings, tls).expect("a transport")
}

async fn post(transport: &HttpTransport, timeout: Duration) -> TransportResult {
    let call = HttpCall::post("/v1/payment_intents", "charge:inv_1", "amount=1999");
    transport.call(call, timeout).await
}

/// Reads one request, its body included.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().expect("a length"));
            if body.len() >= length {
                return text;
            }
        }
        let n = stream.read(&mut buffer).await.expect("a request");
        if n == 0 {
            return text;
        }
        request.extend_from_slice(&buffer[..n]);
    }
}

/// What a server does after it has read a request.
#[derive(Clone, Copy)]
enum Then {
    /// Sends these bytes and closes.
    Close(&'static [u8]),
    /// Sends these bytes and keeps the connection open.
    Keep(&'static [u8]),
    /// Sends these bytes, then more for ever.
    Flood(&'static [u8]),
}

/// Serves connections for as long as the test runs; counts the requests.
async fn serve(then: Then) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, then, Arc::clone(&counter)));
        }
    });
    (address, requests)
}

async fn answer(mut stream: TcpStream, then: Then, requests: Arc<AtomicUsize>) {
    loop {
        if read_request(&mut stream).await.is_empty() {
            return;
        }
        requests.fetch_add(1, Ordering::SeqCst);
        match then {
            Then::Close(bytes) => {
                let _ = stream.write_all(bytes).await;
                return;
            }
            Then::Keep(bytes) => {
                let _ = stream.write_all(bytes).await;
            }
            Then::Flood(bytes) => {
                let _ = stream.write_all(bytes).await;
                while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
                return;
            }
        }
    }
}

/// A result in short.
fn short(result: &TransportResult) -> String {
    match result {
        TransportResult::Answer(answer) => format!("answer {}", answer.status),
        TransportResult::NotSent(_) => "not sent".to_owned(),
        TransportResult::Lost(Lost { head: None, .. }) => "lost".to_owned(),
        TransportResult::Lost(Lost {
            head: Some((status, _)),
            ..
        }) => format!("lost after {status}"),
    }
}

#[tokio::test]
async fn a_request_carries_key_version_and_form() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let request = read_request(&mut stream).await;
        let response = b"HTTP/1.1 200 OK\r\nRequest-Id: req_1\r\nIdempotent-Replayed: true\r\n\
            Content-Length: 2\r\n\r\n{}";
        stream.write_all(response).await.expect("written");
        request
    });
    let transport = transport("http", address, PATIENCE);
    let result = post(&transport, PATIENCE).await;
    let TransportResult::Answer(answer) = result else {
        panic!("no answer: {result:?}");
    };
    assert_eq!(answer.body, b"{}");
    assert_eq!(answer.headers.request_id.as_deref(), Some("req_1"));
    assert!(answer.headers.replayed);

    let request = server.await.expect("a request");
    assert!(request.starts_with("POST /v1/payment_intents HTTP/1.1\r\n"));
    assert!(request.ends_with("\r\n\r\namount=1999"), "{request}");
    let lower = request.to_ascii_lowercase();
    for header in [
        format!("authorization: bearer {}", KEY.to_ascii_lowercase()),
        "idempotency-key: charge:inv_1".to_owned(),
        "stripe-version: 2026-06-24.dahlia".to_owned(),
        "content-type: application/x-www-form-urlencoded".to_owned(),
        concat!("user-agent: chargeonce/", env!("CARGO_PKG_VERSION")).to_owned(),
    ] {
        assert!(
            lower.contains(&format!("\r\n{header}\r\n")),
            "{header}: {lower}"
        );
    }
}

#[tokio::test]
async fn what_fails_before_the_request_is_not_sent() {
    // Bound and not listening: refused, and nobody else is given the port meanwhile.
    let closed = TcpSocket::new_v4().expect("a socket");
    let any_port = "127.0.0.1:0".parse().expect("an address");
    closed.bind(any_port).expect("a port");
    let address = closed.local_addr().expect("an address");
    let refused = post(&transport("http", address, PATIENCE), PATIENCE).await;
    assert_eq!(short(&refused), "not sent", "{refused:?}");

    // The name cannot be resolved: reserved for that (RFC 2606). However long it takes to learn so, the connect ends first.
    let nowhere = HttpTransport::new(&settings("http://chargeonce.invalid")).expect("a transport");
    let unresolved = post(&nowhere, 3 * PATIENCE).await;
    assert_eq!(short(&unresolved), "not sent", "{unresolved:?}");

    // The backlog takes the connection, and nobody answers the TLS hello.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = silent.local_addr().expect("an address");
    let no_tls = post(&transport("https", address, IMPATIENCE), PATIENCE).await;
    assert_eq!(short(&no_tls), "not sent", "{no_tls:?}");

    // TLS is answered with something else.
    let (address, _) = serve(Then::Close(b"HTTP/1.1 200 OK\r\n\r\n")).await;
    let not_tls = post(&transport("https", address, IMPATIENCE), PATIENCE).await;
    assert_eq!(short(&not_tls), "not sent", "{not_tls:?}");

    // A header that cannot be built.
    let (address, requests) = serve(Then::Close(b"")).await;
    let call = HttpCall::post("/v1/charges", "a\nb", "");
    let odd = transport("http", address, PATIENCE)
        .call(call, PATIENCE)
        .await;
    assert_eq!(short(&odd), "not sent", "{odd:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_connect_that_outlasts_the_whole_time_is_in_doubt() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = silent.local_addr().expect("an address");
    let result = post(&transport("https", address, PATIENCE), IMPATIENCE).await;
    assert_eq!(short(&result), "lost", "{result:?}");
}

#[tokio::test]
#[rustfmt::skip]
async fn what_breaks_after_the_request_is_lost() {
    const ENDLESS_CHUNKS: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n";
    let rows = [
        ("closed without a word", Then::Close(b""), PATIENCE, "lost"),
        ("silent", Then::Keep(b""), SILENCE, "lost"),
        ("half a head", Then::Close(b"HTTP/1.1 200 OK\r\nContent-Le"), PATIENCE, "lost"),
        ("half a head, then silence", Then::Keep(b"HTTP/1.1 200 OK\r\nContent-Le"), SILENCE, "lost"),
        ("not HTTP", Then::Close(b"SSH-2.0-OpenSSH_9.6\r\n"), PATIENCE, "lost"),
        ("half a body", Then::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"id\""), PATIENCE, "lost after 200"),
        ("half a body, then silence", Then::Keep(b"HTTP/1.1 402 Payment Required\r\nContent-Length: 9\r\n\r\n{"), SILENCE, "lost after 402"),
        ("an unfinished chunked body", Then::Close(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), PATIENCE, "lost after 200"),
        ("a body without end", Then::Flood(b"HTTP/1.1 200 OK\r\n\r\n"), PATIENCE, "lost after 200"),
        ("chunks without end", Then::Flood(ENDLESS_CHUNKS), PATIENCE, "lost after 200"),
        ("a head without end", Then::Flood(b"HTTP/1.1 200 OK\r\nX: "), PATIENCE, "lost"),
        ("a 401 whose body was cut", Then::Close(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n\r\n{"), PATIENCE, "lost after 401"),
        ("a whole answer", Then::Close(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), PATIENCE, "answer 503"),
        ("a redirect, not followed", Then::Close(b"HTTP/1.1 307 Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"), PATIENCE, "answer 307"),
    ];
    // At the same time, since some of them wait.
    join_all(rows.map(|(name, then, timeout, expected)| async move {
        let (address, requests) = serve(then).await;
        let result = post(&transport("http", address, PATIENCE), timeout).await;
        assert_eq!(short(&result), expected, "{name}: {result:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 1, "{name}: sent once and no more");
        let text = format!("{result:?}");
        assert!(!text.contains("amount") && !text.contains(KEY), "{text}");
    }))
    .await;
}

#[tokio::test]
async fn a_connection_that_is_closed_at_once_leaves_doubt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let result = post(&transport("http", address, PATIENCE), PATIENCE).await;
    assert_eq!(short(&result), "lost", "{result:?}");
}

#[tokio::test]
async fn a_body_at_the_limit_is_read_and_one_byte_more_is_not() {
    for (extra, expected) in [(0, "answer 200"), (1, "lost after 200")] {
        let length = MAX_BODY_BYTES + extra;
        let mut response =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        response.resize(response.len() + length, b'x');
        let (address, _) = serve(Then::Close(Box::leak(response.into_boxed_slice()))).await;
        let result = post(&transport("http", address, PATIENCE), PATIENCE).await;
        assert_eq!(short(&result), expected, "{result:?}");
    }
}

/// Answers the first request of a connection properly and dies on its second: a pooled connection that turns out to be
/// dead after the request was written. Nothing is sent again by itself.
#[tokio::test]
async fn a_request_that_dies_on_a_pooled_connection_is_lost_and_not_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            for n in 0..2 {
                if read_request(&mut stream).await.is_empty() {
                    break;
                }
                counter.fetch_add(1, Ordering::SeqCst);
                if n == 0 {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
                    stream.write_all(answer).await.expect("written");
                }
            }
        }
    });
    let transport = transport("http", address, PATIENCE);
    assert_eq!(short(&post(&transport, PATIENCE).await), "answer 200");
    assert_eq!(short(&post(&transport, PATIENCE).await), "lost");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

/// A pooled connection that the server has closed while idle: the request moves to a new one, or is lost; in no case
/// does it arrive twice.
#[tokio::test]
async fn a_request_on_a_closed_pooled_connection_arrives_at_most_once() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    let (address, requests) = serve(Then::Close(answer)).await;
    let transport = transport("http", address, PATIENCE);
    for call in 1..=20 {
        post(&transport, PATIENCE).await;
        assert!(requests.load(Ordering::SeqCst) <= call);
    }
}

#[test]
fn a_transport_shows_no_key() {
    let settings = settings(STRIPE_API_BASE);
    let tls = tls_without_roots().expect("TLS settings");
    let transport = HttpTransport::with_tls(&settings, tls).expect("a transport");
    let text = format!("{settings:?} {transport:?}");
    assert!(!text.contains("4eC39"), "{text}");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    for base_url in [
        "",
        "api.stripe.com",
        "ftp://api.stripe.com",
        "http://",
        "http://user@host",
        "http://user:password@host",
        "http://host?query",
        "http://host#fragment",
        "unix:/run/stripe",
    ] {
        let refused = HttpTransport::new(&settings(base_url));
        assert!(
            matches!(refused, Err(HttpSetupError::BaseUrl)),
            "{base_url}"
        );
    }
    for secret in ["", "sk_test\n", "sk_\u{7f}"] {
        let settings = HttpSettings {
            secret_key: SecretString::from(secret),
            ..settings("http://127.0.0.1:12111")
        };
        let refused = HttpTransport::new(&settings);
        assert!(
            matches!(refused, Err(HttpSetupError::SecretKey)),
            "{secret:?}"
        );
    }
}
