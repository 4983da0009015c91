//! Health over HTTP. Nothing of the configuration shows.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Problem;
use crate::http::respond;
use crate::openapi::examples;
use crate::openapi::problems::{CALL, STORE, refusals};
use crate::router::{Routes, resource};
use crate::storage::StoreInfo;
use crate::tasks::Tasks;

/// What readiness asks.
pub struct Health {
    /// The store.
    pub store: Arc<dyn StoreInfo>,
    /// Where storage calls run.
    pub tasks: Tasks,
}

/// Mounts the routes.
pub fn configure(routes: &mut Routes) {
    routes
        .service(resource("/health/live", "GET").get(live))
        .service(resource("/health/ready", "GET").get(ready));
}

/// The answer of a probe.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthBody {
    /// `live` or `ready`.
    status: &'static str,
}

refusals! {
    /// Of asking whether the process is alive.
    LiveRefusals = [CALL], [];
    /// The store does not answer.
    ReadyRefusals = [CALL, STORE], [];
}

#[utoipa::path(
    get, path = "/health/live", operation_id = "isLive", tag = "service",
    summary = "Is the process alive?",
    responses(
        (status = 200, description = "It is.", body = HealthBody, example = examples::live),
        LiveRefusals,
    )
)]
/// The process answers.
pub(crate) async fn live() -> Result<HttpResponse, Problem> {
    respond::json(StatusCode::OK, &HealthBody { status: "live" })
}

#[utoipa::path(
    get, path = "/health/ready", operation_id = "isReady", tag = "service",
    summary = "Can it work?",
    responses(
        (status = 200, description = "The database answers.", body = HealthBody, example = examples::ready),
        ReadyRefusals,
    )
)]
/// The store answers, too. Its schema was brought up to date before the port was opened.
pub(crate) async fn ready(health: Data<Health>) -> Result<HttpResponse, Problem> {
    let store = Arc::clone(&health.store);
    health
        .tasks
        .run(async move { store.ping().await })
        .await
        .map_err(|_| Problem::internal())??;
    respond::json(StatusCode::OK, &HealthBody { status: "ready" })
}
