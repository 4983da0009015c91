//! Idempotency keys: where they come from and what they may look like. Pure.

use super::fingerprint::digest;

/// The longest key that a caller may send, in characters (Stripe docs, Idempotent requests: 255).
pub const HEADER_KEY_LENGTH_MAX: usize = 255;

/// The natural key of an invoice's n-th attempt to be charged: `charge:{invoiceId}`, from the second on
/// `charge:{invoiceId}:{n}`. An invoice id holds no colon, so no two attempts ever share a key.
pub fn charge_key(invoice_id: &str, attempt: i32) -> String {
    debug_assert!(
        !invoice_id.contains(':'),
        "an invoice id with a colon would make keys ambiguous"
    );
    if attempt <= 1 {
        format!("charge:{invoice_id}")
    } else {
        format!("charge:{invoice_id}:{attempt}")
    }
}

/// The natural key of creating an invoice under the caller's own id: `invoice:{invoiceId}`.
pub fn invoice_key(invoice_id: &str) -> String {
    format!("invoice:{invoice_id}")
}

/// The natural key of the n-th attempt to give back what is left of a charge: `refund:{chargeId}`, from the second on
/// `refund:{chargeId}:{n}`.
pub fn refund_key(charge_id: &str, attempt: i32) -> String {
    debug_assert!(
        !charge_id.contains(':'),
        "a charge id with a colon would make keys ambiguous"
    );
    if attempt <= 1 {
        format!("refund:{charge_id}")
    } else {
        format!("refund:{charge_id}:{attempt}")
    }
}

/// The key of giving back a part of a charge: `refund:{chargeId}:{hash}`. The hash stands for the caller's header key, with
/// its owner and the operation ([`HeaderKey::hash`]); it is longer than any number of an attempt.
pub fn refund_part_key(charge_id: &str, header_key_hash: &str) -> String {
    format!("refund:{charge_id}:{header_key_hash}")
}

/// A key from the `Idempotency-Key` header, as sent by an orchestrator for an action without a natural key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderKey(String);

/// Why a header's key is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderKeyError {
    /// Empty or blank.
    #[error(
        "The Idempotency-Key header is empty. Send a key that is unique to this action, or leave the header out."
    )]
    Empty,
    /// Over [`HEADER_KEY_LENGTH_MAX`] characters.
    #[error("The Idempotency-Key header is longer than 255 characters. Send a shorter key.")]
    TooLong,
    /// Anything but visible ASCII characters.
    #[error(
        "The Idempotency-Key header may hold visible ASCII characters only. Send a key such as a UUID."
    )]
    Characters,
    /// More than one header, or a quoted string that does not end.
    #[error("The Idempotency-Key header must be one key, bare or in double quotes. Send it once.")]
    Malformed,
}

impl HeaderKey {
    /// Reads the header's values: exactly one, either bare or as a Structured Field string in double quotes (RFC 9651
    /// as the IETF draft asks for). Both forms of one key are the same key.
    pub fn parse(values: &[&[u8]]) -> Result<Self, HeaderKeyError> {
        let [value] = values else {
            return Err(HeaderKeyError::Malformed);
        };
        let text = std::str::from_utf8(value)
            .map_err(|_| HeaderKeyError::Characters)?
            .trim_matches([' ', '\t']);
        let key = match text.strip_prefix('"') {
            None => text.to_owned(),
            Some(rest) => unquote(rest)?,
        };
        if key.trim().is_empty() {
            return Err(HeaderKeyError::Empty);
        }
        if key.chars().count() > HEADER_KEY_LENGTH_MAX {
            return Err(HeaderKeyError::TooLong);
        }
        if !key
            .bytes()
            .all(|byte| byte.is_ascii_graphic() || byte == b' ')
        {
            return Err(HeaderKeyError::Characters);
        }
        Ok(Self(key))
    }

    /// The row's key: one caller's key for one operation. Neither part holds a colon, and the caller's text comes
    /// last, so that nobody can spell another's key.
    pub fn scoped(&self, principal: &str, operation: &str) -> String {
        format!("header:{principal}:{operation}:{}", self.0)
    }

