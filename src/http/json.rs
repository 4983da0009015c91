//! A JSON body that names the field at fault when it cannot be read.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use actix_web::web::Bytes;
use actix_web::{FromRequest, HttpRequest};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

use super::explain::{Explanation, explain};
use crate::charges::model::CustomerCharged;
use crate::error::{Code, Problem};

/// The largest body that is read, in bytes. The largest one that makes sense (an invoice with all its metadata) is a
/// third of it.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long a client may take for its body where nothing else is set. A body that fits needs a fraction of it on any
/// line; a client that sends a byte a second must not hold its place for ever.
pub const BODY_TIME_DEFAULT: Duration = Duration::from_secs(20);

/// A request body in JSON.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + 'static> FromRequest for Json<T> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let announced = check_announcement(request);
        let body = read(request, payload, BODY_BYTES_MAX);
        Box::pin(async move {
            announced?;
            parse(&body.await?).map(Self)
        })
    }
}

/// How long a client may take for its body, from the end of its headers on. In the app's data.
#[derive(Debug, Clone, Copy)]
pub struct BodyTime(pub Duration);

/// Reads the body's bytes, within the limits of size and time. The size is the path's own, which its payload
/// configuration enforces; it is given here to be told.
pub fn read(
    request: &HttpRequest,
    payload: &mut Payload,
    bytes_max: usize,
) -> impl Future<Output = Result<Bytes, Problem>> + use<> {
    let limit = request
        .app_data::<BodyTime>()
        .map_or(BODY_TIME_DEFAULT, |time| time.0);
    let body = Bytes::from_request(request, payload);
    async move {
        match tokio::time::timeout(limit, body).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(error)) if error.as_response_error().status_code() == 413 => Err(too_large(bytes_max)),
            Ok(Err(_)) => Err(Problem::new(
                Code::BadRequest,
                "The body could not be read to its end, so nothing was done. Send the request again.",
            )
            .now(CustomerCharged::No)),
            Err(_) => Err(Problem::new(
                Code::RequestTimeout,
                "The body did not arrive in time, so nothing was done. Send the request again, all of it at once.",
            )
            .now(CustomerCharged::No)),
        }
    }
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(
        Code::PayloadTooLarge,
        format!("The body is larger than {bytes_max} bytes. Send a smaller one."),
    )
    .field("body")
}

fn check_announcement(request: &HttpRequest) -> Result<(), Problem> {
    let all = |name| {
        request
            .headers()
            .get_all(name)
            .map(|value| value.to_str().unwrap_or("?").trim().to_ascii_lowercase())
            .collect::<Vec<_>>()
    };
    let refuse = |field: &str| {
        Err(Problem::new(
            Code::UnsupportedMediaType,
            "The body must be JSON in UTF-8, not compressed. Send it with the header Content-Type: application/json.",
        )
        .field(field))
    };
    // Two announcements may be read differently by whatever stands before this service.
    let is_json = match all(CONTENT_TYPE).as_slice() {
        [value] => {
            let mut parts = value.split(';').map(str::trim);
            parts.next() == Some("application/json")
                && parts.all(|parameter| matches!(parameter, "charset=utf-8" | "charset=\"utf-8\""))
        }
        _ => false,
    };
    if !is_json {
        return refuse("Content-Type");
    }
    if all(CONTENT_ENCODING)
        .iter()
        .all(|value| value == "identity")
    {
        Ok(())
    } else {
        refuse("Content-Encoding")
    }
}

/// Reads a body, and names the field at fault.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {}
        None => {
            let detail = "The body is empty. Send a JSON object.";
            return Err(Problem::new(Code::MalformedJson, detail).field("body"));
        }
        // A struct could be read from an array, too; the API has objects only.
        Some(_) => {
            serde_json::from_slice::<IgnoredAny>(body).map_err(|error| malformed(&error))?;
            let detail = "The body must be a JSON object.";
            return Err(Problem::new(Code::InvalidRequest, detail).field("body"));
        }
    }
    // Whoever fails is read again, by the slower way that knows at which field it was.
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize::<_, T>(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        // For a word, serde_json calls anything but a text a mistake of syntax.
        if error.is_syntax() && serde_json::from_slice::<serde_json::Value>(body).is_ok() {
            return wrong(&path, "invalid type: other, expected a string");
        }
        problem(&path, &error)
    })?;
    reader.end().map_err(|error| malformed(&error))?;
    Ok(value)
}

fn problem(path: &str, error: &serde_json::Error) -> Problem {
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => malformed(error),
        Category::Data => {
            let message = error.to_string();
            let position = format!(" at line {} column {}", error.line(), error.column());
            wrong(path, message.strip_suffix(&position).unwrap_or(&message))
        }
    }
}

fn malformed(error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let detail = format!(
        "The body is not valid JSON (line {line}, column {column}). Send one JSON object in UTF-8 and nothing after it."
    );
    Problem::new(Code::MalformedJson, detail).field("body")
}

fn wrong(path: &str, message: &str) -> Problem {
    let Explanation { field, detail } = explain(path, message);
    Problem::new(Code::InvalidRequest, detail).field(field)
}
