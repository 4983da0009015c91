//! An answer's body that holds something until it has been sent to its end, or is given up.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::Bytes;

/// See the module.
pub struct Holding<T> {
    body: BoxBody,
    _held: T,
}

impl<T: Unpin + 'static> Holding<T> {
    /// The same body, which drops what it holds when it is dropped itself.
    pub fn boxed(body: BoxBody, held: T) -> BoxBody {
        BoxBody::new(Self { body, _held: held })
    }
}

impl<T: Unpin> MessageBody for Holding<T> {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        self.body.as_pin_mut().poll_next(context)
    }
}
