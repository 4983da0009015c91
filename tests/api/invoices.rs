//! Invoices: created once, listed, changed while they may be, void for ever.

use std::time::Duration;

use chargeonce::payments::mock::{Fault, FaultRule};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{Reply, TestApp};

fn content(id: &str) -> Value {
    json!({"id": id, "customerId": "cus_1", "amountCents": 1250, "currency": "usd", "description": "Tea", "metadata": {"order": "7"}})
}

/// Every page of a list, to its end.
async fn pages(app: &TestApp, path: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = app.get(&format!("{path}{cursor}")).await;
        assert_eq!(page.status, 200, "{page:#?}");
        let ids = page.json()["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|invoice| invoice["id"].as_str().unwrap().to_owned())
            .collect();
        pages.push(ids);
        match page.text("nextCursor") {
            next if next.is_empty() => return pages,
            next => cursor = format!("&cursor={next}"),
        }
        assert!(pages.len() < 50, "the list has no end");
    }
}

fn is_same_answer(first: &Reply, again: &Reply) {
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(again.header("content-type"), first.header("content-type"));
    assert!(again.is_replay(), "{again:#?}");
}

on_both_stores! {
    async fn an_invoice_is_created_read_and_named_by_the_service_when_it_has_no_id(engine) {
        let app = TestApp::start(engine).await;

        let own = app.post("/v1/invoices", &content("2026-0001")).await;
        let ours = app.post("/v1/invoices", &json!({"customerId": "cus_1", "amountCents": 500, "currency": "jpy"})).await;
        let another = app.post("/v1/invoices", &json!({"customerId": "cus_1", "amountCents": 500, "currency": "jpy"})).await;

        assert_eq!((own.status, ours.status, another.status), (201, 201, 201));
        assert!(!own.is_replay() && !ours.is_replay() && !another.is_replay());
        assert_eq!(own.header("location"), Some("/v1/invoices/2026-0001"));
        assert_eq!(own.text("status"), "open");
        assert!(ours.text("id").starts_with("inv_"));
        assert_ne!(ours.text("id"), another.text("id"), "without an id or key there is nothing to recognise a repetition by");
        for created in [own, ours] {
            let read = app.get(created.header("location").unwrap()).await;
            assert_eq!((read.status, &read.body), (200, &created.body));
        }
        app.check_oracles(&[]).await;
    }

    async fn null_is_the_same_as_nothing_in_every_optional_field(engine) {
        let app = TestApp::start(engine).await;
        let mut body = json!({"id": "inv_1", "customerId": "cus_1", "amountCents": 1250, "currency": "usd"});
        let first = app.post("/v1/invoices", &body).await;
        for field in ["description", "paymentMethodId", "metadata"] {
            body[field] = Value::Null;
            is_same_answer(&first, &app.post("/v1/invoices", &body).await);
        }
        body["id"] = Value::Null;
        let ours = app.post("/v1/invoices", &body).await;
        assert!(ours.status == 201 && !ours.is_replay() && ours.text("id").starts_with("inv_"), "{ours:#?}");
        app.check_oracles(&[]).await;
    }

    async fn the_same_id_and_content_gives_the_very_same_answer_for_ever(engine) {
        let app = TestApp::start(engine).await;
        let first = app.post("/v1/invoices", &content("inv_1")).await;
        assert_eq!(first.status, 201);
        let other_spelling = json!({"metadata": {"order": "7"}, "currency": "USD", "description": "Tea", "amountCents": 1250, "customerId": "cus_1", "id": "inv_1", "paymentMethodId": null});

        is_same_answer(&first, &app.post("/v1/invoices", &content("inv_1")).await);
        is_same_answer(&first, &app.post("/v1/invoices", &other_spelling).await);
        assert_eq!(app.patch("/v1/invoices/inv_1", &json!({"paymentMethodId": "pm_card_mastercard"})).await.status, 200);
        is_same_answer(&first, &app.post("/v1/invoices", &content("inv_1")).await);
        let charge = app.charge("inv_1").await;
        charge.assert(201, "", "yes", "not_needed");
        is_same_answer(&first, &app.post("/v1/invoices", &content("inv_1")).await);
        app.age(Duration::from_secs(400 * 86_400)).await;
        is_same_answer(&first, &app.post("/v1/invoices", &content("inv_1")).await);

        assert_eq!(app.invoice_status("inv_1").await, "paid");
        app.check_oracles(&[charge]).await;
    }

    async fn the_same_id_with_other_content_is_refused_and_changes_nothing(engine) {
        let app = TestApp::start(engine).await;
        let first = app.post("/v1/invoices", &content("inv_1")).await;
        for (member, value) in [
            ("amountCents", json!(1251)), ("currency", json!("eur")), ("customerId", json!("cus_2")), ("description", json!("Coffee")),
            ("description", Value::Null), ("metadata", json!({})), ("metadata", json!({"order": "8"})), ("paymentMethodId", json!("pm_card_visa")),
        ] {
            let mut other = content("inv_1");
            other[member] = value;
            let refused = app.post("/v1/invoices", &other).await;
            refused.assert(409, "invoice_exists", "no", "after_change");
            assert_eq!(refused.text("field"), "id");
        }
        assert_eq!(app.get("/v1/invoices/inv_1").await.body, first.body);
        app.check_oracles(&[]).await;
    }

    async fn twenty_creates_of_one_id_at_once_are_one_invoice(engine) {
        let app = TestApp::start(engine).await;
        for round in 0..5 {
            let body = content(&format!("inv_{round}"));
            let replies = join_all((0..20).map(|_| app.post("/v1/invoices", &body))).await;
            let first = replies.iter().find(|reply| !reply.is_replay()).expect("nobody created it");
            assert_eq!(replies.iter().filter(|reply| !reply.is_replay()).count(), 1);
            for reply in &replies {
                assert_eq!((reply.status, &reply.body), (201, &first.body), "{reply:#?}");
            }
        }
        assert_eq!(app.database.number("SELECT COUNT(*) AS value FROM invoices").await, 5);
        app.check_oracles(&[]).await;
    }

    async fn different_contents_of_one_id_at_once_are_one_invoice_and_refusals(engine) {
        let app = TestApp::start(engine).await;
        let bodies: Vec<Value> = (0..20).map(|n| { let mut body = content("inv_1"); body["amountCents"] = json!(1000 + n % 4); body }).collect();
        let replies = join_all(bodies.iter().map(|body| app.post("/v1/invoices", body))).await;
        let kept = app.get("/v1/invoices/inv_1").await;
        assert_eq!(replies.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).count(), 1);
        for (body, reply) in bodies.iter().zip(&replies) {
            if body["amountCents"] == kept.json()["amountCents"] {
                assert_eq!((reply.status, &reply.body), (201, &kept.body));
            } else {
                reply.assert(409, "invoice_exists", "no", "after_change");
            }
        }
        app.check_oracles(&[]).await;
    }

    async fn lists_are_filtered_and_paged_to_their_end_newest_first(engine) {
        let app = TestApp::start(engine).await;
        for n in 0..7 {
            app.invoice_with(&format!("inv_{n}"), json!({"customerId": if n % 2 == 0 { "cus_even" } else { "cus_odd" }})).await;
        }
        // All in one millisecond: the id alone must keep the order.
        for step in [
            "CREATE TABLE moved AS SELECT * FROM invoices WHERE id < 'inv_5'",
            "UPDATE moved SET created_at_ms = CASE WHEN id < 'inv_2' THEN 500 ELSE 1000 END",
            "DELETE FROM invoices WHERE id < 'inv_5'",
            "INSERT INTO invoices SELECT * FROM moved",
            "DROP TABLE moved",
        ] {
            app.database.execute(step).await;
        }
        let charge = app.charge("inv_6").await;
        assert_eq!(app.post("/v1/invoices/inv_0/void", &json!({})).await.status, 200);

        let all = pages(&app, "/v1/invoices?limit=2").await;
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 1]);
        assert_eq!(all.concat(), ["inv_6", "inv_5", "inv_4", "inv_3", "inv_2", "inv_1", "inv_0"]);
        for limit in [1, 3, 7, 100] {
            assert_eq!(pages(&app, &format!("/v1/invoices?limit={limit}")).await.concat(), all.concat(), "limit {limit}");
        }
        assert_eq!(pages(&app, "/v1/invoices?limit=7").await.len(), 1, "a full last page has no next one");
        let table: [(&str, &[&str]); 7] = [
            ("status=paid", &["inv_6"]), ("status=void", &["inv_0"]), ("status=open&customerId=cus_even", &["inv_4", "inv_2"]),
            ("status=open", &["inv_5", "inv_4", "inv_3", "inv_2", "inv_1"]),
            ("customerId=cus_odd", &["inv_5", "inv_3", "inv_1"]), ("status=paid&customerId=cus_odd", &[]), ("customerId=cus_nobody", &[]),
        ];
        for (query, ids) in table {
            assert_eq!(pages(&app, &format!("/v1/invoices?{query}&limit=1")).await.concat(), ids, "{query}");
        }
        app.check_oracles(&[charge]).await;
    }

    async fn an_invoice_that_is_made_while_a_list_is_read_neither_repeats_nor_hides_another(engine) {
        let app = TestApp::start(engine).await;
        for n in 0..4 {
            app.invoice(&format!("inv_{n}")).await;
        }
        let first = app.get("/v1/invoices?limit=2").await;
        app.invoice("inv_late").await;
        let second = app.get(&format!("/v1/invoices?limit=2&cursor={}", first.text("nextCursor"))).await;
        let mut ids: Vec<String> = [first, second].iter().flat_map(|page| page.json()["data"].as_array().unwrap().clone()).map(|invoice| invoice["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        assert_eq!(ids, ["inv_0", "inv_1", "inv_2", "inv_3"]);
        app.check_oracles(&[]).await;
    }

    async fn the_payment_method_can_be_set_and_taken_away_while_the_invoice_is_open(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        for method in [json!("pm_card_mastercard"), json!("pm_card_mastercard"), Value::Null, json!("pm_card_amex")] {
            let changed = app.patch("/v1/invoices/inv_1", &json!({"paymentMethodId": method})).await;
            assert_eq!((changed.status, &changed.json()["paymentMethodId"]), (200, &method));
            assert_eq!(app.get("/v1/invoices/inv_1").await.body, changed.body);
        }

        let charge = app.charge("inv_1").await;
        assert_eq!(charge.text("paymentMethodId"), "pm_card_amex");
        app.patch("/v1/invoices/inv_1", &json!({"paymentMethodId": null})).await.assert(409, "invoice_not_changeable", "yes", "never");
        app.post("/v1/invoices/inv_1/void", &json!({})).await.assert(409, "invoice_not_changeable", "yes", "never");
        assert_eq!(app.invoice_status("inv_1").await, "paid");
        app.check_oracles(&[charge]).await;
    }

    async fn a_void_invoice_stays_void_and_is_not_charged(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;

        let void = app.post("/v1/invoices/inv_1/void", &json!({})).await;
        assert_eq!((void.status, void.text("status").as_str()), (200, "void"));
        let again = app.post("/v1/invoices/inv_1/void", &json!({})).await;
        assert_eq!((again.status, &again.body), (200, &void.body));
        app.patch("/v1/invoices/inv_1", &json!({"paymentMethodId": "pm_card_visa"})).await.assert(409, "invoice_not_changeable", "no", "never");
        app.charge("inv_1").await.assert(409, "invoice_not_chargeable", "no", "never");

        assert_eq!(app.mock.requests().len(), 0);
        app.check_oracles(&[]).await;
    }

    async fn nothing_of_an_invoice_changes_while_it_is_being_charged(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        let gate = app.line.hold_posts().await;
        let meanwhile = async {
            while app.attempts("inv_1").await.is_empty() {
                tokio::task::yield_now().await;
            }
            app.patch("/v1/invoices/inv_1", &json!({"paymentMethodId": "pm_card_amex"})).await.assert(409, "charge_in_progress", "unknown", "later");
            let void = app.post("/v1/invoices/inv_1/void", &json!({})).await;
            void.assert(409, "charge_in_progress", "unknown", "later");
            assert!(void.header("retry-after").is_some());
            drop(gate);
        };
        let (charge, ()) = tokio::join!(app.charge("inv_1"), meanwhile);
        charge.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[charge]).await;
    }

    async fn nothing_of_an_invoice_changes_while_the_outcome_of_its_charge_is_unknown(engine) {
        let app = TestApp::start(engine).await;
        app.invoice("inv_1").await;
        app.mock.add_fault(FaultRule { times: 50, ..FaultRule::once(Fault::DropAfter) });
        app.charge("inv_1").await.assert(202, "", "unknown", "later");
        // An expired lease makes the outcome no better known.
        app.age(Duration::from_secs(3_600)).await;
        app.patch("/v1/invoices/inv_1", &json!({"paymentMethodId": "pm_card_amex"})).await.assert(409, "charge_in_progress", "unknown", "later");
        app.post("/v1/invoices/inv_1/void", &json!({})).await.assert(409, "charge_in_progress", "unknown", "later");
        app.check_oracles(&[]).await;
    }

    async fn an_unknown_invoice_is_a_404_everywhere(engine) {
        let app = TestApp::start(engine).await;
        for reply in [
            app.get("/v1/invoices/inv_1").await,
            app.patch("/v1/invoices/inv_1", &json!({"paymentMethodId": null})).await,
            app.post("/v1/invoices/inv_1/void", &json!({})).await,
            app.charge("inv_1").await,
        ] {
            reply.assert(404, "invoice_not_found", "no", "after_change");
        }
        app.get("/v1/charges/chg_1").await.assert(404, "charge_not_found", "unknown", "after_change");
        app.invoice("inv_1").await;
        let charge = app.charge("inv_1").await;
        charge.assert(201, "", "yes", "not_needed");
        app.check_oracles(&[charge]).await;
    }
}
