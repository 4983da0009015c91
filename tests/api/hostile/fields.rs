//! Well-formed bodies with values that cannot be.

use super::{Case, MALFORMED, RawRequest, case, charge, invalid, invoice, judge, service};

/// Texts that are no invoice id, as they stand in JSON.
fn odd_invoice_ids() -> Vec<String> {
    [
        "",
        " ",
        "a:2",
        "charge:inv_1",
        "a/b",
        "../inv_1",
        "..",
        ".inv",
        "-inv",
        "_inv",
        "inv 1",
        " inv_1",
        "inv_1 ",
        "joe@example.com",
        "inv_1\\u0000",
        "inv_1\\n",
        "\\u001b[31m",
        "inv_\\u00e9",
        "рахунок",
        "💶",
        "%69nv_1",
        "inv_1?x=1",
        "inv_1#x",
        "inv_1;x",
        "inv_1'--",
        "inv_1\\u202e",
        "<script>",
        "{inv_1}",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(["a".repeat(121)])
    .collect()
}

on_both_stores! {
    async fn an_id_that_cannot_be_one_is_refused(engine) {
        let app = service(engine).await;
        let mut cases: Vec<Case> = Vec::new();
        for id in odd_invoice_ids() {
            cases.push(case(format!("charge {id:.40}"), charge(format!(r#"{{"invoiceId":"{id}"}}"#)), invalid("invoiceId")));
            cases.push(case(format!("create {id:.40}"), invoice("id", &format!("\"{id}\"")), invalid("id")));
        }
        let long = "c".repeat(256);
        for odd in ["", " ", "cus 1", "cus/1", "../cus_1", "cus_1?x=1", "cus_1&amount=1", "cus\\u0000", "c\\u00fcs", "joe@example.com", "_x", &long] {
            for field in ["customerId", "paymentMethodId"] {
                cases.push(case(format!("{field} {odd:.40}"), invoice(field, &format!("\"{odd}\"")), invalid(field)));
            }
            let body = format!(r#"{{"paymentMethodId":"{odd}"}}"#);
            cases.push(case(format!("patch {odd:.40}"), RawRequest::json("PATCH", "/v1/invoices/inv_1", body), invalid("paymentMethodId")));
        }

        judge(&app, cases).await;
    }

    async fn a_value_of_the_wrong_type_is_refused_and_its_field_named(engine) {
        let app = service(engine).await;
        let mut cases = vec![
            case("charge without an invoice", charge("{}"), invalid("invoiceId")),
            case("patch without a field", RawRequest::json("PATCH", "/v1/invoices/inv_1", "{}"), invalid("paymentMethodId")),
            case("patch with two", RawRequest::json("PATCH", "/v1/invoices/inv_1", r#"{"paymentMethodId":null,"amountCents":1}"#), invalid("amountCents")),
        ];
        for json in ["null", "1", "true", "[]", r#"["inv_1"]"#, "{}", r#"{"id":"inv_1"}"#, "1.5"] {
            cases.push(case(format!("invoiceId {json}"), charge(format!(r#"{{"invoiceId":{json}}}"#)), invalid("invoiceId")));
        }
        for (field, values) in [
            ("customerId", &["null", "1", "true", "[]", "{}"][..]),
            ("currency", &["null", "840", "true", "[]", r#"["usd"]"#]),
            ("amountCents", &["null", "\"1250\"", "true", "[]", "{}", "\"\""]),
            ("id", &["1", "true", "[]", "{}"]),
            ("description", &["1", "false", "[]", "{}"]),
            ("paymentMethodId", &["1", "false", "[]", "{}"]),
            ("metadata", &["1", "\"a\"", "[]", "true", r#"["a","b"]"#, r#"{"a":1}"#, r#"{"a":null}"#, r#"{"a":true}"#, r#"{"a":{"b":"c"}}"#, r#"{"a":["b"]}"#]),
        ] {
            for json in values {
                cases.push(case(format!("{field} {json}"), invoice(field, json), invalid(field)));
            }
        }
        for field in ["customerId", "currency", "amountCents"] {
            let mut members = serde_json::json!({"customerId": "cus_1", "currency": "usd", "amountCents": 1250});
            members.as_object_mut().unwrap().remove(field);
            let request = RawRequest::json("POST", "/v1/invoices", members.to_string());
            cases.push(case(format!("no {field}"), request, invalid(field)));
        }
        for (body, field) in [
            ("{}", "outcome"), (r#"{"outcome":"failed"}"#, "note"), (r#"{"outcome":"maybe","note":"x"}"#, "outcome"),
            (r#"{"outcome":1,"note":"x"}"#, "outcome"), (r#"{"outcome":"failed","note":""}"#, "note"),
            (r#"{"outcome":"failed","note":"a\u0000"}"#, "note"), (r#"{"outcome":"succeeded","note":"x"}"#, "providerPaymentId"),
            (r#"{"outcome":"failed","note":"x","providerPaymentId":"pi_1"}"#, "providerPaymentId"),
            (r#"{"outcome":"succeeded","note":"x","providerPaymentId":"pi 1"}"#, "providerPaymentId"),
        ] {
            cases.push(case(format!("resolve {body}"), RawRequest::json("POST", "/v1/charges/chg_1/resolve", body), invalid(field)));
        }

        judge(&app, cases).await;
    }

    async fn an_amount_that_cannot_be_charged_is_refused(engine) {
        let app = service(engine).await;
        let mut cases = Vec::new();
        for json in [
            "0", "-0", "-1", "-1250", "49", "100000000", "10.0", "1250.5", "0.5", "1e3", "1E3", "1e-3", "1e300", "9223372036854775807",
            "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "340282366920938463463374607431768211456",
        ] {
            cases.push(case(format!("{json} usd"), invoice("amountCents", json), invalid("amountCents")));
        }
        cases.push(case("a thousand digits", invoice("amountCents", &"9".repeat(300)), invalid("amountCents")));
        for json in ["01250", "+1250", "0x10", "1_250", "1,250", "NaN", "Infinity", ".5", "5.", "1e999", "$12", "1250 usd"] {
            let right = MALFORMED;
            // A comma ends the number, and what follows is no member.
            cases.push(case(format!("{json} is no number in JSON"), invoice("amountCents", json), right));
        }
        for (amount, currency) in [
            (5_124_i64, "kwd"), (1, "kwd"), (101, "isk"), (99, "isk"), (150, "ugx"), (49, "jpy"), (100_000_000, "jpy"), (1_000_000_000_000, "idr"),
            (29, "gbp"), (17_499, "huf"), (99_999_999, "bhd"), (0, "clp"),
        ] {
            let body = format!(r#"{{"customerId":"cus_1","amountCents":{amount},"currency":"{currency}"}}"#);
            cases.push(case(format!("{amount} {currency}"), RawRequest::json("POST", "/v1/invoices", body), invalid("amountCents")));
        }

        judge(&app, cases).await;
    }

    async fn a_currency_that_cannot_be_charged_is_refused(engine) {
        let app = service(engine).await;
        let long = "u".repeat(10_000);
        let currencies = [
            "", " ", "us", "usdd", "xxx", "xbt", "hrk", " usd", "usd ", "u$d", "€", "€€€", "ｕｓｄ", "us\\u0000", "us\\n", "840", "dollar", "us\\u0131",
            "<b>", &long,
        ];
        let cases = currencies
            .iter()
            .map(|odd| case(format!("{odd:.40}"), invoice("currency", &format!("\"{odd}\"")), invalid("currency")))
            .collect();

        judge(&app, cases).await;
    }

    async fn a_description_or_metadata_beyond_the_limits_is_refused(engine) {
        let app = service(engine).await;
        let text = |length: usize| format!("\"{}\"", "é".repeat(length));
        let pairs = |count: usize| {
            let pairs: Vec<String> = (0..count).map(|n| format!(r#""n{n}":"v""#)).collect();
            format!("{{{}}}", pairs.join(","))
        };
        let name = |name: &str| invoice("metadata", &format!(r#"{{"{name}":"v"}}"#));
        let value = |value: &str| invoice("metadata", &format!(r#"{{"n":"{value}"}}"#));

        judge(&app, vec![
            case("a long description", invoice("description", &text(501)), invalid("description")),
            case("a NUL in the description", invoice("description", r#""a\u0000b""#), invalid("description")),
            case("a line break in the description", invoice("description", r#""a\nb""#), invalid("description")),
            case("an escape sequence in the description", invoice("description", r#""\u001b[2J""#), invalid("description")),
            case("a C1 control in the description", invoice("description", r#""\u0085""#), invalid("description")),
            case("51 pairs", invoice("metadata", &pairs(51)), invalid("metadata")),
            case("1000 pairs", invoice("metadata", &pairs(1_000)), invalid("metadata")),
            case("an empty name", name(""), invalid("metadata")),
            case("a long name", name(&"n".repeat(41)), invalid("metadata")),
            case("brackets in a name", name("a[b]"), invalid("metadata")),
            case("a closing bracket in a name", name("a]"), invalid("metadata")),
            case("a NUL in a name", name("a\\u0000"), invalid("metadata")),
            case("a tab in a name", name("a\\t"), invalid("metadata")),
            case("a long value", value(&"v".repeat(501)), invalid("metadata")),
            case("a NUL in a value", value("a\\u0000"), invalid("metadata")),
            case("a line break in a value", value("a\\r\\nb"), invalid("metadata")),
        ]).await;

        // The limits themselves are good, and so are names that look like fields.
        let longest = invoice("metadata", &format!(r#"{{"{}":"{}"}}"#, "n".repeat(40), "é".repeat(500)));
        for fits in [invoice("description", &text(500)), invoice("metadata", &pairs(50)), longest, invoice("metadata", r#"{"currency":"eur","amountCents":"1"}"#)] {
            let reply = app.raw(&fits).await;
            assert_eq!(reply.status, 201, "{reply:#?}");
        }
        app.check_oracles(&[]).await;
    }
}
