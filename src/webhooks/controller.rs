//! Webhooks over HTTP: the raw bytes in, a 2xx once they are stored.

use actix_web::http::StatusCode;
use actix_web::web::{Bytes, Data, Payload, PayloadConfig, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::service::WebhooksService;
use crate::error::Problem;
use crate::http::{json, respond};
use crate::router::resource;

/// The largest event that is read, in bytes. Stripe names no limit; an event with a hundred expanded lines stays below.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// Mounts the routes.
pub fn configure(routes: &mut ServiceConfig) {
    routes.service(
        resource("/v1/webhooks/stripe", "POST")
            .app_data(PayloadConfig::new(EVENT_BYTES_MAX))
            .post(receive),
    );
}

/// The signature is over the bytes as they came: nothing may parse them before it is checked.
async fn receive(
    request: HttpRequest,
    service: Data<WebhooksService>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let header = request.headers().get("Stripe-Signature");
    let signature = header.and_then(|value| value.to_str().ok());
    service.expects(signature)?;
    let body: Bytes = json::read(&request, &mut payload.into_inner(), EVENT_BYTES_MAX).await?;
    service.receive(signature, &body).await?;
    respond::json(StatusCode::OK, &json!({ "received": true }))
}
