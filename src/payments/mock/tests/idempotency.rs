//! The idempotency layer as a caller meets it.

use std::time::Duration;

use super::super::{MockRequest, MockStripe};
use super::{answer, charge, charge_body, json, paid};

#[tokio::test]
async fn a_replay_is_the_first_answer_byte_for_byte_and_says_so() {
    let mock = MockStripe::new();
    let first = answer(&mock, charge("k")).await;
    let again = answer(&mock, charge("k")).await;
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    assert_eq!(
        (
            first.header("Idempotent-Replayed"),
            again.header("Idempotent-Replayed")
        ),
        (None, Some("true"))
    );
    assert_eq!(
        (
            first.header("Idempotency-Key"),
            again.header("idempotency-key")
        ),
        (Some("k"), Some("k"))
    );
    assert_eq!(first.header("Original-Request"), first.header("Request-Id"));
    assert_eq!(again.header("Original-Request"), first.header("Request-Id"));
    assert_ne!(again.header("Request-Id"), first.header("Request-Id"));
    assert_eq!(paid(&mock), 1);
}

#[tokio::test]
async fn declines_are_stored_and_replayed() {
    let mock = MockStripe::new();
    let declined = || {
        let body = charge_body("inv_1", "pm_card_visa_chargeDeclined");
        MockRequest::post("/v1/payment_intents", "k", &body)
    };
    let first = answer(&mock, declined()).await;
    let again = answer(&mock, declined()).await;
    assert_eq!((first.status, again.status), (402, 402));
    assert_eq!(
        (&first.body, again.header("Idempotent-Replayed")),
        (&again.body, Some("true"))
    );
    assert_eq!(mock.ledger().payments.len(), 1);
}

#[tokio::test]
async fn what_is_refused_before_it_begins_is_not_stored() {
    // The first send fails; the corrected one goes through with the same key.
    let mut without_key = charge("k");
    without_key
        .headers
        .retain(|(name, _)| name != "Authorization");
    let table = [
        (
            "unknown parameter",
            MockRequest::post("/v1/payment_intents", "k", "amount=100&currency=usd&x=1"),
            400,
        ),
        (
            "missing parameter",
            MockRequest::post("/v1/payment_intents", "k", "amount=100"),
            400,
        ),
        (
            "amount too small",
            MockRequest::post("/v1/payment_intents", "k", "amount=49&currency=usd"),
            400,
        ),
        (
            "no such path",
            MockRequest::post("/v1/nothing", "k", ""),
            404,
        ),
        (
            "trailing slash",
            MockRequest::post("/v1/payment_intents/", "k", ""),
            404,
        ),
        ("no API key", without_key, 401),
    ];
    for (name, refused, status) in table {
        let mock = MockStripe::new();
        assert_eq!(answer(&mock, refused).await.status, status, "{name}");
        assert_eq!(
            (answer(&mock, charge("k")).await.status, paid(&mock)),
            (200, 1),
            "{name}"
        );
    }
}

#[tokio::test]
async fn an_error_from_within_the_execution_is_stored() {
    let mock = MockStripe::new();
    let request = || {
        MockRequest::post(
            "/v1/payment_intents",
            "k",
            "amount=100&currency=usd&customer=cus_missing_1",
        )
    };
    assert_eq!(json(&mock, request()).await.1["error"]["param"], "customer");
    mock.ensure_customer("cus_missing_1", None);
    let again = answer(&mock, request()).await;
    assert_eq!(
        (again.status, again.header("Idempotent-Replayed")),
        (400, Some("true"))
    );
    let mut renewed = request();
    renewed
        .headers
        .retain(|(name, _)| name != "Idempotency-Key");
    assert_eq!(answer(&mock, renewed).await.status, 200);
}

#[tokio::test]
async fn a_key_serves_one_endpoint_and_one_body() {
    let mock = MockStripe::new();
    answer(&mock, charge("k")).await;
    let body = charge_body("inv_1", "pm_card_visa");
    for request in [
        MockRequest::post("/v1/payment_intents", "k", &format!("{body}&description=x")),
        MockRequest::post("/v1/charges", "k", &body),
    ] {
        let (status, refusal) = json(&mock, request).await;
        let error = &refusal["error"];
        assert_eq!((status, &error["type"]), (400, &"idempotency_error".into()));
        assert!(error.get("code").is_none() && error.get("param").is_none());
    }
    assert_eq!(mock.ledger().payments.len(), 1);
}

