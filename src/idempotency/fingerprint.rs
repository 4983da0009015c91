//! The fingerprint of a request: what it asks for, without how it was written.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// A SHA-256 over an operation's name and the canonical JSON of its content, in lower-case hex.
///
/// Canonical here means: object members sorted by name, no white space, absent members left out by the content's own
/// serialiser. Two spellings of one request have one fingerprint; the content itself is not kept.
pub fn fingerprint<T: Serialize>(
    operation: &str,
    content: &T,
) -> Result<String, serde_json::Error> {
    // serde_json's map is a BTreeMap here, so that going through a Value sorts the members.
    let canonical = serde_json::to_string(&serde_json::to_value(content)?)?;
    Ok(digest(&format!("{operation}\0{canonical}")))
}

/// A SHA-256 in lower-case hex.
pub(super) fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(text: &str) -> String {
        fingerprint(
            "create_invoice",
            &serde_json::from_str::<Value>(text).unwrap(),
        )
        .unwrap()
    }

    #[test]
    fn order_and_white_space_do_not_count_but_content_does() {
        let first = of(r#"{"a":1,"b":{"x":"1","y":[1,2]}}"#);
        assert_eq!(first, of(r#" { "b": {"y":[1, 2], "x":"1"}, "a":1 } "#));
        assert_ne!(first, of(r#"{"a":1,"b":{"x":"1","y":[2,1]}}"#));
        assert_ne!(first, of(r#"{"a":"1","b":{"x":"1","y":[1,2]}}"#));
        assert_eq!(first.len(), 64);
    }

    #[test]
    fn the_operation_is_part_of_it() {
        let content = json!({"invoiceId": "inv_1"});
        assert_ne!(
            fingerprint("charge", &content).unwrap(),
            fingerprint("refund", &content).unwrap()
        );
    }

    #[test]
    fn it_never_changes_or_finished_keys_would_be_taken_for_others() {
        assert_eq!(
            fingerprint("charge", &json!({"invoiceId": "inv_1"})).unwrap(),
            "f8a2e928b177456d9988e6b8b5e5c4372f80ff28761edd3886d14de93cf6f4cd"
        );
    }
}
