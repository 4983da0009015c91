//! Time on the wire.

use chrono::{DateTime, SecondsFormat};

/// Unix milliseconds as RFC 3339 in UTC with milliseconds (`2026-11-29T21:53:50.123Z`).
pub fn rfc3339(unix_ms: i64) -> String {
    DateTime::from_timestamp_millis(unix_ms)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn milliseconds_are_kept_and_the_zone_is_utc() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_795_989_230_007), "2026-11-29T21:53:50.007Z");
    }
}
