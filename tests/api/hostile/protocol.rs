//! Bytes that are no HTTP, or HTTP that two parties could read differently, or that takes for ever.
//!
//! These never reach the application: the HTTP library answers with a bare status, and closes.

use std::time::Duration;

use futures_util::future::join_all;

use super::{RawRequest, charge, service, traces};
use crate::support::{TestApp, parse};

/// The request that would be seen if the first one's end were misread.
const SMUGGLED: &str = "POST /v1/charges HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{\"invoiceId\":\"inv_1\"}";

const BODY: &str = r#"{"invoiceId":"inv_1"}"#;

/// Fails unless the bytes are answered once, with one of these statuses (0: closed without an answer), and left no trace.
async fn refused(app: &TestApp, name: &str, bytes: &[u8], statuses: &[u16]) {
    let before = traces(app).await;
    let answer = app.exchange(bytes).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = parse(&answer).map_or(0, |reply| reply.status);
    assert!(statuses.contains(&status), "{name}: {text}");
    assert!(
        text.matches("HTTP/1.").count() <= 1,
        "{name} was answered twice: {text}"
    );
    assert_eq!(before, traces(app).await, "{name} left a trace: {text}");
}

on_both_stores! {
    async fn bytes_that_are_no_http_are_refused_and_nothing_happens(engine) {
        let app = service(engine).await;
        let nothing = &[400, 0][..];
        let header_bomb = (0..2_000).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
        let table: Vec<(&str, Vec<u8>, &[u16])> = vec![
            ("nonsense", b"hello\r\n\r\n".to_vec(), nothing),
            ("NULs", vec![0; 4_096], nothing),
            ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), nothing),
            ("HTTP/2 without asking", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), nothing),
            ("HTTP/3", b"POST /v1/charges HTTP/3.0\r\nHost: x\r\n\r\n".to_vec(), nothing),
            ("no version", format!("POST /v1/charges\r\nHost: x\r\n\r\n{BODY}").into_bytes(), nothing),
            ("no Host in HTTP/1.1", charge(BODY).without("Host").bytes(), nothing),
            ("two Hosts", charge(BODY).header("Host", "other").bytes(), nothing),
            ("a NUL in a header", charge(BODY).header("X-A", b"a\0b".to_vec()).bytes(), nothing),
            ("a header without a name", b"GET /v1/invoices HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n".to_vec(), nothing),
            ("a space in the path", b"GET /v1/invoices/a b HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), nothing),
            ("markup in the path", b"GET /<script> HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), nothing),
            ("a NUL in the path", b"GET /v1/invoices/a\0b HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), nothing),
            ("2000 headers", [b"GET /v1/invoices HTTP/1.1\r\nHost: x\r\n".to_vec(), header_bomb.into_bytes(), b"\r\n".to_vec()].concat(), &[400, 431, 0]),
            ("a header of 200 kB", charge(BODY).header("X-A", vec![b'a'; 200_000]).bytes(), &[400, 431, 0]),
            ("a path of 200 kB", RawRequest::new("GET", &format!("/{}", "a".repeat(200_000))).bytes(), &[400, 414, 431, 0]),
        ];
        for (name, bytes, statuses) in table {
            refused(&app, name, &bytes, statuses).await;
        }
        // A limit in which a slow machine may not get the others' headers across.
        let hasty = app.replica().set("REQUEST_HEADER_TIME", "1s").start().await;
        refused(&hasty, "headers that never end", b"GET /v1/invoices HTTP/1.1\r\nHost: x\r\n", &[408]).await;
        refused(&hasty, "nothing at all", b"", &[408, 0]).await;

        let after = app.charge("inv_1").await;
        after.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[after]).await;
    }

    async fn a_request_whose_end_could_be_read_in_two_ways_is_refused(engine) {
        let app = service(engine).await;
        let post = |headers: &str, body: &str| format!("POST /v1/nowhere HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}{SMUGGLED}").into_bytes();
        let table = [
            ("two lengths", post("Content-Length: 5\r\nContent-Length: 0\r\n", "")),
            ("twice the same length", post("Content-Length: 0\r\nContent-Length: 0\r\n", "")),
            ("two lengths in one", post("Content-Length: 0, 5\r\n", "")),
            ("a length and chunks", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")),
            ("chunks and a length", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n")),
            ("two transfer encodings", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n")),
            ("a list of transfer encodings", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")),
            ("an unknown transfer encoding", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")),
            ("identity", post("Transfer-Encoding: identity\r\n", "")),
            ("a space before the colon", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n")),
            ("a signed length", post("Content-Length: +0\r\n", "")),
            ("a negative length", post("Content-Length: -1\r\n", "")),
            ("a length in hex", post("Content-Length: 0x0\r\n", "")),
            ("an overlong length", post("Content-Length: 99999999999999999999999\r\n", "")),
            ("a folded header", post("X-A: b\r\n Transfer-Encoding: chunked\r\n", "")),
        ];
        for (name, bytes) in table {
            refused(&app, name, &bytes, &[400]).await;
        }
        let chunk = |size: &str| format!("{}{size}\r\n{BODY}\r\n0\r\n\r\n", String::from_utf8(
            charge("").without("Content-Length").header("Transfer-Encoding", "chunked").bytes()).unwrap());
        for size in ["zz", "-15", "0x15", "ffffffffffffffffff", ""] {
            refused(&app, size, chunk(size).as_bytes(), &[400]).await;
        }

        app.check_oracles(&[]).await;
    }

    async fn http_1_0_is_served(engine) {
        let app = service(engine).await;
        let request = format!("POST /v1/charges HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());

        let reply = parse(&app.exchange(request.as_bytes()).await).unwrap();

        reply.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[reply]).await;
    }

    async fn a_body_that_is_cut_off_charges_nobody(engine) {
        let app = service(engine).await;
        let before = traces(&app).await;
        let bytes = charge(BODY).bytes();
        let mut stream = tokio::net::TcpStream::connect(app.url.strip_prefix("http://").unwrap()).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &bytes[..bytes.len() - 1]).await.unwrap();
        tokio::io::AsyncWriteExt::shutdown(&mut stream).await.unwrap();
        let mut answer = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer).await.unwrap();

        let reply = parse(&answer).unwrap();
        reply.assert(400, "bad_request", "no", "now");
        assert_eq!(before, traces(&app).await);
        app.check_oracles(&[]).await;
    }

    async fn clients_that_send_a_byte_now_and_then_are_let_go_and_hinder_nobody(engine) {
        let app = TestApp::with(engine).set("REQUEST_HEADER_TIME", "5s").set("REQUEST_BODY_TIME", "600ms").start().await;
        app.invoice("inv_1").await;
        let before = traces(&app).await;
        let tick = Duration::from_millis(100);
        let bytes = charge(BODY).bytes();
        let head_length = bytes.len() - BODY.len();
        let chunked = charge(BODY).without("Content-Length").header("Transfer-Encoding", "chunked").bytes();
        let chunked_head = &chunked[..chunked.len() - BODY.len()];

        let slow_headers = join_all((0..40).map(|_| app.drip(b"", &bytes, tick)));
        let slow_bodies = join_all((0..40).map(|_| app.drip(&bytes[..head_length], BODY.as_bytes(), tick)));
        let silent_chunks = join_all((0..10).map(|_| app.drip(chunked_head, b"15\r\n{\"inv", tick)));
        let others = async {
            for _ in 0..20 {
                let began = std::time::Instant::now();
                assert_eq!(app.get("/v1/invoices/inv_1").await.status, 200);
                assert!(began.elapsed() < Duration::from_secs(5), "slow clients hold up others");
            }
        };
        let (headers, bodies, chunks, ()) = tokio::join!(slow_headers, slow_bodies, silent_chunks, others);

        for answer in headers {
            assert_eq!(parse(&answer).map(|reply| reply.status), Some(408), "{}", String::from_utf8_lossy(&answer));
        }
        for answer in bodies.into_iter().chain(chunks) {
            let reply = parse(&answer).unwrap();
            reply.assert(408, "request_timeout", "no", "now");
            assert!(reply.header("x-request-id").is_some());
        }
        assert_eq!(before, traces(&app).await);
        app.check_oracles(&[]).await;
    }
}
