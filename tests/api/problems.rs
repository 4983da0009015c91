//! The error codes: they are part of the API, each can be met, and each is documented.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chargeonce::error::Code;
use chargeonce::payments::mock::{Fault, FaultRule, MockStripe};
use chargeonce::payments::outcome::{
    Failure, FailureKind, NotExecuted, NotExecutedReason, Outcome, ProviderPayment,
};
use chargeonce::payments::provider::{
    FrozenRequest, LookupError, PaymentOrder, PaymentPage, PaymentProvider, PaymentQuery,
    PrepareError, PreparedPayment, SendLimits,
};
use chargeonce::payments::refund::RefundProvider;
use serde_json::json;

use crate::support::{Engine, Line, RawRequest, Reply, TestApp, parse, service_away};

/// Programs branch on these words and statuses. A line may be added; a line that changes breaks callers.
#[rustfmt::skip]
const PINNED: &[(&str, u16)] = &[
    ("malformed_json", 400), ("invalid_parameter", 400), ("invalid_idempotency_key", 400), ("bad_request", 400),
    ("request_timeout", 408), ("payload_too_large", 413), ("unsupported_media_type", 415), ("invalid_request", 422),
    ("idempotency_key_reused", 422), ("idempotency_key_in_use", 409), ("route_not_found", 404), ("method_not_allowed", 405),
    ("invoice_not_found", 404), ("invoice_exists", 409), ("invoice_not_chargeable", 409), ("invoice_not_changeable", 409),
    ("charge_not_found", 404), ("charge_in_progress", 409), ("charge_needs_review", 409), ("charge_not_in_review", 409),
    ("charge_declined", 402), ("charge_refused", 402), ("charge_canceled", 409), ("charge_never_executed", 409),
    ("retry_not_advised", 402), ("attempts_exhausted", 402), ("no_payment_method", 409), ("provider_unavailable", 503),
    ("storage_unavailable", 503), ("internal_error", 500), ("resolution_contradicted", 409), ("webhook_signature_invalid", 400),
    ("webhooks_not_configured", 503), ("service_unreachable", 503),
    ("idempotency_key_required", 400), ("charge_not_refundable", 409), ("refund_exceeds_charge", 409), ("refund_not_found", 404),
    ("refund_in_progress", 409), ("refund_needs_review", 409), ("refund_not_in_review", 409), ("refund_failed", 402),
    ("unauthorized", 401), ("forbidden", 403), ("host_not_allowed", 403), ("not_ready", 503), ("limit_exceeded", 403), ("rate_limited", 429), ("overloaded", 503),
];

const API_PAGE: &str = include_str!("../../docs/api.md");

#[test]
fn the_codes_and_their_statuses_are_the_published_ones() {
    let codes: BTreeSet<(&str, u16)> = Code::ALL
        .iter()
        .map(|code| (code.as_str(), code.status()))
        .collect();
    assert_eq!(codes, PINNED.iter().copied().collect());
    assert_eq!(codes.len(), Code::ALL.len(), "two codes have one word");
}

#[test]
fn every_code_has_its_line_in_the_api_page_and_nothing_else_has() {
    let (_, codes_section) = API_PAGE.split_once("## Error codes").unwrap();
    let documented: BTreeSet<(String, u16)> = codes_section
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once("` | "))
        .filter_map(|(word, rest)| {
            let status = rest.split(" | ").next()?.parse().ok()?;
            Some((word.to_owned(), status))
        })
        .collect();
    let codes = Code::ALL
        .iter()
        .map(|code| (code.as_str().to_owned(), code.status()))
        .collect();
    assert_eq!(documented, codes, "docs/api.md, \"Error codes\"");
}

/// A provider that does what a test says, where the stand-in has no such case.
struct Scripted {
    says: Mutex<VecDeque<Outcome>>,
    stand_in: Arc<dyn PaymentProvider>,
}

