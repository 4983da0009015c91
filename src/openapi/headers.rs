//! The headers that every request may and every answer does have.

use serde_json::Value;
use utoipa::openapi::path::{ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, OpenApi, Ref, RefOr, Required, Type};

use super::{operations, problems};

/// Names a call, in both directions.
const REQUEST_ID: &str = "X-Request-Id";
/// Keeps answers out of caches.
const CACHE_CONTROL: &str = "Cache-Control";

/// Adds them to every operation.
pub fn everywhere(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    for (name, text) in [
        (
            REQUEST_ID,
            "Names the call in the logs: the caller's own id, or one that was made for it.",
        ),
        (CACHE_CONTROL, "Always `no-store`."),
    ] {
        let header = problems::header(None, text);
        components.headers.insert(name.to_owned(), header.into());
    }
    let request_id = ParameterBuilder::new()
        .name(REQUEST_ID)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .description(Some(
            "Names the call in the logs. Up to 128 visible ASCII characters; any other is replaced.",
        ))
        .build();
    for operation in operations(document) {
        let parameters = operation.parameters.get_or_insert_default();
        parameters.push(RefOr::T(request_id.clone()));
    }
    for responses in operations(document).map(|operation| &mut operation.responses) {
        for response in responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                for name in [REQUEST_ID, CACHE_CONTROL] {
                    let reference = Ref::new(format!("#/components/headers/{name}"));
                    response.headers.insert(name.into(), RefOr::Ref(reference));
                }
            }
        }
    }
}

/// Says what utoipa's own types cannot: which headers of an answer are always there, and that a parameter is never null.
pub fn finish(document: &mut Value) {
    for name in [REQUEST_ID, CACHE_CONTROL] {
        document["components"]["headers"][name]["required"] = true.into();
    }
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    let operations = paths.filter_map(|(_, item)| item.as_object_mut()).flatten();
    for (_, operation) in operations {
        let parameters = operation["parameters"].as_array_mut();
        for parameter in parameters.into_iter().flatten() {
            // A parameter that may be absent is no null.
            let one_of = parameter["schema"]["oneOf"].as_array().cloned();
            let own = one_of
                .into_iter()
                .flatten()
                .find(|one| one["type"] != "null");
            if let Some(own) = own {
                parameter["schema"] = own;
            } else if parameter["schema"]["type"].is_array() {
                parameter["schema"]["type"] = parameter["schema"]["type"][0].take();
            }
        }
        let responses = operation["responses"].as_object_mut();
        for (status, response) in responses.into_iter().flatten() {
            let headers = response["headers"].as_object_mut();
            for (name, header) in headers.into_iter().flatten() {
                let always = match name.as_str() {
                    "Location" | "Allow" | "WWW-Authenticate" => true,
                    "Retry-After" => status == "202" || status == "500",
                    _ => false,
                };
                if always {
                    header["required"] = true.into();
                }
            }
        }
    }
}
