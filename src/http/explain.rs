//! What is wrong with a JSON body, in plain words. Pure: serde's message in, a field and a sentence out.
//!
//! serde speaks to programmers (`invalid type: floating point, expected i64`); callers here may be language models. And
//! serde repeats what was sent: here only the name of an unknown field comes back, and only when it is a short plain word.

/// The longest unknown field name that is repeated to its sender, in characters.
const NAME_LENGTH_MAX: usize = 60;

/// Stands for the whole body where no field can be named.
const BODY: &str = "body";

/// The field at fault and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// A field of the request, or `body`.
    pub field: String,
    /// One or two sentences.
    pub detail: String,
}

/// Explains serde's message about the value at `path` (members separated by periods; `.` or `?` is the body itself).
pub fn explain(path: &str, message: &str) -> Explanation {
    // Below the first member, names are the caller's own.
    let top = path.split('.').next().unwrap_or_default();
    let known = (!matches!(top, "" | "?")).then_some(top);
    if let Some(rest) = message.strip_prefix("unknown field `") {
        return unknown_field(rest);
    }
    if let Some(name) = message.strip_prefix("missing field `").and_then(in_ticks) {
        return says(name, "is missing. Add it to the body.");
    }
    if let Some(name) = message.strip_prefix("duplicate field `").and_then(in_ticks) {
        return says(
            known.unwrap_or(name),
            "is there more than once. Send it once.",
        );
    }
    let field = known.unwrap_or(BODY);
    if let Some((got, want)) = of(message, "invalid type: ") {
        let what = format!("must be {}, not {}.", wanted(want), given(got));
        return if path.contains('.') && known.is_some() {
            Explanation {
                field: field.to_owned(),
                detail: format!("A value in {field} {what}"),
            }
        } else {
            says(field, &what)
        };
    }
    if let Some((_, want)) = of(message, "invalid value: ") {
        return says(
            field,
            &format!("must be {}; this value is out of range.", wanted(want)),
        );
    }
    if let Some((_, want)) = of(message, "unknown variant ") {
        return says(field, &format!("must be one of {}.", listed(want)));
    }
    says(field, "has a value that is not allowed.")
}

fn says(field: &str, what: &str) -> Explanation {
    let subject = if field == BODY { "The body" } else { field };
    Explanation {
        field: field.to_owned(),
        detail: format!("{subject} {what}"),
    }
}

fn unknown_field(rest: &str) -> Explanation {
    // The name is the caller's and may hold anything; the list of fields after it is ours and comes last.
    let (name, fields) = rest
        .rsplit_once("`, expected ")
        .or_else(|| rest.rsplit_once("`, there are no fields"))
        .unwrap_or((rest.trim_end_matches('`'), ""));
    let advice = match listed(fields) {
        fields if fields.is_empty() => "Leave it out.".to_owned(),
        fields if fields.contains(", ") => format!("Leave it out; the fields are {fields}."),
        field => format!("Leave it out; the only field is {field}."),
    };
    let is_plain = (1..=NAME_LENGTH_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if is_plain {
        says(name, &format!("is not a field of this request. {advice}"))
    } else {
        says(
            BODY,
            &format!("has a field that this request does not know. {advice}"),
        )
    }
}

/// What serde got and what it expected.
fn of<'a>(message: &'a str, kind: &str) -> Option<(&'a str, &'a str)> {
    message.strip_prefix(kind)?.rsplit_once(", expected ")
}

/// The text up to the next backtick.
fn in_ticks(text: &str) -> Option<&str> {
    text.split('`').next().filter(|name| !name.is_empty())
}

/// All names in backticks: `` one of `a`, `b` `` becomes `a, b`.
fn listed(names: &str) -> String {
    let names: Vec<&str> = names.split('`').skip(1).step_by(2).collect();
    names.join(", ")
}

fn wanted(expected: &str) -> &'static str {
    match expected {
        "i64" | "i32" | "u64" | "u32" => {
            "a whole number written without decimal point, exponent or quotes, such as 1250"
        }
        "a map" => "an object whose values are text in double quotes",
        other if other.contains("string") => "text in double quotes",
        _ => "a JSON object",
    }
}

fn given(unexpected: &str) -> &'static str {
    let kinds = [
        (
            "floating point",
            "a number with a decimal point, an exponent or too many digits",
        ),
        ("integer", "a number"),
        ("string", "text"),
        ("null", "null"),
        ("boolean", "true or false"),
        ("sequence", "a list"),
        ("map", "an object"),
    ];
    kinds
        .iter()
        .find(|(kind, _)| unexpected.starts_with(kind))
        .map_or("anything else", |(_, words)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serdes_messages_become_sentences() {
        let long = format!("unknown field `{}`, expected `invoiceId`", "x".repeat(61));
        #[rustfmt::skip]
        let table = [
            (".", "missing field `invoiceId`", "invoiceId", "invoiceId is missing. Add it to the body."),
            (".", "unknown field `amount`, expected `invoiceId`", "amount", "amount is not a field of this request. Leave it out; the only field is invoiceId."),
            ("?", "unknown field `x`, expected one of `a`, `b`, `c`", "x", "x is not a field of this request. Leave it out; the fields are a, b, c."),
            (".", "unknown field `x`, there are no fields", "x", "x is not a field of this request. Leave it out."),
            (".", "unknown field `a b`, there are no fields", "body", "The body has a field that this request does not know. Leave it out."),
            (".", &long, "body", "The body has a field that this request does not know. Leave it out; the only field is invoiceId."),
            (".", "unknown field `<script>`, expected `invoiceId`", "body", "The body has a field that this request does not know. Leave it out; the only field is invoiceId."),
            (".", "unknown field `a`, expected `b`, expected `invoiceId`", "body", "The body has a field that this request does not know. Leave it out; the only field is invoiceId."),
            ("currency", "duplicate field `currency`", "currency", "currency is there more than once. Send it once."),
            (".", "duplicate field `currency`", "currency", "currency is there more than once. Send it once."),
            ("amountCents", "invalid type: floating point `10.0`, expected i64", "amountCents",
                "amountCents must be a whole number written without decimal point, exponent or quotes, such as 1250, not a number with a decimal point, an exponent or too many digits."),
            ("amountCents", "invalid type: string \"ten, expected i64\", expected i64", "amountCents",
                "amountCents must be a whole number written without decimal point, exponent or quotes, such as 1250, not text."),
            ("amountCents", "invalid value: integer `18446744073709551615`, expected i64", "amountCents",
                "amountCents must be a whole number written without decimal point, exponent or quotes, such as 1250; this value is out of range."),
            ("customerId", "invalid type: null, expected a string", "customerId", "customerId must be text in double quotes, not null."),
            ("metadata.<b>", "invalid type: integer `1`, expected a string", "metadata", "A value in metadata must be text in double quotes, not a number."),
            ("metadata", "invalid type: sequence, expected a map", "metadata", "metadata must be an object whose values are text in double quotes, not a list."),
            ("outcome", "unknown variant `maybe`, expected `succeeded` or `failed`", "outcome", "outcome must be one of succeeded, failed."),
            ("x", "something new", "x", "x has a value that is not allowed."),
            (".", "invalid type: string \"a\", expected struct ChargeRequest", "body", "The body must be a JSON object, not text."),
        ];
        for (path, message, field, detail) in table {
            let right = Explanation {
                field: field.into(),
                detail: detail.into(),
            };
            assert_eq!(explain(path, message), right, "{message}");
        }
    }
}
