//! Lists, paging and events.

use std::time::Duration;

use serde_json::Value;

use super::super::MockStripe;
use super::{charge, get, json, post};

fn ids(list: &Value) -> Vec<String> {
    list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Five PaymentIntents, an hour apart; oldest first.
async fn five(mock: &MockStripe) -> Vec<Value> {
    let mut intents = Vec::new();
    for number in 0..5 {
        let body = format!("amount=100&currency=usd&customer=cus_{}", number % 2);
        intents.push(post(mock, "/v1/payment_intents", &body).await.1);
        mock.advance_clock(Duration::from_secs(3600));
    }
    intents
}

#[tokio::test]
async fn pages_follow_each_other_newest_first_without_gap_or_repeat() {
    let mock = MockStripe::new();
    let mut made: Vec<String> = five(&mock)
        .await
        .iter()
        .map(|intent| intent["id"].as_str().unwrap().into())
        .collect();
    made.reverse();
    let (mut seen, mut cursor, mut more) = (Vec::new(), String::new(), Vec::new());
    for _ in 0..3 {
        let (status, page) = get(&mock, &format!("/v1/payment_intents?limit=2{cursor}")).await;
        assert_eq!(status, 200);
        seen.extend(ids(&page));
        more.push(page["has_more"] == true);
        cursor = format!("&starting_after={}", seen.last().unwrap());
    }
    assert_eq!((seen, more), (made.clone(), vec![true, true, false]));

    let (_, before) = get(
        &mock,
        &format!("/v1/payment_intents?limit=2&ending_before={}", made[3]),
    )
    .await;
    assert_eq!(
        (ids(&before), &before["has_more"]),
        (made[1..3].to_vec(), &true.into())
    );
}

#[tokio::test]
async fn lists_filter_by_customer_and_time() {
    let mock = MockStripe::new();
    let intents = five(&mock).await;
    let third = intents[2]["created"].as_i64().unwrap();
    let table = [
        ("customer=cus_0".to_owned(), 3),
        ("customer=cus_7".to_owned(), 0),
        (format!("created[gte]={third}"), 3),
        (format!("created%5Bgt%5D={third}"), 2),
        (format!("created[lt]={third}"), 2),
        (format!("created[lte]={third}&customer=cus_1"), 1),
        (format!("created={third}"), 1),
    ];
    for (query, count) in table {
        let (_, list) = get(&mock, &format!("/v1/payment_intents?{query}")).await;
        assert_eq!(ids(&list).len(), count, "{query}");
    }
}

#[tokio::test]
async fn bad_list_parameters_are_refused() {
    let mock = MockStripe::new();
    for query in [
        "limit=0",
        "limit=101",
        "limit=x",
        "starting_after=pi_nothing",
        "status=succeeded",
    ] {
        assert_eq!(
            get(&mock, &format!("/v1/payment_intents?{query}")).await.0,
            400,
            "{query}"
        );
    }
    for count in [10, 12] {
        for _ in 0..12 {
            post(&mock, "/v1/payment_intents", "amount=100&currency=usd").await;
        }
        let query = if count == 10 { "" } else { "?limit=12" };
        assert_eq!(
            ids(&get(&mock, &format!("/v1/payment_intents{query}")).await.1).len(),
            count
        );
    }
}

#[tokio::test]
async fn events_tell_the_story_with_the_key_that_caused_them() {
    let mock = MockStripe::new();
    let (_, intent) = json(&mock, charge("k")).await;
    post(
        &mock,
        "/v1/refunds",
        &format!("payment_intent={}", intent["id"].as_str().unwrap()),
    )
    .await;
    let (_, list) = get(&mock, "/v1/events").await;
    let events = list["data"].as_array().unwrap();
    let kinds: Vec<_> = events
        .iter()
        .rev()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let told = [
        "payment_intent.created",
        "charge.succeeded",
        "payment_intent.succeeded",
        "refund.created",
        "charge.refunded",
    ];
    assert_eq!(kinds, told);
    let succeeded = &events[2];
    assert_eq!(succeeded["data"]["object"], intent);
    assert_eq!(succeeded["request"]["idempotency_key"], "k");
    assert_eq!(succeeded["request"]["id"], *mock.requests()[0].request_id);
    let (_, one) = get(
        &mock,
        &format!("/v1/events/{}", succeeded["id"].as_str().unwrap()),
    )
    .await;
    assert_eq!(one, *succeeded);
    let (_, filtered) = get(
        &mock,
        "/v1/events?types[]=charge.refunded&types[]=refund.created",
    )
    .await;
    assert_eq!(ids(&filtered).len(), 2);
}
