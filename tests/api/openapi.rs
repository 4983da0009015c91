//! The API's document: whole, true, and served with its page. That every answer of this binary's tests is one that the
//! document knows is checked where they are read (`support/document.rs`).

use std::collections::BTreeSet;

use chargeonce::app::App;
use chargeonce::error::Code;
use serde_json::Value;

use crate::support::document::document;
use crate::support::{Engine, TestApp};

/// For people, not for programs: the browser page has no operations in the document.
const PAGES: [&str; 2] = ["/docs", "/docs/{file}"];

/// Every operation with its method and path.
pub fn operations() -> Vec<(String, String, &'static Value)> {
    let mut found = Vec::new();
    for (path, item) in document()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            found.push((method.to_ascii_uppercase(), path.clone(), operation));
        }
    }
    found
}

/// A component, where something is a reference to one.
pub fn resolved(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => document().pointer(&reference[1..]).unwrap(),
        None => value,
    }
}

#[test]
fn every_route_that_is_mounted_is_in_the_document_and_nothing_else_is() {
    let mounted: BTreeSet<(String, String)> = App::routes()
        .list()
        .into_iter()
        .filter(|(_, path)| !PAGES.contains(&path.as_str()))
        .map(|(method, path)| (method.to_owned(), path))
        .collect();
    let documented = operations()
        .into_iter()
        .map(|(method, path, _)| (method, path))
        .collect();
    assert_eq!(mounted, documented);
}

#[test]
fn every_error_code_is_an_answer_of_some_operation_under_its_own_status() {
    let mut met = BTreeSet::new();
    let mut collect = |status: &str, response: &'static Value| {
        let schema = &response["content"]["application/problem+json"]["schema"];
        let codes = schema["allOf"][1]["properties"]["code"]["enum"].as_array();
        for code in codes.into_iter().flatten() {
            met.insert((code.as_str().unwrap(), status.parse::<u16>().unwrap()));
        }
    };
    for (_, _, operation) in operations() {
        for (status, response) in operation["responses"].as_object().unwrap() {
            collect(status, response);
        }
    }
    // What no operation answers: the path is not there, or not with this method.
    collect(
        "405",
        &document()["components"]["responses"]["MethodNotAllowed"],
    );
    let all = Code::ALL
        .iter()
        // What `chargeonce mcp` says by itself, of a service that it cannot reach.
        .filter(|code| **code != Code::ServiceUnreachable)
        .map(|code| (code.as_str(), code.status()))
        .collect();
    assert_eq!(
        met, all,
        "name a new code in the `refusals!` of the operations that answer with it"
    );
}

#[test]
fn every_operation_is_told_whole() {
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations() {
        let name = format!("{method} {path}");
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{name}: two operations have the id {id}");
        assert_eq!(
            operation["tags"].as_array().map(Vec::len),
            Some(1),
            "{name}"
        );
        assert!(operation["summary"].is_string(), "{name}");
        for parameter in operation["parameters"].as_array().unwrap() {
            assert!(parameter["description"].is_string(), "{name}: {parameter}");
        }
        if let Some(content) = operation["requestBody"]["content"].as_object() {
            for (media_type, content) in content {
                assert!(!content["example"].is_null(), "{name}: {media_type}");
            }
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert_ne!(response["description"], "", "{name} {status}");
            for header in ["X-Request-Id", "Cache-Control"] {
                assert!(response["headers"][header].is_object(), "{name} {status}");
            }
            for content in response["content"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(_, content)| content)
            {
                let is_success = status.starts_with('2');
                assert!(content["schema"].is_object(), "{name} {status}");
                assert_eq!(is_success, !content["example"].is_null(), "{name} {status}");
            }
        }
    }
}

