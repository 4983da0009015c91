//! Tests of the engine as a whole: requests in, answers and ledger out.

mod chaos;
mod faults;
mod http;
mod idempotency;
mod lists;
mod objects;
mod payments;
mod refunds;
mod search;
mod steps;
mod webhooks;

use serde_json::Value;

use super::{MockReply, MockRequest, MockResponse, MockStripe};

/// A one-shot charge of an invoice, off session.
fn charge_body(invoice_id: &str, method: &str) -> String {
    format!(
        "amount=1000&currency=usd&customer=cus_1&payment_method={method}&payment_method_types[]=card&confirm=true\
         &off_session=true&metadata[invoice_id]={invoice_id}"
    )
}

/// The one-shot charge of `inv_1` with a good card.
fn charge(key: &str) -> MockRequest {
    MockRequest::post(
        "/v1/payment_intents",
        key,
        &charge_body("inv_1", "pm_card_visa"),
    )
}

/// Sends a request that must be answered.
async fn answer(mock: &MockStripe, request: MockRequest) -> MockResponse {
    match mock.handle(request).await {
        MockReply::Answer(answer) => answer,
        MockReply::Cut => panic!("the connection was cut"),
    }
}

/// Sends a request and reads the JSON of its answer.
async fn json(mock: &MockStripe, request: MockRequest) -> (u16, Value) {
    let answer = answer(mock, request).await;
    (answer.status, serde_json::from_slice(&answer.body).unwrap())
}

/// Sends an unkeyed POST and reads the JSON of its answer.
async fn post(mock: &MockStripe, path: &str, body: &str) -> (u16, Value) {
    json(mock, MockRequest::unkeyed("POST", path, body)).await
}

/// Sends a GET and reads the JSON of its answer.
async fn get(mock: &MockStripe, path_and_query: &str) -> (u16, Value) {
    json(mock, MockRequest::get(path_and_query)).await
}

/// How many successful payments of `inv_1` there are.
fn paid(mock: &MockStripe) -> usize {
    mock.ledger().succeeded("inv_1").len()
}
