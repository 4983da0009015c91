//! The later steps of a payment: capture, authentication, a refund that comes back; and cards made from tokens.

use serde_json::Value;

use super::super::MockStripe;
use super::{get, post};

async fn hold(mock: &MockStripe) -> String {
    let body = "amount=1000&currency=usd&payment_method=pm_card_visa&confirm=true&capture_method=manual\
                &metadata[invoice_id]=inv_1";
    let (_, held) = post(mock, "/v1/payment_intents", body).await;
    assert_eq!(held["status"], "requires_capture");
    held["id"].as_str().unwrap().to_owned()
}

async fn event_types(mock: &MockStripe) -> Vec<String> {
    let (_, events) = get(mock, "/v1/events?limit=100").await;
    let rows = events["data"].as_array().unwrap().iter().rev();
    rows.map(|event| event["type"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_hold_is_captured_once_in_whole_or_in_part() {
    for (body, taken) in [("", 1000), ("amount_to_capture=400", 400)] {
        let mock = MockStripe::new();
        let id = hold(&mock).await;
        assert!(mock.ledger().succeeded("inv_1").is_empty());
        let path = format!("/v1/payment_intents/{id}/capture");
        let (status, captured) = post(&mock, &path, body).await;
        assert_eq!(
            (
                status,
                &captured["status"],
                &captured["amount_received"],
                &captured["amount_capturable"]
            ),
            (200, &"succeeded".into(), &taken.into(), &0.into()),
            "{body}"
        );
        assert_eq!(mock.ledger().succeeded("inv_1")[0].amount, taken, "{body}");
        assert!(
            event_types(&mock)
                .await
                .ends_with(&["charge.captured".into(), "payment_intent.succeeded".into()])
        );

        let (status, again) = post(&mock, &path, body).await;
        assert_eq!(
            (status, again["error"]["code"].as_str()),
            (400, Some("payment_intent_unexpected_state"))
        );
        // No more is refunded than was captured.
        let over = format!("payment_intent={id}&amount={}", taken + 1);
        assert_eq!(post(&mock, "/v1/refunds", &over).await.0, 400, "{body}");
        let (_, refund) = post(&mock, "/v1/refunds", &format!("payment_intent={id}")).await;
        assert_eq!(refund["amount"], taken, "{body}");
        let (_, charges) = get(&mock, &format!("/v1/charges?payment_intent={id}")).await;
        assert_eq!(charges["data"][0]["refunded"], true, "{body}");
    }
}

#[tokio::test]
async fn a_capture_of_too_much_takes_nothing() {
    let mock = MockStripe::new();
    let id = hold(&mock).await;
    for (amount, code) in [(1001, "amount_too_large"), (0, "parameter_invalid_integer")] {
        let body = format!("amount_to_capture={amount}");
        let (status, refusal) =
            post(&mock, &format!("/v1/payment_intents/{id}/capture"), &body).await;
        assert_eq!(
            (status, refusal["error"]["code"].as_str()),
            (400, Some(code))
        );
    }
    assert_eq!(
        get(&mock, &format!("/v1/payment_intents/{id}")).await.1["status"],
        "requires_capture"
    );
    assert_eq!(
        post(&mock, "/v1/payment_intents/pi_nothing/capture", "")
            .await
            .0,
        404
    );
}

#[tokio::test]
async fn an_authentication_ends_in_money_a_hold_or_an_error() {
    // Capture method, outcome, status, last error.
    let table = [
        ("automatic", true, "succeeded", None),
        ("manual", true, "requires_capture", None),
        (
            "automatic",
            false,
            "requires_payment_method",
            Some("payment_intent_authentication_failure"),
        ),
    ];
    for (capture_method, success, expected, code) in table {
        let mock = MockStripe::new();
        let body = format!(
            "amount=1000&currency=usd&payment_method=pm_card_authenticationRequired&confirm=true\
             &capture_method={capture_method}"
        );
        let (_, asked) = post(&mock, "/v1/payment_intents", &body).await;
        assert_eq!(asked["status"], "requires_action");
        let id = asked["id"].as_str().unwrap();
        assert!(mock.authenticate(id, success));
        let (_, intent) = get(
            &mock,
            &format!("/v1/payment_intents/{id}?expand[]=latest_charge"),
        )
        .await;
        assert_eq!(
            (
                intent["status"].as_str(),
                intent["last_payment_error"]["code"].as_str()
            ),
            (Some(expected), code)
        );
        assert_eq!(intent["latest_charge"]["paid"] == true, success);
        assert!(!mock.authenticate(id, true), "only once");
    }
    assert!(!MockStripe::new().authenticate("pi_nothing", true));
}

#[tokio::test]
async fn a_refund_gets_its_late_verdict_and_the_money_is_the_merchants_again() {
    // Card, first status, verdict, whether there is one to give, last status, what is refunded of the charge.
    let table = [
        (
            "pm_card_pendingRefund",
            "pending",
            true,
            true,
            "succeeded",
            1000,
        ),
        ("pm_card_pendingRefund", "pending", false, true, "failed", 0),
        ("pm_card_refundFail", "succeeded", false, true, "failed", 0),
        (
            "pm_card_refundFail",
            "succeeded",
            true,
            false,
            "succeeded",
            1000,
        ),
    ];
    for (card, first, success, given, last, refunded) in table {
        let mock = MockStripe::new();
        let body = format!("amount=1000&currency=usd&payment_method={card}&confirm=true");
        let (_, intent) = post(&mock, "/v1/payment_intents", &body).await;
        let body = format!("payment_intent={}", intent["id"].as_str().unwrap());
        let (_, refund) = post(&mock, "/v1/refunds", &body).await;
        let id = refund["id"].as_str().unwrap();
        assert_eq!(refund["status"], first, "{card}");

        assert_eq!(
            mock.settle_processing(id, success),
            given,
            "{card} {success}"
        );
        let (_, refund) = get(&mock, &format!("/v1/refunds/{id}?expand[]=charge")).await;
        assert_eq!(
            (&refund["status"], &refund["charge"]["amount_refunded"]),
            (&last.into(), &refunded.into()),
            "{card} {success}"
        );
        let failed = event_types(&mock)
            .await
            .contains(&"refund.failed".to_owned());
        assert_eq!(failed, last == "failed", "{card} {success}");
        // A verdict is final.
        assert!(!mock.settle_processing(id, true), "{card} {success}");
    }
}

async fn token(mock: &MockStripe, token: &str) -> (u16, Value) {
    post(
        mock,
        "/v1/payment_methods",
        &format!("type=card&card[token]={token}&metadata[a]=b"),
    )
    .await
}

#[tokio::test]
async fn a_card_from_a_token_pays_once_unless_it_is_attached() {
    let mock = MockStripe::new();
    let (_, method) = token(&mock, "tok_visa").await;
    let id = method["id"].as_str().unwrap();
    assert_eq!(
        (&method["customer"], &method["metadata"]["a"]),
        (&Value::Null, &"b".into())
    );
    let pay = format!("amount=1000&currency=usd&payment_method={id}&confirm=true");
    assert_eq!(
        post(&mock, "/v1/payment_intents", &pay).await.1["status"],
        "succeeded"
    );
    assert_eq!(post(&mock, "/v1/payment_intents", &pay).await.0, 400);

    let (_, method) = token(&mock, "tok_visa").await;
    let id = method["id"].as_str().unwrap();
    let (_, attached) = post(
        &mock,
        &format!("/v1/payment_methods/{id}/attach"),
        "customer=cus_1",
    )
    .await;
    assert_eq!(
        (&attached["id"], &attached["customer"]),
        (&method["id"], &"cus_1".into())
    );
    let pay = format!("amount=1000&currency=usd&customer=cus_1&payment_method={id}&confirm=true");
    for _ in 0..2 {
        assert_eq!(
            post(&mock, "/v1/payment_intents", &pay).await.1["status"],
            "succeeded"
        );
    }
}

#[tokio::test]
async fn cards_come_from_known_tokens_only() {
    let mock = MockStripe::new();
    assert_eq!(token(&mock, "tok_nothing").await.0, 400);
    assert_eq!(token(&mock, "pm_card_visa").await.0, 400);
    let raw = "type=card&card[number]=4242424242424242&card[exp_month]=1&card[exp_year]=2034";
    let (status, refusal) = post(&mock, "/v1/payment_methods", raw).await;
    assert_eq!(
        (status, refusal["error"]["type"].as_str()),
        (402, Some("invalid_request_error"))
    );
    let (_, declining) = token(&mock, "tok_visa_chargeDeclined").await;
    let path = format!(
        "/v1/payment_methods/{}/attach",
        declining["id"].as_str().unwrap()
    );
    assert_eq!(
        post(&mock, &path, "customer=cus_1").await.1["error"]["code"],
        "card_declined"
    );
}