    /// The same as a hash in lower-case hex, for rows and keys of the provider's: it is short, and nobody reads the
    /// caller's text there.
    pub fn hash(&self, principal: &str, operation: &str) -> String {
        digest(&self.scoped(principal, operation))
    }
}

fn unquote(rest: &str) -> Result<String, HeaderKeyError> {
    let mut key = String::new();
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' if characters.as_str().is_empty() => return Ok(key),
            '"' => return Err(HeaderKeyError::Malformed),
            '\\' => match characters.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                Some(_) | None => return Err(HeaderKeyError::Malformed),
            },
            other => key.push(other),
        }
    }
    Err(HeaderKeyError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_has_the_bare_key_and_later_ones_their_number() {
        assert_eq!(charge_key("inv_1", 1), "charge:inv_1");
        assert_eq!(charge_key("inv_1", 2), "charge:inv_1:2");
        assert_eq!(charge_key("inv_1", 15), "charge:inv_1:15");
    }

    #[test]
    fn the_rest_of_a_charge_has_its_natural_key_and_a_part_the_hash_of_its_callers() {
        assert_eq!(refund_key("chg_1", 1), "refund:chg_1");
        assert_eq!(refund_key("chg_1", 2), "refund:chg_1:2");
        let key = HeaderKey("k".into());
        let hash = key.hash("ops", "refund");
        assert_eq!(refund_part_key("chg_1", "f00"), "refund:chg_1:f00");
        assert_eq!(hash.len(), 64);
        for other in [
            key.hash("ops", "charge"),
            key.hash("other", "refund"),
            HeaderKey("K".into()).hash("ops", "refund"),
        ] {
            assert_ne!(hash, other);
        }
    }

    #[test]
    fn header_keys_are_read_or_refused() {
        let long_ok = "k".repeat(255);
        let too_long = "k".repeat(256);
        let ok = |key: &str| Ok(HeaderKey(key.into()));
        #[rustfmt::skip]
        let table: Vec<(&str, Vec<&[u8]>, Result<HeaderKey, HeaderKeyError>)> = vec![
            ("bare", vec![b"task-7/step-3"], ok("task-7/step-3")),
            ("quoted is the same key", vec![b"\"task-7/step-3\""], ok("task-7/step-3")),
            ("quoted with escapes", vec![br#""a\"b\\c""#], ok("a\"b\\c")),
            ("white space around it", vec![b"  k1\t"], ok("k1")),
            ("the longest", vec![long_ok.as_bytes()], ok(&long_ok)),
            ("one too long", vec![too_long.as_bytes()], Err(HeaderKeyError::TooLong)),
            ("empty", vec![b""], Err(HeaderKeyError::Empty)),
            ("blank", vec![b"   "], Err(HeaderKeyError::Empty)),
            ("quoted and empty", vec![b"\"\""], Err(HeaderKeyError::Empty)),
            ("quoted and blank", vec![b"\"  \""], Err(HeaderKeyError::Empty)),
            ("twice", vec![b"a", b"b"], Err(HeaderKeyError::Malformed)),
            ("twice the same", vec![b"a", b"a"], Err(HeaderKeyError::Malformed)),
            ("no end quote", vec![b"\"abc"], Err(HeaderKeyError::Malformed)),
            ("text after the end quote", vec![b"\"abc\"d"], Err(HeaderKeyError::Malformed)),
            ("bad escape", vec![br#""a\n""#], Err(HeaderKeyError::Malformed)),
            ("not UTF-8", vec![b"\xff\xfe"], Err(HeaderKeyError::Characters)),
            ("not ASCII", vec!["schl\u{fc}ssel".as_bytes()], Err(HeaderKeyError::Characters)),
            ("a control character", vec![b"a\x01b"], Err(HeaderKeyError::Characters)),
        ];
        for (case, values, right) in table {
            assert_eq!(HeaderKey::parse(&values), right, "{case}");
        }
    }

    #[test]
    fn scoped_keys_of_different_callers_or_operations_never_meet() {
        let key = HeaderKey("op:k".into());
        assert_eq!(
            key.scoped("anonymous", "create_invoice"),
            "header:anonymous:create_invoice:op:k"
        );
        assert_ne!(
            key.scoped("a", "create_invoice"),
            key.scoped("b", "create_invoice")
        );
    }
}
