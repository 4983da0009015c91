//! The `Idempotency-Key` header on creating invoices: one key, one invoice, one answer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{Reply, TestApp};

fn content() -> Value {
    json!({"customerId": "cus_1", "amountCents": 1250, "currency": "usd"})
}

fn other_content() -> Value {
    json!({"customerId": "cus_1", "amountCents": 1251, "currency": "usd"})
}

async fn create(app: &TestApp, key: &str, body: &Value) -> Reply {
    app.post_with("/v1/invoices", body, &[("Idempotency-Key", key)])
        .await
}

async fn invoices(app: &TestApp) -> i64 {
    app.database
        .number("SELECT COUNT(*) AS value FROM invoices")
        .await
}

/// Puts a key there whose first request has not finished, with a lease of a minute, as a request leaves it that runs or
/// died before it acted. The row is that of a real one with the same content.
async fn reserved_by_another(app: &TestApp, key: &str, body: &Value) {
    create(app, "probe", body).await;
    let row = |column: &str| {
        format!("SELECT {column} AS value FROM idempotency_keys WHERE key LIKE '%:probe'")
    };
    let probe = app.database.words(&row("key")).await.remove(0);
    let fingerprint = app.database.words(&row("fingerprint")).await.remove(0);
    let row_key = probe.replace(":probe", &format!(":{key}"));
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let insert = format!(
        "INSERT INTO idempotency_keys (key, operation, status, attempt, fingerprint, lease_token, lease_expires_at_ms, recovery, \
         first_sent_at_ms, last_sent_at_ms, takeovers, created_at_ms, updated_at_ms) VALUES ('{row_key}', 'create_invoice', 'in_progress', 1, \
         '{fingerprint}', 'another', {}, 'resend', {now_ms}, {now_ms}, 0, {now_ms}, {now_ms})",
        now_ms + 60_000
    );
    app.database.execute(&insert).await;
}

