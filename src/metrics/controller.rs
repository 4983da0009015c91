//! Metrics over HTTP.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::web::Data;

use super::Metrics;
use crate::error::Problem;
use crate::openapi::examples;
use crate::openapi::problems::{CALL, refusals};
use crate::reconciler::repository::RecoveryRepository;
use crate::router::{Routes, resource};
use crate::tasks::Tasks;

/// The media type of the text form (OpenMetrics 1.0.0).
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a scrape needs.
pub struct Scrape {
    /// The metrics.
    pub metrics: Metrics,
    /// Where the backlog is read.
    pub store: Arc<dyn RecoveryRepository>,
    /// Where storage calls run.
    pub tasks: Tasks,
}

/// Mounts the routes.
pub fn configure(routes: &mut Routes) {
    routes.service(resource("/metrics", "GET").get(show));
}

refusals! {
    /// Of a scrape.
    ScrapeRefusals = [CALL], [InternalError];
}

#[utoipa::path(
    get, path = "/metrics", operation_id = "getMetrics", tag = "service",
    summary = "Metrics for Prometheus",
    responses(
        (status = 200, description = "OpenMetrics text.", body = String, content_type = "application/openmetrics-text", example = examples::metrics),
        ScrapeRefusals,
    )
)]
/// The backlog is read afresh. While the store is away its last state stands, so that the other metrics can still be seen.
pub(crate) async fn show(scrape: Data<Scrape>) -> Result<HttpResponse, Problem> {
    let store = Arc::clone(&scrape.store);
    let backlog = scrape.tasks.run(async move { store.backlog().await }).await;
    match backlog.map_err(|_| Problem::internal())? {
        Ok(reading) => scrape.metrics.backlog(&reading.value, reading.now_ms),
        Err(error) => tracing::warn!(%error, "the backlog cannot be read"),
    }
    let text = scrape.metrics.text().map_err(|_| Problem::internal())?;
    Ok(HttpResponse::Ok().content_type(OPENMETRICS).body(text))
}
