//! The document and its browser page over HTTP. The page's files are in the binary: nothing is fetched from elsewhere.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::header::{CONTENT_ENCODING, LOCATION};
use actix_web::web::{Data, Path};
use utoipa_swagger_ui::Config;

use super::problems::{CALL, refusals};
use crate::access::guard::Guard;
use crate::error::{Code, Problem};
use crate::router::{Routes, resource};

/// Where the page is.
const PAGE: &str = "/docs/index.html";

/// What the page may load: its own files, and the pictures inside its style sheets. No other site may show it in a frame.
const PAGE_POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Mounts the routes. The page is for browsers, which may have a query of their own.
pub fn configure(routes: &mut Routes) {
    routes
        .service(resource("/openapi.json", "GET").get(document))
        .service(resource("/docs", "GET").get_with_query(to_page))
        .service(resource("/docs/{file}", "GET").get_with_query(page_file));
}

refusals! {
    /// Of reading the document.
    DocumentRefusals = [CALL], [];
}

#[utoipa::path(
    get, path = "/openapi.json", operation_id = "getOpenApi", tag = "service",
    summary = "This document",
    responses(
        (status = 200, description = "OpenAPI 3.1.", body = Object, content_type = "application/json",
            example = super::examples::document),
        DocumentRefusals,
    )
)]
pub(crate) async fn document(guard: Data<Guard>) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/json")
        .body(super::document(guard.has_keys()))
}

async fn to_page() -> HttpResponse {
    HttpResponse::PermanentRedirect()
        .insert_header((LOCATION, PAGE))
        .finish()
}

async fn page_file(path: Path<String>) -> Result<HttpResponse, Problem> {
    let mut config = Config::from("/openapi.json");
    // The badge of a public validator would send this service's address to it.
    config = config.validator_url("none").use_base_layout();
    let file = utoipa_swagger_ui::serve(&path, Arc::new(config)).map_err(|error| {
        tracing::error!(%error, "a file of the API's page cannot be made");
        Problem::internal()
    })?;
    let Some(file) = file else {
        return Err(Problem::new(
            Code::RouteNotFound,
            "There is no such file. The page is at /docs/index.html.",
        ));
    };
    let mut answer = HttpResponse::Ok();
    if file.gzpipped {
        answer.insert_header((CONTENT_ENCODING, "gzip"));
    }
    Ok(answer
        .content_type(file.content_type)
        .insert_header(("Content-Security-Policy", PAGE_POLICY))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .body(file.bytes.into_owned()))
}
