//! A request body that nobody reads to its end does not keep the connection.
//!
//! After an early answer (a 404, a 408, a 413) actix-http closes a connection whose body has an announced length, but goes
//! on reading one that comes in chunks, for as long as the client likes: a client that falls silent would hold its
//! connection for ever. It closes that one, too, when the body's receiver still lives while the answer is sent; so the
//! answer holds it here.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::http::header::TRANSFER_ENCODING;
use actix_web::middleware::Next;
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage};
use futures_util::Stream;

use super::holding::Holding;

/// The middleware.
pub async fn close_when_unread(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if !request.headers().contains_key(TRANSFER_ENCODING) {
        return Ok(next.call(request).await?.map_into_boxed_body());
    }
    let payload = SharedPayload(Rc::new(RefCell::new(request.take_payload())));
    request.set_payload(Payload::Stream {
        payload: Box::pin(payload.clone()),
    });
    let response = next.call(request).await?.map_into_boxed_body();
    Ok(response.map_body(|_head, body| Holding::boxed(body, payload)))
}

/// The request's body, read by the handler and held by the answer.
#[derive(Clone)]
struct SharedPayload(Rc<RefCell<Payload>>);

impl Stream for SharedPayload {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_next(context)
    }
}
