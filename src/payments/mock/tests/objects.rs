//! Customers, payment methods and refunds.

use serde_json::{Value, json};

use super::super::{Fault, FaultRule, MockRequest, MockStripe};
use super::{charge, get, json as send, post};

#[tokio::test]
async fn any_customer_exists_by_being_named_but_the_missing_ones() {
    let mock = MockStripe::new();
    let (status, customer) = get(&mock, "/v1/customers/cus_any").await;
    assert_eq!((status, &customer["default_source"]), (200, &Value::Null));
    assert_eq!(
        customer["invoice_settings"]["default_payment_method"],
        "pm_card_visa"
    );
    for id in ["cus_missing_1", "acct_1"] {
        let (status, body) = get(&mock, &format!("/v1/customers/{id}")).await;
        assert_eq!(
            (status, &body["error"]["code"]),
            (404, &"resource_missing".into()),
            "{id}"
        );
    }
    mock.ensure_customer("cus_missing_1", None);
    assert_eq!(get(&mock, "/v1/customers/cus_missing_1").await.0, 200);
}

#[tokio::test]
async fn a_deleted_customer_is_a_tombstone_and_cannot_pay() {
    let mock = MockStripe::new();
    let delete = MockRequest::unkeyed("DELETE", "/v1/customers/cus_1", "");
    let tombstone = json!({ "id": "cus_1", "object": "customer", "deleted": true });
    assert_eq!(send(&mock, delete).await, (200, tombstone.clone()));
    assert_eq!(get(&mock, "/v1/customers/cus_1").await, (200, tombstone));
    assert_eq!(
        send(&mock, charge("k")).await.1["error"]["param"],
        "customer"
    );
}

#[tokio::test]
async fn customers_are_created_updated_and_found() {
    let mock = MockStripe::new();
    let (_, made) = post(&mock, "/v1/customers", "email=a@b.c&name=Ann&metadata[x]=1").await;
    assert_eq!(
        made["invoice_settings"]["default_payment_method"],
        Value::Null
    );
    let path = format!("/v1/customers/{}", made["id"].as_str().unwrap());
    let change = "name=&invoice_settings[default_payment_method]=pm_card_mastercard";
    let (_, changed) = post(&mock, &path, change).await;
    assert_eq!(
        (&changed["name"], &changed["email"]),
        (&Value::Null, &"a@b.c".into())
    );
    assert_eq!(
        changed["invoice_settings"]["default_payment_method"],
        "pm_card_mastercard"
    );
    assert_eq!(get(&mock, &path).await.1, changed);
    assert_eq!(
        get(&mock, "/v1/customers?email=a@b.c").await.1["data"],
        json!([changed])
    );
    let refused = post(
        &mock,
        &path,
        "invoice_settings[default_payment_method]=pm_nothing",
    )
    .await;
    assert_eq!(
        (refused.0, &refused.1["error"]["code"]),
        (400, &"resource_missing".into())
    );
}

#[tokio::test]
async fn an_attached_method_is_a_new_one_and_belongs_to_its_customer() {
    let mock = MockStripe::new();
    let attach = |id: &str| format!("/v1/payment_methods/{id}/attach");
    let (status, saved) = post(
        &mock,
        &attach("pm_card_chargeCustomerFail"),
        "customer=cus_1",
    )
    .await;
    let id = saved["id"].as_str().unwrap();
    assert_eq!((status, &saved["customer"]), (200, &"cus_1".into()));
    assert_ne!(id, "pm_card_chargeCustomerFail");

    let pay = |customer: &str| {
        format!(
            "amount=100&currency=usd&confirm=true&off_session=true&payment_method={id}{customer}"
        )
    };
    assert_eq!(
        post(&mock, "/v1/payment_intents", &pay("&customer=cus_1"))
            .await
            .0,
        402
    );
    assert_eq!(
        post(&mock, "/v1/payment_intents", &pay("&customer=cus_2"))
            .await
            .0,
        400
    );
    assert_eq!(post(&mock, "/v1/payment_intents", &pay("")).await.0, 400);
    assert_eq!(
        get(&mock, "/v1/payment_methods?customer=cus_1").await.1["data"],
        json!([saved])
    );

    assert_eq!(
        post(&mock, &format!("/v1/payment_methods/{id}/detach"), "")
            .await
            .1["customer"],
        Value::Null
    );
    assert_eq!(
        post(&mock, "/v1/payment_intents", &pay("&customer=cus_1"))
            .await
            .0,
        400
    );
    assert_eq!(post(&mock, &attach(id), "customer=cus_1").await.0, 400);
}

