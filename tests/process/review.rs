//! `chargeonce review`: an operator reads what is known, decides, and is refused where the provider says otherwise.

use serde_json::Value;

use crate::support::{Ran, TestApp};

async fn review(app: &TestApp, arguments: &[&str]) -> Ran {
    let arguments = [&["review"], arguments].concat();
    app.service().set("RUST_LOG", "error").run(&arguments).await
}

/// A charge whose payment took a cent too much; its id, and the payment's.
async fn parked(app: &TestApp, invoice_id: &str) -> (String, String) {
    let service = app.serve().await;
    service.invoice(invoice_id).await;
    app.mock
        .fault(&format!("charge:{invoice_id}"), "wrong_amount", 1);
    let reply = service.charge(invoice_id).await;
    reply.assert(409, "charge_needs_review", "unknown", "later");
    let charge = reply.json()["charge"].clone();
    let payments = app.mock.ledger().payments;
    let payment = payments
        .iter()
        .find(|payment| payment.invoice_id.as_deref() == Some(invoice_id));
    (
        charge["id"].as_str().unwrap().to_owned(),
        payment.unwrap().id.clone(),
    )
}

fn says(ran: &Ran, parts: &[&str]) {
    for part in parts {
        assert!(ran.stdout.contains(part), "{part}: {ran:#?}");
    }
}

on_both_stores! {
    async fn a_review_is_listed_explained_and_resolved(engine) {
        let app = TestApp::start(engine).await;
        let none = review(&app, &["list"]).await;
        assert_eq!(none.code, Some(0), "{none:?}");
        says(&none, &["No charge waits"]);
        let (charge_id, payment_id) = parked(&app, "inv_1").await;

        let list = review(&app, &["list"]).await;
        assert_eq!(list.code, Some(0), "{list:?}");
        says(&list, &[&charge_id, &payment_id, "inv_1", "USD 12.50", "1251 usd instead of 1250 usd"]);
        let json = review(&app, &["list", "--json"]).await;
        let document: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(document["data"][0]["charge"]["id"], charge_id);
        assert!(document["data"][0]["evidence"].as_str().unwrap().contains("1251"), "{document}");

        let explained = review(&app, &["explain", &charge_id]).await;
        assert_eq!(explained.code, Some(0), "{explained:?}");
        says(&explained, &[
            "status    needs_review", "asked by  no key, request req_", "USD 12.50", "What is known", "Its history", "record", "At the provider now", &payment_id,
            "succeeded", "USD 12.51", &format!("review resolve {charge_id} --paid-by {payment_id} --note"),
            &format!("review resolve {charge_id} --not-charged --note"),
        ]);

        let resolved = review(&app, &["resolve", &charge_id, "--paid-by", &payment_id, "--note", "the cent is ours"]).await;
        assert_eq!(resolved.code, Some(0), "{resolved:?}");
        says(&resolved, &["status    succeeded", &payment_id]);
        assert_eq!(app.attempts("inv_1").await, ["succeeded"]);
        says(&review(&app, &["list"]).await, &["No charge waits"]);
        says(&review(&app, &["explain", &charge_id]).await, &["Nothing is to be decided", "the cent is ours", "resolution"]);
    }

    async fn a_decision_against_the_provider_is_refused_until_it_is_forced(engine) {
        let app = TestApp::start(engine).await;
        let (charge_id, payment_id) = parked(&app, "inv_1").await;
        let refusals: [(&[&str], &str); 4] = [
            (&[&charge_id, "--not-charged"], "has taken the money"),
            (&[&charge_id, "--paid-by", "pi_none"], "knows no payment pi_none"),
            (&["chg_none", "--not-charged"], "no charge with this id"),
            (&[&charge_id, "--paid-by", "pi one"], "--paid-by"),
        ];
        for (arguments, says) in refusals {
            let ran = review(&app, &[&["resolve", "--note", "by me"], arguments].concat()).await;
            assert_eq!(ran.code, Some(1), "{ran:?}");
            assert!(ran.stderr.contains(says) && ran.stdout.is_empty(), "{ran:?}");
        }
        assert_eq!(app.attempts("inv_1").await, ["needs_review"]);

        let away = || app.service().set("STRIPE_API_BASE", "http://127.0.0.1:1").set("PROVIDER_TIMEOUT", "100ms");
        let unconfirmed = ["review", "resolve", &charge_id, "--paid-by", &payment_id, "--note", "by me"];
        let ran = away().run(&unconfirmed).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        let explained = away().run(&["review", "explain", &charge_id]).await;
        assert_eq!(explained.code, Some(0), "{explained:?}");
        says(&explained, &["1251 usd instead of 1250 usd", "it could not be asked", "--not-charged"]);
        let forced = away().run(&[&unconfirmed[..], &["--force"]].concat()).await;
        assert_eq!(forced.code, Some(0), "{forced:?}");
        assert_eq!(app.attempts("inv_1").await, ["succeeded"]);
        let again = review(&app, &["resolve", &charge_id, "--not-charged", "--note", "by me"]).await;
        assert_eq!(again.code, Some(1), "{again:?}");
    }

    async fn what_cannot_be_meant_or_done_ends_with_two(engine) {
        let app = TestApp::start(engine).await;
        let (charge_id, _) = parked(&app, "inv_1").await;
        let unclear: [&[&str]; 4] = [
            &["resolve", &charge_id, "--note", "by me"],
            &["resolve", &charge_id, "--not-charged", "--paid-by", "pi_1", "--note", "by me"],
            &["resolve", &charge_id, "--not-charged"],
            &["resolve", "--not-charged", "--note", "by me"],
        ];
        for arguments in unclear {
            let ran = review(&app, arguments).await;
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}: {ran:?}");
        }
        let mock = app.service().set("PAYMENT_PROVIDER", "mock").run(&["review", "list"]).await;
        assert_eq!(mock.code, Some(2), "{mock:?}");
        assert!(mock.stderr.contains("PAYMENT_PROVIDER=mock"), "{mock:?}");
        assert_eq!(app.attempts("inv_1").await, ["needs_review"]);
    }
}
