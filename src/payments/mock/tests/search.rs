//! Search: what a query means, and that it lags behind.

use std::time::Duration;

use serde_json::Value;

use super::super::MockStripe;
use super::{get, post};

fn numbers(found: &Value) -> Vec<&str> {
    let rows = found["data"].as_array().unwrap().iter();
    rows.map(|row| row["metadata"]["n"].as_str().unwrap())
        .collect()
}

/// Four PaymentIntents; two are paid.
async fn four() -> MockStripe {
    let mock = MockStripe::new();
    for (n, amount, more) in [
        ("1", 100, ""),
        ("2", 200, "&payment_method=pm_card_visa&confirm=true"),
        ("3", 300, "&customer=cus_a"),
        (
            "4",
            400,
            "&customer=cus_a&payment_method=pm_card_visa&confirm=true",
        ),
    ] {
        let body = format!("amount={amount}&currency=usd&metadata[n]={n}{more}");
        assert_eq!(post(&mock, "/v1/payment_intents", &body).await.0, 200);
    }
    mock
}

fn path(query: &str) -> String {
    let encoded: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
    format!("/v1/payment_intents/search?query={encoded}")
}

#[tokio::test]
async fn what_is_younger_than_a_minute_is_not_found() {
    let mock = four().await;
    let all = path("amount>0");
    assert_eq!(numbers(&get(&mock, &all).await.1), [""; 0]);
    mock.advance_clock(Duration::from_secs(58));
    assert_eq!(numbers(&get(&mock, &all).await.1), [""; 0]);
    mock.advance_clock(Duration::from_secs(3));
    assert_eq!(numbers(&get(&mock, &all).await.1), ["4", "3", "2", "1"]);
}

#[tokio::test]
async fn queries_mean_what_stripe_says() {
    let mock = four().await;
    mock.advance_clock(Duration::from_secs(61));
    let table: [(&str, &[&str]); 14] = [
        ("status:'succeeded'", &["4", "2"]),
        ("status:\"succeeded\" AND amount>200", &["4"]),
        ("amount:100 OR amount:400", &["4", "1"]),
        ("amount>=200 AND amount<=300", &["3", "2"]),
        ("amount<200", &["1"]),
        ("-status:'succeeded'", &["3", "1"]),
        ("metadata['n']:'3'", &["3"]),
        ("metadata[\"n\"]:\"3\"", &["3"]),
        ("-metadata['n']:'3' AND customer:'cus_a'", &["4"]),
        ("metadata['other']:'3'", &[]),
        ("currency:'USD' and customer:'cus_a'", &["4", "3"]),
        ("customer~'cus'", &["4", "3"]),
        ("created>0 amount:200", &["2"]),
        ("metadata['n']:'\\'3'", &[]),
    ];
    for (query, expected) in table {
        let (status, found) = get(&mock, &path(query)).await;
        assert_eq!(
            (status, numbers(&found)),
            (200, expected.to_vec()),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_query_that_stripe_refuses_is_refused() {
    let mock = four().await;
    let eleven = ["amount:1"; 11].join(" AND ");
    for query in [
        "amount:1 AND amount:2 OR amount:3",
        "(amount:1)",
        "colour:'red'",
        "amount:many",
        "status>'a'",
        "status:'open",
        "status",
        "metadata[n]:'1'",
        "amount:1 AND",
        &eleven,
    ] {
        let (status, answer) = get(&mock, &path(query)).await;
        assert_eq!(
            (status, answer["error"]["param"].as_str()),
            (400, Some("query")),
            "{query}"
        );
    }
    assert_eq!(get(&mock, "/v1/payment_intents/search").await.0, 400);
    assert_eq!(get(&mock, "/v1/charges/search?query=amount:1").await.0, 404);
}

#[tokio::test]
async fn pages_follow_each_other() {
    let mock = four().await;
    mock.advance_clock(Duration::from_secs(61));
    let first = get(&mock, &format!("{}&limit=3", path("amount>0"))).await.1;
    assert_eq!(
        (numbers(&first), &first["has_more"]),
        (vec!["4", "3", "2"], &true.into())
    );
    let next = first["next_page"].as_str().unwrap();
    let second = get(&mock, &format!("{}&limit=3&page={next}", path("amount>0")))
        .await
        .1;
    assert_eq!(
        (numbers(&second), &second["has_more"]),
        (vec!["1"], &false.into())
    );
    assert!(second["next_page"].is_null());
}
