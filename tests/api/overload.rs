//! More than the service takes on at a time is refused at once: before anything is reserved, and never at the cost of what is
//! known already.

use std::time::Duration;

use chargeonce::payments::mock::{Fault, MockStripe};
use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::access::{AGENT, charge_as, with_keys};
use crate::operations::{comes_to, metrics, value};
use crate::support::{Engine, Line, RawRequest, Reply, SENDS_MAX, TestApp, parse, tool_call};

const CHARGE: &str = r#"{"invoiceId":"inv_1"}"#;

async fn narrow(engine: Engine) -> TestApp {
    let app = TestApp::with(engine)
        .set("REQUEST_CONCURRENCY", "2")
        .set("MAX_CONNECTIONS", "100")
        .start()
        .await;
    app.invoice("inv_1").await;
    app
}

/// A request that is in flight for as long as its body is awaited.
async fn unfinished(app: &TestApp) -> TcpStream {
    let head = RawRequest::json("POST", "/v1/charges", "")
        .without("Content-Length")
        .header("Content-Length", CHARGE.len().to_string());
    let mut stream = app.connection().await;
    stream.write_all(&head.bytes()).await.unwrap();
    stream
}

/// Waits until so many are in flight.
pub async fn in_flight(app: &TestApp, what: &str, count: f64) {
    let series = format!("chargeonce_{what}_in_flight");
    comes_to(app, &series, |seen| seen.total_cmp(&count).is_eq()).await;
}

/// Sends a request and hangs up before its answer, until so many requests are in flight that nobody waits for. One that has not
/// begun anything when its caller goes is gone for good, so a few looks must agree.
async fn leave(app: &TestApp, request: &RawRequest, count: f64) {
    for _ in 0..100 {
        let mut stream = app.connection().await;
        stream.write_all(&request.bytes()).await.unwrap();
        in_flight(app, "requests", count).await;
        // A reset: that is when the server drops the handler.
        stream.set_zero_linger().unwrap();
        drop(stream);
        let mut held = true;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let seen = value(&metrics(app).await, "chargeonce_requests_in_flight");
            held = held && seen.total_cmp(&count).is_eq();
        }
        if held {
            return;
        }
    }
    panic!("there were never {count} requests in flight without a caller");
}

/// The one code of this page.
pub async fn refusal(engine: Engine) -> Reply {
    let app = narrow(engine).await;
    let _held = [unfinished(&app).await, unfinished(&app).await];
    in_flight(&app, "requests", 2.0).await;
    app.charge("inv_1").await
}

