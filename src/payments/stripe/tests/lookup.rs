//! Finding and cancelling.

use super::super::StripeApi::{Charges, PaymentIntents};
use super::super::transport::{AnswerHeaders, Lost, Method, TransportResult};
use super::{answer, answer_with, charge, deadline, intent, lost, not_sent, provider, script};
use crate::payments::outcome::PaymentStatus;
use crate::payments::provider::{PaymentProvider, PaymentQuery};

const LIST: &str = "/v1/payment_intents?customer=cus_1&created%5Bgte%5D=1699913600&limit=100&expand%5B%5D=data.latest_charge";

fn query(payment_id: Option<&str>) -> PaymentQuery {
    PaymentQuery {
        payment_id: payment_id.map(str::to_owned),
        customer_id: "cus_1".to_owned(),
        invoice_id: "inv_1".to_owned(),
        installation_id: "inst".to_owned(),
        since_ms: 1_700_000_000_000,
    }
}

fn page(has_more: bool, entries: &[String]) -> TransportResult {
    answer(
        200,
        &format!(
            r#"{{"object":"list","has_more":{has_more},"data":[{}]}}"#,
            entries.join(",")
        ),
    )
}

fn of_another_invoice(id: &str) -> String {
    intent(id, "succeeded").replace("inv_1", "inv_2")
}

fn of_another_installation(id: &str) -> String {
    intent(id, "succeeded").replace("\"inst\"", "\"elsewhere\"")
}

#[tokio::test(start_paused = true)]
async fn a_known_payment_is_fetched_beside_the_list_that_does_not_have_it() {
    let script = script([
        page(false, &[intent("pi_2", "succeeded")]),
        answer(200, &intent("pi_1", "processing")),
    ]);
    let found = provider(PaymentIntents, &script)
        .find(&query(Some("pi_1")), deadline(60))
        .await
        .expect("an answer");
    let found: Vec<_> = found
        .into_iter()
        .map(|payment| (payment.id, payment.status))
        .collect();
    let right = [
        ("pi_2", PaymentStatus::Succeeded),
        ("pi_1", PaymentStatus::Processing),
    ];
    assert_eq!(found, right.map(|(id, status)| (id.to_owned(), status)));
    let calls = script.calls();
    assert_eq!(calls[0].path_and_query, LIST);
    assert_eq!(calls[1].method, Method::Get);
    assert_eq!(
        calls[1].path_and_query,
        "/v1/payment_intents/pi_1?expand%5B%5D=latest_charge"
    );
}

