//! Health over HTTP. Nothing of the configuration shows.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::{Data, ServiceConfig};
use serde_json::json;

use crate::error::Problem;
use crate::http::respond;
use crate::router::resource;
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
pub fn configure(routes: &mut ServiceConfig) {
    routes
        .service(resource("/health/live", "GET").get(live))
        .service(resource("/health/ready", "GET").get(ready));
}

/// The process answers.
async fn live() -> Result<HttpResponse, Problem> {
    respond::json(StatusCode::OK, &json!({ "status": "live" }))
}

/// The store answers, too. Its schema was brought up to date before the port was opened.
async fn ready(health: Data<Health>) -> Result<HttpResponse, Problem> {
    let store = Arc::clone(&health.store);
    health
        .tasks
        .run(async move { store.ping().await })
        .await
        .map_err(|_| Problem::internal())??;
    respond::json(StatusCode::OK, &json!({ "status": "ready" }))
}
