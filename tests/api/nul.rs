//! U+0000, which PostgreSQL stores in no text: whoever sends it, nothing gets stuck on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chargeonce::payments::mock::MockStripe;
use chargeonce::payments::stripe::transport::{HttpCall, Transport, TransportResult};
use chargeonce::payments::stripe::{
    Backoff, InProcessTransport, LimiterSettings, StripeApi, StripeProvider, StripeSettings,
};
use serde_json::{Value, json};

use crate::support::{Engine, RawRequest, Reply, TestApp};

/// A provider that ends each text of these names with a NUL.
struct Spoiling {
    mock: InProcessTransport,
    names: &'static [&'static str],
}

#[async_trait]
impl Transport for Spoiling {
    async fn call(&self, call: HttpCall<'_>, timeout: Duration) -> TransportResult {
        let mut result = self.mock.call(call, timeout).await;
        if let TransportResult::Answer(answer) = &mut result {
            let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
            spoil(&mut body, self.names);
            answer.body = body.to_string().into_bytes();
        }
        result
    }
}

fn spoil(value: &mut Value, names: &[&str]) {
    if let Some(members) = value.as_object_mut() {
        for (name, member) in members {
            if let Value::String(text) = member
                && names.contains(&name.as_str())
            {
                text.push('\0');
            } else {
                spoil(member, names);
            }
        }
    } else if let Some(entries) = value.as_array_mut() {
        entries.iter_mut().for_each(|entry| spoil(entry, names));
    }
}

/// A replica of the app that hears its provider so.
async fn spoiled(app: &TestApp, names: &'static [&'static str]) -> TestApp {
    let dialect = StripeSettings {
        name: "mock",
        api: StripeApi::PaymentIntents,
        key_prefix: String::new(),
        timeout: Duration::from_secs(5),
        max_retries: 0,
        backoff: Backoff::default(),
        limits: LimiterSettings::unlimited(),
    };
    let transport = Spoiling {
        mock: InProcessTransport::new(app.mock.clone()),
        names,
    };
    let provider = Arc::new(StripeProvider::new(dialect, transport));
    app.replica().provider(provider).start().await
}

/// The API's document promises ids that Stripe would give, so these answers are not held to it.
async fn post(app: &TestApp, path: &str, body: Value) -> Reply {
    let request = app.client.post(format!("{}{path}", app.url));
    let request = request.header("Content-Type", "application/json");
    Reply::read(request.body(body.to_string()).send().await.unwrap()).await
}

async fn provided(engine: Engine) -> TestApp {
    let mock = MockStripe::new();
    TestApp::with(engine).mock(&mock).start().await
}