on_both_stores! {
    async fn a_request_beyond_the_bound_is_refused_unread_and_probes_are_answered(engine) {
        let app = narrow(engine).await;
        let (mut first, second) = (unfinished(&app).await, unfinished(&app).await);
        in_flight(&app, "requests", 2.0).await;

        let refused = app.charge("inv_1").await;
        refused.assert(503, "overloaded", "unknown", "later");
        let refund = app.post("/v1/refunds", &json!({"chargeId": "chg_1"})).await;
        refund.assert(503, "overloaded", "unknown", "later");
        assert_eq!(refund.text("refunded"), "unknown");
        for path in ["/v1/invoices/inv_1", "/v1/tools", "/openapi.json", "/nowhere"] {
            app.get(path).await.assert(503, "overloaded", "unknown", "later");
        }
        for path in ["/health/live", "/health/ready"] {
            assert_eq!(app.get(path).await.status, 200, "{path}");
        }
        assert_eq!(value(&metrics(&app).await, "chargeonce_requests_refused_total"), 6.0);
        assert_eq!(app.attempts("inv_1").await, Vec::<String>::new());
        assert_eq!(app.sends(), Vec::<String>::new());

        // Those who were there first are served, and whoever leaves makes room.
        first.write_all(CHARGE.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        first.read_to_end(&mut answer).await.unwrap();
        let charged = parse(&answer).unwrap();
        charged.assert(201, "", "yes", "not_needed");
        drop(second);
        in_flight(&app, "requests", 0.0).await;
        let replay = app.charge("inv_1").await;
        assert!(replay.is_replay(), "{replay:#?}");
        app.check_oracles(&[refused, charged, replay]).await;
    }

    async fn a_new_charge_beyond_the_bound_is_refused_and_what_is_known_is_told(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine)
            .set("CHARGE_CONCURRENCY", "1")
            .provider(line.provider(&mock))
            .mock(&mock)
            .start()
            .await;
        for id in ["paid", "held", "new"] {
            app.invoice(id).await;
        }
        let paid = app.charge("paid").await;
        paid.assert(201, "", "yes", "not_needed");
        let gate = line.hold_posts().await;
        let left = app.charge_and_leave("held").await;

        let refused = app.charge("new").await;
        refused.assert(503, "overloaded", "unknown", "later");
        let refund = app.post("/v1/refunds", &json!({"chargeId": paid.text("id")})).await;
        refund.assert(503, "overloaded", "unknown", "later");
        assert_eq!(refund.text("refunded"), "unknown");
        let replay = app.charge("paid").await;
        assert!(replay.is_replay(), "{replay:#?}");
        let again = app.charge("held").await;
        again.assert(409, "charge_in_progress", "unknown", "later");
        let status = app.get("/v1/invoices/new/charge-status").await;
        assert_eq!((status.status, status.text("retry")), (200, "now".to_owned()));
        assert_eq!(app.attempts("new").await, Vec::<String>::new());
        assert_eq!(app.sends(), ["charge:paid"]);
        let seen = metrics(&app).await;
        assert_eq!(value(&seen, "chargeonce_charge_calls_total{outcome=\"overloaded\"}"), 1.0);
        assert_eq!(value(&seen, "chargeonce_charges_in_flight"), 1.0);

        drop(gate);
        let joined = app.charge_waiting("held", 20).await;
        joined.assert(201, "", "yes", "not_needed");
        let charged = app.charge("new").await;
        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends(), ["charge:paid", "charge:held", "charge:new"]);
        app.check_oracles(&[paid, replay, left, again, refused, joined, charged]).await;
    }

    /// What a dead process left behind is finished although this one takes on nothing new.
    async fn the_background_worker_finishes_attempts_beyond_the_bound(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine)
            .set("CHARGE_CONCURRENCY", "1")
            .provider(line.provider(&mock))
            .mock(&mock)
            .start()
            .await;
        for id in ["lost", "held"] {
            app.invoice(id).await;
        }
        let replica = app.replica().set("CHARGE_CONCURRENCY", "2").start().await;
        let gate = line.hold_posts().await;
        let lost = replica.charge_and_leave("lost").await;
        app.past_lease().await;
        let held = app.charge_and_leave("held").await;
        app.charge("lost").await.assert(503, "overloaded", "unknown", "later");

        let (swept, ()) = tokio::join!(app.sweep(), async {
            in_flight(&app, "charges", 2.0).await;
            drop(gate);
        });

        assert_eq!(swept.count("succeeded"), 1);
        app.until("both are paid", |app| app.times_paid("held") == 1 && app.times_paid("lost") == 1).await;
        let joined = app.charge_waiting("held", 20).await;
        app.check_oracles(&[lost, held, joined]).await;
    }

    /// What a caller has begun goes on without it, and the next one does not begin beside it.
    async fn callers_who_hang_up_leave_their_places_to_what_they_began(engine) {
        let (mock, line) = (MockStripe::new(), Line::default());
        let app = TestApp::with(engine)
            .set("REQUEST_CONCURRENCY", "3")
            .set("MAX_CONNECTIONS", "100")
            .provider(line.provider(&mock))
            .mock(&mock)
            .start()
            .await;
        // Before each of these begins, the provider is asked: for the customer's payment method, and for a refund that was given up.
        let paid = app.paid("paid").await;
        app.refund_fault(&paid, Fault::DropBefore, SENDS_MAX);
        app.give_back(&paid).await;
        app.hours_later(25).await;
        app.sweep().await;
        assert_eq!(app.refunds_of(&paid).await, ["failed"]);
        for id in ["rest", "tool", "new"] {
            app.invoice(id).await;
        }
        let asked = app.mock.requests().len();
        let gate = line.hold_gets().await;
        let call = tool_call("charge_customer", &json!({"invoiceId": "tool"})).to_string();
        let left = [
            RawRequest::json("POST", "/v1/charges", r#"{"invoiceId":"rest"}"#),
            RawRequest::json("POST", "/v1/refunds", json!({"chargeId": paid}).to_string()),
            RawRequest::json("POST", "/mcp", call)
                .header("Accept", "application/json, text/event-stream")
                .header("MCP-Protocol-Version", "2025-11-25"),
        ];
        for (count, request) in [1.0, 2.0, 3.0].into_iter().zip(&left) {
            leave(&app, request, count).await;
        }

        let refused = app.charge("new").await;

        refused.assert(503, "overloaded", "unknown", "later");
        app.get("/v1/invoices/new").await.assert(503, "overloaded", "unknown", "later");
        assert_eq!(app.mock.requests().len(), asked);
        assert_eq!(app.attempts("new").await, Vec::<String>::new());
        drop(gate);
        in_flight(&app, "requests", 0.0).await;
        let mut replies = vec![refused];
        for id in ["rest", "tool", "new"] {
            let charged = app.charge_waiting(id, 20).await;
            charged.assert(201, "", "yes", "not_needed");
            assert_eq!(app.times_paid(id), 1);
            replies.push(charged);
        }
        let given = app.post_with("/v1/refunds", &json!({"chargeId": paid}), &[("Prefer", "wait=20")]).await;
        assert_eq!((given.status, given.text("refunded").as_str()), (201, "yes"), "{given:#?}");
        app.check_oracles(&replies).await;
        app.check_refunds(&[given]).await;
    }
}

