//! Requests byte for byte, as no proper client would send them.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Reply, TestApp, document};

/// Far longer than any answer takes; a test that waits so long has found a connection that is held for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request whose every part can be wrong.
#[derive(Debug, Clone)]
pub struct RawRequest {
    method: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl RawRequest {
    /// Without a body.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.into(),
            target: target.into(),
            headers: vec![
                ("Host".into(), b"localhost".to_vec()),
                ("Connection".into(), b"close".to_vec()),
            ],
            body: Vec::new(),
        }
    }

    /// With a body that is announced as JSON, whatever it is.
    pub fn json(method: &str, target: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut request = Self::new(method, target).header("Content-Type", "application/json");
        request.body = body.into();
        let length = request.body.len().to_string();
        request.header("Content-Length", length)
    }

    /// Adds a header; one of the same name stays.
    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Removes a header.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(found, _)| found != name);
        self
    }

    /// Sends the body in chunks instead of announcing its length.
    pub fn chunked(mut self) -> Self {
        let mut body = Vec::new();
        for part in self.body.chunks(1_000) {
            body.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            body.extend_from_slice(part);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        self.body = body;
        self.without("Content-Length")
            .header("Transfer-Encoding", "chunked")
    }

    /// As it goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: ").as_bytes());
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

impl TestApp {
    /// Sends such a request and reads its answer.
    pub async fn raw(&self, request: &RawRequest) -> Reply {
        let answer = self.exchange(&request.bytes()).await;
        let reply = parse(&answer).unwrap_or_else(|| {
            panic!(
                "no answer but {:?} to {request:?}",
                String::from_utf8_lossy(&answer)
            )
        });
        // A bare answer is about bytes that are no HTTP; a target that is no path is not in the document.
        if !reply.body.is_empty() && request.target.starts_with('/') {
            document::check(&request.method, &request.target, &reply);
        }
        reply
    }

    /// Sends bytes and reads until the service closes the connection.
    pub async fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let (mut reader, mut writer) = self.connection().await.into_split();
        // The service may answer and close before it has read all: that is no fault of either side.
        let sending = async {
            writer.write_all(bytes).await.ok();
        };
        let mut answer = Vec::new();
        let reading = async {
            reader.read_to_end(&mut answer).await.ok();
        };
        tokio::time::timeout(PATIENCE, async { tokio::join!(sending, reading) })
            .await
            .unwrap_or_else(|_| {
                let sent = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
                panic!("the connection is held for ever after {sent:?}")
            });
        answer
    }

    /// Sends `head` at once and then a byte of `rest` at every tick, until the service answers and closes.
    pub async fn drip(&self, head: &[u8], rest: &[u8], tick: Duration) -> Vec<u8> {
        let (mut reader, mut writer) = self.connection().await.into_split();
        let mut answer = Vec::new();
        let sending = async {
            writer.write_all(head).await.unwrap();
            for byte in rest {
                tokio::time::sleep(tick).await;
                if writer.write_all(&[*byte]).await.is_err() {
                    break;
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            read = tokio::time::timeout(PATIENCE, reader.read_to_end(&mut answer)) => {
                read.expect("the connection is held for ever").ok();
            }
            () = sending => {}
        }
        answer
    }

    pub async fn connection(&self) -> TcpStream {
        let address = self.url.strip_prefix("http://").unwrap();
        TcpStream::connect(address).await.unwrap()
    }
}

/// Takes an answer apart; `None` when it is none.
pub fn parse(answer: &[u8]) -> Option<Reply> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()?
        .strip_prefix("HTTP/1.")?
        .get(2..5)?
        .parse()
        .ok()?;
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Some(Reply {
        status,
        headers,
        body: body.to_owned(),
    })
}
