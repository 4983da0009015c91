//! Search over PaymentIntents (Stripe docs, Search), and its lag: what is younger than a minute is not found.
//!
//! The lag is the point. An empty search is no proof that nothing was charged; lists and ids have no such gap.

use serde_json::{Value, json};

use super::errors::ApiError;
use super::form::Params;
use super::intent::PaymentIntent;
use super::ledger::{Books, Context, seconds};

/// How far search is behind, by the mock's clock. Stripe says: normally under a minute, in an outage up to an hour.
const LAG_MS: i64 = 60_000;
/// The most clauses of a query.
const CLAUSES_MAX: usize = 10;

/// `GET /v1/payment_intents/search`
pub(super) fn intents(
    books: &Books,
    context: &Context,
    params: &Params,
) -> Result<Value, ApiError> {
    params.only(&[&["query", "limit", "page", "expand[]"]])?;
    let query = Query::parse(params.required("query")?)
        .map_err(|message| ApiError::invalid(message).param("query"))?;
    let limit = params.integer("limit")?.unwrap_or(10);
    if !(1..=100).contains(&limit) {
        let message = format!("Invalid limit: {limit}. It must be between 1 and 100.");
        return Err(ApiError::invalid(message).param("limit"));
    }
    let limit = usize::try_from(limit).unwrap_or(1);
    let page = params.text("page").unwrap_or("page_0");
    let offset: usize = page
        .strip_prefix("page_")
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| ApiError::invalid("Invalid page.").param("page"))?;
    let visible = context.now_ms - LAG_MS;
    let mut found = books
        .intents
        .oldest_first()
        .rev()
        .filter(|intent| intent.created_ms <= visible && query.admits(intent))
        .skip(offset);
    let data: Vec<Value> = found
        .by_ref()
        .take(limit)
        .map(PaymentIntent::render)
        .collect();
    let has_more = found.next().is_some();
    Ok(json!({
        "object": "search_result",
        "url": "/v1/payment_intents/search",
        "has_more": has_more,
        "next_page": has_more.then(|| format!("page_{}", offset + limit)),
        "data": data,
    }))
}

#[derive(Debug, PartialEq)]
enum Field {
    Amount,
    Created,
    Currency,
    Customer,
    Status,
    Metadata(String),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    Contains,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, PartialEq)]
struct Clause {
    negated: bool,
    field: Field,
    comparison: Comparison,
    value: String,
}

/// Clauses joined by AND or by OR, never by both, without parentheses.
#[derive(Debug, PartialEq)]
struct Query {
    clauses: Vec<Clause>,
    any: bool,
}

impl Query {
    fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        let (mut clauses, mut joined_by) = (Vec::new(), None);
        loop {
            let (clause, after) = Clause::parse(rest)?;
            clauses.push(clause);
            rest = after.trim_start();
            if rest.is_empty() {
                break;
            }
            let (word, after) = match rest.split_once(char::is_whitespace) {
                Some((word, after)) if word.eq_ignore_ascii_case("and") => ("and", after),
                Some((word, after)) if word.eq_ignore_ascii_case("or") => ("or", after),
                // Clauses side by side mean AND.
                _ => ("and", rest),
            };
            if joined_by.is_some_and(|known| known != word) {
                return Err("A query cannot mix AND and OR.".to_owned());
            }
            joined_by = Some(word);
            rest = after.trim_start();
        }
        if clauses.len() > CLAUSES_MAX {
            return Err(format!("A query has at most {CLAUSES_MAX} clauses."));
        }
        let any = joined_by == Some("or");
        Ok(Self { clauses, any })
    }

    fn admits(&self, intent: &PaymentIntent) -> bool {
        let mut clauses = self.clauses.iter();
        if self.any {
            clauses.any(|clause| clause.admits(intent))
        } else {
            clauses.all(|clause| clause.admits(intent))
        }
    }
}

impl Clause {
    /// Reads one clause; gives what follows it.
    fn parse(text: &str) -> Result<(Self, &str), String> {
        let refused = || format!("Invalid query near: {text}");
        let negated = text.starts_with('-');
        let text = text.strip_prefix('-').unwrap_or(text);
        let (field, rest) = if let Some(rest) = text.strip_prefix("metadata[") {
            let (key, rest) = quoted(rest).ok_or_else(refused)?;
            (
                Field::Metadata(key),
                rest.strip_prefix(']').ok_or_else(refused)?,
            )
        } else {
            let end = text.find([':', '<', '>', '~']).ok_or_else(refused)?;
            let (name, rest) = text.split_at(end);
            let field = match name {
                "amount" => Field::Amount,
                "created" => Field::Created,
                "currency" => Field::Currency,
                "customer" => Field::Customer,
                "status" => Field::Status,
                _ => {
                    return Err(format!(
                        "Field `{name}` is an unsupported search field for resource `payment_intents`."
                    ));
                }
            };
            (field, rest)
        };
        let operators = [
            (">=", Comparison::GreaterOrEqual),
            ("<=", Comparison::LessOrEqual),
            (">", Comparison::Greater),
            ("<", Comparison::Less),
            (":", Comparison::Equal),
            ("~", Comparison::Contains),
        ];
        let (comparison, rest) = operators
            .into_iter()
            .find_map(|(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?)))
            .ok_or_else(refused)?;
        let (value, rest) = if rest.starts_with(['"', '\'']) {
            quoted(rest).ok_or_else(refused)?
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (value, rest) = rest.split_at(end);
            (value.to_owned(), rest)
        };
        let numeric = matches!(field, Field::Amount | Field::Created);
        let ordered = !matches!(comparison, Comparison::Equal | Comparison::Contains);
        let number = value.parse::<i64>().is_ok();
        if value.is_empty()
            || numeric && (!number || comparison == Comparison::Contains)
            || !numeric && ordered
        {
            return Err(refused());
        }
        let clause = Self {
            negated,
            field,
            comparison,
            value,
        };
        Ok((clause, rest))
    }

    fn admits(&self, intent: &PaymentIntent) -> bool {
        let holds = match &self.field {
            Field::Amount => self.compares(intent.amount),
            Field::Created => self.compares(seconds(intent.created_ms)),
            Field::Currency => self.is(Some(&intent.currency)),
            Field::Customer => self.is(intent.customer.as_deref()),
            Field::Status => self.is(Some(intent.status.word())),
            Field::Metadata(key) => self.is(intent.metadata.get(key).map(String::as_str)),
        };
        holds != self.negated
    }

    fn is(&self, actual: Option<&str>) -> bool {
        let (actual, wanted) = (actual.map(str::to_lowercase), self.value.to_lowercase());
        actual.is_some_and(|actual| match self.comparison {
            Comparison::Contains => actual.contains(&wanted),
            Comparison::Equal
            | Comparison::Less
            | Comparison::LessOrEqual
            | Comparison::Greater
            | Comparison::GreaterOrEqual => actual == wanted,
        })
    }

    fn compares(&self, actual: i64) -> bool {
        let wanted: i64 = self.value.parse().unwrap_or_default();
        match self.comparison {
            Comparison::Equal | Comparison::Contains => actual == wanted,
            Comparison::Less => actual < wanted,
            Comparison::LessOrEqual => actual <= wanted,
            Comparison::Greater => actual > wanted,
            Comparison::GreaterOrEqual => actual >= wanted,
        }
    }
}

/// A string in single or double quotes, in which a backslash takes the next character as it is.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((place, character)) = characters.next() {
        if character == quote {
            return Some((value, text.get(place + 1..)?));
        }
        let taken = if character == '\\' {
            characters.next()?.1
        } else {
            character
        };
        value.push(taken);
    }
    None
}
