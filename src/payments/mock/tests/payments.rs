//! PaymentIntents and legacy charges: each test card, and the one success of a PaymentIntent.

use serde_json::Value;

use super::super::{MockRequest, MockStripe};
use super::{answer, charge, charge_body, get, json, paid, post};

/// Payment method, `code`, `decline_code`, `advice_code`.
const DECLINES: &[(&str, &str, Option<&str>, Option<&str>)] = &[
    (
        "pm_card_visa_chargeDeclined",
        "card_declined",
        Some("generic_decline"),
        Some("try_again_later"),
    ),
    (
        "pm_card_visa_chargeDeclinedInsufficientFunds",
        "card_declined",
        Some("insufficient_funds"),
        Some("try_again_later"),
    ),
    (
        "pm_card_visa_chargeDeclinedLostCard",
        "card_declined",
        Some("lost_card"),
        Some("do_not_try_again"),
    ),
    (
        "pm_card_visa_chargeDeclinedStolenCard",
        "card_declined",
        Some("stolen_card"),
        Some("do_not_try_again"),
    ),
    (
        "pm_card_chargeDeclinedExpiredCard",
        "expired_card",
        None,
        Some("confirm_card_data"),
    ),
    (
        "pm_card_chargeDeclinedIncorrectCvc",
        "incorrect_cvc",
        None,
        Some("confirm_card_data"),
    ),
    (
        "pm_card_chargeDeclinedProcessingError",
        "processing_error",
        None,
        Some("try_again_later"),
    ),
    (
        "pm_card_chargeDeclinedFraudulent",
        "card_declined",
        Some("fraudulent"),
        None,
    ),
    (
        "pm_card_visa_chargeDeclinedVelocityLimitExceeded",
        "card_declined",
        Some("card_velocity_exceeded"),
        Some("try_again_later"),
    ),
    (
        "pm_card_chargeCustomerFail",
        "card_declined",
        Some("generic_decline"),
        Some("try_again_later"),
    ),
    (
        "pm_card_radarBlock",
        "card_declined",
        Some("fraudulent"),
        None,
    ),
    (
        "pm_card_riskLevelHighest",
        "card_declined",
        Some("fraudulent"),
        None,
    ),
    (
        "pm_card_authenticationRequired",
        "authentication_required",
        Some("authentication_required"),
        None,
    ),
    (
        "pm_card_authenticationRequiredOnSetup",
        "authentication_required",
        Some("authentication_required"),
        None,
    ),
];

#[tokio::test]
async fn each_refusing_card_gives_its_402_and_leaves_the_intent_open() {
    for (method, code, decline_code, advice_code) in DECLINES {
        let mock = MockStripe::new();
        let (status, body) =
            post(&mock, "/v1/payment_intents", &charge_body("inv_1", method)).await;
        let error = &body["error"];
        assert_eq!(
            (status, &error["type"]),
            (402, &"card_error".into()),
            "{method}"
        );
        assert_eq!(error["code"], *code, "{method}");
        assert_eq!(
            (
                error["decline_code"].as_str(),
                error["advice_code"].as_str()
            ),
            (*decline_code, *advice_code)
        );

        let intent = &error["payment_intent"];
        let (_, stored) = get(
            &mock,
            &format!("/v1/payment_intents/{}", text(&intent["id"])),
        )
        .await;
        assert_eq!(*intent, stored, "{method}");
        assert_eq!(stored["status"], "requires_payment_method", "{method}");
        assert_eq!(stored["last_payment_error"]["code"], *code, "{method}");
        let (_, failed) = get(&mock, &format!("/v1/charges/{}", text(&error["charge"]))).await;
        assert_eq!(
            (&failed["status"], &failed["paid"]),
            (&"failed".into(), &false.into()),
            "{method}"
        );
        assert_eq!(stored["latest_charge"], failed["id"], "{method}");
        assert_eq!(paid(&mock), 0, "{method}");
    }
}