#[tokio::test(start_paused = true)]
async fn a_known_payment_that_is_in_the_list_is_not_fetched_again() {
    let script = script([page(false, &[intent("pi_1", "succeeded")])]);
    let found = provider(PaymentIntents, &script)
        .find(&query(Some("pi_1")), deadline(60))
        .await
        .expect("an answer");
    assert_eq!(found.len(), 1);
    assert_eq!(script.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_payment_that_was_given_back_is_told_from_one_that_was_not() {
    for (charge, status) in [
        (r#""ch_1""#, PaymentStatus::Succeeded),
        (
            r#"{"id":"ch_1","refunded":false,"amount_refunded":1}"#,
            PaymentStatus::Succeeded,
        ),
        (
            r#"{"id":"ch_1","refunded":true,"amount_refunded":1250}"#,
            PaymentStatus::Refunded,
        ),
        ("null", PaymentStatus::Succeeded),
    ] {
        let body =
            intent("pi_1", "succeeded").replacen('{', &format!("{{\"latest_charge\":{charge},"), 1);
        let script = script([answer(200, &body)]);
        let provider = provider(PaymentIntents, &script);
        let found = provider
            .retrieve("pi_1", deadline(60))
            .await
            .expect("an answer");
        assert_eq!(
            found.map(|payment| payment.status),
            Some(status),
            "{charge}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_has_this_installations_payments_and_says_where_the_next_one_begins() {
    let script = script([
        page(
            true,
            &[intent("pi_1", "succeeded"), of_another_installation("pi_2")],
        ),
        page(false, &[of_another_invoice("pi_3")]),
    ]);
    let provider = provider(PaymentIntents, &script);
    let since_ms = 1_700_000_000_000;
    let first = provider
        .page("inst", since_ms, None, deadline(60))
        .await
        .expect("a page");
    let after = first.next.as_deref();
    assert_eq!((first.payments.len(), after), (1, Some("pi_2")));
    let second = provider
        .page("inst", since_ms, after, deadline(60))
        .await
        .expect("a page");
    assert_eq!((second.payments.len(), second.next), (1, None));
    let whole = LIST.replace("customer=cus_1&", "");
    let paths: Vec<_> = script
        .calls()
        .into_iter()
        .map(|call| call.path_and_query)
        .collect();
    assert_eq!(
        paths,
        [whole.clone(), format!("{whole}&starting_after=pi_2")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_known_payment_that_is_unknown_there_is_looked_for_in_the_list() {
    for id in ["pi_1", "no plain id"] {
        let mut results = vec![page(false, &[intent("pi_2", "succeeded")])];
        if id == "pi_1" {
            results.push(answer(404, "{}"));
        }
        let script = script(results);
        let found = provider(PaymentIntents, &script)
            .find(&query(Some(id)), deadline(60))
            .await
            .expect("an answer");
        assert_eq!(found[0].id, "pi_2");
        assert_eq!(found.len(), 1);
        assert_eq!(script.calls()[0].path_and_query, LIST);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_followed_to_its_end_and_filtered_newest_first() {
    let older = intent("pi_3", "requires_payment_method").replace("1700000000", "1600000000");
    let script = script([
        page(true, &[of_another_invoice("pi_1"), older]),
        page(
            true,
            &[
                intent("pi_4", "succeeded"),
                of_another_installation("pi_5"),
                r#"{"id":"pi_6","metadata":null}"#.to_owned(),
            ],
        ),
        page(false, &[]),
    ]);
    let found = provider(PaymentIntents, &script)
        .find(&query(None), deadline(60))
        .await
        .expect("an answer");
    let ids: Vec<_> = found.iter().map(|payment| payment.id.as_str()).collect();
    assert_eq!(ids, ["pi_4", "pi_3"]);
    let paths: Vec<_> = script
        .calls()
        .into_iter()
        .map(|call| call.path_and_query)
        .collect();
    assert_eq!(
        paths,
        [
            LIST.to_owned(),
            format!("{LIST}&starting_after=pi_3"),
            format!("{LIST}&starting_after=pi_6")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn charges_are_listed_the_same_way() {
    let script = script([page(false, &[charge("ch_1", "succeeded")])]);
    let found = provider(Charges, &script)
        .find(&query(None), deadline(60))
        .await
        .expect("an answer");
    assert_eq!(found[0].id, "ch_1");
    assert!(
        script.calls()[0]
            .path_and_query
            .starts_with("/v1/charges?customer=cus_1&")
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_last_page_is_nothing_found() {
    let script = script([page(false, &[of_another_invoice("pi_1")])]);
    let found = provider(PaymentIntents, &script)
        .find(&query(None), deadline(60))
        .await;
    assert_eq!(found, Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
#[rustfmt::skip]
async fn what_could_not_be_asked_is_never_nothing_found() {
    let cut = || TransportResult::Lost(Lost { reason: "cut".to_owned(), head: Some((200, AnswerHeaders::default())) });
    let known = Some("pi_1");
    let rows: Vec<(&str, Option<&str>, Vec<TransportResult>)> = vec![
        ("refused (localstripe)", None, vec![answer(400, "{}")]),
        ("a missing list", None, vec![answer(404, "{}")]),
        ("credentials", None, vec![answer(401, "{}")]),
        ("unreachable", None, vec![not_sent(), not_sent(), not_sent()]),
        ("cut", None, vec![cut(), cut(), cut()]),
        ("500", None, vec![answer(500, ""), answer(500, ""), answer(500, "")]),
        ("a web page", None, vec![answer(200, "<html>")]),
        ("no has_more", None, vec![answer(200, r#"{"data":[]}"#)]),
        ("more, but after what", None, vec![page(true, &[])]),
        ("the second page fails", None, vec![page(true, &[intent("pi_1", "succeeded")]), answer(403, "")]),
        ("one of ours is unreadable", None, vec![page(false, &[intent("pi_1", "succeeded").replace("\"eur\"", "null")])]),
        ("known: no list", known, vec![answer(400, "{}")]),
        ("known: credentials", known, vec![page(false, &[]), answer(401, "{}")]),
        ("known: unreadable", known, vec![page(false, &[]), answer(200, "{}")]),
        ("known: about another payment", known, vec![page(false, &[]), answer(200, &intent("pi_2", "succeeded"))]),
        ("known: cut", known, vec![page(false, &[]), cut(), cut(), cut()]),
    ];
    for (name, payment_id, results) in rows {
        let calls = results.len();
        let script = script(results);
        let found = provider(PaymentIntents, &script).find(&query(payment_id), deadline(60)).await;
        assert!(found.is_err(), "{name}: {found:?}");
        assert_eq!(script.calls().len(), calls, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_up_is_repeated_but_not_past_its_deadline() {
    let repeated = script([
        lost("cut"),
        answer(429, ""),
        page(false, &[intent("pi_1", "succeeded")]),
    ]);
    let found = provider(PaymentIntents, &repeated)
        .find(&query(Some("pi_1")), deadline(60))
        .await;
    assert_eq!(found.expect("an answer").len(), 1);

    let over = script([]);
    let found = provider(PaymentIntents, &over)
        .find(&query(None), deadline(0))
        .await;
    assert!(found.is_err());
    assert!(over.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_list_without_end_is_an_error() {
    let pages = (0..200).map(|_| page(true, &[of_another_invoice("pi_1")]));
    let script = script(pages);
    let found = provider(PaymentIntents, &script)
        .find(&query(None), deadline(600))
        .await;
    assert!(found.is_err());
    assert_eq!(script.calls().len(), 100);
}

#[tokio::test(start_paused = true)]
#[rustfmt::skip]
async fn a_cancel_tells_the_state_afterwards() {
    let refused = |status: &str| {
        format!(r#"{{"error":{{"type":"invalid_request_error","code":"payment_intent_unexpected_state","payment_intent":{}}}}}"#,
            intent("pi_1", status))
    };
    let replayed = &[("idempotent-replayed", "true")];
    let succeeded = || answer(200, &intent("pi_1", "succeeded"));
    let rows: Vec<(&str, Vec<TransportResult>, PaymentStatus)> = vec![
        ("canceled", vec![answer(200, &intent("pi_1", "canceled"))], PaymentStatus::Canceled),
        ("already succeeded", vec![answer(400, &refused("succeeded"))], PaymentStatus::Succeeded),
        ("already canceled", vec![answer(400, &refused("canceled"))], PaymentStatus::Canceled),
        ("refused without the payment: asked for", vec![answer(400, "{}"), succeeded()], PaymentStatus::Succeeded),
        ("replayed canceled", vec![answer_with(200, replayed, &intent("pi_1", "canceled"))], PaymentStatus::Canceled),
        ("replayed, but of another moment: asked for", vec![answer_with(400, replayed, &refused("processing")), succeeded()], PaymentStatus::Succeeded),
        ("unreadable: asked for", vec![answer(200, "{"), succeeded()], PaymentStatus::Succeeded),
        ("about another payment: asked for", vec![answer(200, &intent("pi_2", "canceled")), succeeded()], PaymentStatus::Succeeded),
        ("cut, then canceled", vec![lost("cut"), answer(200, &intent("pi_1", "canceled"))], PaymentStatus::Canceled),
        ("cut to the end: asked for", vec![lost("cut"), lost("cut"), lost("cut"), succeeded()], PaymentStatus::Succeeded),
    ];
    for (name, results, expected) in rows {
        let script = script(results);
        let state = provider(PaymentIntents, &script)
            .cancel("pi_1", "cancel:charge:inv_1", deadline(600))
            .await;
        assert_eq!(state.map(|payment| payment.status), Ok(expected), "{name}");
        for call in script.calls() {
            match call.method {
                Method::Post => {
                    assert_eq!(call.path_and_query, "/v1/payment_intents/pi_1/cancel");
                    assert_eq!(call.key.as_deref(), Some("test/cancel:charge:inv_1"));
                }
                Method::Get => assert_eq!(call.path_and_query, "/v1/payment_intents/pi_1?expand%5B%5D=latest_charge"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_without_an_answer_is_an_error() {
    let script = script([answer(400, "{}"), answer(404, "{}")]);
    let state = provider(PaymentIntents, &script)
        .cancel("pi_1", "cancel:x", deadline(60))
        .await;
    assert!(state.is_err());

    let none = super::script([]);
    let state = provider(PaymentIntents, &none)
        .cancel("pi_1/../pi_2", "cancel:x", deadline(60))
        .await;
    assert!(state.is_err());
    assert!(none.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_legacy_charge_is_only_looked_at() {
    let script = script([answer(200, &charge("ch_1", "pending"))]);
    let state = provider(Charges, &script)
        .cancel("ch_1", "cancel:x", deadline(60))
        .await
        .expect("a state");
    assert_eq!(state.status, PaymentStatus::Processing);
    assert_eq!(script.calls()[0].method, Method::Get);
}
