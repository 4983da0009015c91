//! Paths, methods and query strings.

use super::{Case, RawRequest, case, judge, service};
use crate::support::document::document;

on_both_stores! {
    async fn a_method_that_a_path_does_not_have_is_refused_with_those_that_it_has(engine) {
        let app = service(engine).await;
        let table = [
            ("/v1/invoices", "GET, POST", &["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"][..]),
            ("/v1/invoices/inv_1", "GET, PATCH", &["PUT", "POST", "DELETE", "OPTIONS"]),
            ("/v1/invoices/inv_1/void", "POST", &["GET", "PUT", "PATCH", "DELETE"]),
            ("/v1/charges", "GET, POST", &["PUT", "PATCH", "DELETE", "post"]),
            ("/v1/charges/chg_1", "GET", &["PUT", "POST", "PATCH", "DELETE"]),
            ("/v1/charges/chg_1/resolve", "POST", &["GET", "PUT", "DELETE"]),
            ("/health/live", "GET", &["POST", "DELETE"]),
            ("/health/ready", "GET", &["POST", "PUT"]),
        ];
        let mut cases = Vec::new();
        for (path, allow, methods) in table {
            for method in methods {
                let body = r#"{"invoiceId":"inv_1"}"#;
                cases.push(case(format!("{method} {path}"), RawRequest::json(method, path, body), (405, "method_not_allowed", "")));
                let reply = app.raw(&RawRequest::new(method, path)).await;
                assert_eq!(reply.header("allow"), Some(allow), "{method} {path}: {reply:#?}");
            }
        }

        judge(&app, cases).await;
    }

    async fn a_path_that_leads_nowhere_is_a_404(engine) {
        let app = service(engine).await;
        let nowhere = (404, "route_not_found", "");
        let mut cases: Vec<Case> = [
            "/", "/v1", "/v1/", "/v2/charges", "/V1/charges", "/v1/charge", "/v1/charges/", "/v1/invoices/", "/v1/invoices/inv_1/",
            "/v1/invoices/inv_1/void/", "/v1/invoices//void", "//v1/charges", "/v1//charges", "/v1/charges/chg_1/resolve/x", "/v1/charges%2f",
            "/v1/../v1/charges", "/../../etc/passwd", "/v1/charges;x=1", "/v1/charges%00", "/v1/charges%20", "/%", "/%ff", "/.env", "/_mock/ledger",
            "/%3Cscript%3E",
        ]
        .iter()
        .flat_map(|path| [RawRequest::new("GET", path), RawRequest::json("POST", path, r#"{"invoiceId":"inv_1"}"#)].map(|request| case(*path, request, nowhere)))
        .collect();
        let long = "a".repeat(5_000);
        for id in ["a%00b", "%00", "%ff", "%c0%af", "..%2f..%2fetc", "%2e%2e", "%", "%zz", "inv_1%20", "inv_1%0a", "joe@example.com", "a:2", "%3Cscript%3E", "inv_2", &long] {
            let missing = (404, "invoice_not_found", "id");
            let path = format!("/v1/invoices/{id}");
            cases.push(case(format!("GET {path:.50}"), RawRequest::new("GET", &path), missing));
            cases.push(case(format!("PATCH {path:.50}"), RawRequest::json("PATCH", &path, r#"{"paymentMethodId":null}"#), missing));
            cases.push(case(format!("void {path:.50}"), RawRequest::new("POST", &format!("{path}/void")), missing));
            let path = format!("/v1/charges/{id}");
            cases.push(case(format!("GET {path:.50}"), RawRequest::new("GET", &path), (404, "charge_not_found", "id")));
            let verdict = r#"{"outcome":"failed","note":"x"}"#;
            cases.push(case(format!("resolve {path:.50}"), RawRequest::json("POST", &format!("{path}/resolve"), verdict), (404, "charge_not_found", "id")));
        }
        cases.push(case("charge an unknown invoice", super::charge(r#"{"invoiceId":"inv_2"}"#), (404, "invoice_not_found", "invoiceId")));

        judge(&app, cases).await;
    }

    async fn a_query_that_cannot_be_read_is_refused_and_its_parameter_named(engine) {
        let app = service(engine).await;
        let long = format!("x{}=1", "x".repeat(5_000));
        let cursors = ["cursor=", "cursor=%21%21", "cursor=AAAA", "cursor=_w", "cursor=aW52XzE", "cursor=MS4uLg"];
        let limits = ["limit=", "limit=0", "limit=-1", "limit=101", "limit=1.5", "limit=1e2", "limit=ten", "limit=99999999999999999999", "limit=%00", "limit=%FF", "limit=0x10"];
        let mut cases = Vec::new();
        let mut refused = |path: &str, query: &str, field| {
            let target = format!("{path}?{query}");
            cases.push(case(format!("{target:.60}"), RawRequest::new("GET", &target), (400, "invalid_parameter", field)));
        };
        for path in ["/v1/invoices", "/v1/charges"] {
            limits.iter().for_each(|query| refused(path, query, "limit"));
            refused(path, "limit=1&limit=2", "limit");
            refused(path, "foo=1", "foo");
            refused(path, "Status=open", "Status");
            refused(path, "%3Cscript%3E=1", "query");
            refused(path, "%00=1", "query");
            refused(path, "%FF=1", "query");
            refused(path, "a%60b=1", "query");
            refused(path, "=1", "query");
            refused(path, &long, "query");
            for query in ["status=", "status=bogus", "status=OPEN", "status=open,paid", "status=%00", "status=open&status=paid"] {
                refused(path, query, "status");
            }
            refused(path, "cursor=a&cursor=b", "cursor");
        }
        cursors.iter().for_each(|query| refused("/v1/invoices", query, "cursor"));
        for query in ["cursor=%21%21", "cursor=", "cursor=_w", "cursor=Li4vLi4"] {
            refused("/v1/charges", query, "cursor");
        }
        for query in ["customerId=", "customerId=a%20b", "customerId=a%00", "customerId=..%2f", "customerId=%27--", "customerId=a&customerId=b"] {
            refused("/v1/invoices", query, "customerId");
        }
        refused("/v1/invoices", "customer_id=cus_1", "customer_id");
        refused("/v1/invoices", "invoiceId=inv_1", "invoiceId");
        for query in ["invoiceId=", "invoiceId=a:b", "invoiceId=joe@example.com", "invoiceId=a%00", "invoiceId=a&invoiceId=b"] {
            refused("/v1/charges", query, "invoiceId");
        }
        refused("/v1/charges", "customerId=cus_1", "customerId");

        judge(&app, cases).await;
    }

    async fn a_query_parameter_that_an_operation_does_not_have_is_refused_whatever_the_operation(engine) {
        let app = service(engine).await;
        let mut cases = Vec::new();
        for (template, item) in document()["paths"].as_object().unwrap() {
            let path = template.replace("{id}", "inv_1");
            for (method, operation) in item.as_object().unwrap() {
                let parameters = operation["parameters"].as_array().unwrap();
                let has = |name: &str| parameters.iter().any(|parameter| parameter["in"] == "query" && parameter["name"] == name);
                for name in ["status", "limit", "cursor", "customerId", "invoiceId", "format", "id", "foo", "API_KEY"] {
                    if has(name) {
                        continue;
                    }
                    let target = format!("{path}?{name}=1");
                    let request = RawRequest::json(&method.to_ascii_uppercase(), &target, r#"{"invoiceId":"inv_1"}"#);
                    cases.push(case(format!("{method} {target}"), request, (400, "invalid_parameter", name)));
                }
                let target = format!("{path}?%00=1");
                cases.push(case(format!("{method} {target}"), RawRequest::new(&method.to_ascii_uppercase(), &target), (400, "invalid_parameter", "query")));
            }
        }
        assert!(cases.len() > 150, "{}", cases.len());

        judge(&app, cases).await;
    }
}