#[tokio::test]
async fn each_good_card_is_charged() {
    for method in [
        "pm_card_visa",
        "pm_card_mastercard",
        "pm_card_amex",
        "pm_card_authenticationRequiredSetupForOffSession",
        "pm_card_createDispute",
        "pm_card_pendingRefund",
        "pm_card_refundFail",
    ] {
        let mock = MockStripe::new();
        let body = charge_body("inv_1", method) + "&expand[]=latest_charge";
        let (status, intent) = post(&mock, "/v1/payment_intents", &body).await;
        assert_eq!(
            (status, &intent["status"], &intent["amount_received"]),
            (200, &"succeeded".into(), &1000.into())
        );
        assert_eq!(
            intent["latest_charge"]["outcome"]["type"], "authorized",
            "{method}"
        );
        assert_eq!(paid(&mock), 1, "{method}");
    }
}

#[tokio::test]
async fn authentication_depends_on_the_terms() {
    let table = [
        ("", 200, "requires_action"),
        ("&off_session=true", 402, "authentication_required"),
        (
            "&error_on_requires_action=true",
            402,
            "authentication_not_handled",
        ),
    ];
    for (terms, status, word) in table {
        let mock = MockStripe::new();
        let body =
            "amount=100&currency=usd&confirm=true&payment_method=pm_card_authenticationRequired";
        let (got, answer) = post(&mock, "/v1/payment_intents", &format!("{body}{terms}")).await;
        let told = if status == 200 {
            &answer["status"]
        } else {
            &answer["error"]["decline_code"]
        };
        assert_eq!((got, told), (status, &word.into()), "{terms}");
    }
}

#[tokio::test]
async fn an_intent_is_paid_once_whatever_keys_confirm_it() {
    let mock = MockStripe::new();
    let declined = charge_body("inv_1", "pm_card_visa_chargeDeclined");
    let (_, body) = json(
        &mock,
        MockRequest::post("/v1/payment_intents", "k1", &declined),
    )
    .await;
    let path = format!(
        "/v1/payment_intents/{}/confirm",
        text(&body["error"]["payment_intent"]["id"])
    );

    let (status, refusal) = post(&mock, &path, "").await;
    assert_eq!(
        (status, &refusal["error"]["code"]),
        (400, &"payment_intent_unexpected_state".into())
    );
    let confirm =
        |key: &str| MockRequest::post(&path, key, "payment_method=pm_card_visa&off_session=true");
    assert_eq!(json(&mock, confirm("k2")).await.1["status"], "succeeded");
    for key in ["k3", "k4"] {
        let (status, refusal) = json(&mock, confirm(key)).await;
        let error = &refusal["error"];
        assert_eq!(
            (status, &error["code"]),
            (400, &"payment_intent_unexpected_state".into())
        );
        assert_eq!(error["payment_intent"]["status"], "succeeded");
    }
    let ledger = mock.ledger();
    assert_eq!(ledger.payments.len(), 1);
    assert_eq!(ledger.payments[0].idempotency_key.as_deref(), Some("k2"));
    let (_, charges) = get(&mock, "/v1/charges").await;
    let statuses: Vec<_> = elements(&charges)
        .iter()
        .map(|charge| text(&charge["status"]))
        .collect();
    assert_eq!(statuses, ["succeeded", "failed"]);
}

#[tokio::test]
async fn a_canceled_intent_is_never_paid_and_a_paid_one_never_canceled() {
    let mock = MockStripe::new();
    let (_, open) = post(
        &mock,
        "/v1/payment_intents",
        "amount=100&currency=usd&payment_method=pm_card_visa",
    )
    .await;
    assert_eq!(open["status"], "requires_confirmation");
    let path = format!("/v1/payment_intents/{}", text(&open["id"]));
    let (_, canceled) = post(
        &mock,
        &format!("{path}/cancel"),
        "cancellation_reason=abandoned",
    )
    .await;
    assert_eq!(
        (&canceled["status"], &canceled["cancellation_reason"]),
        (&"canceled".into(), &"abandoned".into())
    );
    assert_eq!(post(&mock, &format!("{path}/confirm"), "").await.0, 400);

    let (_, succeeded) = json(&mock, charge("k")).await;
    let (status, refusal) = post(
        &mock,
        &format!("/v1/payment_intents/{}/cancel", text(&succeeded["id"])),
        "",
    )
    .await;
    assert_eq!(
        (status, &refusal["error"]["code"]),
        (400, &"payment_intent_unexpected_state".into())
    );
    assert_eq!(paid(&mock), 1);
}