#[test]
fn every_reference_and_every_link_has_its_target() {
    fn walk(value: &'static Value, references: &mut Vec<&'static str>) {
        match value {
            Value::Object(members) => {
                references.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| walk(value, references));
            }
            Value::Array(values) => values.iter().for_each(|value| walk(value, references)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut references = Vec::new();
    walk(document(), &mut references);
    assert!(references.len() > 50);
    for reference in references {
        assert!(document().pointer(&reference[1..]).is_some(), "{reference}");
    }
    let ids: BTreeSet<&str> = operations()
        .iter()
        .filter_map(|(_, _, operation)| operation["operationId"].as_str())
        .collect();
    let mut links = 0;
    for (method, path, operation) in operations() {
        for response in operation["responses"].as_object().unwrap().values() {
            for link in response["links"].as_object().into_iter().flatten() {
                let target = link.1["operationId"].as_str().unwrap();
                assert!(ids.contains(target), "{method} {path}: {target}");
                let taker = operations()
                    .into_iter()
                    .find(|(_, _, operation)| operation["operationId"] == target);
                let taken = taker.unwrap().2["parameters"].as_array().unwrap();
                for (name, _) in link.1["parameters"].as_object().into_iter().flatten() {
                    let is_there = taken.iter().any(|parameter| parameter["name"] == *name);
                    assert!(is_there, "{method} {path}: {target} has no {name}");
                }
                links += 1;
            }
        }
    }
    assert!(links > 0);
}

#[test]
fn a_request_has_no_members_but_its_own() {
    for (method, path, operation) in operations() {
        // Stripe adds members to its events whenever it likes.
        if path == "/v1/webhooks/stripe" {
            continue;
        }
        // MCP has a schema of its own.
        if path == "/mcp" {
            continue;
        }
        for content in operation["requestBody"]["content"]
            .as_object()
            .into_iter()
            .flatten()
        {
            let schema = resolved(&content.1["schema"]);
            let own = schema["allOf"].get(0).unwrap_or(schema);
            assert_eq!(
                own["additionalProperties"], false,
                "{method} {path}: {schema}"
            );
        }
    }
}

/// The members of an object, and of those in it, as paths.
fn members(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        found.insert(name.clone());
        found.extend(
            members(value)
                .into_iter()
                .map(|inner| format!("{name}.{inner}")),
        );
        let items = value.as_array().into_iter().flatten();
        found.extend(
            items
                .flat_map(members)
                .map(|inner| format!("{name}[].{inner}")),
        );
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_are_what_the_service_takes_and_gives() {
    let app = TestApp::start(Engine::Sqlite).await;
    let example = |id: &str, status: &str| {
        let found = operations()
            .into_iter()
            .find(|(_, _, operation)| operation["operationId"] == id);
        let (_, _, operation) = found.unwrap();
        let request = &operation["requestBody"]["content"]["application/json"]["example"];
        let answer = &operation["responses"][status]["content"]["application/json"]["example"];
        (request, answer)
    };
    let same = |real: Value, example: &Value| {
        assert_eq!(members(&real), members(example), "{real} {example}");
    };
    let (request, answer) = example("createInvoice", "201");
    let created = app.post("/v1/invoices", request).await;
    assert_eq!(created.status, 201, "{created:#?}");
    same(created.json(), answer);
    let path = format!("/v1/invoices/{}", created.text("id"));
    same(app.get(&path).await.json(), example("getInvoice", "200").1);
    same(
        app.get("/v1/invoices").await.json(),
        example("listInvoices", "200").1,
    );
    let (request, answer) = example("changeInvoice", "200");
    same(app.patch(&path, request).await.json(), answer);
    let (request, answer) = example("chargeInvoice", "201");
    let charge = app.post("/v1/charges", request).await;
    assert_eq!(charge.status, 201, "{charge:#?}");
    same(charge.json(), answer);
    let path = format!("/v1/charges/{}", charge.text("id"));
    same(app.get(&path).await.json(), example("getCharge", "200").1);
    same(
        app.get("/v1/charges").await.json(),
        example("listCharges", "200").1,
    );
    let mut request = example("createRefund", "201").0.clone();
    request["chargeId"] = charge.text("id").into();
    let refund = app.post("/v1/refunds", &request).await;
    assert_eq!(refund.status, 201, "{refund:#?}");
    same(refund.json(), example("createRefund", "201").1);
    let path = format!("/v1/refunds/{}", refund.text("id"));
    same(app.get(&path).await.json(), example("getRefund", "200").1);
    same(
        app.get("/v1/refunds").await.json(),
        example("listRefunds", "200").1,
    );
    same(
        app.get("/health/live").await.json(),
        example("isLive", "200").1,
    );
    same(
        app.get("/health/ready").await.json(),
        example("isReady", "200").1,
    );
    app.check_refunds(&[refund]).await;
    app.check_oracles(&[charge]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_is_served_as_openapi_3_1() {
    let app = TestApp::start(Engine::Sqlite).await;
    let reply = app.get("/openapi.json").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(&reply.json(), document());
    assert!(reply.text("openapi").starts_with("3.1."));
    assert_eq!(reply.json()["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_browser_page_comes_whole_from_the_service_itself() {
    let app = TestApp::start(Engine::Sqlite).await;
    // The client follows the redirect.
    let page = app.get("/docs").await;
    assert_eq!(page.status, 200, "{page:#?}");
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'self'"), "{policy}");
    let files: Vec<&str> = page
        .body
        .split(['"', '\''])
        .filter(|text| text.ends_with(".js") || text.ends_with(".css") || text.ends_with(".png"))
        .collect();
    assert!(files.len() >= 4, "{}", page.body);
    for file in files {
        assert!(!file.contains("//"), "{file} is fetched from elsewhere");
        let path = format!("/docs/{}", file.trim_start_matches("./"));
        let reply = app.get(&path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(!reply.body.is_empty(), "{path}");
    }
    let settings = app.get("/docs/swagger-initializer.js").await;
    assert!(
        settings.body.contains("\"/openapi.json\""),
        "{}",
        settings.body
    );
    assert!(
        settings.body.contains("\"validatorUrl\": \"none\""),
        "{}",
        settings.body
    );
    app.get("/docs/nothing.js")
        .await
        .assert(404, "route_not_found", "no", "after_change");
}
