//! What a reservation that is already there means for a caller. Pure: values and `now` in, a closed enum out.

use super::reservation::{Recovery, Reservation, ReservationState, StoredResponse};

/// What to do about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Nobody has the key: reserve it.
    Reserve,
    /// The key was used for something else.
    Mismatch,
    /// Somebody works on it and its lease has this long to run.
    InProgress {
        /// Milliseconds until the lease is over.
        lease_left_ms: i64,
    },
    /// Its owner went silent: take it over, and finish it this way.
    TakeOver(Recovery),
    /// It is done: repeat the answer.
    Replay(&'a StoredResponse),
    /// It definitively failed with this answer. Whether another attempt follows is the operation's policy.
    Failed(&'a StoredResponse),
}

/// How old a first send may be before its key is no longer used, in milliseconds; `None` where there is no remote key.
pub type KeyWindowMs = Option<i64>;

/// Decides about a key, by the database's time `now_ms`.
///
/// Past the window the provider may have forgotten the key, and would run the request as a new one: from then on the
/// outcome is looked up and the request is not sent again (Stripe docs, Idempotent requests: keys may be pruned after
/// 24 hours).
pub fn decide<'a>(
    existing: Option<&'a Reservation>,
    fingerprint: &str,
    now_ms: i64,
    window_ms: KeyWindowMs,
) -> Decision<'a> {
    let Some(reservation) = existing else {
        return Decision::Reserve;
    };
    if reservation.fingerprint != fingerprint {
        return Decision::Mismatch;
    }
    match &reservation.state {
        ReservationState::Done(response) => Decision::Replay(response),
        ReservationState::Failed(response) => Decision::Failed(response),
        ReservationState::InProgress if now_ms < reservation.lease_expires_at_ms => {
            Decision::InProgress {
                lease_left_ms: reservation.lease_expires_at_ms - now_ms,
            }
        }
        ReservationState::InProgress => {
            Decision::TakeOver(recovery(reservation, now_ms, window_ms))
        }
    }
}

fn recovery(reservation: &Reservation, now_ms: i64, window_ms: KeyWindowMs) -> Recovery {
    let window_is_over = window_ms
        .is_some_and(|window_ms| is_older_than(reservation.first_sent_at_ms, window_ms, now_ms));
    match reservation.recovery {
        Recovery::Resend if !window_is_over => Recovery::Resend,
        Recovery::Resend | Recovery::LookUp => Recovery::LookUp,
    }
}

/// True when `then_ms` lies at least `window_ms` before `now_ms`.
pub fn is_older_than(then_ms: i64, window_ms: i64, now_ms: i64) -> bool {
    now_ms.saturating_sub(then_ms) >= window_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;
    const WINDOW: i64 = 20 * HOUR;

    fn answer() -> StoredResponse {
        StoredResponse {
            status: 201,
            location: None,
            body: "{}".into(),
        }
    }

    /// Reserved at 0 with a lease of ten minutes.
    fn reserved(state: ReservationState, recovery: Recovery) -> Reservation {
        Reservation {
            key: "charge:inv_1".into(),
            operation: "charge".into(),
            state,
            attempt: 1,
            fingerprint: "same".into(),
            lease_token: "token".into(),
            lease_expires_at_ms: 600_000,
            recovery,
            first_sent_at_ms: 0,
            last_sent_at_ms: 0,
            takeovers: 0,
            idle: false,
            unanswered_since_ms: None,
        }
    }

    #[test]
    fn every_existing_reservation_has_one_meaning() {
        use ReservationState::{Done, Failed, InProgress};
        let response = answer();
        let running = || Some(reserved(InProgress, Recovery::Resend));
        let futile = || Some(reserved(InProgress, Recovery::LookUp));
        let done = || Some(reserved(Done(answer()), Recovery::Resend));
        let failed = || Some(reserved(Failed(answer()), Recovery::Resend));
        #[rustfmt::skip]
        let table: Vec<(&str, Option<Reservation>, &str, i64, KeyWindowMs, Decision<'_>)> = vec![
            ("nobody has the key", None, "same", 0, Some(WINDOW), Decision::Reserve),
            ("just reserved", running(), "same", 0, Some(WINDOW), Decision::InProgress { lease_left_ms: 600_000 }),
            ("in the lease's last millisecond", running(), "same", 599_999, Some(WINDOW), Decision::InProgress { lease_left_ms: 1 }),
            ("the lease is over", running(), "same", 600_000, Some(WINDOW), Decision::TakeOver(Recovery::Resend)),
            ("in the window's last millisecond", running(), "same", WINDOW - 1, Some(WINDOW), Decision::TakeOver(Recovery::Resend)),
            ("the window is over", running(), "same", WINDOW, Some(WINDOW), Decision::TakeOver(Recovery::LookUp)),
            ("years later", running(), "same", 100_000 * HOUR, Some(WINDOW), Decision::TakeOver(Recovery::LookUp)),
            ("no remote key, so no window", running(), "same", 100_000 * HOUR, None, Decision::TakeOver(Recovery::Resend)),
            ("the key only repeats a stored 500", futile(), "same", 600_000, Some(WINDOW), Decision::TakeOver(Recovery::LookUp)),
            ("a look-up waits for the lease too", futile(), "same", 1, Some(WINDOW), Decision::InProgress { lease_left_ms: 599_999 }),
            ("done", done(), "same", 1, Some(WINDOW), Decision::Replay(&response)),
            ("done, long after every window", done(), "same", 100_000 * HOUR, Some(WINDOW), Decision::Replay(&response)),
            ("failed", failed(), "same", 1, Some(WINDOW), Decision::Failed(&response)),
            ("other content while running", running(), "other", 1, Some(WINDOW), Decision::Mismatch),
            ("other content on an expired lease", running(), "other", HOUR, Some(WINDOW), Decision::Mismatch),
            ("other content on a finished key", done(), "other", 1, Some(WINDOW), Decision::Mismatch),
            ("the database's clock stepped back", running(), "same", -HOUR, Some(WINDOW), Decision::InProgress { lease_left_ms: 600_000 + HOUR }),
        ];
        for (case, existing, fingerprint, now_ms, window_ms, right) in table {
            assert_eq!(
                decide(existing.as_ref(), fingerprint, now_ms, window_ms),
                right,
                "{case}"
            );
        }
    }
}