#[async_trait]
impl PaymentProvider for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn refunds(&self) -> &dyn RefundProvider {
        self.stand_in.refunds()
    }

    async fn prepare(&self, _order: &PaymentOrder) -> Result<PreparedPayment, PrepareError> {
        let request = FrozenRequest {
            path: "/v1/payment_intents".into(),
            body: String::new(),
        };
        Ok(PreparedPayment {
            request,
            payment_method_id: None,
        })
    }

    async fn send(&self, _key: &str, _request: &FrozenRequest, _limits: SendLimits) -> Outcome {
        self.says.lock().unwrap().pop_front().unwrap()
    }

    async fn find(
        &self,
        _query: &PaymentQuery,
        _deadline: Instant,
    ) -> Result<Vec<ProviderPayment>, LookupError> {
        Ok(Vec::new())
    }

    async fn retrieve(
        &self,
        _payment_id: &str,
        _deadline: Instant,
    ) -> Result<Option<ProviderPayment>, LookupError> {
        Ok(None)
    }

    async fn page(
        &self,
        _installation_id: &str,
        _since_ms: i64,
        _after: Option<&str>,
        _deadline: Instant,
    ) -> Result<PaymentPage, LookupError> {
        Ok(PaymentPage {
            payments: Vec::new(),
            next: None,
        })
    }

    async fn cancel(
        &self,
        _payment_id: &str,
        _key: &str,
        _deadline: Instant,
    ) -> Result<ProviderPayment, LookupError> {
        Err(LookupError("nothing to cancel".into()))
    }
}

fn failed(kind: FailureKind) -> Outcome {
    Outcome::Failed(Failure {
        kind,
        code: "scripted".into(),
        decline_code: None,
        advice_code: None,
        message: None,
        payment_id: None,
        payment_open: false,
    })
}

/// Problems of the request itself.
async fn of_requests(engine: Engine) -> Vec<Reply> {
    let app = TestApp::with(engine)
        .set("REQUEST_BODY_TIME", "1s")
        .start()
        .await;
    app.invoice("inv_1").await;
    let charge = |body: &str| RawRequest::json("POST", "/v1/charges", body);
    let slow = charge("")
        .without("Content-Length")
        .header("Content-Length", "9")
        .bytes();
    let key = [("Idempotency-Key", "k")];
    let create =
        |amount: i64| json!({"customerId": "cus_1", "amountCents": amount, "currency": "usd"});
    app.post_with("/v1/invoices", &create(100), &key).await;
    let replies = vec![
        app.raw(&charge("{")).await,
        app.raw(&charge("{}")).await,
        app.raw(&charge("{}").without("Content-Type")).await,
        app.raw(&charge(&" ".repeat(70_000))).await,
        app.raw(&charge("{}").header("Idempotency-Key", "")).await,
        app.raw(&RawRequest::new("GET", "/v1/charges?limit=0"))
            .await,
        app.raw(&RawRequest::new("DELETE", "/v1/charges")).await,
        app.get("/nowhere").await,
        app.get("/v1/charges/chg_1").await,
        app.get("/v1/invoices/inv_2").await,
        parse(&app.drip(&slow, b"", Duration::ZERO).await).unwrap(),
        app.post_with("/v1/invoices", &create(101), &key).await,
        app.post(
            "/v1/invoices",
            &json!({"id": "inv_1", "customerId": "cus_1", "amountCents": 1, "currency": "kes"}),
        )
        .await,
    ];
    app.check_oracles(&[]).await;
    replies
}

