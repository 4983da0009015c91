//! Metrics over HTTP.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::web::Data;
use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

use super::Metrics;
use crate::bound::Bound;
use crate::charges::service::ChargesService;
use crate::error::Problem;
use crate::openapi::examples;
use crate::openapi::problems::{PROBE, refusals};
use crate::router::{Routes, resource};
use crate::storage::SharedStore;
use crate::tasks::Tasks;

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
    pub tasks: Tasks,
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
/// The backlog, the pool and the running attempts are read afresh. While the store is away its last state stands, so that the other metrics can still be seen.
pub(crate) async fn show(scrape: Data<Scrape>) -> Result<HttpResponse, Problem> {
    let store = Arc::clone(&scrape.store);
    let backlog = scrape.tasks.run(async move { store.backlog().await }).await;
    match backlog.map_err(|_| Problem::internal())? {
        Ok(reading) => scrape.metrics.backlog(&reading.value, reading.now_ms),
        Err(error) => tracing::warn!(%error, "the backlog cannot be read"),
    }
    scrape.metrics.pool(scrape.store.pool());
    scrape.metrics.in_flight(scrape.charges.in_flight());
    scrape.metrics.requests_in_flight(scrape.requests.taken());
    let text = scrape.metrics.text().map_err(|_| Problem::internal())?;
    Ok(HttpResponse::Ok().content_type(CONTENT_TYPE).body(text))
}
