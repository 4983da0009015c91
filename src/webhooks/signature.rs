//! The signature of a webhook (Stripe docs, Webhooks, "Verify webhook signatures manually"). Pure.
//!
//! Signed is `t`, a full stop and the raw body, with HMAC-SHA256 and the whole secret (its `whsec_` included) as the key. A
//! header carries one `v1` for each secret that is in use while one is replaced by another; other schemes are ignored.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

/// How far a signature's time may lie from ours, in either direction, in seconds. The past keeps recorded requests from
/// being sent again; the future keeps a signer with a wrong clock from making them good for later.
pub const TOLERANCE_SECONDS: i64 = 300;

/// Signatures in a header at most: a few secrets, and the schemes to come.
const SIGNATURES_MAX: usize = 32;

/// Why a webhook is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// No header, or one that cannot be read.
    #[error("the Stripe-Signature header is missing or cannot be read")]
    Unreadable,
    /// No signature fits the bytes with any of our secrets.
    #[error("no signature fits the body and a secret that is set here")]
    Mismatch,
    /// It fits, but its time is too far from ours.
    #[error("the signature's time is more than 300 seconds from this service's")]
    Stale,
}

/// Checks a header against the raw body, by `now_seconds` (Unix time).
///
/// The body is hashed once for each secret, whatever the header holds: a stranger must not choose how much work it is. Every
/// pair of secret and signature is compared, in constant time, so that the time taken tells nothing of how far a forged
/// signature fits.
pub fn verify(
    header: &str,
    body: &[u8],
    secrets: &[impl AsRef<str>],
    now_seconds: i64,
) -> Result<(), SignatureError> {
    let (timestamp, signatures) = timely(header, now_seconds)?;
    let mut fits = Choice::from(0);
    for secret in secrets {
        let right = signature(secret.as_ref(), timestamp, body);
        for given in &signatures {
            fits |= right.ct_eq(given);
        }
    }
    match bool::from(fits) {
        true => Ok(()),
        false => Err(SignatureError::Mismatch),
    }
}

/// Checks what can be checked of a header alone, so that no body is read for one that cannot be right.
pub fn precheck(header: &str, now_seconds: i64) -> Result<(), SignatureError> {
    timely(header, now_seconds).map(|_| ())
}

fn timely(header: &str, now_seconds: i64) -> Result<(&str, Vec<[u8; 32]>), SignatureError> {
    let (timestamp, signatures) = parse(header).ok_or(SignatureError::Unreadable)?;
    let seconds: i64 = timestamp.parse().map_err(|_| SignatureError::Unreadable)?;
    match now_seconds.checked_sub(seconds).map(i64::unsigned_abs) {
        Some(away) if away <= TOLERANCE_SECONDS.unsigned_abs() => Ok((timestamp, signatures)),
        Some(_) | None => Err(SignatureError::Stale),
    }
}

