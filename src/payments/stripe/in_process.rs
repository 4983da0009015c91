//! Stripe's dialect spoken to the stand-in in this very process: no sockets, the same bytes.
//!
//! A time limit and a cut connection look as they do over HTTP: the answer is lost, and what had arrived is executed.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use super::transport::{AnswerHeaders, HttpAnswer, HttpCall, Lost, Transport, TransportResult};
use crate::payments::mock::{MockReply, MockRequest, MockStripe};

/// A [`Transport`] to a [`MockStripe`].
#[derive(Debug, Clone)]
pub struct InProcessTransport {
    mock: MockStripe,
}

impl InProcessTransport {
    /// A transport to this stand-in.
    pub fn new(mock: MockStripe) -> Self {
        Self { mock }
    }
}

#[async_trait]
impl Transport for InProcessTransport {
    async fn call(&self, call: HttpCall<'_>, limit: Duration) -> TransportResult {
        match timeout(limit, self.mock.handle(request(&call))).await {
            Err(_elapsed) => TransportResult::Lost(Lost::without_head("no answer in time")),
            Ok(MockReply::Cut) => {
                TransportResult::Lost(Lost::without_head("the connection was cut"))
            }
            Ok(MockReply::Answer(response)) => {
                let pairs = response.headers.iter();
                TransportResult::Answer(HttpAnswer {
                    status: response.status,
                    headers: AnswerHeaders::from_pairs(
                        pairs.map(|(name, value)| (name.as_str(), value.as_str())),
                    ),
                    body: response.body,
                })
            }
        }
    }
}

fn request(call: &HttpCall<'_>) -> MockRequest {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut headers = vec![header("Authorization", "Bearer sk_test_mock")];
    if let Some(key) = call.idempotency_key {
        headers.push(header("Idempotency-Key", key));
    }
    if call.body.is_some() {
        let form = "application/x-www-form-urlencoded";
        headers.push(header("Content-Type", form));
    }
    let query = call.path_and_query.split_once('?');
    MockRequest {
        method: call.method.as_str().to_owned(),
        path: call.path().to_owned(),
        query: query.map_or("", |(_path, query)| query).to_owned(),
        headers,
        body: call.body.unwrap_or_default().as_bytes().to_vec(),
    }
}
