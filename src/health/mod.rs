//! Is the process alive, and can it work?
pub mod controller;

use crate::storage::StoreCondition;

/// How far this machine's clock may be from the database's, in milliseconds. Leases and windows are the database's business alone,
/// but the provider's signatures and certificates are checked by this one.
const CLOCK_APART_MAX_MS: i64 = 60_000;

/// Why the service cannot work with this store, in a sentence; nothing when it can. `clock_ms` is this machine's time (Unix
/// milliseconds, UTC).
pub fn what_is_wrong(condition: &StoreCondition, clock_ms: i64) -> Option<String> {
    if condition.schema < condition.schema_needed {
        return Some(
            "The database's schema is older than this release. Run chargeonce migrate, or restart the service.".into(),
        );
    }
    let apart_ms = clock_ms.saturating_sub(condition.now_ms);
    if apart_ms.saturating_abs() > CLOCK_APART_MAX_MS {
        let direction = if apart_ms > 0 { "ahead of" } else { "behind" };
        return Some(format!(
            "This machine's clock is {} seconds {direction} the database's. Set both by NTP.",
            apart_ms.saturating_abs() / 1_000
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_schema_and_a_clock_that_is_off_are_told() {
        const NOW_MS: i64 = 1_800_000_000_000;
        let table = [
            ("20261130000012", NOW_MS, None),
            ("20261130000012", NOW_MS + 60_000, None),
            ("20261130000012", NOW_MS - 60_000, None),
            // A newer release has migrated it already: replicas are replaced one by one.
            ("20271130000000", NOW_MS, None),
            ("20261130000011", NOW_MS, Some("older than this release")),
            ("", NOW_MS, Some("older than this release")),
            (
                "20261130000012",
                NOW_MS + 60_001,
                Some("60 seconds ahead of"),
            ),
            (
                "20261130000012",
                NOW_MS - 3_600_000,
                Some("3600 seconds behind"),
            ),
        ];
        for (schema, clock_ms, right) in table {
            let condition = StoreCondition {
                now_ms: NOW_MS,
                schema: schema.into(),
                schema_needed: "20261130000012".into(),
            };
            let told = what_is_wrong(&condition, clock_ms);
            match right {
                None => assert_eq!(told, None, "{schema} {clock_ms}"),
                Some(words) => assert!(told.unwrap().contains(words), "{schema} {clock_ms}"),
            }
        }
    }
}
