//! The stand-in for Stripe as a process of its own, so that it keeps its books whatever happens to the service.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use chargeonce::payments::mock::Ledger;
use serde::Deserialize;
use serde_json::{Value, json};

use super::process::{Limits, Process};

/// Every fault that the stand-in has.
pub const FAULTS: [&str; 14] = [
    "delay",
    "drop_before",
    "drop_after",
    "hang_before",
    "hang_after",
    "error_500_before",
    "error_500_after",
    "error_503",
    "rate_limit",
    "lock_timeout",
    "unauthorized",
    "garbage_after",
    "wrong_amount",
    "processing",
];

/// A request that the provider has seen.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenRequest {
    pub method: String,
    pub path: String,
    pub idempotency_key: Option<String>,
    pub headers: Vec<(String, String)>,
    /// The fault that it met.
    pub fault: Option<String>,
    #[serde(deserialize_with = "bytes")]
    pub body: Vec<u8>,
}

fn bytes<'de, D: serde::Deserializer<'de>>(text: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(text).map(String::into_bytes)
}

/// What webhooks are signed with.
pub const WEBHOOK_SECRET: &str = "whsec_test";

/// A running `chargeonce mock-stripe`.
pub struct Provider {
    _process: Process,
    address: String,
}

impl Provider {
    pub async fn start() -> Self {
        let mut process = Process::start(&["mock-stripe", "--port", "0"], &[], Limits::default());
        let url = process.announced("mock-stripe listens on ").await;
        Self {
            _process: process,
            address: url.strip_prefix("http://").unwrap().to_owned(),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn ledger(&self) -> Ledger {
        serde_json::from_value(self.call("GET", "/_mock/ledger", "")).unwrap()
    }

    pub fn requests(&self) -> Vec<SeenRequest> {
        let mut answer = self.call("GET", "/_mock/requests", "");
        serde_json::from_value(answer["requests"].take()).unwrap()
    }

    /// How many payments of an invoice took money.
    pub fn paid(&self, invoice_id: &str) -> usize {
        self.ledger().succeeded(invoice_id).len()
    }

    /// The next POST with this key, so many times, meets a fault.
    pub fn fault(&self, key: &str, fault: &str, times: u32) {
        let rule = json!({"key": key, "fault": fault, "times": times});
        self.call("POST", "/_mock/faults", &rule.to_string());
    }

    /// From now on, that share of the POSTs meets one of these faults, by a seed.
    pub fn chaos(&self, seed: u64, rate: f64, faults: &[&str], ms: u64) {
        let plan = json!({"seed": seed, "rate": rate, "faults": faults, "ms": ms});
        self.call("POST", "/_mock/chaos", &plan.to_string());
    }

    /// How often each fault has struck by chance.
    pub fn chaos_counts(&self) -> BTreeMap<String, u64> {
        let mut answer = self.call("GET", "/_mock/chaos", "");
        serde_json::from_value(answer["injected"].take()).unwrap()
    }

    /// The provider comes to a verdict on everything that it still works on.
    pub fn settle_all_processing(&self) {
        for payment in self.ledger().payments {
            if payment.status == "processing" {
                let verdict = json!({"paymentId": payment.id, "outcome": "succeeded"});
                self.call("POST", "/_mock/settle", &verdict.to_string());
            }
        }
    }

    /// When each payment took its money: its id, and the second by the provider's clock.
    pub fn taken_at_seconds(&self) -> BTreeMap<String, i64> {
        let mut taken = BTreeMap::new();
        let mut after = String::new();
        loop {
            let path = format!("/v1/events?type=payment_intent.succeeded&limit=100{after}");
            let page = self.exchange("GET", &path, "", "Authorization: Bearer sk_test_123\r\n");
            let events = page["data"].as_array().unwrap();
            for event in events {
                let id = event["data"]["object"]["id"].as_str().unwrap();
                taken.insert(id.to_owned(), event["created"].as_i64().unwrap());
            }
            match events.last() {
                Some(last) if page["has_more"] == true => {
                    after = format!("&starting_after={}", last["id"].as_str().unwrap());
                }
                Some(_) | None => return taken,
            }
        }
    }

    /// Where events go from now on: to a service, or nowhere.
    pub fn webhooks_to(&self, service_url: Option<&str>) {
        match service_url {
            Some(url) => {
                let endpoint = json!({"url": format!("{url}/v1/webhooks/stripe"), "secrets": [WEBHOOK_SECRET]});
                self.call("POST", "/_mock/webhooks", &endpoint.to_string())
            }
            None => self.call("DELETE", "/_mock/webhooks", ""),
        };
    }

    pub fn advance_clock(&self, by: Duration) {
        let by = json!({"advanceSeconds": by.as_secs()});
        self.call("POST", "/_mock/clock", &by.to_string());
    }

    /// How long every POST takes before it is executed.
    pub fn set_latency(&self, latency: Duration) {
        let latency = json!({"ms": latency.as_millis()});
        self.call("POST", "/_mock/latency", &latency.to_string());
    }

    /// Makes a payment that nobody has confirmed, as a half finished send of an earlier time would have left it.
    pub fn unfinished_payment(&self, invoice_id: &str, installation_id: &str) {
        self.payment(invoice_id, installation_id, "unfinished", "");
    }

    /// Makes a payment that takes the money, as somebody at the dashboard would.
    pub fn payment_by_hand(&self, invoice_id: &str, installation_id: &str) {
        let confirm = "&confirm=true&payment_method_types[]=card";
        self.payment(invoice_id, installation_id, "by-hand", confirm);
    }

    fn payment(&self, invoice_id: &str, installation_id: &str, key: &str, more: &str) {
        let body = format!(
            "amount=1250&currency=usd&customer=cus_{invoice_id}&payment_method=pm_card_visa&metadata[invoice_id]={invoice_id}\
             &metadata[installation_id]={installation_id}&metadata[charge_key]=charge:{invoice_id}{more}"
        );
        let headers = format!(
            "Authorization: Bearer sk_test_123\r\nIdempotency-Key: {key}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n"
        );
        self.exchange("POST", "/v1/payment_intents", &body, &headers);
    }

    fn call(&self, method: &str, path: &str, body: &str) -> Value {
        self.exchange(method, path, body, "Content-Type: application/json\r\n")
    }

    /// One exchange on a connection of its own. Blocks: what the provider's books say is asked in synchronous places too.
    fn exchange(&self, method: &str, path: &str, body: &str, headers: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 200"),
            "{method} {path}: {answer}"
        );
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {answer}"))
    }
}
