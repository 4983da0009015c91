//! The tools as an agent calls them over MCP: again and again, in parallel, too early, and in doubt.

use std::time::Duration;

use chargeonce::payments::mock::Fault;
use futures_util::future::join_all;
use serde_json::json;

use crate::support::{Engine, SENDS_MAX, TestApp};

on_both_stores! {
    async fn an_invoice_is_charged_once_however_often_the_tool_is_called(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;

        let first = app.tool_charge("inv_1").await;
        let again = app.tool_charge("inv_1").await;
        let over_rest = app.charge("inv_1").await;

        first.assert(false, "", "yes", "not_needed");
        assert!(first.text.contains("was charged USD 12.50 once"), "{}", first.text);
        assert!(again.text.contains("this call charged nothing"), "{}", again.text);
        assert_eq!(again.body, first.body);
        assert_eq!(over_rest.json(), first.body, "both bindings give one answer");
        assert!(over_rest.is_replay());
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[over_rest]).await;
    }

    async fn a_call_that_was_forgotten_in_a_compacted_context_is_answered_from_the_books_days_later(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let first = app.tool_charge("inv_1").await;

        app.hours_later(49).await;
        let again = app.tool_charge("inv_1").await;

        assert_eq!(again.body, first.body);
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[]).await;
    }

    async fn nine_parallel_calls_for_one_invoice_make_one_call_of_the_provider(engine) {
        let app = TestApp::start(engine).await;
        app.mock.set_latency(Duration::from_millis(500));
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa"})).await;
        let replica = app.replica().start().await;

        let answers = join_all((0..9).map(|n| if n % 3 == 0 { replica.tool_charge("inv_1") } else { app.tool_charge("inv_1") })).await;

        for answer in &answers {
            answer.assert(false, "", "yes", "not_needed");
            assert_eq!(answer.body, answers[0].body);
        }
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[]).await;
    }

    async fn a_declined_card_is_an_error_with_the_reason_and_what_to_do(engine) {
        let app = TestApp::start(engine).await;
        app.invoice_with("poor", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedInsufficientFunds"})).await;
        app.invoice_with("stolen", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedStolenCard"})).await;

        let poor = app.tool_charge("poor").await;
        let stolen = app.tool_charge("stolen").await;
        let again = app.tool_charge("stolen").await;

        poor.assert(true, "charge_declined", "no", "later");
        assert!(poor.text.contains("The reason: insufficient_funds"), "{}", poor.text);
        assert!(poor.text.contains("A new attempt makes sense in 3600 seconds"), "{}", poor.text);
        stolen.assert(true, "charge_declined", "no", "after_change");
        again.assert(true, "retry_not_advised", "no", "after_change");
        assert!(again.text.contains("Do not call again until the invoice has another payment method"), "{}", again.text);
        assert_eq!(again.body["charge"]["status"], "failed");
        assert_eq!(app.sends(), ["charge:poor", "charge:stolen"]);
        app.check_oracles(&[]).await;
    }

    async fn a_repeated_decline_tells_the_wait_that_is_left(engine) {
        let app = TestApp::with(engine).set("RETRY_COOLDOWN", "1h").start().await;
        app.invoice_with("poor", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedInsufficientFunds"})).await;
        let first = app.tool_charge("poor").await;

        app.age(Duration::from_secs(3_000)).await;
        let again = app.tool_charge("poor").await;

        assert_eq!(first.body["retryAfterSeconds"], 3_600);
        again.assert(true, "charge_declined", "no", "later");
        let left = again.body["retryAfterSeconds"].as_i64().unwrap();
        assert!((1..=600).contains(&left), "{left}");
        assert_eq!(app.sends(), ["charge:poor"]);
        app.check_oracles(&[]).await;
    }

    async fn an_unknown_outcome_is_told_as_unknown_and_never_as_a_failure(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, SENDS_MAX);

        let first = app.tool_charge("inv_1").await;
        let status = app.tool("get_charge_status", json!({"invoiceId": "inv_1"})).await;

        for told in [&first, &status] {
            told.assert(false, "", "unknown", "later");
            assert!(told.text.contains("do not charge the customer in any other way"), "{}", told.text);
        }
        assert_eq!(app.times_paid("inv_1"), 1);
        app.past_lease().await;
        let settled = app.tool_charge("inv_1").await;
        settled.assert(false, "", "yes", "not_needed");
        assert_eq!(app.times_paid("inv_1"), 1);
        app.check_oracles(&[]).await;
    }

    async fn a_slow_charge_is_in_progress_and_a_later_call_has_the_result(engine) {
        let app = TestApp::with(engine).set("RESPONSE_WAIT", "2s").start().await;
        app.invoice_with("inv_1", json!({"paymentMethodId": "pm_card_visa"})).await;
        let gate = app.line.hold_posts().await;

        let own = app.tool_charge("inv_1").await;
        let met = app.tool_charge("inv_1").await;

        own.assert(false, "", "unknown", "later");
        assert_eq!(own.body["status"], "pending");
        assert!(own.text.contains("Call charge_customer again with the same invoiceId"), "{}", own.text);
        met.assert(false, "charge_in_progress", "unknown", "later");
        drop(gate);
        app.attempt_is("inv_1", "succeeded").await;
        let result = app.tool_charge("inv_1").await;
        result.assert(false, "", "yes", "not_needed");
        assert_eq!(result.body["id"], own.body["id"]);
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[]).await;
    }

    async fn two_different_idempotency_keys_change_nothing(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let charge = async |key: &str| {
            app.tool_with("charge_customer", json!({"invoiceId": "inv_1"}), &[("Idempotency-Key", key)]).await
        };

        let (one, other) = (charge("task-1-step-1").await, charge("task-1-step-2").await);

        one.assert(false, "", "yes", "not_needed");
        assert_eq!(other.body, one.body);
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[]).await;
    }

    async fn the_reading_tools_answer_what_rest_answers(engine) {
        let app = TestApp::start(engine).await;
        for n in 1..=3 {
            app.invoice_with(&format!("inv_{n}"), json!({"metadata": {"order": "7"}})).await;
        }
        app.invoice_with("other", json!({"customerId": "cus_2"})).await;
        app.charge("inv_3").await;
        let rest = async |path: &str| app.get(path).await.json();

        let invoice = app.tool("get_invoice", json!({"invoiceId": "inv_1"})).await;
        let paid = app.tool("get_charge_status", json!({"invoiceId": "inv_3"})).await;
        let all = app.tool("list_open_invoices", json!({})).await;
        let first = app.tool("list_open_invoices", json!({"customerId": "cus_1", "limit": 1})).await;
        let cursor = first.body["nextCursor"].clone();
        let second = app.tool("list_open_invoices", json!({"customerId": "cus_1", "limit": 1, "cursor": cursor})).await;

        assert_eq!(invoice.body, rest("/v1/invoices/inv_1").await);
        assert_eq!(invoice.text, "Invoice inv_1 over USD 12.50 of customer cus_1 is open.");
        assert_eq!(paid.body, rest("/v1/invoices/inv_3/charge-status").await);
        paid.assert(false, "", "yes", "not_needed");
        assert_eq!(all.body, rest("/v1/invoices?status=open").await);
        assert_eq!(all.body["data"].as_array().unwrap().len(), 3);
        assert_eq!(first.body, rest("/v1/invoices?status=open&customerId=cus_1&limit=1").await);
        assert_eq!((&first.body["data"][0]["id"], &second.body["data"][0]["id"]), (&json!("inv_2"), &json!("inv_1")));
        assert!(first.text.contains(cursor.as_str().unwrap()), "{}", first.text);
        assert_eq!(second.body["nextCursor"], json!(null));
        app.check_oracles(&[]).await;
    }

    async fn what_cannot_be_done_is_told_so_that_a_model_can_act_on_it(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("void").await;
        app.post("/v1/invoices/void/void", &json!({})).await;
        #[rustfmt::skip]
        let table = [
            ("charge_customer", json!({"invoiceId": "nobody"}), "invoice_not_found", "after_change", "There is no invoice with this id."),
            ("get_invoice", json!({"invoiceId": "nobody"}), "invoice_not_found", "after_change", "There is no invoice with this id."),
            ("get_charge_status", json!({"invoiceId": "nobody"}), "invoice_not_found", "after_change", "There is no invoice with this id."),
            ("charge_customer", json!({"invoiceId": "void"}), "invoice_not_chargeable", "never", "This invoice is void"),
            ("charge_customer", json!({}), "invalid_request", "after_change", "invoiceId is missing. Add it."),
            ("charge_customer", json!({"invoiceId": "void", "amountCents": 1}), "invalid_request", "after_change", "Leave it out; the only argument is invoiceId."),
            ("charge_customer", json!({"invoiceId": "a b"}), "invalid_request", "after_change", "invoiceId must have 1 to 120 characters"),
            ("list_open_invoices", json!({"limit": 0}), "invalid_parameter", "after_change", "limit must be a whole number from 1 to 100."),
            ("list_open_invoices", json!({"limit": 101}), "invalid_parameter", "after_change", "limit must be a whole number from 1 to 100."),
            ("list_open_invoices", json!({"cursor": "x"}), "invalid_parameter", "after_change", "cursor must be the nextCursor of the page before."),
            ("list_open_invoices", json!({"customerId": "a b"}), "invalid_parameter", "after_change", "customerId must be an id of the payment provider."),
        ];
        for (tool, arguments, code, retry, sentence) in table {
            let answer = app.tool(tool, arguments).await;
            // What names no invoice says nothing about any: an earlier call may have charged.
            let charged = if code == "invalid_request" { "unknown" } else { "no" };
            answer.assert(true, code, charged, retry);
            assert!(answer.text.contains(sentence), "{}", answer.text);
        }
        assert_eq!(app.sends(), Vec::<String>::new());
        app.check_oracles(&[]).await;
    }

    async fn a_database_that_is_away_is_an_error_with_an_unknown_outcome(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.database.execute("ALTER TABLE charges RENAME TO gone").await;

        for tool in ["charge_customer", "get_charge_status"] {
            let answer = app.tool(tool, json!({"invoiceId": "inv_1"})).await;
            answer.assert(true, "storage_unavailable", "unknown", "later");
        }

        assert_eq!(app.sends(), Vec::<String>::new());
        app.database.execute("ALTER TABLE gone RENAME TO charges").await;
        app.check_oracles(&[]).await;
    }

    async fn a_charge_that_an_operator_must_judge_is_an_error_that_claims_nothing(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::WrongAmount, 1);
        let answer = app.tool_charge("inv_1").await;
        answer.assert(true, "charge_needs_review", "unknown", "later");
        assert!(answer.text.contains("Do not charge the customer in any other way"), "{}", answer.text);
        app.check_oracles(&[]).await;
    }
}

#[tokio::test]
async fn the_list_of_tools_is_the_published_one() {
    let app = TestApp::start(Engine::Sqlite).await;
    let listed = app.rpc("tools/list", json!({})).await;
    let published = app.get("/v1/tools").await.json();
    assert_eq!(listed["result"]["tools"], published["tools"]);
    assert_eq!(app.rpc("ping", json!({})).await["result"], json!({}));
}
