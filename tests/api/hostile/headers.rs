//! Headers that announce the wrong thing, or name no key.

use super::{Case, RawRequest, case, charge, judge, service};

const BODY: &str = r#"{"invoiceId":"inv_1"}"#;
const INVOICE: &str = r#"{"customerId":"cus_1","amountCents":1250,"currency":"usd"}"#;

on_both_stores! {
    async fn a_body_that_is_not_announced_as_json_is_refused(engine) {
        let app = service(engine).await;
        let unsupported = |field| (415, "unsupported_media_type", field);
        let typed = |value: &str| charge(BODY).without("Content-Type").header("Content-Type", value);
        let mut cases: Vec<Case> = [
            "", "text/plain", "text/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp",
            "application/problem+json", "application/json; charset=iso-8859-1", "application/json; charset=utf-16",
            "application/json; profile=x", "application", "json", "*/*", "application/json, text/plain", "text/plain; application/json",
        ]
        .iter()
        .map(|value| case(format!("Content-Type: {value}"), typed(value), unsupported("Content-Type")))
        .collect();
        cases.push(case("no Content-Type", charge(BODY).without("Content-Type"), unsupported("Content-Type")));
        cases.push(case("two of them", charge(BODY).header("Content-Type", "text/plain"), unsupported("Content-Type")));
        cases.push(case("not ASCII", typed("").without("Content-Type").header("Content-Type", b"application/json\xff".to_vec()), unsupported("Content-Type")));
        for encoding in ["gzip", "br", "deflate", "zstd", "identity, gzip", "x", ""] {
            cases.push(case(format!("Content-Encoding: {encoding}"), charge(BODY).header("Content-Encoding", encoding), unsupported("Content-Encoding")));
        }
        cases.push(case("a second encoding", charge(BODY).header("Content-Encoding", "identity").header("Content-Encoding", "gzip"), unsupported("Content-Encoding")));

        judge(&app, cases).await;
    }

    async fn every_way_to_announce_json_in_utf_8_is_good(engine) {
        let app = service(engine).await;
        let mut replies = Vec::new();
        for value in ["application/json", "Application/JSON", "application/json;charset=utf-8", "application/json ; charset=UTF-8", "application/json; charset=\"utf-8\""] {
            let request = charge(BODY).without("Content-Type").header("Content-Type", value).header("Content-Encoding", "identity");
            let reply = app.raw(&request).await;
            reply.assert(201, "", "yes", "not_needed");
            replies.push(reply);
        }
        app.check_oracles(&replies).await;
    }

    async fn a_key_that_is_none_is_refused_on_both_paths_that_take_one(engine) {
        let app = service(engine).await;
        let long = "k".repeat(256);
        let quoted_long = format!("\"{long}\"");
        let keys: Vec<(&str, Vec<&[u8]>)> = vec![
            ("empty", vec![b""]), ("blank", vec![b"   "]), ("empty in quotes", vec![b"\"\""]), ("blank in quotes", vec![b"\" \""]),
            ("too long", vec![long.as_bytes()]), ("too long in quotes", vec![quoted_long.as_bytes()]),
            ("twice", vec![b"a", b"b"]), ("twice the same", vec![b"a", b"a"]), ("once empty", vec![b"a", b""]),
            ("not ASCII", vec![b"schl\xc3\xbcssel"]), ("not UTF-8", vec![b"\xff\xfe"]), ("a tab inside", vec![b"a\tb"]),
            ("no end quote", vec![b"\"abc"]), ("text after the quote", vec![b"\"abc\"d"]), ("a list", vec![b"\"a\", \"b\""]),
            ("a parameter", vec![b"\"a\";x=1"]), ("a bad escape", vec![b"\"a\\n\""]),
        ];
        let mut cases = Vec::new();
        for (name, values) in keys {
            for (path, body) in [("/v1/charges", BODY), ("/v1/invoices", INVOICE)] {
                let mut request = RawRequest::json("POST", path, body);
                for value in &values {
                    request = request.header("Idempotency-Key", value.to_vec());
                }
                cases.push(case(format!("{path}: {name}"), request, (400, "invalid_idempotency_key", "Idempotency-Key")));
            }
        }

        judge(&app, cases).await;
    }

    async fn a_preference_that_makes_no_sense_is_ignored(engine) {
        let app = service(engine).await;
        let long = format!("wait={}", "9".repeat(4_000));
        let mut replies = Vec::new();
        for value in ["", ";", "wait", "wait=", "wait=-1", "wait=soon", "wait=1.5", "wait=99999999999999999999", "wait=4294967295", "=,;=", "wait=\"", &long] {
            let reply = app.raw(&charge(BODY).header("Prefer", value)).await;
            reply.assert(201, "", "yes", "not_needed");
            replies.push(reply);
        }
        let raw = app.raw(&charge(BODY).header("Prefer", b"wait=\xff".to_vec())).await;
        raw.assert(201, "", "yes", "not_needed");
        replies.push(raw);
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&replies).await;
    }

    async fn a_request_id_is_taken_over_only_when_it_is_harmless(engine) {
        let app = service(engine).await;
        let long = "r".repeat(129);
        for (sent, is_kept) in [("req-7", true), ("a b", false), ("", false), (long.as_str(), false), ("caf\u{e9}", false)] {
            let request = RawRequest::new("GET", "/v1/invoices/inv_1").header("X-Request-Id", sent);
            let reply = app.raw(&request).await;
            let given = reply.header("x-request-id").unwrap();
            assert_eq!(given == sent, is_kept, "{sent:.20}: {given}");
            assert!(is_kept || given.starts_with("req_"), "{given}");
        }
        app.check_oracles(&[]).await;
    }
}
