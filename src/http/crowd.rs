//! How many requests are worked on at once. Beyond the bound a request is refused before its API key is looked at and before
//! anything of its body is read, so that a refusal costs next to nothing.
//!
//! A place is given back when the request's work has ended, not when its caller goes: what a handler has begun goes on without
//! it, and has no other bound before it comes to charge (a look at the books, for one).

use std::sync::Arc;

use actix_web::Error;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::HeaderMap;
use actix_web::middleware::Next;
use actix_web::web::Data;

use super::holding::Holding;
use super::respond::refuse;
use crate::bound::{Bound, Place};
use crate::error::Problem;
use crate::metrics::Metrics;
use crate::tasks::holding;

/// Whoever asks how the service is hears it most of all when it has too much to do.
const ALWAYS_ANSWERED: [&str; 3] = ["/health/live", "/health/ready", "/metrics"];

/// Beyond so many requests at once, memory counts for more than the moment that it takes to save it.
const CROWDED: usize = 256;

/// What the middleware knows.
pub struct Crowd {
    /// The requests that are worked on.
    pub requests: Bound,
    /// Where refusals are counted.
    pub metrics: Metrics,
}

/// The middleware.
pub async fn within_bounds(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    // The path as the router will read it, not as it was spelled.
    if ALWAYS_ANSWERED.contains(&request.match_info().unprocessed()) {
        return Ok(next.call(request).await?.map_into_boxed_body());
    }
    let (place, crowded) = match request.app_data::<Data<Crowd>>() {
        Some(crowd) => {
            let taken = crowd.requests.enter();
            let taken = taken.inspect_err(|_| crowd.metrics.request_refused());
            (taken, crowd.requests.taken() > CROWDED)
        }
        None => (Err(Problem::internal()), false),
    };
    match place {
        Ok(place) => {
            if crowded {
                tighten(request.headers_mut());
            }
            let place = Arc::new(place);
            let serving = holding(Some(Arc::clone(&place)), next.call(request));
            let response = serving.await?.map_into_boxed_body();
            Ok(response.map_body(|_head, body| held_while_streamed(body, place)))
        }
        Err(problem) => Ok(refuse(request, problem)),
    }
}

/// Moves headers into a table of their number. The one that actix-http reads them into takes nearly 7 KB however few they are, and
/// thousands of requests may wait with theirs.
fn tighten(headers: &mut HeaderMap) {
    let mut tight = HeaderMap::with_capacity(headers.len_keys());
    let mut name = None;
    for (next, value) in headers.drain() {
        // Further values of a header come without its name.
        name = next.or(name);
        if let Some(name) = &name {
            tight.append(name.clone(), value);
        }
    }
    *headers = tight;
}

/// An answer that is whole has been worked out; one that streams still is.
fn held_while_streamed(body: BoxBody, place: Arc<Place>) -> BoxBody {
    match body.size() {
        BodySize::None | BodySize::Sized(_) => body,
        BodySize::Stream => Holding::boxed(body, place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::body::BodyStream;
    use actix_web::http::header::{HeaderName, HeaderValue};
    use actix_web::web::Bytes;

    #[test]
    fn headers_are_the_same_in_a_table_of_their_number() {
        let sent = [
            ("host", "a"),
            ("x-many", "1"),
            ("prefer", "b"),
            ("x-many", "2"),
            ("x-many", ""),
        ];
        let mut headers = HeaderMap::with_capacity(16);
        for (name, value) in sent {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }

        tighten(&mut headers);

        assert_eq!((headers.len(), headers.len_keys()), (5, 3));
        assert!(headers.capacity() < 8, "{}", headers.capacity());
        for name in ["host", "x-many", "prefer"] {
            let expected: Vec<&str> = sent
                .iter()
                .filter(|(known, _)| *known == name)
                .map(|(_, value)| *value)
                .collect();
            let found: Vec<&str> = headers
                .get_all(name)
                .filter_map(|value| value.to_str().ok())
                .collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_streamed_answer_keeps_its_place_to_its_end_and_a_whole_one_gives_it_back() {
        let requests = Bound::new(1);
        let whole = held_while_streamed(BoxBody::new("whole"), Arc::new(requests.take()));
        assert_eq!(requests.taken(), 0);
        let parts = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from("part"))]);
        let streamed = BoxBody::new(BodyStream::new(parts));
        let stream = held_while_streamed(streamed, Arc::new(requests.take()));
        assert_eq!(requests.taken(), 1);
        drop((whole, stream));
        assert_eq!(requests.taken(), 0);
    }
}
