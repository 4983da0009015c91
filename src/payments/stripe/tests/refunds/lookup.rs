//! Finding refunds.

use super::super::super::transport::TransportResult;
use super::super::StripeApi::{Charges, PaymentIntents};
use super::super::{answer, answer_with, deadline, lost, not_sent, provider, script};
use super::refund;
use crate::payments::refund::{RefundProvider, RefundQuery, RefundState};

const SINCE_MS: i64 = 1_700_000_000_000;
const LIST: &str = "/v1/refunds?payment_intent=pi_1&created%5Bgte%5D=1699913600&limit=100";

fn query(refund_id: Option<&str>) -> RefundQuery {
    RefundQuery {
        payment_id: "pi_1".to_owned(),
        refund_id: refund_id.map(str::to_owned),
        since_ms: SINCE_MS,
    }
}

fn page(has_more: bool, entries: &[String]) -> TransportResult {
    let entries = entries.join(",");
    answer(
        200,
        &format!(r#"{{"object":"list","has_more":{has_more},"data":[{entries}]}}"#),
    )
}

#[tokio::test(start_paused = true)]
async fn all_refunds_of_a_payment_are_found_page_by_page_whoever_made_them() {
    let by_hand = r#"{"id":"re_2","status":"pending","amount":5,"currency":"eur","charge":"ch_1","payment_intent":"pi_1"}"#;
    let script = script([
        page(true, &[refund("re_3", "failed"), by_hand.to_owned()]),
        page(false, &[refund("re_1", "succeeded")]),
    ]);
    let found = provider(PaymentIntents, &script)
        .find_refunds(&query(Some("re_1")), deadline(60))
        .await
        .expect("an answer");
    let states: Vec<_> = found
        .iter()
        .map(|refund| (refund.id.as_str(), refund.status.clone()))
        .collect();
    assert_eq!(
        states,
        [
            ("re_3", RefundState::Failed),
            ("re_2", RefundState::Pending),
            ("re_1", RefundState::Succeeded),
        ]
    );
    assert_eq!(found[1].refund_key, None);
    assert!(
        found
            .iter()
            .all(|refund| refund.payment_id.as_deref() == Some("pi_1"))
    );
    let paths: Vec<_> = script
        .calls()
        .into_iter()
        .map(|call| call.path_and_query)
        .collect();
    assert_eq!(
        paths,
        [LIST.to_owned(), format!("{LIST}&starting_after=re_2")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_known_refund_is_fetched_beside_the_list_that_does_not_have_it() {
    let script = script([page(false, &[]), answer(200, &refund("re_1", "succeeded"))]);
    let found = provider(PaymentIntents, &script)
        .find_refunds(&query(Some("re_1")), deadline(60))
        .await
        .expect("an answer");
    assert_eq!(found.len(), 1);
    assert_eq!(script.calls()[1].path_and_query, "/v1/refunds/re_1");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_charges_refunds_are_listed_by_the_charge() {
    let script = script([page(false, &[refund("re_1", "succeeded")])]);
    let of_charge = RefundQuery {
        payment_id: "ch_1".to_owned(),
        ..query(None)
    };
    let found = provider(Charges, &script)
        .find_refunds(&of_charge, deadline(60))
        .await
        .expect("an answer");
    assert_eq!(found[0].payment_id.as_deref(), Some("ch_1"));
    assert!(script.calls()[0].path_and_query.contains("?charge=ch_1&"));
}

#[tokio::test(start_paused = true)]
#[rustfmt::skip]
async fn what_could_not_be_asked_or_read_is_never_an_empty_answer() {
    let no_amount = refund("re_1", "succeeded").replace("1999", "null");
    let no_id = refund("re_1", "succeeded").replace(r#""re_1""#, "null");
    let told_no = || answer_with(500, &[("stripe-should-retry", "false")], "");
    let rows: Vec<(&str, Vec<TransportResult>)> = vec![
        ("unreachable", vec![not_sent(), not_sent(), not_sent()]),
        ("cut", vec![lost("cut"), lost("cut"), lost("cut")]),
        ("credentials", vec![answer(401, "")]),
        ("a 404", vec![answer(404, "")]),
        ("a 500", vec![told_no()]),
        ("a web page", vec![answer(200, "<html>")]),
        ("one that cannot be read", vec![page(false, &[no_amount])]),
        ("one without an id", vec![page(false, &[no_id])]),
        ("more, and nowhere to go on from", vec![page(true, &[])]),
        ("the second page is away", vec![page(true, &[refund("re_1", "succeeded")]), told_no()]),
    ];
    for (name, results) in rows {
        let script = script(results);
        let found = provider(PaymentIntents, &script).find_refunds(&query(None), deadline(60)).await;
        assert!(found.is_err(), "{name}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
#[rustfmt::skip]
async fn one_refund_is_there_or_not_or_nobody_knows() {
    let rows = [
        ("there", answer(200, &refund("re_1", "failed")), Ok(true)),
        ("not there", answer(404, r#"{"error":{"code":"resource_missing"}}"#), Ok(false)),
        ("another one", answer(200, &refund("re_2", "failed")), Err(())),
        ("credentials", answer(401, ""), Err(())),
        ("unreadable", answer(200, "{}"), Err(())),
    ];
    for (name, result, expected) in rows {
        let script = script([result]);
        let found = provider(PaymentIntents, &script).retrieve_refund("re_1", deadline(60)).await;
        assert_eq!(found.map(|refund| refund.is_some()).map_err(|_| ()), expected, "{name}");
    }
    let script = script([]);
    let odd = provider(PaymentIntents, &script).retrieve_refund("re_1/..", deadline(60)).await;
    assert!(odd.is_err());
    assert!(script.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_page_of_the_account_says_where_the_next_one_begins() {
    let elsewhere = refund("re_1", "succeeded").replace(r#""inst""#, r#""elsewhere""#);
    let script = script([
        page(true, &[refund("re_2", "succeeded"), elsewhere]),
        page(false, &[]),
    ]);
    let provider = provider(PaymentIntents, &script);
    let first = provider
        .page_refunds(SINCE_MS, None, deadline(60))
        .await
        .expect("a page");
    assert_eq!(first.refunds.len(), 2, "whoever made them");
    assert_eq!(first.next.as_deref(), Some("re_1"));
    let last = provider
        .page_refunds(SINCE_MS, first.next.as_deref(), deadline(60))
        .await
        .expect("a page");
    assert_eq!((last.refunds.len(), last.next), (0, None));
    assert_eq!(
        script.calls()[1].path_and_query,
        "/v1/refunds?created%5Bgte%5D=1699913600&limit=100&starting_after=re_1"
    );
}
