//! When an attempt without a verdict is looked at again. Pure.

/// The longest that the background worker leaves an attempt alone, in milliseconds.
const WAIT_LONGEST_MS: i64 = 3_600_000;

/// How long to leave an attempt alone after a look-up that was answered and settled nothing, in milliseconds.
///
/// The first look comes with the end of the lease, whatever happened before; each further one waits twice as long as the
/// one before, an hour at most. `chance` between 0 and 1 takes up to half of it off, so that attempts that began together
/// are not looked at together for ever.
pub fn wait_after_look_ms(takeovers: i32, lease_ms: i64, chance: f64) -> i64 {
    let Some(doublings) = u32::try_from(takeovers)
        .ok()
        .and_then(|count| count.checked_sub(1))
    else {
        return 0;
    };
    let factor = 1_i64.checked_shl(doublings.min(40)).unwrap_or(i64::MAX);
    let whole_ms = lease_ms.saturating_mul(factor).clamp(0, WAIT_LONGEST_MS);
    let per_mille = (chance.clamp(0.0, 1.0) * 1_000.0).round();
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and 1,000")]
    let per_mille = per_mille as i64;
    whole_ms - whole_ms / 2 * per_mille / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_an_hour_and_the_first_look_is_never_put_off() {
        const LEASE: i64 = 600_000;
        #[rustfmt::skip]
        let table = [
            (0, 0.0, 0),
            (1, 0.0, LEASE),
            (2, 0.0, 2 * LEASE),
            (3, 0.0, 4 * LEASE),
            (4, 0.0, 3_600_000),
            (1_000_000, 0.0, 3_600_000),
            (1, 1.0, LEASE / 2),
            (2, 0.5, 2 * LEASE * 3 / 4),
            (-1, 0.0, 0),
        ];
        for (takeovers, chance, right) in table {
            let wait = wait_after_look_ms(takeovers, LEASE, chance);
            assert_eq!(wait, right, "{takeovers} takeovers, chance {chance}");
        }
        assert_eq!(wait_after_look_ms(40, i64::MAX, 0.0), 3_600_000);
    }
}