on_both_stores! {
    async fn a_repeated_key_gives_the_first_answer_byte_for_byte(engine) {
        let app = TestApp::start(engine).await;
        let first = create(&app, "task-7/step-3", &content()).await;
        assert_eq!(first.status, 201);
        assert!(!first.is_replay());
        let location = first.header("location").unwrap().to_owned();
        let again = |reply: Reply| {
            assert_eq!((reply.status, &reply.body, reply.header("location")), (201, &first.body, Some(location.as_str())));
            assert!(reply.is_replay(), "{reply:#?}");
        };

        again(create(&app, "task-7/step-3", &content()).await);
        again(create(&app, "\"task-7/step-3\"", &content()).await);
        again(create(&app, "  task-7/step-3  ", &content()).await);
        for name in ["idempotency-key", "IDEMPOTENCY-KEY", "IdEmPoTeNcY-kEy"] {
            // Over a raw connection, as a client library may change the case.
            let request = crate::support::RawRequest::json("POST", "/v1/invoices", content().to_string()).header(name, "task-7/step-3");
            again(app.raw(&request).await);
        }
        let spelled = json!({"currency": "USD", "amountCents": 1250, "customerId": "cus_1", "description": null, "metadata": {}});
        again(create(&app, "task-7/step-3", &spelled).await);
        let charge = app.charge(&first.text("id")).await;
        again(create(&app, "task-7/step-3", &content()).await);
        app.age(Duration::from_secs(400 * 86_400)).await;
        again(create(&app, "task-7/step-3", &content()).await);

        assert_eq!(invoices(&app).await, 1);
        app.check_oracles(&[charge]).await;
    }

    async fn keys_differ_by_every_character(engine) {
        let app = TestApp::start(engine).await;
        for key in ["k", "K", "k ", "kk", "k%20", "k:k", "'k'", "\"k k\"", "header:anonymous:create_invoice:k"] {
            create(&app, key, &content()).await;
        }
        // White space around a bare key is not part of it: `k ` is `k`.
        assert_eq!(invoices(&app).await, 8);
        app.check_oracles(&[]).await;
    }

    async fn a_key_with_other_content_is_refused_before_while_and_after_the_first_runs(engine) {
        let app = TestApp::start(engine).await;
        create(&app, "k", &content()).await;
        for _ in 0..2 {
            let reused = create(&app, "k", &other_content()).await;
            reused.assert(422, "idempotency_key_reused", "no", "after_change");
            assert_eq!(reused.text("field"), "Idempotency-Key");
        }
        reserved_by_another(&app, "running", &content()).await;
        create(&app, "running", &other_content()).await.assert(422, "idempotency_key_reused", "no", "after_change");
        app.age(Duration::from_secs(61)).await;
        create(&app, "running", &other_content()).await.assert(422, "idempotency_key_reused", "no", "after_change");

        assert_eq!(invoices(&app).await, 2);
        app.check_oracles(&[]).await;
    }

    async fn a_key_in_use_says_when_to_come_again(engine) {
        let app = TestApp::start(engine).await;
        reserved_by_another(&app, "running", &content()).await;
        for _ in 0..3 {
            let busy = create(&app, "running", &content()).await;
            busy.assert(409, "idempotency_key_in_use", "no", "later");
            assert_eq!(busy.header("retry-after"), Some(busy.text("retryAfterSeconds").as_str()));
            assert_eq!(busy.header("retry-after"), Some("1"));
        }
        assert_eq!(invoices(&app).await, 1);
        app.check_oracles(&[]).await;
    }

    async fn the_key_of_a_request_that_died_before_it_acted_is_taken_over(engine) {
        let app = TestApp::start(engine).await;
        reserved_by_another(&app, "dead", &content()).await;
        app.age(Duration::from_secs(30)).await;
        create(&app, "dead", &content()).await.assert(409, "idempotency_key_in_use", "no", "later");
        app.age(Duration::from_secs(31)).await;

        let body = content();
        let replies = join_all((0..20).map(|_| create(&app, "dead", &body))).await;

        let fresh: Vec<&Reply> = replies.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).collect();
        assert_eq!(fresh.len(), 1);
        for reply in &replies {
            match reply.status {
                201 => assert_eq!(reply.body, fresh[0].body),
                _ => { reply.assert(409, "idempotency_key_in_use", "no", "later"); }
            }
        }
        assert_eq!(create(&app, "dead", &content()).await.body, fresh[0].body);
        assert_eq!(invoices(&app).await, 2, "the probe's and the dead one's");
        app.check_oracles(&[]).await;
    }

    async fn twenty_equal_requests_at_once_are_one_invoice(engine) {
        let app = TestApp::start(engine).await;
        let (body, other) = (content(), other_content());
        for round in 0..5 {
            let key = format!("k{round}");
            let replies = join_all((0..20).map(|_| create(&app, &key, &body))).await;
            let fresh: Vec<&Reply> = replies.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).collect();
            assert_eq!(fresh.len(), 1);
            for reply in &replies {
                match reply.status {
                    201 => assert_eq!(reply.body, fresh[0].body),
                    _ => { reply.assert(409, "idempotency_key_in_use", "no", "later"); }
                }
            }
            let again = create(&app, &key, &body).await;
            assert!(again.is_replay() && again.body == fresh[0].body);
            let mixed_key = format!("mixed{round}");
            let mixed = join_all((0..10).map(|n| create(&app, &mixed_key, if n % 2 == 0 { &body } else { &other }))).await;
            assert!(mixed.iter().all(|reply| [201, 409, 422].contains(&reply.status)), "{mixed:#?}");
        }
        assert_eq!(invoices(&app).await, 10);
        app.check_oracles(&[]).await;
    }

    async fn a_new_key_on_an_invoice_that_exists_repeats_its_answer_or_refuses_and_keeps_that(engine) {
        let app = TestApp::start(engine).await;
        let same = json!({"id": "inv_1", "customerId": "cus_1", "amountCents": 1250, "currency": "usd"});
        let other = json!({"id": "inv_1", "customerId": "cus_1", "amountCents": 1251, "currency": "usd"});
        let first = create(&app, "first", &same).await;
        assert_eq!(first.status, 201);

        let second = create(&app, "second", &same).await;
        assert_eq!((second.status, &second.body), (201, &first.body));
        assert!(second.is_replay(), "the invoice was there: this call created nothing: {second:#?}");
        let without = app.post("/v1/invoices", &same).await;
        assert_eq!((without.status, &without.body, without.is_replay()), (201, &first.body, true));
        let refused = create(&app, "third", &other).await;
        refused.assert(409, "invoice_exists", "no", "after_change");
        let again = create(&app, "third", &other).await;
        assert_eq!((again.status, &again.body, again.is_replay()), (409, &refused.body, true));
        assert_eq!(again.header("content-type"), Some("application/problem+json"));
        create(&app, "third", &same).await.assert(422, "idempotency_key_reused", "no", "after_change");

        assert_eq!(invoices(&app).await, 1);
        app.check_oracles(&[]).await;
    }

    async fn a_key_on_a_charge_is_another_key_and_never_decides(engine) {
        let app = TestApp::start(engine).await;
        create(&app, "k", &json!({"id": "inv_1", "customerId": "cus_1", "amountCents": 1250, "currency": "usd"})).await;
        app.invoice("inv_2").await;

        let charge = |id: &'static str, key: &'static str| {
            let app = &app;
            async move { app.post_with("/v1/charges", &json!({"invoiceId": id}), &[("Idempotency-Key", key)]).await }
        };
        let first = charge("inv_1", "k").await;
        first.assert(201, "", "yes", "not_needed");
        let other_key = charge("inv_1", "another").await;
        assert_eq!((&other_key.body, other_key.is_replay()), (&first.body, true));
        let other_invoice = charge("inv_2", "k").await;
        other_invoice.assert(201, "", "yes", "not_needed");
        assert_eq!(other_invoice.text("invoiceId"), "inv_2");

        assert_eq!(app.sends(), ["charge:inv_1", "charge:inv_2"]);
        app.check_oracles(&[first, other_key, other_invoice]).await;
    }

    async fn a_bad_request_does_not_use_its_key_up(engine) {
        let app = TestApp::start(engine).await;
        let bad = json!({"customerId": "cus_1", "amountCents": 0, "currency": "usd"});
        create(&app, "k", &bad).await.assert(422, "invalid_request", "no", "after_change");
        let good = create(&app, "k", &content()).await;
        assert_eq!((good.status, good.is_replay()), (201, false));
        app.check_oracles(&[]).await;
    }
}
