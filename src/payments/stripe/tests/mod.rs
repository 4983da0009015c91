//! Tests of the adapter: a scripted transport that records its calls, and the settings that they share.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use secrecy::SecretString;

use super::limiter::LimiterSettings;
use super::retry::Backoff;
use super::transport::{
    AnswerHeaders, HttpAnswer, HttpCall, Lost, Method, Transport, TransportResult,
};
use super::{
    HttpSettings, HttpTransport, InProcessTransport, StripeApi, StripeProvider, StripeSettings,
};
use crate::payments::mock::{self, Fault, MockStripe};
use crate::payments::outcome::{
    FailureKind, NextStep, NotExecutedReason, Outcome, ProviderPayment,
};
use crate::payments::refund::ProviderRefund;

mod decision;
mod http;
mod in_process;
mod log;
mod lookup;
mod prepare;
mod refunds;
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

fn error(fields: &str) -> String {
    format!(r#"{{"error":{{{fields}}}}}"#)
}

/// The same JSON with a NUL at the end of one of its texts, names too, for each in turn. The texts have no escapes.
fn each_with_a_nul(json: &str) -> Vec<String> {
    let quotes = json.match_indices('"').map(|(position, _)| position);
    let ends = quotes.skip(1).step_by(2);
    ends.map(|end| format!(r"{}\u0000{}", &json[..end], &json[end..]))
        .collect()
}

/// An answer of which only the head arrived.
fn cut(status: u16) -> TransportResult {
    TransportResult::Lost(Lost {
        reason: "the body was cut".to_owned(),
        head: Some((status, AnswerHeaders::default())),
    })
}

/// What moved, or moves back, in short.
trait Moved {
    fn told(&self) -> (&str, i64);
}

impl Moved for ProviderPayment {
    fn told(&self) -> (&str, i64) {
        (&self.id, self.amount_minor)
    }
}

impl Moved for ProviderRefund {
    fn told(&self) -> (&str, i64) {
        (&self.id, self.amount_minor)
    }
}

/// An outcome in short: the verdict, the object, and whether a failed attempt left it open.
fn short<P: Moved>(outcome: &Outcome<P>) -> String {
    match outcome {
        Outcome::Succeeded(moved) => {
            let (id, amount_minor) = moved.told();
            format!("succeeded {id} {amount_minor}")
        }
        Outcome::Processing(moved) => format!("processing {}", moved.told().0),
        Outcome::Failed(failure) => {
            let kind = match failure.kind {
                FailureKind::Declined => "declined",
                FailureKind::Refused => "refused",
                FailureKind::Canceled => "canceled",
                FailureKind::NeverExecuted => "never executed",
            };
            let id = failure.payment_id.as_deref().unwrap_or("-");
            let open = if failure.payment_open { " open" } else { "" };
            format!("{kind} {} {id}{open}", failure.code)
        }
        Outcome::NotExecuted(not_executed) => match not_executed.reason {
            NotExecutedReason::Unreachable => "not executed: unreachable".to_owned(),
            NotExecutedReason::RateLimited => "not executed: rate limited".to_owned(),
            NotExecutedReason::Credentials => "not executed: credentials".to_owned(),
            NotExecutedReason::OutOfTime => "not executed: out of time".to_owned(),
        },
        Outcome::Unknown(unknown) => {
            let next = match unknown.next {
                NextStep::Resend => "resend",
                NextStep::LookUp => "look up",
                NextStep::LookUpElseReview => "look up or review",
            };
            let id = unknown.payment_id.as_deref().unwrap_or("-");
            format!("unknown, {next} {id}")
        }
    }
}

/// Each fault of the stand-in, and whether repeating the send resolves it. A stored 500 is resolved by a look-up only.
#[rustfmt::skip]
const FAULTS: [(Fault, bool); 10] = [
    (Fault::DropBefore, true), (Fault::DropAfter, true), (Fault::HangBefore, true), (Fault::HangAfter, true),
    (Fault::Error503, true), (Fault::RateLimit, true), (Fault::LockTimeout, true), (Fault::GarbageAfter, true),
    (Fault::Error500Before, false), (Fault::Error500After, false),
];

/// The adapter over the stand-in in this process.
fn over(api: StripeApi, mock: &MockStripe) -> StripeProvider<InProcessTransport> {
    let settings = StripeSettings {
        name: "mock",
        key_prefix: String::new(),
        timeout: Duration::from_secs(2),
        ..settings(api)
    };
    StripeProvider::new(settings, InProcessTransport::new(mock.clone()))
}

/// The adapter over the stand-in behind a socket, and what stops its server.
fn over_http(mock: &MockStripe) -> (StripeProvider<HttpTransport>, impl Future<Output = ()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = mock::serve(mock.clone(), listener).expect("a server");
    let handle = server.handle();
    tokio::spawn(server);
    let http = HttpSettings {
        base_url: format!("http://{address}"),
        secret_key: SecretString::from("sk_test_mock"),
        connect_timeout: Duration::from_secs(20),
    };
    let settings = StripeSettings {
        timeout: Duration::from_secs(1),
        backoff: Backoff {
            first: Duration::from_millis(10),
            longest: Duration::from_millis(50),
        },
        ..settings(StripeApi::PaymentIntents)
    };
    let transport = HttpTransport::new(&http).expect("a transport");
    (StripeProvider::new(settings, transport), async move {
        handle.stop(false).await;
    })
}
