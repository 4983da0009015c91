//! Health over HTTP. Nothing of the configuration shows.

use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use chrono::Utc;
use serde::Serialize;
use utoipa::ToSchema;

use super::what_is_wrong;
use crate::charges::model::CustomerCharged;
use crate::error::{Code, Problem};
use crate::http::respond;
use crate::openapi::examples;
use crate::openapi::problems::{PROBE, STORE, refusals};
use crate::router::{Routes, resource};
use crate::storage::{StorageError, StoreInfo};
use crate::tasks::FewTasks;

/// How long whoever routes requests waits before it asks again, in seconds.
const NOT_READY_WAIT_SECONDS: i64 = 10;

/// How long a probe waits for the store, its turn among the others included.
const PATIENCE: Duration = Duration::from_secs(5);

/// What readiness asks.
pub struct Health {
    /// The store.
    pub store: Arc<dyn StoreInfo>,
    /// Where storage calls run.
    pub tasks: FewTasks,
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
    LiveRefusals = [PROBE], [];
    /// The store does not answer, or it cannot be worked with.
    ReadyRefusals = [PROBE, STORE], [NotReady];
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
        (status = 200, description = "The database answers, its schema is current, and its clock is this machine's.", body = HealthBody, example = examples::ready),
        ReadyRefusals,
    )
)]
/// The store answers, has the schema that this program needs, and agrees about the time.
pub(crate) async fn ready(health: Data<Health>) -> Result<HttpResponse, Problem> {
    let store = Arc::clone(&health.store);
    let asked = health.tasks.run(async move { store.condition().await });
    // Its turn may come late where others ask a store that does not answer: whoever probes is told that in time.
    let condition = tokio::time::timeout(PATIENCE, asked)
        .await
        .map_err(|_| StorageError::Unavailable("no answer in time".into()))?
        .map_err(|_| Problem::internal())??;
    if let Some(wrong) = what_is_wrong(&condition, Utc::now().timestamp_millis()) {
        tracing::error!(wrong, "not ready");
        return Err(Problem::new(Code::NotReady, wrong)
            .later(CustomerCharged::Unknown, NOT_READY_WAIT_SECONDS));
    }
    respond::json(StatusCode::OK, &HealthBody { status: "ready" })
}