#[tokio::test]
async fn decline_cards_cannot_be_attached() {
    let mock = MockStripe::new();
    let path = "/v1/payment_methods/pm_card_visa_chargeDeclined/attach";
    let (status, body) = post(&mock, path, "customer=cus_1").await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (402, &"card_declined".into())
    );
    assert_eq!(
        post(
            &mock,
            "/v1/payment_methods/pm_nothing/attach",
            "customer=cus_1"
        )
        .await
        .0,
        404
    );
}

#[tokio::test]
async fn only_the_default_source_stands_in_for_a_payment_method() {
    let mock = MockStripe::new();
    let (_, customer) = post(&mock, "/v1/customers", "source=tok_visa").await;
    let body = |id: &str| format!("amount=100&currency=usd&confirm=true&customer={id}");
    let (status, intent) = post(
        &mock,
        "/v1/payment_intents",
        &body(customer["id"].as_str().unwrap()),
    )
    .await;
    assert_eq!(
        (status, &intent["payment_method"]),
        (200, &customer["default_source"])
    );
    assert_eq!(
        post(&mock, "/v1/payment_intents", &body("cus_1")).await.1["error"]["code"],
        "parameter_missing"
    );
}

#[tokio::test]
async fn refunds_never_exceed_the_charge() {
    let mock = MockStripe::new();
    let id = send(&mock, charge("k")).await.1["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let table = [
        ("&amount=0", 400, "parameter_invalid_integer"),
        ("&amount=1001", 400, ""),
        ("&amount=400&reason=duplicate", 200, ""),
        ("&amount=601", 400, ""),
        ("&reason=boredom", 400, ""),
        ("", 200, ""),
        ("", 400, "charge_already_refunded"),
        ("&amount=1", 400, "charge_already_refunded"),
    ];
    for (rest, status, code) in table {
        let (got, body) = post(&mock, "/v1/refunds", &format!("payment_intent={id}{rest}")).await;
        assert_eq!(
            (got, body["error"]["code"].as_str().unwrap_or_default()),
            (status, code),
            "{rest}"
        );
    }
    let (_, refunds) = get(&mock, &format!("/v1/refunds?payment_intent={id}")).await;
    let amounts: Vec<_> = refunds["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refund| refund["amount"].clone())
        .collect();
    assert_eq!(amounts, [600, 400]);
    let (_, charges) = get(&mock, &format!("/v1/charges?payment_intent={id}")).await;
    let refunded = &charges["data"][0];
    assert_eq!(
        (&refunded["amount_refunded"], &refunded["refunded"]),
        (&1000.into(), &true.into())
    );
}

#[tokio::test]
async fn only_taken_money_is_refunded() {
    let mock = MockStripe::new();
    let held =
        "amount=100&currency=usd&confirm=true&payment_method=pm_card_visa&capture_method=manual";
    let (_, held) = post(&mock, "/v1/payment_intents", held).await;
    assert_eq!(
        (&held["status"], &held["amount_capturable"]),
        (&"requires_capture".into(), &100.into())
    );
    mock.add_fault(FaultRule::once(Fault::Processing));
    let (_, pending) = send(&mock, charge("k")).await;
    let (_, open) = post(&mock, "/v1/payment_intents", "amount=100&currency=usd").await;
    for intent in [held, pending, open] {
        let body = format!("payment_intent={}", intent["id"].as_str().unwrap());
        let (status, refusal) = post(&mock, "/v1/refunds", &body).await;
        assert_eq!(
            (status, refusal["error"].get("code")),
            (400, None),
            "{}",
            intent["status"]
        );
    }
    assert_eq!(
        post(&mock, "/v1/refunds", "charge=ch_nothing").await.1["error"]["code"],
        "resource_missing"
    );
    assert_eq!(
        post(&mock, "/v1/refunds", "").await.1["error"]["code"],
        "parameter_missing"
    );
}