#[tokio::test]
async fn bad_parameters_are_named() {
    let table = [
        ("currency=usd", "parameter_missing", "amount"),
        ("amount=100", "parameter_missing", "currency"),
        (
            "amount=1.5&currency=usd",
            "parameter_invalid_integer",
            "amount",
        ),
        (
            "amount=0&currency=usd",
            "parameter_invalid_integer",
            "amount",
        ),
        ("amount=49&currency=usd", "amount_too_small", "amount"),
        (
            "amount=100000000&currency=usd",
            "amount_too_large",
            "amount",
        ),
        (
            "amount=100&currency=usd&confirm=true&customer=cus_1",
            "parameter_missing",
            "payment_method",
        ),
        (
            "amount=100&currency=usd&payment_method=pm_nothing",
            "resource_missing",
            "payment_method",
        ),
        (
            "amount=100&currency=usd&customer=cus_missing_1",
            "resource_missing",
            "customer",
        ),
        (
            "amount=100&currency=usd&customer=acct_1",
            "resource_missing",
            "customer",
        ),
        (
            "amount=100&currency=usd&colour=red",
            "parameter_unknown",
            "colour",
        ),
    ];
    let mock = MockStripe::new();
    for (body, code, param) in table {
        let (status, refusal) = post(&mock, "/v1/payment_intents", body).await;
        let error = &refusal["error"];
        assert_eq!(
            (status, text(&error["code"]), text(&error["param"])),
            (400, code, param),
            "{body}"
        );
    }
    assert_eq!(mock.ledger().payments, []);
}

#[tokio::test]
async fn a_json_body_is_refused() {
    let mock = MockStripe::new();
    let mut request = charge("k");
    request
        .headers
        .push(("content-type".into(), "application/json".into()));
    assert_eq!(answer(&mock, request).await.status, 400);
}

#[tokio::test]
async fn legacy_charges_take_tokens_and_persist_their_declines() {
    let table = [
        ("source=tok_visa", 200, "succeeded"),
        ("source=tok_visa_chargeDeclinedStolenCard", 402, "failed"),
        ("source=pm_card_visa", 200, "succeeded"),
        ("source=tok_nothing", 400, ""),
        ("customer=cus_1", 402, ""),
    ];
    for (source, status, state) in table {
        let mock = MockStripe::new();
        let body = format!("amount=1000&currency=usd&metadata[invoice_id]=inv_1&{source}");
        assert_eq!(
            post(&mock, "/v1/charges", &body).await.0,
            status,
            "{source}"
        );
        let ledger = mock.ledger();
        assert_eq!(
            ledger
                .payments
                .first()
                .map_or("", |payment| payment.status.as_str()),
            state,
            "{source}"
        );
        assert_eq!(paid(&mock), usize::from(state == "succeeded"), "{source}");
    }
}

#[tokio::test]
async fn metadata_can_be_updated_and_clears_the_last_error() {
    let mock = MockStripe::new();
    let body = charge_body("inv_1", "pm_card_visa_chargeDeclined");
    let (_, refusal) = post(&mock, "/v1/payment_intents", &body).await;
    let path = format!(
        "/v1/payment_intents/{}",
        text(&refusal["error"]["payment_intent"]["id"])
    );
    let (_, intent) = post(&mock, &path, "metadata[a]=b").await;
    assert_eq!(
        (&intent["metadata"]["a"], &intent["metadata"]["invoice_id"]),
        (&"b".into(), &"inv_1".into())
    );
    assert_eq!(intent["last_payment_error"], Value::Null);
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("not a string: {value}"))
}

fn elements(list: &Value) -> &[Value] {
    list["data"].as_array().unwrap()
}