/// Problems of a charge, with the stand-in.
async fn of_charges(engine: Engine) -> Vec<Reply> {
    let app = TestApp::start(engine).await;
    let fault = |fault, id: &str, times| {
        app.mock.add_fault(FaultRule {
            times,
            ..FaultRule::once(fault).for_key(format!("charge:{id}"))
        });
    };
    let mut replies = Vec::new();
    app.invoice("void").await;
    app.post("/v1/invoices/void/void", &json!({})).await;
    replies.push(app.charge("void").await);
    replies.push(
        app.patch("/v1/invoices/void", &json!({"paymentMethodId": null}))
            .await,
    );
    app.invoice_with(
        "stolen",
        json!({"paymentMethodId": "pm_card_visa_chargeDeclinedStolenCard"}),
    )
    .await;
    replies.push(app.charge("stolen").await);
    replies.push(app.charge("stolen").await);
    app.invoice_with(
        "poor",
        json!({"paymentMethodId": "pm_card_visa_chargeDeclinedInsufficientFunds"}),
    )
    .await;
    replies.push(app.charge("poor").await);
    app.invoice_with(
        "refused",
        json!({"paymentMethodId": "pm_nobody_has_made_this"}),
    )
    .await;
    replies.push(app.charge("refused").await);
    app.invoice_with("bare", json!({"customerId": "cus_missing"}))
        .await;
    replies.push(app.charge("bare").await);
    app.invoice("unknown").await;
    fault(Fault::DropAfter, "unknown", 50);
    app.charge("unknown")
        .await
        .assert(202, "", "unknown", "later");
    replies.push(app.charge("unknown").await);
    app.invoice("wrong").await;
    fault(Fault::WrongAmount, "wrong", 1);
    app.charge("wrong").await;
    replies.push(app.charge("wrong").await);
    app.invoice("paid").await;
    let paid = app.charge("paid").await;
    let verdict = json!({"outcome": "failed", "note": "Looked at by nobody"});
    replies.push(
        app.post(
            &format!("/v1/charges/{}/resolve", paid.text("id")),
            &verdict,
        )
        .await,
    );
    app.invoice("away").await;
    fault(Fault::Unauthorized, "away", 50);
    replies.push(app.charge("away").await);
    app.check_oracles(&[paid]).await;

    let strict = TestApp::with(engine)
        .set("CHARGE_MAX_ATTEMPTS", "1")
        .start()
        .await;
    strict
        .invoice_with(
            "inv_1",
            json!({"paymentMethodId": "pm_card_visa_chargeDeclined"}),
        )
        .await;
    strict
        .charge("inv_1")
        .await
        .assert(402, "charge_declined", "no", "never");
    replies.push(strict.charge("inv_1").await);
    strict.check_oracles(&[]).await;
    replies
}

/// Endings that only a provider with a will of its own gives.
async fn of_providers(engine: Engine) -> Vec<Reply> {
    let away = NotExecuted {
        reason: NotExecutedReason::Unreachable,
        detail: "connection refused".into(),
    };
    let outcomes = [
        failed(FailureKind::Canceled),
        failed(FailureKind::NeverExecuted),
        Outcome::NotExecuted(away),
    ];
    let provider = Arc::new(Scripted {
        says: Mutex::new(outcomes.into()),
        stand_in: Line::default().provider(&MockStripe::new()),
    });
    let app = TestApp::with(engine).provider(provider).start().await;
    let mut replies = Vec::new();
    for id in ["inv_1", "inv_2", "inv_3"] {
        app.invoice(id).await;
        replies.push(app.charge(id).await);
    }
    app.check_oracles(&[]).await;
    replies
}

/// Problems of the store, made by hand.
async fn of_the_store(engine: Engine) -> Vec<Reply> {
    let app = TestApp::start(engine).await;
    app.invoice("inv_1").await;
    app.database
        .execute("UPDATE invoices SET status = 'paid'")
        .await;
    let contradiction = app.charge("inv_1").await;
    app.database.execute("DELETE FROM invoices").await;
    app.check_oracles(&[]).await;
    let body = json!({"customerId": "cus_1", "amountCents": 100, "currency": "usd"});
    app.post_with("/v1/invoices", &body, &[("Idempotency-Key", "finished")])
        .await;
    // The same request under another key, by somebody who has not come to its end.
    let sql = "INSERT INTO idempotency_keys (key, operation, status, attempt, fingerprint, lease_token, lease_expires_at_ms, recovery, \
        first_sent_at_ms, last_sent_at_ms, takeovers, created_at_ms, updated_at_ms) \
        SELECT replace(key, ':finished', ':k'), operation, 'in_progress', 1, fingerprint, 'another', lease_expires_at_ms + 60000, recovery, \
        first_sent_at_ms, last_sent_at_ms, 0, created_at_ms, updated_at_ms FROM idempotency_keys WHERE key LIKE '%:finished'";
    app.database.execute(sql).await;
    let key = [("Idempotency-Key", "k")];
    let in_use = app.post_with("/v1/invoices", &body, &key).await;
    app.database
        .execute("ALTER TABLE invoices RENAME TO gone")
        .await;
    let unavailable = app.get("/v1/invoices").await;
    assert_eq!(app.mock.requests().len(), 0);
    vec![contradiction, in_use, unavailable]
}

