//! Lists as Stripe pages them (Stripe docs, Pagination): newest first, by object id, filtered by time of creation.

use serde_json::{Value, json};

use super::errors::ApiError;
use super::form::Params;
use super::ledger::{Row, Shelf, seconds};

/// The parameters that every list takes.
pub(super) const LIST_PARAMS: &[&str] = &[
    "limit",
    "starting_after",
    "ending_before",
    "created",
    "created[gt]",
    "created[gte]",
    "created[lt]",
    "created[lte]",
    "expand[]",
];

/// The page size when none is asked for.
const LIMIT_DEFAULT: i64 = 10;
/// The largest page.
const LIMIT_MAX: i64 = 100;

/// One page of the objects that `keep` lets through.
pub(super) fn list<T: Row + Clone>(
    shelf: &Shelf<T>,
    params: &Params,
    url: &str,
    keep: impl Fn(&T) -> bool,
    render: impl Fn(&T) -> Value,
) -> Result<Value, ApiError> {
    let limit = params.integer("limit")?.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        let message = format!("Invalid limit: {limit}. It must be between 1 and {LIMIT_MAX}.");
        return Err(ApiError::invalid(message).param("limit"));
    }
    let limit = usize::try_from(limit).unwrap_or(1);
    let created = CreatedFilter::parse(params)?;
    let mut rows: Vec<&T> = shelf
        .oldest_first()
        .rev()
        .filter(|row| keep(row) && created.admits(*row))
        .collect();

    if let Some(cursor) = params.text("starting_after") {
        let place = position(&rows, shelf, cursor, "starting_after")?;
        rows.drain(..(place + 1).min(rows.len()));
    }
    let mut has_more = rows.len() > limit;
    if let Some(cursor) = params.text("ending_before") {
        // The page that ends right before the cursor, still newest first.
        let place = position(&rows, shelf, cursor, "ending_before")?;
        rows.truncate(place);
        has_more = rows.len() > limit;
        rows.drain(..rows.len().saturating_sub(limit));
    }
    rows.truncate(limit);
    let data: Vec<Value> = rows.into_iter().map(render).collect();
    Ok(json!({ "object": "list", "url": url, "has_more": has_more, "data": data }))
}

/// Where a cursor stands among the rows; an id that is nowhere is an error, one that is filtered out ends the list.
fn position<T: Row + Clone>(
    rows: &[&T],
    shelf: &Shelf<T>,
    cursor: &str,
    param: &str,
) -> Result<usize, ApiError> {
    if shelf.get(cursor).is_none() {
        return Err(ApiError::no_such("object", cursor, param));
    }
    Ok(rows
        .iter()
        .position(|row| row.id() == cursor)
        .unwrap_or(rows.len()))
}

/// The bounds on `created`, in unix seconds, both inclusive.
struct CreatedFilter {
    from: i64,
    to: i64,
}

impl CreatedFilter {
    fn parse(params: &Params) -> Result<Self, ApiError> {
        let mut filter = Self {
            from: i64::MIN,
            to: i64::MAX,
        };
        if let Some(exact) = params.integer("created")? {
            filter = Self {
                from: exact,
                to: exact,
            };
        }
        if let Some(bound) = params.integer("created[gte]")? {
            filter.from = filter.from.max(bound);
        }
        if let Some(bound) = params.integer("created[gt]")? {
            filter.from = filter.from.max(bound.saturating_add(1));
        }
        if let Some(bound) = params.integer("created[lte]")? {
            filter.to = filter.to.min(bound);
        }
        if let Some(bound) = params.integer("created[lt]")? {
            filter.to = filter.to.min(bound.saturating_sub(1));
        }
        Ok(filter)
    }

    fn admits(&self, row: &impl Row) -> bool {
        (self.from..=self.to).contains(&seconds(row.created_ms()))
    }
}