on_both_stores! {
    async fn whatever_text_of_the_provider_has_a_nul_its_verdict_is_recorded(engine) {
        let app = provided(engine).await;
        #[rustfmt::skip]
        let table: [(&str, &str, &'static [&'static str], u16, &str); 4] = [
            ("id", "pm_card_visa", &["id"], 201, "succeeded"),
            ("words", "pm_card_chargeDeclinedInsufficientFunds", &["message", "code", "decline_code", "advice_code", "charge"], 402, "failed"),
            ("open", "pm_card_chargeDeclined", &["id", "status", "client_secret"], 202, "pending"),
            ("marks", "pm_card_visa", &["invoice_id", "installation_id", "charge_key"], 409, "needs_review"),
        ];
        let mut replies = Vec::new();
        for (invoice_id, card, names, status, stands) in table {
            app.invoice_with(invoice_id, json!({"paymentMethodId": card})).await;
            let replica = spoiled(&app, names).await;

            let reply = post(&replica, "/v1/charges", json!({"invoiceId": invoice_id})).await;

            assert_eq!(reply.status, status, "{invoice_id}: {reply:#?}");
            assert_eq!(app.attempts(invoice_id).await, [stands], "{invoice_id}");
            assert!(!reply.body.contains("u0000"), "{reply:#?}");
            replies.push(reply);
        }
        app.check_oracles(&replies).await;
    }

    async fn a_refund_whose_id_has_a_nul_is_recorded(engine) {
        let app = provided(engine).await;
        let charge_id = app.paid("inv_1").await;
        let replica = spoiled(&app, &["id", "reason"]).await;

        let given = post(&replica, "/v1/refunds", json!({"chargeId": charge_id})).await;

        assert_eq!((given.status, given.text("refunded").as_str()), (201, "yes"), "{given:#?}");
        assert!(given.text("providerRefundId").ends_with('\u{fffd}'), "{given:#?}");
        assert_eq!(app.refunds_of(&charge_id).await, ["succeeded"]);
        assert_eq!(app.given(&charge_id), [1250]);
        app.check_oracles(&[]).await;
    }

    /// The bodies of charges and invoices and their paths are in `hostile`; here is the rest of what a caller may write.
    async fn a_nul_from_a_caller_is_refused_before_the_store(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let resolve = r#"{"outcome":"succeeded","note":"x","providerRefundId":"re_\u0000"}"#;
        let note = r#"{"outcome":"failed","note":"x\u0000"}"#;
        #[rustfmt::skip]
        let table = [
            ("a refund's charge", RawRequest::json("POST", "/v1/refunds", r#"{"chargeId":"chg_\u0000"}"#), 422),
            ("a refund's reason", RawRequest::json("POST", "/v1/refunds", r#"{"chargeId":"chg_1","reason":"duplicate\u0000"}"#), 422),
            ("an unknown member", RawRequest::json("POST", "/v1/refunds", r#"{"chargeId":"chg_1","a\u0000":1}"#), 422),
            ("a refund's proof", RawRequest::json("POST", "/v1/refunds/re_1/resolve", resolve), 422),
            ("a refund's note", RawRequest::json("POST", "/v1/refunds/re_1/resolve", note), 422),
            ("a verdict's charge", RawRequest::json("POST", "/v1/charges/chg%00/resolve", r#"{"outcome":"failed","note":"x"}"#), 404),
            ("a payment's proof", RawRequest::json("POST", "/v1/charges/chg_1/resolve", r#"{"outcome":"succeeded","note":"x","providerPaymentId":"pi_\u0000"}"#), 422),
            ("an invoice's card", RawRequest::json("PATCH", "/v1/invoices/inv_1", r#"{"paymentMethodId":"pm_\u0000"}"#), 422),
            ("an invoice's id", RawRequest::json("POST", "/v1/invoices", r#"{"id":"a\u0000","customerId":"cus_1","amountCents":1250,"currency":"usd"}"#), 422),
            ("a path of a refund", RawRequest::new("GET", "/v1/refunds/re%00"), 404),
            ("a path of its history", RawRequest::new("GET", "/v1/refunds/re%00/evidence"), 404),
            ("a path of a charge's history", RawRequest::new("GET", "/v1/charges/chg%00/evidence"), 404),
            ("a path of a status", RawRequest::new("GET", "/v1/invoices/inv%00/charge-status"), 404),
            ("a filter by charge", RawRequest::new("GET", "/v1/refunds?chargeId=chg%00"), 400),
            ("a place in the charges", RawRequest::new("GET", "/v1/charges?cursor=AA"), 400),
            ("a place in the refunds", RawRequest::new("GET", "/v1/refunds?cursor=YQA"), 400),
            ("a place in the invoices", RawRequest::new("GET", "/v1/invoices?cursor=MS5hAA"), 400),
            ("a form of the tools", RawRequest::new("GET", "/v1/tools?format=mcp%00"), 422),
            ("a key", RawRequest::json("POST", "/v1/charges", r#"{"invoiceId":"inv_1"}"#).header("Idempotency-Key", b"a\0".to_vec()), 400),
            ("a session", RawRequest::json("POST", "/v1/charges", r#"{"invoiceId":"inv_1"}"#).header("X-Agent-Session", b"a\0".to_vec()), 400),
        ];
        for (what, request, status) in table {
            let reply = app.raw(&request).await;
            assert_eq!(reply.status, status, "{what}: {reply:#?}");
        }
        for (tool, arguments) in [
            ("charge_customer", json!({"invoiceId": "inv_1\0"})),
            ("get_charge_status", json!({"invoiceId": "inv_1\0"})),
            ("list_open_invoices", json!({"customerId": "cus_1\0"})),
            ("list_open_invoices", json!({"cursor": "MS5hAA"})),
        ] {
            let result = app.tool(tool, arguments.clone()).await;
            assert!(result.is_error, "{tool} {arguments}: {result:#?}");
            let code = result.body["code"].as_str().unwrap_or_default().to_owned();
            assert!(["invalid_request", "invalid_parameter"].contains(&code.as_str()), "{tool} {arguments}: {code}");
        }
        assert_eq!(app.attempts("inv_1").await, Vec::<String>::new());
        assert_eq!(app.mock.requests().len(), 0);
        app.check_oracles(&[]).await;
    }
}
