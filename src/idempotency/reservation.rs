//! The values of a reservation. No storage, no clock.

use std::time::{Duration, Instant, SystemTime};

use uuid::Uuid;

/// A key's row: who works on the operation, or how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The idempotency key; unique.
    pub key: String,
    /// The operation's name (`charge`, `create_invoice`).
    pub operation: String,
    /// Where it stands.
    pub state: ReservationState,
    /// The attempt's number, from 1. Moves only after a definitive failure, never by a takeover.
    pub attempt: i32,
    /// Hash of what was asked for; another one under the same key is a misuse.
    pub fingerprint: String,
    /// Fences writes: only its holder settles.
    pub lease_token: String,
    /// When the lease is over; Unix milliseconds by the database's clock.
    pub lease_expires_at_ms: i64,
    /// How a dead owner's work is finished.
    pub recovery: Recovery,
    /// The earliest moment at which the request may have been sent (Unix milliseconds, the database's clock). It is
    /// set with the reservation, before the send, so that no crash can leave a send that nobody dated.
    pub first_sent_at_ms: i64,
    /// The latest such moment: that of the last takeover that may send.
    pub last_sent_at_ms: i64,
    /// How often it was taken over. Above zero, an earlier owner may have sent the request.
    pub takeovers: i32,
    /// True once its owner has recorded that there is no verdict and works on it no more. Its lease still keeps others
    /// from sending, but not from looking.
    pub idle: bool,
    /// Since when the provider could not be asked what became of it (Unix milliseconds, the database's clock); `None` while
    /// it can, or was not asked.
    pub unanswered_since_ms: Option<i64>,
}

/// Where a reservation stands, with its answer once there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationState {
    /// Somebody works on it, or died at it.
    InProgress,
    /// It succeeded; every repetition gets this answer.
    Done(StoredResponse),
    /// It definitively failed with this answer; whether another attempt may follow is the operation's policy.
    Failed(StoredResponse),
}

/// How the work of an owner that went silent is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Send the same request under the same key again.
    Resend,
    /// Only ask what became of it: the key is too old, or would merely repeat an answer of no use.
    LookUp,
}

/// Which reservations may be given to a new owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Those whose lease is over.
    Expired,
    /// Those, and those whose owner works on them no more. The new owner may only look.
    ExpiredOrIdle,
}

/// An answer as it was first given; repeated byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// HTTP status.
    pub status: u16,
    /// The `Location` header, where there was one.
    pub location: Option<String>,
    /// The body: JSON, or a problem document where the status is 400 or above.
    pub body: String,
}

/// How a reservation ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// With a success.
    Done(StoredResponse),
    /// With a definitive failure.
    Failed(StoredResponse),
}

impl Ending {
    /// The answer that is stored.
    pub fn response(&self) -> &StoredResponse {
        match self {
            Self::Done(response) | Self::Failed(response) => response,
        }
    }
}

/// A new lease token. Random, so that no two owners ever share one.
pub fn new_lease_token() -> String {
    Uuid::new_v4().simple().to_string()
}

/// The owner's own view of its lease, for what it does between two storage calls.
///
/// It starts from what the database said and counts on with this process's clocks. It never decides who owns the
/// reservation (the guarded update does); it keeps a process that was paused from sending a request that is too old.
#[derive(Debug, Clone, Copy)]
pub struct HeldLease {
    database_now_ms: i64,
    send_until_ms: i64,
    asked: Moment,
    answered: Instant,
}

/// A moment by both clocks of this process.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    monotonic: Instant,
    wall: SystemTime,
}

impl Moment {
    /// This one.
    pub fn now() -> Self {
        Self {
            monotonic: Instant::now(),
            wall: SystemTime::now(),
        }
    }
}

