//! localstripe: keeps state, charges and declines, has no idempotency layer.

use std::process::Command;

use chargeonce::payments::outcome::{Failure, FailureKind, Outcome};
use chargeonce::payments::refund::{RefundProvider, RefundState};
use chargeonce::payments::stripe::StripeApi;
use serde_json::{Value, json};

use super::{Peer, limits, refund_order, soon};
use crate::support::{Engine, TestApp};

async fn localstripe() -> Peer {
    let program = std::env::var("LOCALSTRIPE_BIN")
        .expect("LOCALSTRIPE_BIN names localstripe; `make test` fetches it");
    Peer::listening(move |port| {
        let mut command = Command::new(&program);
        command.args(["--port", &port.to_string(), "--from-scratch"]);
        command
    })
    .await
}

impl Peer {
    async fn ask(
        &self,
        client: &reqwest::Client,
        method: reqwest::Method,
        path: &str,
        body: &'static str,
    ) -> Value {
        let request = client
            .request(method, format!("{}{path}", self.url))
            .bearer_auth("sk_test_12345")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(body);
        serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs localstripe: make test"]
async fn an_invoice_is_charged_another_declined_and_then_charged_by_its_next_attempt() {
    let peer = localstripe().await;
    let app = TestApp::with(Engine::Sqlite)
        .provider(peer.provider(StripeApi::PaymentIntents))
        .start()
        .await;
    let customer = peer
        .ask(
            &app.client,
            reqwest::Method::POST,
            "/v1/customers",
            "email=a%40b.example",
        )
        .await;
    let customer_id = customer["id"].as_str().unwrap();

    app.invoice_with(
        "inv_1",
        json!({"customerId": customer_id, "paymentMethodId": "pm_card_visa"}),
    )
    .await;
    let paid = app.charge("inv_1").await;
    paid.assert(201, "", "yes", "not_needed");
    assert_eq!(app.charge("inv_1").await.body, paid.body);

    let declining =
        json!({"customerId": customer_id, "paymentMethodId": "pm_card_chargeCustomerFail"});
    app.invoice_with("inv_2", declining).await;
    let declined = app.charge("inv_2").await;
    assert_eq!(
        (declined.status, declined.text("code").as_str()),
        (402, "charge_declined"),
        "{declined:?}"
    );
    app.patch(
        "/v1/invoices/inv_2",
        &json!({"paymentMethodId": "pm_card_visa"}),
    )
    .await;
    let second = app.charge("inv_2").await;
    second.assert(201, "", "yes", "not_needed");
    assert_eq!(second.text("idempotencyKey"), "charge:inv_2:2");

    // Its own books: two payments took money, one each.
    let payments = peer
        .ask(
            &app.client,
            reqwest::Method::GET,
            "/v1/payment_intents?limit=100",
            "",
        )
        .await;
    let mut invoices: Vec<&str> = payments["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|payment| payment["status"] == "succeeded")
        .map(|payment| payment["metadata"]["invoice_id"].as_str().unwrap())
        .collect();
    invoices.sort_unstable();
    assert_eq!(invoices, ["inv_1", "inv_2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs localstripe: make test"]
async fn part_of_a_payment_is_given_back_and_the_refund_is_there() {
    let peer = localstripe().await;
    let provider = peer.provider(StripeApi::PaymentIntents);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let post = reqwest::Method::POST;
    let paid = "amount=1250&currency=usd&payment_method=pm_card_visa&confirm=true";
    let payment = peer.ask(&client, post, "/v1/payment_intents", paid).await;
    let payment_id = payment["id"].as_str().unwrap();

    let order = refund_order(payment_id);
    let request = provider.prepare_refund(&order);
    let sent = provider.send_refund(&order.refund_key, &request, limits());
    let Outcome::Succeeded(refund) = sent.await else {
        panic!("not given back")
    };

    assert_eq!(
        (refund.amount_minor, refund.currency.as_str()),
        (400, "usd")
    );
    assert_eq!(refund.payment_id.as_deref(), Some(payment_id));
    assert_eq!(refund.refund_key.as_deref(), Some("refund:chg_1"));
    assert_eq!(refund.charge_id.as_deref(), Some("chg_1"));
    assert_eq!(refund.installation_id.as_deref(), Some("ins_1"));
    let there = provider.retrieve_refund(&refund.id, soon()).await.unwrap();
    let there = there.unwrap();
    assert_eq!(
        (there.id.as_str(), &there.status),
        (refund.id.as_str(), &RefundState::Succeeded)
    );
    assert_eq!(provider.retrieve_refund("re_gone", soon()).await, Ok(None));

    let nothing = provider.prepare_refund(&refund_order("pi_gone"));
    let sent = provider.send_refund("refund:chg_2", &nothing, limits());
    let refused = sent.await;
    assert!(
        matches!(
            refused,
            Outcome::Failed(Failure {
                kind: FailureKind::Refused,
                ..
            })
        ),
        "{refused:?}"
    );
}
