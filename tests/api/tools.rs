//! The catalogue of tools: what models are given, in the form of each vendor.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Engine, TestApp};

const NAMES: [&str; 4] = [
    "charge_customer",
    "get_invoice",
    "list_open_invoices",
    "get_charge_status",
];

async fn tools(app: &TestApp, query: &str) -> Vec<Value> {
    let reply = app.get(&format!("/v1/tools{query}")).await;
    assert_eq!(reply.status, 200, "{reply:#?}");
    let body = reply.json();
    assert_eq!(body.as_object().unwrap().len(), 1, "only tools: {body}");
    body["tools"].as_array().unwrap().clone()
}

fn members(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn arguments(schema: &Value) -> BTreeSet<&str> {
    members(&schema["properties"])
}

#[tokio::test]
async fn each_vendor_gets_the_tools_in_its_own_form() {
    let app = TestApp::start(Engine::Sqlite).await;
    let id = "^[A-Za-z0-9][A-Za-z0-9._~-]{0,119}$";

    let anthropic = tools(&app, "?format=anthropic").await;
    let openai = tools(&app, "?format=openai").await;
    let mcp = tools(&app, "?format=mcp").await;

    for (position, name) in NAMES.into_iter().enumerate() {
        let (anthropic, openai, mcp) = (&anthropic[position], &openai[position], &mcp[position]);
        assert_eq!(
            members(anthropic),
            BTreeSet::from(["name", "description", "input_schema"])
        );
        assert_eq!(members(openai), BTreeSet::from(["type", "function"]));
        assert_eq!(openai["type"], "function");
        let function = &openai["function"];
        assert_eq!(
            members(function),
            BTreeSet::from(["name", "description", "parameters", "strict"])
        );
        assert_eq!(
            members(mcp),
            BTreeSet::from([
                "name",
                "title",
                "description",
                "inputSchema",
                "outputSchema",
                "annotations"
            ])
        );
        for (found, description) in [
            (&anthropic["name"], &anthropic["description"]),
            (&function["name"], &function["description"]),
            (&mcp["name"], &mcp["description"]),
        ] {
            assert_eq!(found, name);
            assert_eq!(description, &mcp["description"]);
            // OpenAI refuses a function whose description is longer than this.
            assert!(description.as_str().unwrap().len() <= 1_024, "{name}");
        }
        assert_eq!(anthropic["input_schema"], mcp["inputSchema"]);
        for schema in [
            &mcp["inputSchema"],
            &function["parameters"],
            &mcp["outputSchema"],
        ] {
            assert!(jsonschema::meta::is_valid(schema), "{schema:#}");
            assert_eq!(schema["type"], "object");
        }
    }
    assert_eq!(
        (anthropic.len(), openai.len(), mcp.len()),
        (NAMES.len(), NAMES.len(), NAMES.len())
    );
    let described = &anthropic[0]["input_schema"]["properties"]["invoiceId"]["description"];
    assert_eq!(
        anthropic[0]["input_schema"],
        json!({"type": "object", "required": ["invoiceId"], "additionalProperties": false,
            "properties": {"invoiceId": {"type": "string", "pattern": id, "description": described}}})
    );
    assert_eq!(tools(&app, "").await, mcp, "without a format it is MCP's");
}

#[tokio::test]
async fn a_tool_takes_nothing_that_a_model_would_have_to_invent() {
    let app = TestApp::start(Engine::Sqlite).await;
    for tool in tools(&app, "").await {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["additionalProperties"], false, "{tool:#}");
        let expected = match tool["name"].as_str().unwrap() {
            "list_open_invoices" => BTreeSet::from(["customerId", "limit", "cursor"]),
            _ => BTreeSet::from(["invoiceId"]),
        };
        assert_eq!(arguments(schema), expected);
    }
}

