//! Holds answers against the API's own document. Every answer that a test of this binary gets passes through here, so that no
//! status, code, header or member is met that the document does not know.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::Reply;

/// What HTTP itself adds.
const OF_HTTP: [&str; 5] = [
    "connection",
    "content-length",
    "content-type",
    "date",
    "transfer-encoding",
];

/// The document.
pub fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| serde_json::from_str(chargeonce::openapi::document(false)).unwrap())
}

/// Fails when the document does not know the answer.
pub fn check(method: &str, target: &str, reply: &Reply) {
    let path = target.split('?').next().unwrap_or_default();
    if path == "/docs" || path.starts_with("/docs/") {
        return;
    }
    let fail = |what: &str| panic!("{what}: {method} {target} was answered with {reply:#?}");
    let operations = document()["paths"].as_object().unwrap();
    let Some((template, item)) = operations
        .iter()
        .find(|(template, _)| is_of(template, path))
    else {
        // Whoever has no key does not hear which paths there are. Another spelling is the same path.
        let is_told = || {
            ["route_not_found", "unauthorized", "overloaded"].contains(&reply.text("code").as_str())
        };
        if !path.contains('%') && !is_told() {
            fail("a path that the document does not know");
        }
        return;
    };
    // Methods differ by case.
    let is_upper = method.bytes().all(|byte| byte.is_ascii_uppercase());
    let method = method.to_ascii_lowercase();
    let Some(operation) = item.get(&method).filter(|_| is_upper) else {
        if ![401, 403, 405].contains(&reply.status) {
            fail("a method that the document does not know");
        }
        return;
    };
    let status = reply.status.to_string();
    let Some(response) = operation["responses"].get(&status) else {
        return fail("a status that the document does not know");
    };
    let media_type = reply.header("content-type").unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default();
    if reply.body.is_empty() && response["content"].is_null() {
        return check_headers(response, reply).unwrap_or_else(|what| fail(&what));
    }
    let Some(content) = response["content"].get(media_type) else {
        return fail("a media type that the document does not know");
    };
    check_headers(response, reply).unwrap_or_else(|what| fail(&what));
    if media_type.ends_with("json") && !content["schema"].is_null() {
        let escape = |part: &str| part.replace('~', "~0").replace('/', "~1");
        let pointer = format!(
            "#/paths/{}/{method}/responses/{status}/content/{}/schema",
            escape(template).replace('{', "%7B").replace('}', "%7D"),
            escape(media_type).replace('+', "%2B")
        );
        let body = reply.json();
        let errors: Vec<String> = validator(&pointer)
            .iter_errors(&body)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        if !errors.is_empty() {
            fail(&format!(
                "a body that the document does not allow ({errors:?})"
            ));
        }
    }
}

/// An id in a path is one segment, and not an empty one.
fn is_of(template: &str, path: &str) -> bool {
    let (templates, parts): (Vec<&str>, Vec<&str>) =
        (template.split('/').collect(), path.split('/').collect());
    templates.len() == parts.len()
        && templates.iter().zip(&parts).all(|(template, part)| {
            template == part || template.starts_with('{') && !part.is_empty()
        })
}

fn check_headers(response: &Value, reply: &Reply) -> Result<(), String> {
    let known = response["headers"].as_object().unwrap();
    for (name, _) in &reply.headers {
        let is_known = known.keys().any(|known| known.eq_ignore_ascii_case(name));
        if !is_known && !OF_HTTP.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!("the header {name} that the document does not know"));
        }
    }
    for (name, header) in known {
        let header = match header["$ref"].as_str() {
            Some(reference) => document()
                .pointer(reference.trim_start_matches('#'))
                .unwrap(),
            None => header,
        };
        if header["required"] == true && reply.header(name).is_none() {
            return Err(format!("no header {name}, which the document promises"));
        }
    }
    Ok(())
}

fn validator(pointer: &str) -> Arc<Validator> {
    static MADE: OnceLock<Mutex<HashMap<String, Arc<Validator>>>> = OnceLock::new();
    let mut made = MADE.get_or_init(Mutex::default).lock().unwrap();
    let validator = made.entry(pointer.to_owned()).or_insert_with(|| {
        let mut schema = document().clone();
        schema["$ref"] = json!(pointer);
        Arc::new(jsonschema::draft202012::new(&schema).unwrap())
    });
    Arc::clone(validator)
}
