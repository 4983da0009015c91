//! `Idempotency-Key` headers by API key, and how long they are kept.

use std::time::Duration;

use serde_json::{Value, json};

use crate::access::{ADMIN, with_keys};
use crate::support::{Reply, TestApp};

const SECOND: &str = "secret-of-other-operators";

const DAY: Duration = Duration::from_secs(86_400);

fn content(amount: i64) -> Value {
    json!({"customerId": "cus_1", "amountCents": amount, "currency": "usd"})
}

async fn create(app: &TestApp, secret: &str, key: &str, body: &Value) -> Reply {
    let authorization = format!("Bearer {secret}");
    let headers = [
        ("Idempotency-Key", key),
        ("Authorization", authorization.as_str()),
    ];
    app.post_with("/v1/invoices", body, &headers).await
}

/// The header keys that are there, without what stands before them.
async fn header_keys(app: &TestApp) -> Vec<String> {
    let sql = "SELECT key AS value FROM idempotency_keys WHERE key LIKE 'header:%' ORDER BY key";
    app.database.words(sql).await
}

async fn forgotten(app: &TestApp) -> usize {
    app.parts.reconciler.sweep().await.unwrap().forgotten_keys
}

on_both_stores! {
    async fn two_callers_with_the_same_header_key_do_not_meet_and_a_rotated_secret_is_the_same_caller(engine) {
        let admins = format!("ops={ADMIN},shop={SECOND}");
        let app = with_keys(engine, &[("ADMIN_API_KEYS", &admins)]).await;
        let first = create(&app, ADMIN, "k", &content(1250)).await;
        let other = create(&app, SECOND, "k", &content(99)).await;
        assert_eq!([first.status, other.status], [201, 201]);
        assert!(!other.is_replay() && other.text("id") != first.text("id"), "{other:#?}");
        create(&app, SECOND, "k", &content(1250)).await.assert(422, "idempotency_key_reused", "no", "after_change");

        let rotated = app.replica().set("ADMIN_API_KEYS", "ops=a-new-secret-of-the-operators").start().await;
        let again = create(&rotated, "a-new-secret-of-the-operators", "k", &content(1250)).await;
        assert!(again.is_replay() && again.body == first.body, "{again:#?}");
        app.check_oracles(&[]).await;
    }

    async fn finished_header_keys_are_forgotten_after_a_month_and_nothing_else_is(engine) {
        let app = with_keys(engine, &[]).await;
        app.invoice("inv_1").await;
        let charge = app.charge("inv_1").await;
        let first = create(&app, ADMIN, "old", &content(1250)).await;
        let refused = json!({"id": "inv_1", "customerId": "cus_2", "amountCents": 1, "currency": "kes"});
        create(&app, ADMIN, "refused", &refused).await.assert(409, "invoice_exists", "no", "after_change");
        // One that died before it acted.
        let sql = "INSERT INTO idempotency_keys (key, operation, status, attempt, fingerprint, lease_token, lease_expires_at_ms, recovery, \
            first_sent_at_ms, last_sent_at_ms, takeovers, created_at_ms, updated_at_ms) \
            SELECT 'header:ops:create_invoice:running', operation, 'in_progress', 1, fingerprint, 't', lease_expires_at_ms, recovery, \
            first_sent_at_ms, last_sent_at_ms, 0, created_at_ms, updated_at_ms FROM idempotency_keys WHERE key LIKE '%:old'";
        app.database.execute(sql).await;
        let all = ["header:ops:create_invoice:old", "header:ops:create_invoice:refused", "header:ops:create_invoice:running"];
        let count = "SELECT COUNT(*) AS value FROM idempotency_keys WHERE key NOT LIKE 'header:%'";
        let natural = app.database.number(count).await;

        app.age(29 * DAY).await;
        assert_eq!((forgotten(&app).await, header_keys(&app).await), (0, all.map(str::to_owned).to_vec()));
        assert!(create(&app, ADMIN, "old", &content(1250)).await.is_replay());
        app.age(2 * DAY).await;
        assert_eq!(create(&app, ADMIN, "young", &content(700)).await.status, 201);
        assert_eq!(forgotten(&app).await, 2);
        assert_eq!(header_keys(&app).await, ["header:ops:create_invoice:running", "header:ops:create_invoice:young"]);
        assert_eq!(forgotten(&app).await, 0);

        assert_eq!(app.database.number(count).await, natural, "natural keys are kept for ever");
        let replay = app.charge("inv_1").await;
        assert!(replay.is_replay() && replay.body == charge.body, "{replay:#?}");
        let anew = create(&app, ADMIN, "old", &content(1250)).await;
        assert!(anew.status == 201 && !anew.is_replay() && anew.text("id") != first.text("id"), "{anew:#?}");
        app.check_oracles(&[charge, replay]).await;
    }

    async fn many_old_keys_go_in_batches_and_none_where_they_are_kept_for_ever(engine) {
        let app = with_keys(engine, &[]).await;
        let for_ever = app.replica().set("IDEMPOTENCY_KEY_RETENTION", "0s").start().await;
        create(&app, ADMIN, "0", &content(1250)).await;
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200) \
            INSERT INTO idempotency_keys (key, operation, status, attempt, fingerprint, lease_token, lease_expires_at_ms, recovery, \
            first_sent_at_ms, last_sent_at_ms, takeovers, response_status, response_body, created_at_ms, updated_at_ms) \
            SELECT 'header:ops:create_invoice:' || CAST(n.i AS TEXT), 'create_invoice', 'done', 1, 'f', 't', 1, 'resend', 1, 1, 0, 201, '{}', \
            k.created_at_ms, k.updated_at_ms FROM n, idempotency_keys k WHERE k.key LIKE '%:0'";
        app.database.execute(sql).await;
        app.age(400 * DAY).await;
        assert_eq!(forgotten(&for_ever).await, 0);
        assert_eq!(header_keys(&app).await.len(), 1201);
        assert_eq!(forgotten(&app).await, 1201);
        app.check_oracles(&[]).await;
    }

    async fn one_content_in_two_spellings_is_one_request(engine) {
        let app = with_keys(engine, &[]).await;
        let spellings = [
            r#"{"customerId":"cus_1","amountCents":1250,"currency":"usd","metadata":{"a":"1","b":"2"}}"#,
            " {\n\t\"metadata\": {\"b\": \"2\", \"a\": \"1\"},\r\n \"currency\": \"USD\", \"amountCents\": 1250, \"customerId\": \"cus_1\", \"description\": null }\n",
            r#"{"amountCents":1250,"customerId":"cus\u005f1","currency":"usd","metadata":{"b":"2","a":"\u0031"}}"#,
        ];
        let mut replies = Vec::new();
        for spelling in spellings {
            let request = crate::support::RawRequest::json("POST", "/v1/invoices", spelling)
                .header("Authorization", format!("Bearer {ADMIN}"))
                .header("Idempotency-Key", "k");
            replies.push(app.raw(&request).await);
        }
        assert_eq!((replies[0].status, replies[0].is_replay()), (201, false), "{replies:#?}");
        for reply in &replies[1..] {
            assert!(reply.is_replay() && reply.body == replies[0].body, "{reply:#?}");
        }
    }
}