#[tokio::test]
async fn a_key_in_flight_is_a_conflict() {
    let mock = MockStripe::new();
    mock.set_latency(Duration::from_millis(10));
    let (_, (status, refusal)) = tokio::join!(mock.handle(charge("k")), json(&mock, charge("k")));
    assert_eq!(status, 409);
    assert_eq!(refusal["error"]["code"], "idempotency_key_in_use");
    assert_eq!(refusal["error"]["type"], "invalid_request_error");
}

#[tokio::test]
async fn a_key_is_forgotten_after_24_hours_and_the_resend_charges_again() {
    let mock = MockStripe::new();
    answer(&mock, charge("k")).await;
    mock.advance_clock(Duration::from_secs(24 * 3600 - 5));
    assert_eq!(
        answer(&mock, charge("k"))
            .await
            .header("Idempotent-Replayed"),
        Some("true")
    );
    assert_eq!(paid(&mock), 1);
    mock.advance_clock(Duration::from_secs(5));
    assert_eq!(
        answer(&mock, charge("k"))
            .await
            .header("Idempotent-Replayed"),
        None
    );
    assert_eq!(paid(&mock), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_posts_with_one_key_execute_once() {
    for latency_ms in [0, 10] {
        let mock = MockStripe::new();
        mock.set_latency(Duration::from_millis(latency_ms));
        let calls = (0..50).map(|_| {
            let mock = mock.clone();
            tokio::spawn(async move { answer(&mock, charge("k")).await })
        });
        let mut fresh = 0;
        for call in calls.collect::<Vec<_>>() {
            let answer = call.await.unwrap();
            assert!([200, 409].contains(&answer.status));
            fresh +=
                usize::from(answer.status == 200 && answer.header("Idempotent-Replayed").is_none());
        }
        assert_eq!(
            (fresh, paid(&mock), mock.ledger().requests),
            (1, 1, 50),
            "latency of {latency_ms} ms"
        );
    }
}

#[tokio::test]
async fn keys_have_at_most_255_characters_and_count_on_post_only() {
    let mock = MockStripe::new();
    assert_eq!(answer(&mock, charge(&"k".repeat(256))).await.status, 400);
    assert_eq!(answer(&mock, charge(&"k".repeat(255))).await.status, 200);
    let mut read = MockRequest::get("/v1/payment_intents?limit=1");
    read.headers
        .push(("Idempotency-Key".into(), "k".repeat(255)));
    assert_eq!(answer(&mock, read).await.header("Idempotency-Key"), None);
}

#[tokio::test]
async fn without_a_key_every_post_is_a_payment() {
    let mock = MockStripe::new();
    for _ in 0..2 {
        super::post(
            &mock,
            "/v1/payment_intents",
            &charge_body("inv_1", "pm_card_visa"),
        )
        .await;
    }
    assert_eq!(paid(&mock), 2);
}

#[tokio::test]
async fn api_keys_come_as_bearer_or_basic() {
    // `c2tfdGVzdF8xOg==` is `sk_test_1:`.
    let table = [
        ("Bearer sk_test_1", 200),
        ("bearer rk_test_1", 200),
        ("Basic c2tfdGVzdF8xOg==", 200),
        ("Bearer pk_test_1", 401),
        ("Bearer ", 401),
        ("Basic !!", 401),
        ("sk_test_1", 401),
    ];
    let mock = MockStripe::new();
    for (header, status) in table {
        let mut request = MockRequest::get("/v1/customers");
        request.headers = vec![
            ("AUTHORIZATION".into(), header.into()),
            ("stripe-version".into(), "v".into()),
        ];
        let answer = answer(&mock, request).await;
        assert_eq!(
            (answer.status, answer.header("Stripe-Version")),
            (status, Some("v")),
            "{header}"
        );
    }
}

#[tokio::test]
async fn a_recording_keeps_the_body_and_prints_no_credentials() {
    let mock = MockStripe::new();
    answer(&mock, charge("k")).await;
    answer(&mock, charge("k")).await;
    let requests = mock.requests();
    assert_eq!(requests[0].body, charge("k").body);
    assert_eq!([requests[0].replayed, requests[1].replayed], [false, true]);
    assert_eq!(requests[1].idempotency_key.as_deref(), Some("k"));
    let printed = serde_json::to_string(&requests).unwrap();
    assert!(printed.contains("[redacted]") && !printed.contains("sk_test"));
}