impl HeldLease {
    /// For a reservation just written, with the database's `now_ms` at that moment. `key_window` bounds how long after
    /// the first send the key may still be used; `None` for an operation without a remote key.
    ///
    /// `asked` is the moment before the database was asked. The lease is counted from there: how long the answer took
    /// to arrive, or how long this process slept over it, cannot be told from here and is part of the lease.
    pub fn new(
        reservation: &Reservation,
        now_ms: i64,
        key_window: Option<Duration>,
        asked: Moment,
    ) -> Self {
        let window_end = key_window.map_or(i64::MAX, |window| {
            reservation.first_sent_at_ms.saturating_add(millis(window))
        });
        Self {
            database_now_ms: now_ms,
            send_until_ms: reservation.lease_expires_at_ms.min(window_end),
            asked,
            answered: Instant::now(),
        }
    }

    /// The moment after which nothing may be sent any more.
    pub fn deadline(&self) -> Instant {
        self.asked.monotonic + self.rest()
    }

    /// The same moment by the wall clock.
    pub fn wall_deadline(&self) -> SystemTime {
        let over = self.asked.wall.checked_add(self.rest());
        over.unwrap_or(self.asked.wall)
    }

    /// What there was left for sending when the database was asked.
    fn rest(&self) -> Duration {
        let left_ms = self.send_until_ms.saturating_sub(self.database_now_ms);
        Duration::from_millis(left_ms.max(0).unsigned_abs())
    }

    /// True once nothing may be sent. The wall clock is asked too, because the monotonic one may stand still while a
    /// virtual machine is suspended; a wall clock that was set forward costs a takeover, nothing more.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline() || SystemTime::now() >= self.wall_deadline()
    }

    /// The database's time now, as near as this process can tell (Unix milliseconds); never ahead of it. For stamps that
    /// people read, and for ages that must not be overstated.
    pub fn now_ms(&self) -> i64 {
        self.database_now_ms
            .saturating_add(millis(self.answered.elapsed()))
    }
}

/// A duration in whole milliseconds, saturating.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(lease_expires_at_ms: i64, first_sent_at_ms: i64) -> Reservation {
        Reservation {
            key: "charge:inv_1".into(),
            operation: "charge".into(),
            state: ReservationState::InProgress,
            attempt: 1,
            fingerprint: "f".into(),
            lease_token: "t".into(),
            lease_expires_at_ms,
            recovery: Recovery::Resend,
            first_sent_at_ms,
            last_sent_at_ms: first_sent_at_ms,
            takeovers: 0,
            idle: false,
            unanswered_since_ms: None,
        }
    }

    #[test]
    fn a_lease_ends_with_the_lease_or_with_the_keys_window_whichever_is_first() {
        let window = Some(Duration::from_secs(100));
        let asked = Moment::now();
        let by_lease = HeldLease::new(&reservation(60_000, 0), 0, window, asked);
        let by_window = HeldLease::new(&reservation(600_000, 0), 0, window, asked);
        assert_eq!(
            by_lease.deadline() - asked.monotonic,
            Duration::from_secs(60)
        );
        assert_eq!(
            by_window.deadline() - asked.monotonic,
            Duration::from_secs(100)
        );
        assert!(!by_lease.is_over());
    }

    #[test]
    fn a_lease_in_the_past_is_over_at_once() {
        assert!(HeldLease::new(&reservation(10, 0), 10, None, Moment::now()).is_over());
        assert!(
            HeldLease::new(
                &reservation(i64::MAX, 0),
                50,
                Some(Duration::from_millis(50)),
                Moment::now()
            )
            .is_over()
        );
    }

    #[test]
    fn a_suspended_machine_is_noticed_by_the_wall_clock() {
        let awake = Moment::now();
        let suspended = Moment {
            wall: awake.wall - Duration::from_secs(61),
            ..awake
        };
        assert!(!HeldLease::new(&reservation(60_000, 0), 0, None, awake).is_over());
        assert!(HeldLease::new(&reservation(60_000, 0), 0, None, suspended).is_over());
    }

    #[test]
    fn a_pause_before_the_database_answered_counts() {
        let now = Moment::now();
        let long_ago = Moment {
            monotonic: now.monotonic - Duration::from_secs(61),
            ..now
        };
        let lease = HeldLease::new(&reservation(60_000, 0), 0, None, long_ago);
        assert!(lease.is_over());
        assert!(
            lease.now_ms() < 60_000,
            "the database's time is not overstated"
        );
    }
}
