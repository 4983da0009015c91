//! Rules for text that callers send. Pure.

use crate::error::{Code, Problem};

/// The longest invoice id. With it, the longest prefix and the attempt's number, a key stays within the provider's 255.
pub const INVOICE_ID_LENGTH_MAX: usize = 120;

/// The longest id of the provider's (Stripe: object ids have up to 255 characters).
pub const PROVIDER_ID_LENGTH_MAX: usize = 255;

/// True for an invoice id: a letter or digit, then letters, digits and `. _ ~ -`. No colon, because the id becomes part
/// of an idempotency key; no `@`, because no personal data may reach the keys and logs; nothing that a URL would change.
pub fn is_invoice_id(id: &str) -> bool {
    id.len() <= INVOICE_ID_LENGTH_MAX
        && id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte))
}

/// True for an id of the provider's, as far as we care: it goes into URLs and forms.
pub fn is_provider_id(id: &str) -> bool {
    id.len() <= PROVIDER_ID_LENGTH_MAX
        && id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// An invoice id, or the problem with it.
pub fn invoice_id(field: &str, id: &str) -> Result<(), Problem> {
    if is_invoice_id(id) {
        return Ok(());
    }
    Err(Problem::new(
        Code::InvalidRequest,
        format!(
            "{field} must have 1 to {INVOICE_ID_LENGTH_MAX} characters: letters, digits and . _ ~ - only, beginning with a letter or digit."
        ),
    )
    .field(field))
}

/// An id of the provider's, or the problem with it.
pub fn provider_id(field: &str, id: &str) -> Result<(), Problem> {
    if is_provider_id(id) {
        return Ok(());
    }
    Err(Problem::new(
        Code::InvalidRequest,
        format!(
            "{field} must be an id of the payment provider: 1 to {PROVIDER_ID_LENGTH_MAX} letters, digits and . _ - only."
        ),
    )
    .field(field))
}

/// True for text of such a length (in characters) without control characters.
pub fn is_free_text(text: &str, length_min: usize, length_max: usize) -> bool {
    (length_min..=length_max).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

/// Free text without control characters, or the problem with it.
pub fn free_text(
    field: &str,
    text: &str,
    length_min: usize,
    length_max: usize,
) -> Result<(), Problem> {
    if is_free_text(text, length_min, length_max) {
        return Ok(());
    }
    Err(Problem::new(
        Code::InvalidRequest,
        format!(
            "{field} must have {length_min} to {length_max} characters and no control characters."
        ),
    )
    .field(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invoice_ids_are_safe_in_keys_urls_and_logs() {
        let longest = "a".repeat(120);
        for good in ["inv_1", "2026-0001", "A", "a.b~c-d_e", &longest] {
            assert!(is_invoice_id(good), "{good}");
        }
        let too_long = "a".repeat(121);
        let bad = [
            "",
            " ",
            "a b",
            "a:2",
            "joe@example.com",
            "a/b",
            "..",
            ".a",
            "-a",
            "a\0",
            "a\n",
            "ä",
            "a%20",
            "a?b",
            "a#b",
            &too_long,
        ];
        for bad in bad {
            assert!(!is_invoice_id(bad), "{bad:?}");
        }
    }

    #[test]
    fn provider_ids_cannot_leave_their_place_in_a_url() {
        for good in ["cus_123", "pm_card_visa", "card_1A-b.c"] {
            assert!(is_provider_id(good), "{good}");
        }
        for bad in [
            "",
            "cus/../x",
            "cus_1?x=1",
            "cus_1 ",
            "cus&x",
            "_x",
            "cus\u{e9}",
        ] {
            assert!(!is_provider_id(bad), "{bad:?}");
        }
    }
}
