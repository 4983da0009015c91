//! Query strings and pages.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::error::QueryPayloadError as WebQueryError;
use actix_web::{FromRequest, HttpRequest, web};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::explain::{Explanation, explain};
use crate::error::{Code, Problem};

/// Rows on a page where the caller does not say, and at most.
pub const PAGE_DEFAULT: i64 = 20;
/// See [`PAGE_DEFAULT`].
pub const PAGE_MAX: i64 = 100;

/// A query string. Unknown and repeated parameters are refused: a mistyped filter must not list everything.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _payload: &mut Payload) -> Self::Future {
        ready(read(request.query_string()).map(Self))
    }
}

/// Refuses whatever is in the query string of a path that has no parameters.
pub fn no_parameters(query: &str) -> Result<(), Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoParameters {}

    read::<NoParameters>(query).map(|NoParameters {}| ())
}

fn read<T: DeserializeOwned>(query: &str) -> Result<T, Problem> {
    let parsed = web::Query::<T>::from_query(query);
    parsed.map(web::Query::into_inner).map_err(|error| {
        let WebQueryError::Deserialize(error) = &error else {
            return invalid("query", "The query cannot be read. Correct it.");
        };
        let Explanation { field, detail } = explain("?", &error.to_string());
        if field == "body" {
            invalid(
                "query",
                "The query has a parameter that this path does not know. Leave it out.",
            )
        } else {
            let detail = detail.replace("field of this request", "parameter of this path");
            invalid(&field, &detail.replace("fields are", "parameters are"))
        }
    })
}

/// The problem of a parameter.
pub fn invalid(parameter: &str, detail: &str) -> Problem {
    Problem::new(Code::InvalidParameter, detail).field(parameter)
}

/// The page's size, or the problem with it.
pub fn page_limit(limit: Option<&str>) -> Result<i64, Problem> {
    let Some(text) = limit else {
        return Ok(PAGE_DEFAULT);
    };
    match text.parse::<i64>() {
        Ok(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Ok(_) | Err(_) => Err(invalid(
            "limit",
            "limit must be a whole number from 1 to 100.",
        )),
    }
}

/// Cuts what was read with one row more than `limit` to the page; the cursor of the next one, where the row more shows that
/// there is one. `position` names a row's place in the list.
pub fn cut_page<T>(
    rows: &mut Vec<T>,
    limit: i64,
    position: impl FnOnce(&T) -> String,
) -> Option<String> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| has_more);
    last.map(|last| encode_cursor(&position(last)))
}

/// A position in a list as an opaque cursor.
fn encode_cursor(position: &str) -> String {
    URL_SAFE_NO_PAD.encode(position)
}

/// The position of a cursor, or the problem with it.
pub fn decode_cursor(cursor: &str) -> Result<String, Problem> {
    let decoded = URL_SAFE_NO_PAD
        .decode(cursor)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.ok_or_else(bad_cursor)
}

/// The problem of a cursor that was not made here.
pub fn bad_cursor() -> Problem {
    invalid(
        "cursor",
        "cursor must be the nextCursor of the page before. Leave it out for the first page.",
    )
}
