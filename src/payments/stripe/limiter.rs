//! Our own limit on requests to the provider, below the provider's: so many begin in a second, so many run at once.
//!
//! A request that our limiter holds back costs nothing; one that Stripe's limiter turns away counts there, and under
//! load makes others wait for locks (Stripe docs, Rate limits: use a client-side token bucket).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};

/// The limits; `None` means none, zero is read as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimiterSettings {
    /// How many requests may begin in one second.
    pub per_second: Option<u32>,
    /// How many may run at the same time.
    pub in_flight: Option<usize>,
}

impl Default for LimiterSettings {
    /// Below the 25 requests a second that Stripe gives a sandbox, and by default each endpoint.
    fn default() -> Self {
        Self {
            per_second: Some(20),
            in_flight: Some(50),
        }
    }
}

impl LimiterSettings {
    /// No limits: for what runs in our own process.
    pub fn unlimited() -> Self {
        Self {
            per_second: None,
            in_flight: None,
        }
    }
}

/// Hands out the right to make one request.
#[derive(Debug)]
pub struct Limiter {
    /// The time between two requests at the full rate; zero without a limit.
    interval: Duration,
    /// When the next request is due if all before it had kept the interval.
    due: Mutex<Option<Instant>>,
    in_flight: Option<Arc<Semaphore>>,
}

/// The right to make one request; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    _in_flight: Option<OwnedSemaphorePermit>,
}

/// The deadline comes before this request's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTurn;

impl Limiter {
    /// A limiter with these limits.
    pub fn new(settings: LimiterSettings) -> Self {
        Self {
            interval: settings.per_second.map_or(Duration::ZERO, |per_second| {
                Duration::from_secs(1) / per_second.max(1)
            }),
            due: Mutex::new(None),
            in_flight: settings
                .in_flight
                .map(|limit| Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS)))),
        }
    }

    /// Waits for a turn, but not beyond `deadline`.
    pub async fn turn(&self, deadline: Instant) -> Result<Permit, NoTurn> {
        let in_flight = match &self.in_flight {
            Some(semaphore) => {
                let acquired = timeout_at(deadline, Arc::clone(semaphore).acquire_owned()).await;
                // The semaphore is never closed; both errors mean that there is no turn.
                Some(acquired.map_err(|_| NoTurn)?.map_err(|_| NoTurn)?)
            }
            None => None,
        };
        let now = Instant::now();
        let at = self.book(now, deadline)?;
        // A timer rounds up to the next millisecond, so a turn that is due now takes none.
        if at > now {
            sleep_until(at).await;
        }
        Ok(Permit {
            _in_flight: in_flight,
        })
    }

    /// Books the next slot. A slot that a dropped caller does not use is lost, which errs on the quiet side.
    fn book(&self, now: Instant, deadline: Instant) -> Result<Instant, NoTurn> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, next) = slot(*due, now, self.interval);
        if at >= deadline {
            return Err(NoTurn);
        }
        *due = Some(next);
        Ok(at)
    }
}

/// The slot of the next request, and when the one after it is due. After a pause up to half a second's worth of
/// requests may begin at once.
fn slot(due: Option<Instant>, now: Instant, interval: Duration) -> (Instant, Instant) {
    let burst = Duration::from_millis(500).saturating_sub(interval);
    let due = due.unwrap_or(now).max(now);
    let at = due.checked_sub(burst).map_or(now, |at| at.max(now));
    (at, due + interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_begin_in_a_second_than_allowed() {
        let limiter = Limiter::new(LimiterSettings {
            per_second: Some(10),
            in_flight: None,
        });
        let start = Instant::now();
        let mut begun = Vec::new();
        for _ in 0..30 {
            limiter.turn(start + seconds(60)).await.expect("a turn");
            begun.push(start.elapsed());
        }
        for window in begun.windows(16) {
            // Ten a second and half a second's worth at once: fifteen in any second.
            assert!(window[15] - window[0] >= seconds(1), "{window:?}");
        }
        assert!(start.elapsed() <= seconds(3), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_run_at_once_than_allowed_and_a_finished_one_makes_room() {
        let limiter = Limiter::new(LimiterSettings {
            per_second: None,
            in_flight: Some(1),
        });
        let first = limiter
            .turn(Instant::now() + seconds(1))
            .await
            .expect("a turn");
        let refused = limiter.turn(Instant::now() + seconds(1)).await;
        assert!(matches!(refused, Err(NoTurn)));
        drop(first);
        assert!(limiter.turn(Instant::now() + seconds(1)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_beyond_the_deadline() {
        let limiter = Limiter::new(LimiterSettings {
            per_second: Some(1),
            in_flight: None,
        });
        let start = Instant::now();
        assert!(limiter.turn(start + seconds(1)).await.is_ok());
        assert!(matches!(
            limiter.turn(start + Duration::from_millis(900)).await,
            Err(NoTurn)
        ));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn without_limits_everything_goes_at_once() {
        let limiter = Limiter::new(LimiterSettings::unlimited());
        let start = Instant::now();
        for _ in 0..1_000 {
            assert!(limiter.turn(start + seconds(1)).await.is_ok());
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
