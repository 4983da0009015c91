//! Listening and stopping.
//!
//! A stop has an order: no new connections, the callers that still wait get their answers, then the charges that nobody
//! waits for run to their end. What the grace cuts off is recovered by its lease.

use std::net::{SocketAddr, TcpListener};
use std::num::NonZero;
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use actix_web::dev::Server;
use actix_web::middleware::from_fn;
use actix_web::{App as ActixApp, HttpServer};
use tokio::net::TcpSocket;
use tokio::signal::unix::{SignalKind, signal};

use crate::access::guard::admit;
use crate::app::App;
use crate::config::{LoadSettings, Settings};
use crate::http::crowd::within_bounds;
use crate::http::request_id::trace_request;
use crate::http::unread::close_when_unread;
use crate::open_files::room_for_callers;

/// A bound server.
pub struct BoundServer {
    app: App,
    server: Server,
    address: SocketAddr,
    grace: Duration,
}

impl BoundServer {
    /// Opens the port and prepares to serve. To be called on a runtime.
    ///
    /// Connections beyond the bound are not accepted: they wait in the operating system's queue, and where that is full their
    /// callers' systems knock again by themselves.
    pub fn bind(app: App, settings: &Settings) -> std::io::Result<Self> {
        let Settings {
            host, port, load, ..
        } = settings;
        let listener = listen(SocketAddr::new(*host, *port), load).map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::AddrInUse {
                " is taken; set PORT (0 takes a free one)"
            } else {
                " cannot be listened on"
            };
            std::io::Error::new(error.kind(), format!("{host}:{port}{hint}: {error}"))
        })?;
        let address = listener.local_addr()?;
        let parts = app.clone();
        let (workers, connections_each) = spread(room_for_callers(settings));
        let server = HttpServer::new(move || {
            let parts = parts.clone();
            ActixApp::new()
                .wrap(from_fn(admit))
                .wrap(from_fn(within_bounds))
                .wrap(from_fn(trace_request))
                .wrap(from_fn(close_when_unread))
                .configure(move |routes| parts.configure(routes))
        })
        .workers(workers)
        .max_connections(connections_each)
        .keep_alive(load.idle_time)
        .client_request_timeout(settings.request_header_time)
        .shutdown_timeout(settings.shutdown_grace.as_secs().max(1))
        .disable_signals()
        .listen(listener)?
        .run();
        Ok(Self {
            app,
            server,
            address,
            grace: settings.shutdown_grace,
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

/// A listener with a queue of its own length; the standard library's is always as long.
fn listen(address: SocketAddr, load: &LoadSettings) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restart takes the port although connections of the process before it still linger.
    socket.set_reuseaddr(true)?;
    // actix-http waits for ever until an answer is taken from it. Connections inherit this from their listener.
    #[cfg(target_os = "linux")]
    {
        let answer_ms = u32::try_from(load.answer_time.as_millis()).unwrap_or(u32::MAX);
        rustix::net::sockopt::set_tcp_user_timeout(&socket, answer_ms)?;
    }
    socket.bind(address)?;
    socket.listen(load.backlog)?.into_std()
}

/// How many workers serve so many connections, and how many each has at most: together never more.
fn spread(connections: usize) -> (usize, usize) {
    let workers = available_parallelism().map_or(1, NonZero::get);
    let workers = workers.min(connections).max(1);
    (workers, connections / workers)
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
