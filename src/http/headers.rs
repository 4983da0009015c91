//! Headers that callers send. Pure reading; what follows from them is the services'.

use std::time::Duration;

use actix_web::HttpRequest;

use crate::error::Problem;
use crate::idempotency::key::HeaderKey;

/// The `Idempotency-Key` header, where there is one. It must be well formed even where a natural key makes it needless.
pub fn idempotency_key(request: &HttpRequest) -> Result<Option<HeaderKey>, Problem> {
    let values: Vec<&[u8]> = request
        .headers()
        .get_all("idempotency-key")
        .map(|value| value.as_bytes())
        .collect();
    if values.is_empty() {
        return Ok(None);
    }
    Ok(Some(HeaderKey::parse(&values)?))
}

/// `Prefer: wait=N` (RFC 7240), in seconds. A preference that cannot be read is ignored, as the RFC wants it.
pub fn preferred_wait(request: &HttpRequest) -> Option<Duration> {
    let values = request
        .headers()
        .get_all("prefer")
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .find_map(wait_seconds)
        .map(Duration::from_secs)
}

fn wait_seconds(preference: &str) -> Option<u64> {
    let (name, value) = preference.split(';').next()?.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("wait") {
        return None;
    }
    value
        .trim()
        .trim_matches('"')
        .parse::<u32>()
        .ok()
        .map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn a_preference_to_wait_is_read_or_ignored() {
        let table = [
            ("wait=10", Some(10)),
            ("respond-async, wait=7", Some(7)),
            ("Wait = 3 ; foo=bar", Some(3)),
            ("wait=\"5\"", Some(5)),
            ("wait", None),
            ("wait=-1", None),
            ("wait=soon", None),
            ("wait=99999999999999999999", None),
            ("return=minimal", None),
        ];
        for (header, seconds) in table {
            let request = TestRequest::default()
                .insert_header(("Prefer", header))
                .to_http_request();
            assert_eq!(
                preferred_wait(&request),
                seconds.map(Duration::from_secs),
                "{header}"
            );
        }
        assert_eq!(
            preferred_wait(&TestRequest::default().to_http_request()),
            None
        );
    }
}