#[tokio::test]
async fn the_charging_tool_says_that_repeating_it_is_safe_and_what_to_do_in_doubt() {
    let app = TestApp::start(Engine::Sqlite).await;
    let tools = tools(&app, "").await;
    let told = tools[0]["description"].as_str().unwrap();
    for words in [
        "exactly once",
        "again with the same invoiceId is always safe",
        "you get the first result again",
        "no idempotency key is needed",
        "in progress",
        "do not charge in any other way",
        "retryAfterSeconds",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let hints = |position: usize| {
        let hints = &tools[position]["annotations"];
        [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ]
        .map(|hint| hints[hint].as_bool().unwrap())
    };
    assert_eq!(hints(0), [false, true, true, true]);
    for reading in 1..NAMES.len() {
        assert_eq!(hints(reading), [true, false, true, false]);
    }
}

/// OpenAI refuses a strict function whose schema has anything else.
#[tokio::test]
async fn the_strict_form_has_only_what_strict_mode_allows() {
    let app = TestApp::start(Engine::Sqlite).await;
    let known = BTreeSet::from(["type", "description", "pattern", "minimum", "maximum"]);
    for tool in tools(&app, "?format=openai").await {
        let function = &tool["function"];
        assert_eq!(function["strict"], true);
        let schema = &function["parameters"];
        assert_eq!(schema["additionalProperties"], false);
        let required: BTreeSet<&str> = schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        assert_eq!(required, arguments(schema), "{function:#}");
        for property in schema["properties"].as_object().unwrap().values() {
            assert!(members(property).is_subset(&known), "{property}");
        }
        if function["name"] == "list_open_invoices" {
            assert_eq!(
                schema["properties"]["limit"]["type"],
                json!(["integer", "null"])
            );
        }
    }
}

#[tokio::test]
async fn a_format_that_nobody_knows_is_refused() {
    let app = TestApp::start(Engine::Sqlite).await;
    for format in ["gemini", "", "MCP", "openai,mcp"] {
        let reply = app.get(&format!("/v1/tools?format={format}")).await;
        reply.assert(422, "invalid_request", "no", "after_change");
        assert_eq!(reply.text("field"), "format");
        assert_eq!(
            reply.text("detail"),
            "format must be anthropic, openai or mcp."
        );
    }
    let reply = app.get("/v1/tools?vendor=openai").await;
    reply.assert(400, "invalid_parameter", "no", "after_change");
}

on_both_stores! {
    async fn the_status_of_a_charge_tells_what_is_true_and_charges_nobody(engine) {
        let app = TestApp::start(engine).await;
        let status = async |id: &str| app.get(&format!("/v1/invoices/{id}/charge-status")).await;
        app.invoice("open").await;
        app.invoice("paid").await;
        app.invoice("void").await;
        app.invoice_with("poor", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedInsufficientFunds"})).await;
        app.invoice_with("stolen", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedStolenCard"})).await;
        app.invoice_with("cured", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedStolenCard"})).await;
        app.invoice("unknown").await;
        app.fault("unknown", chargeonce::payments::mock::Fault::DropAfter, 50);
        app.post("/v1/invoices/void/void", &json!({})).await;
        let mut replies = Vec::new();
        for id in ["paid", "poor", "stolen", "cured", "unknown"] {
            replies.push(app.charge(id).await);
        }
        app.change_card("cured", "pm_card_visa").await;
        let requests = app.mock.requests().len();

        let table = [
            ("open", "open", "no", "now", 0),
            ("paid", "paid", "yes", "not_needed", 1),
            ("void", "void", "no", "never", 0),
            ("poor", "open", "no", "later", 1),
            ("stolen", "open", "no", "after_change", 1),
            ("cured", "open", "no", "now", 1),
            ("unknown", "open", "unknown", "later", 1),
        ];
        for (id, invoice_status, charged, retry, attempts) in table {
            let reply = status(id).await;
            reply.assert(200, "", charged, retry);
            assert_eq!((reply.text("invoiceId").as_str(), reply.text("invoiceStatus").as_str()), (id, invoice_status));
            assert_eq!(reply.json()["attempts"].as_array().unwrap().len(), attempts, "{reply:#?}");
            assert_eq!(reply.json()["retryAfterSeconds"].is_i64(), retry == "later", "{reply:#?}");
        }
        for missing in ["nobody", "not%20an%20id"] {
            status(missing).await.assert(404, "invoice_not_found", "no", "after_change");
        }

        assert_eq!(app.mock.requests().len(), requests, "the provider was not asked");
        app.check_oracles(&replies).await;
    }
}
