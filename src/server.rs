//! Listening and stopping.
//!
//! A stop has an order: no new connections, the callers that still wait get their answers, then the charges that nobody
//! waits for run to their end. What the grace cuts off is recovered by its lease.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use actix_web::dev::Server;
use actix_web::middleware::from_fn;
use actix_web::{App as ActixApp, HttpServer};
use tokio::signal::unix::{SignalKind, signal};

use crate::access::guard::admit;
use crate::app::App;
use crate::http::request_id::trace_request;
use crate::http::unread::close_when_unread;

/// A bound server.
pub struct BoundServer {
    app: App,
    server: Server,
    address: SocketAddr,
    grace: Duration,
}

impl BoundServer {
    /// Opens the port and prepares to serve.
    pub fn bind(
        app: App,
        host: std::net::IpAddr,
        port: u16,
        grace: Duration,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind((host, port)).map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::AddrInUse {
                " is taken; set PORT (0 takes a free one)"
            } else {
                " cannot be listened on"
            };
            std::io::Error::new(error.kind(), format!("{host}:{port}{hint}: {error}"))
        })?;
        let address = listener.local_addr()?;
        let parts = app.clone();
        let header_time = app.header_time;
        let server = HttpServer::new(move || {
            let parts = parts.clone();
            ActixApp::new()
                .wrap(from_fn(admit))
                .wrap(from_fn(trace_request))
                .wrap(from_fn(close_when_unread))
                .configure(move |routes| parts.configure(routes))
        })
        .client_request_timeout(header_time)
        .shutdown_timeout(grace.as_secs().max(1))
        .disable_signals()
        .listen(listener)?
        .run();
        Ok(Self {
            app,
            server,
            address,
            grace,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until SIGTERM or SIGINT, and then until the running charges have ended or the grace is over.
    pub async fn run(self) -> std::io::Result<()> {
        self.run_until(async {
            match stop_signal().await {
                Ok(name) => tracing::info!(signal = name, "told to stop"),
                Err(error) => {
                    tracing::error!(%error, "signals cannot be received");
                    std::future::pending().await
                }
            }
        })
        .await
    }

    /// The same until `stop` is ready.
    pub async fn run_until(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let handle = self.server.handle();
        let told = Arc::new(OnceLock::new());
        let told_by = Arc::clone(&told);
        let reconciler = self.app.reconciler.clone();
        // Not a tracked task: it only waits, and what it starts is tracked.
        tokio::spawn(async move { reconciler.run().await });
        let tasks = self.app.tasks.clone();
        let stopper = tokio::spawn(async move {
            stop.await;
            tasks.stop();
            told_by.get_or_init(Instant::now);
            tracing::info!("stopping: no new requests; running charges are finished first");
            handle.stop(true).await;
        });
        let outcome = self.server.await;
        stopper.abort();
        // One grace for both: what the callers' answers took of it is not given a second time.
        let began = told.get().copied().unwrap_or_else(Instant::now);
        let left = self.grace.saturating_sub(began.elapsed());
        match self.app.tasks.drain(left).await {
            0 => tracing::info!(drained_ms = began.elapsed().as_millis(), "stopped"),
            left => tracing::warn!(
                left,
                "stopped before all charges had ended; their leases recover them"
            ),
        }
        outcome
    }
}

/// Waits for SIGTERM or SIGINT.
pub async fn stop_signal() -> std::io::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}