/// The time as it was signed, and the `v1` signatures.
fn parse(header: &str) -> Option<(&str, Vec<[u8; 32]>)> {
    let mut timestamp = None;
    let mut signatures = Vec::new();
    for part in header.split(',') {
        match part.split_once('=')? {
            // Two times could be read differently by two readers.
            ("t", _) if timestamp.is_some() => return None,
            ("t", value) => timestamp = Some(value),
            ("v1", value) if signatures.len() < SIGNATURES_MAX => signatures.push(value),
            (_, _) => {}
        }
    }
    let timestamp = timestamp.filter(|text| {
        !text.is_empty() && text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit())
    })?;
    let signatures: Vec<[u8; 32]> = signatures.into_iter().filter_map(from_hex).collect();
    (!signatures.is_empty()).then_some((timestamp, signatures))
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64
        || !text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn signature(secret: &str, timestamp: &str, body: &[u8]) -> [u8; 32] {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::SignatureError::{Mismatch, Stale, Unreadable};
    use super::*;

    // printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_one
    const BODY: &[u8] = br#"{"id":"evt_1"}"#;
    const ONE: &str = "401fbbceeb3818dc562ff77127ba1c62e47e24c9c6cde4d7a6eba85e32dbd058";
    const TWO: &str = "4fb9aa7e8a9678e685ef5c7eafa19ac1eb7c0564196cbe246ca08c2fd799eaf3";
    const T: i64 = 1_700_000_000;

    #[test]
    fn only_the_right_secret_over_the_right_bytes_at_the_right_time_is_believed() {
        let one = format!("t={T},v1={ONE}");
        let zeros = "0".repeat(64);
        #[rustfmt::skip]
        let table: Vec<(&str, String, &[u8], &[&str], i64, Result<(), SignatureError>)> = vec![
            ("right", one.clone(), BODY, &["whsec_one"], T, Ok(())),
            ("one of our secrets", one.clone(), BODY, &["whsec_other", "whsec_one"], T, Ok(())),
            ("one of their signatures", format!("t={T},v1={zeros},v1={TWO}"), BODY, &["whsec_two"], T, Ok(())),
            ("another scheme beside it", format!("t={T},v0={zeros},v1={ONE}"), BODY, &["whsec_one"], T, Ok(())),
            ("time last", format!("v1={ONE},t={T}"), BODY, &["whsec_one"], T, Ok(())),
            ("as old as may be", one.clone(), BODY, &["whsec_one"], T + 300, Ok(())),
            ("as far ahead as may be", one.clone(), BODY, &["whsec_one"], T - 300, Ok(())),
            ("too old", one.clone(), BODY, &["whsec_one"], T + 301, Err(Stale)),
            ("too far ahead", one.clone(), BODY, &["whsec_one"], T - 301, Err(Stale)),
            ("another secret", one.clone(), BODY, &["whsec_two"], T, Err(Mismatch)),
            ("no secret", one.clone(), BODY, &[], T, Err(Mismatch)),
            ("the secret without its prefix", one.clone(), BODY, &["one"], T, Err(Mismatch)),
            ("a byte more", one.clone(), b"{\"id\":\"evt_1\"}\n", &["whsec_one"], T, Err(Mismatch)),
            ("written anew", one.clone(), br#"{"id": "evt_1"}"#, &["whsec_one"], T, Err(Mismatch)),
            ("too old, and another secret", one.clone(), BODY, &["whsec_two"], T + 301, Err(Stale)),
            ("another time under the signature", format!("t={},v1={ONE}", T + 1), BODY, &["whsec_one"], T, Err(Mismatch)),
            ("only the fake scheme of test events", format!("t={T},v0={ONE}"), BODY, &["whsec_one"], T, Err(Unreadable)),
            ("upper case", format!("t={T},v1={}", ONE.to_uppercase()), BODY, &["whsec_one"], T, Err(Unreadable)),
            ("half a signature", format!("t={T},v1={}", &ONE[..32]), BODY, &["whsec_one"], T, Err(Unreadable)),
            ("two times", format!("t={T},t={T},v1={ONE}"), BODY, &["whsec_one"], T, Err(Unreadable)),
            ("no time", format!("v1={ONE}"), BODY, &["whsec_one"], T, Err(Unreadable)),
            ("a time with a sign", format!("t=+{T},v1={ONE}"), BODY, &["whsec_one"], T, Err(Unreadable)),
            ("a time beyond numbers", format!("t={},v1={ONE}", "9".repeat(40)), BODY, &["whsec_one"], T, Err(Unreadable)),
            ("nothing", String::new(), BODY, &["whsec_one"], T, Err(Unreadable)),
            ("nonsense", "t".into(), BODY, &["whsec_one"], T, Err(Unreadable)),
        ];
        for (case, header, body, secrets, now, right) in table {
            assert_eq!(verify(&header, body, secrets, now), right, "{case}");
        }
        assert_eq!(
            verify(&one, BODY, &["whsec_one"], i64::MIN),
            Err(Stale),
            "a clock that is nowhere"
        );
    }
}
