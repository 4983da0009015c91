//! A wire to PostgreSQL that notes which statements are prepared on it.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Passes everything on, both ways.
pub struct Wire {
    url: String,
    prepared: Arc<Mutex<Vec<String>>>,
}

impl Wire {
    /// In front of the server that the URL names.
    pub async fn before(url: &str) -> Self {
        let (before_host, rest) = url.split_once('@').unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let wire = Self {
            url: format!("{before_host}@{address}/{database}"),
            prepared: Arc::default(),
        };
        let (server, prepared) = (server.to_owned(), Arc::clone(&wire.prepared));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                let (mut from_server, to_server) = server.into_split();
                let (from_client, mut to_client) = client.into_split();
                tokio::spawn(pass_on_requests(
                    from_client,
                    to_server,
                    Arc::clone(&prepared),
                ));
                tokio::spawn(
                    async move { tokio::io::copy(&mut from_server, &mut to_client).await },
                );
            }
        });
        wire
    }

    /// How a store gets to the server through this wire.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The statements that were prepared since the last time.
    pub fn take_prepared(&self) -> Vec<String> {
        std::mem::take(&mut self.prepared.lock().unwrap())
    }
}

/// PostgreSQL's protocol: a start without a type, then messages of type, length and content; `P` prepares a statement.
async fn pass_on_requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    prepared: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    const SSL_REQUEST: u32 = 80_877_103;
    let mut started = false;
    loop {
        let kind = if started { client.read_u8().await? } else { 0 };
        let length = client.read_u32().await?;
        let mut content = vec![0; length as usize - 4];
        client.read_exact(&mut content).await?;
        if kind == b'P' {
            let statement = content.split(|byte| *byte == 0).nth(1).unwrap_or_default();
            let statement = String::from_utf8_lossy(statement).into_owned();
            prepared.lock().unwrap().push(statement);
        }
        let mut message = Vec::with_capacity(content.len() + 5);
        if started {
            message.push(kind);
        } else {
            started = !content.starts_with(&SSL_REQUEST.to_be_bytes());
        }
        message.extend(length.to_be_bytes());
        message.extend(content);
        server.write_all(&message).await?;
    }
}
