//! A JSON body that names the field at fault when it cannot be read.

use std::future::Future;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use actix_web::web::Bytes;
use actix_web::{FromRequest, HttpRequest};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::error::{Code, Problem};

/// The largest body that is read, in bytes. The largest one that makes sense (an invoice with all its metadata) is a
/// third of it.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// A request body in JSON.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + 'static> FromRequest for Json<T> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let announced = check_announcement(request);
        let body = Bytes::from_request(request, payload);
        Box::pin(async move {
            announced?;
            let body = body.await.map_err(|error| {
                if error.as_response_error().status_code() == 413 {
                    too_large()
                } else {
                    Problem::new(
                        Code::BadRequest,
                        "The body could not be read to its end. Send the request again.",
                    )
                }
            })?;
            parse(&body).map(Self)
        })
    }
}

fn too_large() -> Problem {
    Problem::new(
        Code::PayloadTooLarge,
        format!("The body is larger than {BODY_BYTES_MAX} bytes. Send a smaller one."),
    )
}

fn check_announcement(request: &HttpRequest) -> Result<(), Problem> {
    let text = |name| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap_or("?").trim().to_ascii_lowercase())
    };
    let refuse = |field: &str| {
        Err(Problem::new(
            Code::UnsupportedMediaType,
            "The body must be JSON in UTF-8. Send it with the header Content-Type: application/json.",
        )
        .field(field))
    };
    let is_json = text(CONTENT_TYPE).is_some_and(|value| {
        let mut parts = value.split(';').map(str::trim);
        parts.next() == Some("application/json")
            && parts.all(|parameter| matches!(parameter, "charset=utf-8" | "charset=\"utf-8\""))
    });
    if !is_json {
        return refuse("Content-Type");
    }
    match text(CONTENT_ENCODING).as_deref() {
        None | Some("identity") => Ok(()),
        Some(_) => refuse("Content-Encoding"),
    }
}

/// Reads a body, and names the field at fault.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // A struct could be read from an array, too; the API has objects only.
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize::<_, T>(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        problem(&path, &error.into_inner())
    });
    if first != Some(&b'{') && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok() {
        return Err(
            Problem::new(Code::InvalidRequest, "The body must be a JSON object.").field("body"),
        );
    }
    let value = value?;
    reader.end().map_err(|error| problem(".", &error))?;
    Ok(value)
}

fn problem(path: &str, error: &serde_json::Error) -> Problem {
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => Problem::new(
            Code::MalformedJson,
            format!(
                "The body is not valid JSON (line {}, column {}). Send a JSON object.",
                error.line(),
                error.column()
            ),
        )
        .field("body"),
        Category::Data => {
            let message = printable(&error.to_string());
            let message = message.split(" at line ").next().unwrap_or_default();
            let field = match path {
                "." | "?" => quoted(message).unwrap_or("body"),
                path => path,
            };
            Problem::new(
                Code::InvalidRequest,
                format!("{}: {message}.", printable(field)),
            )
            .field(printable(field))
        }
    }
}

/// The name that serde puts in backticks when the path does not have it: an unknown, missing or repeated field.
fn quoted(message: &str) -> Option<&str> {
    message.split('`').nth(1).filter(|name| !name.is_empty())
}

/// What a caller sent, fit to be sent back: short and without control characters.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .take(200)
        .collect()
}
