//! JSON whose objects have each member once. Of two members under one name most readers keep the last and some the first: two
//! programs that look at one message would then see two.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Any JSON without such twins. It keeps nothing: it is there to be read as.
pub struct NoTwins;

impl<'de> Deserialize<'de> for NoTwins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = NoTwins;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NoTwins, A::Error> {
        let mut names = HashSet::new();
        while let Some((name, NoTwins)) = map.next_entry::<String, NoTwins>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("a member is there twice"));
            }
        }
        Ok(NoTwins)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NoTwins, A::Error> {
        while list.next_element::<NoTwins>()?.is_some() {}
        Ok(NoTwins)
    }

    fn visit_unit<E>(self) -> Result<NoTwins, E> {
        Ok(NoTwins)
    }

    fn visit_bool<E>(self, _: bool) -> Result<NoTwins, E> {
        Ok(NoTwins)
    }

    fn visit_i64<E>(self, _: i64) -> Result<NoTwins, E> {
        Ok(NoTwins)
    }

    fn visit_u64<E>(self, _: u64) -> Result<NoTwins, E> {
        Ok(NoTwins)
    }

    fn visit_f64<E>(self, _: f64) -> Result<NoTwins, E> {
        Ok(NoTwins)
    }

    fn visit_str<E>(self, _: &str) -> Result<NoTwins, E> {
        Ok(NoTwins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_is_there_twice_is_found_at_any_depth() {
        let read = |text: &str| serde_json::from_str::<NoTwins>(text).map(|_| ());
        for good in [
            "{}",
            r#"{"a":{"a":1},"b":[{"a":1.5},{"a":-1}],"c":null,"d":true,"e":"a"}"#,
        ] {
            assert!(read(good).is_ok(), "{good}");
        }
        for twins in [
            r#"{"a":1,"a":1}"#,
            r#"{"b":[{"a":1,"a":2}]}"#,
            r#"{"a":1,"\u0061":2}"#,
        ] {
            assert!(read(twins).unwrap_err().is_data(), "{twins}");
        }
        for broken in ["", "{", r#"{"a":1}x"#] {
            assert!(!read(broken).unwrap_err().is_data(), "{broken}");
        }
    }
}
