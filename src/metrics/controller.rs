//! Metrics over HTTP.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::HttpResponse;
use actix_web::web::Data;
use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

use super::Metrics;
use crate::bound::Bound;
use crate::charges::service::ChargesService;
use crate::error::Problem;
use crate::idempotency::running::within;
use crate::openapi::examples;
use crate::openapi::problems::{PROBE, refusals};
use crate::router::{Routes, resource};
use crate::storage::SharedStore;
use crate::tasks::FewTasks;

/// How long a scrape waits for the backlog: whoever watches a store with too much to do must not wait in its queue.
const BACKLOG_WAIT: Duration = Duration::from_secs(1);

/// What a scrape needs.
pub struct Scrape {
    /// The metrics.
    pub metrics: Metrics,
    /// Where the backlog is read.
    pub store: SharedStore,
    /// The requests that are worked on.
    pub requests: Bound,
    /// Where charges run.
    pub charges: ChargesService,
    /// Where storage calls run.
    pub tasks: FewTasks,
}

/// Mounts the routes.
pub fn configure(routes: &mut Routes) {
    routes.service(resource("/metrics", "GET").get(show));
}

refusals! {
    /// Of a scrape.
    ScrapeRefusals = [PROBE], [InternalError];
}

#[utoipa::path(
    get, path = "/metrics", operation_id = "getMetrics", tag = "service",
    summary = "Metrics for Prometheus",
    responses(
        (status = 200, description = "Prometheus's text format.", body = String, content_type = "text/plain", example = examples::metrics),
        ScrapeRefusals,
    )
)]
/// The backlog, the pool and the running attempts are read afresh. While the store is away or busy the backlog's last state stands, so that the other metrics can still be seen.
pub(crate) async fn show(scrape: Data<Scrape>) -> Result<HttpResponse, Problem> {
    let store = Arc::clone(&scrape.store);
    let backlog = scrape.tasks.run(async move { store.backlog().await });
    match within(Instant::now() + BACKLOG_WAIT, backlog).await {
        Some(Ok(Ok(reading))) => scrape.metrics.backlog(&reading.value, reading.now_ms),
        Some(Ok(Err(error))) => tracing::warn!(%error, "the backlog cannot be read"),
        Some(Err(_)) => return Err(Problem::internal()),
        None => tracing::warn!("the backlog is not read in time"),
    }
    scrape.metrics.pool(scrape.store.pool());
    scrape.metrics.in_flight(scrape.charges.in_flight());
    scrape.metrics.requests_in_flight(scrape.requests.taken());
    let text = scrape.metrics.text().map_err(|_| Problem::internal())?;
    Ok(HttpResponse::Ok().content_type(CONTENT_TYPE).body(text))
}
