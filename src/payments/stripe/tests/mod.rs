//! Tests of the adapter: a scripted transport that records its calls, and the settings that they share.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::limiter::LimiterSettings;
use super::retry::Backoff;
use super::transport::{
    AnswerHeaders, HttpAnswer, HttpCall, Lost, Method, Transport, TransportResult,
};
use super::{StripeApi, StripeProvider, StripeSettings};

mod decision;
mod http;
mod in_process;
mod log;
mod lookup;
mod prepare;
mod send;

/// A call as the transport saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Recorded {
    method: Method,
    path_and_query: String,
    key: Option<String>,
    body: Option<String>,
    timeout: Duration,
}

/// A transport that answers from a script and records every call.
#[derive(Default)]
struct Script {
    results: Mutex<VecDeque<TransportResult>>,
    calls: Mutex<Vec<Recorded>>,
    /// How long each call takes.
    takes: Duration,
}

impl Script {
    fn calls(&self) -> Vec<Recorded> {
        self.calls.lock().unwrap().clone()
    }
}

#[async_trait]
impl Transport for &Script {
    async fn call(&self, call: HttpCall<'_>, timeout: Duration) -> TransportResult {
        assert_eq!(
            call.method == Method::Post,
            call.idempotency_key.is_some(),
            "every POST has a key, and only POSTs have"
        );
        self.calls.lock().unwrap().push(Recorded {
            method: call.method,
            path_and_query: call.path_and_query.to_owned(),
            key: call.idempotency_key.map(str::to_owned),
            body: call.body.map(str::to_owned),
            timeout,
        });
        if self.takes >= timeout {
            tokio::time::sleep(timeout).await;
            return lost("no answer in time");
        }
        tokio::time::sleep(self.takes).await;
        let next = self.results.lock().unwrap().pop_front();
        next.expect("the script has ended, and still there is a call")
    }
}

fn script(results: impl IntoIterator<Item = TransportResult>) -> Script {
    Script {
        results: Mutex::new(results.into_iter().collect()),
        ..Script::default()
    }
}

fn settings(api: StripeApi) -> StripeSettings {
    StripeSettings {
        name: "stripe",
        api,
        key_prefix: "test/".to_owned(),
        timeout: Duration::from_secs(80),
        max_retries: 2,
        backoff: Backoff::default(),
        limits: LimiterSettings::default(),
    }
}

fn provider(api: StripeApi, script: &Script) -> StripeProvider<&Script> {
    StripeProvider::new(settings(api), script)
}

/// A deadline `seconds` from now, on the clock that tests pause.
fn deadline(seconds: u64) -> Instant {
    (tokio::time::Instant::now() + Duration::from_secs(seconds)).into_std()
}

fn answer(status: u16, body: &str) -> TransportResult {
    answer_with(status, &[], body)
}

fn answer_with(status: u16, headers: &[(&str, &str)], body: &str) -> TransportResult {
    TransportResult::Answer(HttpAnswer {
        status,
        headers: AnswerHeaders::from_pairs(headers.iter().copied()),
        body: body.as_bytes().to_vec(),
    })
}

fn lost(reason: &str) -> TransportResult {
    TransportResult::Lost(Lost::without_head(reason))
}

fn not_sent() -> TransportResult {
    TransportResult::NotSent("connection refused".to_owned())
}

/// A PaymentIntent's JSON with our metadata.
fn intent(id: &str, status: &str) -> String {
    format!(
        r#"{{"id":"{id}","object":"payment_intent","status":"{status}","amount":1999,"amount_received":0,
        "currency":"eur","created":1700000000,"metadata":{{"invoice_id":"inv_1","installation_id":"inst"}},
        "last_payment_error":null,"a_field_of_tomorrow":[1,{{}}]}}"#
    )
}

/// A Charge's JSON with our metadata.
fn charge(id: &str, status: &str) -> String {
    format!(
        r#"{{"id":"{id}","object":"charge","status":"{status}","amount":1999,"currency":"eur","paid":true,
        "captured":false,"created":1700000000,
        "metadata":{{"invoice_id":"inv_1","installation_id":"inst","charge_key":"charge:inv_1"}}}}"#
    )
}
