//! Stripe's signature of a webhook (Stripe docs, Webhooks): HMAC-SHA256 over the time and the raw body. Pure.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The value of `Stripe-Signature`: one `v1` for each secret, so that a receiver can change its secret without a gap.
///
/// The key is the whole secret with its `whsec_`, not what follows it.
pub(super) fn header(timestamp: i64, secrets: &[String], body: &[u8]) -> String {
    let mut header = format!("t={timestamp}");
    for secret in secrets {
        // HMAC takes keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
            continue;
        };
        mac.update(timestamp.to_string().as_bytes());
        mac.update(b".");
        mac.update(body);
        header.push_str(",v1=");
        for byte in mac.finalize().into_bytes() {
            _ = write!(header, "{byte:02x}");
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_one_that_openssl_computes() {
        // printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_one
        let header = header(
            1_700_000_000,
            &["whsec_one".into(), "whsec_two".into()],
            br#"{"id":"evt_1"}"#,
        );
        assert_eq!(
            header,
            "t=1700000000,v1=401fbbceeb3818dc562ff77127ba1c62e47e24c9c6cde4d7a6eba85e32dbd058,v1=4fb9aa7e8a9678e685ef5c7eafa19ac1eb7c0564196cbe246ca08c2fd799eaf3"
        );
    }
}