/// Webhooks that are not taken in, and a decision that the provider contradicts.
async fn of_the_providers_side(engine: Engine) -> Vec<Reply> {
    let without = TestApp::start(engine).await;
    let mut replies = vec![without.post("/v1/webhooks/stripe", &json!({})).await];
    let app = TestApp::with(engine)
        .set("STRIPE_WEBHOOK_SECRET", "whsec_1")
        .start()
        .await;
    replies.push(app.post("/v1/webhooks/stripe", &json!({})).await);
    app.invoice("inv_1").await;
    app.fault("inv_1", Fault::WrongAmount, 1);
    let parked = app.charge("inv_1").await;
    let id = parked.json()["charge"]["id"].as_str().unwrap().to_owned();
    let body = json!({"outcome": "failed", "note": "not charged, I think"});
    replies.push(app.post(&format!("/v1/charges/{id}/resolve"), &body).await);
    app.check_oracles(&[parked]).await;
    replies
}

/// A body that ends before its announced length.
async fn of_cut_bodies(engine: Engine) -> Vec<Reply> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let app = TestApp::start(engine).await;
    let address = app.url.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = RawRequest::json("POST", "/v1/charges", "")
        .without("Content-Length")
        .header("Content-Length", "9");
    stream.write_all(&head.bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    app.check_oracles(&[]).await;
    vec![parse(&answer).unwrap()]
}

on_both_stores! {
    async fn every_code_can_be_met_and_comes_with_its_status_and_the_two_answers(engine) {
        let replies = [
            of_requests(engine).await,
            of_charges(engine).await,
            of_providers(engine).await,
            of_the_store(engine).await,
            of_the_providers_side(engine).await,
            of_cut_bodies(engine).await,
            vec![service_away().await],
            crate::access::refusals(engine).await,
            crate::access_hosts::refusals(engine).await,
            vec![crate::operations::not_ready(engine).await],
            crate::refunds::refusals(engine).await,
            vec![crate::overload::refusal(engine).await],
        ]
        .concat();

        for reply in &replies {
            let code = reply.text("code");
            let right = Code::ALL.iter().find(|known| known.as_str() == code);
            assert_eq!(Some(reply.status), right.map(|code| code.status()), "{reply:#?}");
            assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{reply:#?}");
            assert_eq!(reply.text("type"), format!("urn:chargeonce:problem:{code}"));
            assert!(["yes", "no", "unknown"].contains(&reply.text("customerCharged").as_str()), "{reply:#?}");
            assert!(["not_needed", "now", "later", "after_change", "never"].contains(&reply.text("retry").as_str()), "{reply:#?}");
            let seconds = (reply.text("retry") == "later").then(|| reply.text("retryAfterSeconds"));
            assert_eq!(reply.header("retry-after").map(str::to_owned), seconds, "{reply:#?}");
            let detail = reply.text("detail");
            assert!(detail.ends_with('.') && detail.len() < 300, "{detail}");
        }
        let met: BTreeSet<String> = replies.iter().map(|reply| reply.text("code")).collect();
        let all: BTreeSet<String> = Code::ALL.iter().map(|code| code.as_str().to_owned()).collect();
        assert_eq!(met, all);
    }
}