/// Those of one key wait for each other, and not in the places of everybody else. SQLite's writers wait for its file, so there is
/// nothing to see with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn a_burst_under_one_cap_leaves_room_to_the_others() {
    let settings = [
        ("AGENT_LIMITS", "bot: usd day=1000000"),
        ("CHARGE_CONCURRENCY", "8"),
        ("DATABASE_TIMEOUT", "1m"),
    ];
    let app = with_keys(Engine::Postgres, &settings).await;
    let ids: Vec<String> = (0..8).map(|n| format!("inv_{n}")).collect();
    for id in ids.iter().map(String::as_str).chain(["others"]) {
        app.invoice_with(id, json!({"paymentMethodId": "pm_card_visa"}))
            .await;
    }
    let mut slow = app.database.session().await;
    slow.batch("BEGIN; LOCK TABLE idempotency_keys IN EXCLUSIVE MODE")
        .await;

    let burst = join_all(ids.iter().map(|id| charge_as(&app, AGENT, id)));
    let (mut replies, others) = tokio::join!(burst, async {
        // One is at it and two wait for it: a quarter of the room.
        comes_to(
            &app,
            "chargeonce_charge_calls_total{outcome=\"overloaded\"}",
            |seen| seen.total_cmp(&5.0).is_eq(),
        )
        .await;
        let (others, ()) = tokio::join!(app.charge("others"), async {
            in_flight(&app, "requests", 4.0).await;
            slow.batch("COMMIT").await;
        });
        others
    });

    others.assert(201, "", "yes", "not_needed");
    let (charged, refused): (Vec<&Reply>, Vec<&Reply>) =
        replies.iter().partition(|reply| reply.status == 201);
    assert_eq!((charged.len(), refused.len()), (3, 5), "{replies:#?}");
    for reply in refused {
        reply.assert(503, "overloaded", "unknown", "later");
    }
    let reserved = "SELECT COUNT(*) AS value FROM charges";
    assert_eq!(
        (app.sends().len(), app.database.number(reserved).await),
        (4, 4)
    );
    replies.push(others);
    app.check_oracles(&replies).await;
}
