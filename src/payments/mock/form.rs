//! Form decoding as Stripe does it: `a[b]=v`, `a[]=v` and `a[0]=v`, with brackets literal or percent-encoded, and a
//! closed list of known names for each endpoint.

use std::collections::BTreeMap;

use super::errors::ApiError;

/// The most key-value pairs of a `metadata` map (Stripe docs, Metadata).
const METADATA_PAIRS_MAX: usize = 50;
/// The longest metadata key, in characters.
const METADATA_KEY_MAX: usize = 40;
/// The longest metadata value, in characters.
const METADATA_VALUE_MAX: usize = 500;

/// The decoded parameters of one request, query and body together.
#[derive(Debug, Default)]
pub(super) struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Decodes a query and a form body.
    pub(super) fn parse(query: &str, body: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes()).chain(form_urlencoded::parse(body));
        Self {
            pairs: pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        }
    }

    /// Refuses every name that is not allowed.
    ///
    /// `amount` allows the scalar, `expand[]` a list, `metadata{}` a map of one level, `shipping*` anything below.
    pub(super) fn only(&self, allowed: &[&[&str]]) -> Result<(), ApiError> {
        for (name, value) in &self.pairs {
            let known = allowed
                .iter()
                .copied()
                .flatten()
                .any(|pattern| matches(pattern, name, value));
            if !known {
                return Err(ApiError::unknown_parameter(name));
            }
        }
        Ok(())
    }

    /// Whether the name was sent at all, if only to unset the field.
    pub(super) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(known, _)| known == name)
    }

    /// A scalar. The last one wins, and an empty string counts as absent.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.pairs.iter().rev().find(|(known, _)| known == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// A scalar as an owned string.
    pub(super) fn string(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    /// A scalar that must be there.
    pub(super) fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.text(name).ok_or_else(|| ApiError::missing(name))
    }

    /// An integer.
    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let invalid = |_| {
            ApiError::invalid(format!("Invalid integer: {text}")).code("parameter_invalid_integer")
        };
        text.parse()
            .map(Some)
            .map_err(|error| invalid(error).param(name))
    }

    /// `true` or `false`; absent is `false`.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(ApiError::invalid(format!("Invalid boolean: {other}")).param(name)),
        }
    }

    /// One of a closed set of words.
    pub(super) fn one_of(&self, name: &str, words: &[&str]) -> Result<Option<&str>, ApiError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        if words.contains(&text) {
            return Ok(Some(text));
        }
        let message = format!("Invalid {name}: must be one of {}", words.join(", "));
        Err(ApiError::invalid(message).param(name))
    }

    /// The elements of a list, in the order they were sent.
    pub(super) fn list(&self, name: &str) -> Vec<&str> {
        let element = |known: &str| is_element(known, name);
        self.pairs
            .iter()
            .filter(|(known, _)| element(known))
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// Applies `metadata[key]=value` to a map: an empty value removes the key, an empty `metadata` removes all.
    pub(super) fn merge_metadata(
        &self,
        into: &mut BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        let mut merged = if self.has("metadata") {
            BTreeMap::new()
        } else {
            into.clone()
        };
        for (name, value) in &self.pairs {
            let Some(key) = map_key(name, "metadata") else {
                continue;
            };
            if key.chars().count() > METADATA_KEY_MAX || value.chars().count() > METADATA_VALUE_MAX
            {
                return Err(ApiError::invalid(
                    "Metadata keys have at most 40, values at most 500 characters.",
                )
                .param(name));
            }
            match value.is_empty() {
                true => merged.remove(key),
                false => merged.insert(key.to_owned(), value.clone()),
            };
        }
        if merged.len() > METADATA_PAIRS_MAX {
            return Err(ApiError::invalid("Metadata has at most 50 keys.").param("metadata"));
        }
        *into = merged;
        Ok(())
    }
}

/// Whether a sent name fits one entry of an endpoint's list.
fn matches(pattern: &str, name: &str, value: &str) -> bool {
    if let Some(base) = pattern.strip_suffix("[]") {
        return is_element(name, base);
    }
    if let Some(base) = pattern.strip_suffix("{}") {
        return map_key(name, base).is_some() || (name == base && value.is_empty());
    }
    if let Some(base) = pattern.strip_suffix('*') {
        return name
            .strip_prefix(base)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('['));
    }
    name == pattern
}

/// `base[]` or `base[7]`.
fn is_element(name: &str, base: &str) -> bool {
    inside(name, base).is_some_and(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The `key` of `base[key]`.
fn map_key<'a>(name: &'a str, base: &str) -> Option<&'a str> {
    inside(name, base).filter(|key| !key.is_empty() && !key.contains(['[', ']']))
}

fn inside<'a>(name: &'a str, base: &str) -> Option<&'a str> {
    name.strip_prefix(base)?
        .strip_prefix('[')?
        .strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_may_be_literal_or_percent_encoded() {
        for body in [
            "metadata[a]=1&expand[]=x&expand[]=y",
            "metadata%5Ba%5D=1&expand%5B0%5D=x&expand%5B1%5D=y",
        ] {
            let params = Params::parse("", body.as_bytes());
            let mut metadata = BTreeMap::new();
            params.only(&[&["metadata{}", "expand[]"]]).unwrap();
            params.merge_metadata(&mut metadata).unwrap();
            assert_eq!(metadata.get("a").map(String::as_str), Some("1"), "{body}");
            assert_eq!(params.list("expand"), ["x", "y"], "{body}");
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_name() {
        let allowed: &[&[&str]] = &[&["amount", "expand[]", "metadata{}", "shipping*"]];
        let table = [
            ("amount=1", true),
            ("shipping[address][city]=x", true),
            ("metadata=", true),
            ("amount[]=1", false),
            ("amounts=1", false),
            ("metadata[a][b]=1", false),
            ("metadata[]=1", false),
            ("expand[x]=1", false),
            ("shippings=1", false),
        ];
        for (body, accepted) in table {
            assert_eq!(
                Params::parse("", body.as_bytes()).only(allowed).is_ok(),
                accepted,
                "{body}"
            );
        }
    }

    #[test]
    fn an_empty_metadata_value_removes_the_key() {
        let mut metadata = BTreeMap::from([
            ("a".to_owned(), "1".to_owned()),
            ("b".to_owned(), "2".to_owned()),
        ]);
        Params::parse("", b"metadata[a]=&metadata[c]=3")
            .merge_metadata(&mut metadata)
            .unwrap();
        assert_eq!(metadata.into_keys().collect::<Vec<_>>(), ["b", "c"]);
    }
}
