//! Webhooks over HTTP: the raw bytes in, a 2xx once they are stored.

use actix_web::http::StatusCode;
use actix_web::web::{Bytes, Data, Payload, PayloadConfig};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use utoipa::ToSchema;

use super::dto::EventBody;
use super::service::WebhooksService;
use crate::error::Problem;
use crate::http::{json, respond};
use crate::openapi::examples;
use crate::openapi::problems::{CALL, STORE, refusals};
use crate::openapi::schemas::StripeSignature;
use crate::router::{Routes, resource};

/// The largest event that is read, in bytes. Stripe names no limit; an event with a hundred expanded lines stays below.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// The answer to an event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Received {
    received: bool,
}

/// Mounts the routes.
pub fn configure(routes: &mut Routes) {
    routes.service(
        resource("/v1/webhooks/stripe", "POST")
            .app_data(PayloadConfig::new(EVENT_BYTES_MAX))
            .post(receive),
    );
}

refusals! {
    /// Of an event.
    EventRefusals = [CALL, STORE], [
        WebhookSignatureInvalid, WebhooksNotConfigured, BadRequest, RequestTimeout, PayloadTooLarge, InvalidRequest
    ];
}

#[utoipa::path(
    post, path = "/v1/webhooks/stripe", operation_id = "receiveStripeEvent", tag = "webhooks",
    summary = "Take in a snapshot event of Stripe's",
    description = "The signature must fit the raw bytes, one of the endpoint's secrets, and this machine's clock within 300 seconds. An event about a payment is stored once by its id; what it says is never used, the payment is fetched.",
    params(("Stripe-Signature" = StripeSignature, Header, description = "`t=UNIX_SECONDS,v1=HMAC_SHA256_IN_HEX`.")),
    request_body(content = EventBody, example = examples::event),
    responses(
        (status = 200, description = "The event is stored, or is about something that is kept elsewhere.", body = inline(Received), example = examples::received),
        EventRefusals,
    )
)]
/// The signature is over the bytes as they came: nothing may parse them before it is checked.
pub(crate) async fn receive(
    request: HttpRequest,
    service: Data<WebhooksService>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let header = request.headers().get("Stripe-Signature");
    let signature = header.and_then(|value| value.to_str().ok());
    service.expects(signature)?;
    let body: Bytes = json::read(&request, &mut payload.into_inner(), EVENT_BYTES_MAX).await?;
    service.receive(signature, &body).await?;
    respond::json(StatusCode::OK, &Received { received: true })
}
