//! How often an agent may call: a limit for each key, in this process.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// Between these the time of a rate may be.
const PERIOD_LEAST: Duration = Duration::from_secs(1);
const PERIOD_MOST: Duration = Duration::from_secs(24 * 3_600);

/// So many requests in so much time: all of them at once if need be, and then one after each part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    burst: NonZeroU32,
    one_each: Duration,
}

impl Rate {
    /// Reads `120/1m`.
    pub fn parse(text: &str) -> Option<Self> {
        let (count, period) = text.split_once('/')?;
        let burst: NonZeroU32 = count.trim().parse().ok()?;
        let period = humantime::parse_duration(period.trim()).ok()?;
        if !(PERIOD_LEAST..=PERIOD_MOST).contains(&period) {
            return None;
        }
        let one_each = period / burst.get();
        (!one_each.is_zero()).then_some(Self { burst, one_each })
    }
}

type Limiter<C> = RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// A limit for each key.
pub struct RateLimits<C: Clock = MonotonicClock> {
    limiters: HashMap<Arc<str>, Limiter<C>>,
    clock: C,
}

impl RateLimits {
    /// The same rate for each of these keys; `None` limits nobody.
    pub fn new(rate: Option<Rate>, keys: &[Arc<str>]) -> Self {
        Self::with_clock(rate, keys, MonotonicClock)
    }
}

impl<C: Clock + Clone> RateLimits<C> {
    fn with_clock(rate: Option<Rate>, keys: &[Arc<str>], clock: C) -> Self {
        let quota = rate.and_then(|rate| {
            Quota::with_period(rate.one_each).map(|quota| quota.allow_burst(rate.burst))
        });
        let limiters = quota.map_or_else(HashMap::new, |quota| {
            let limiter = || RateLimiter::direct_with_clock(quota, clock.clone());
            keys.iter()
                .map(|key| (Arc::clone(key), limiter()))
                .collect()
        });
        Self { limiters, clock }
    }

    /// Counts a request of this key.
    ///
    /// # Errors
    /// In how many seconds the next one will be let in, rounded up, when this one is too many.
    pub fn count(&self, key: &str) -> Result<(), i64> {
        let Some(limiter) = self.limiters.get(key) else {
            return Ok(());
        };
        limiter.check().map(|_| ()).map_err(|refused| {
            let wait = refused.wait_time_from(self.clock.now());
            let seconds = wait.as_millis().div_ceil(1_000).max(1);
            i64::try_from(seconds).unwrap_or(i64::MAX)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor::clock::FakeRelativeClock;

    #[test]
    fn a_rate_is_a_count_and_a_time_or_refused() {
        let rate = |count: u32, one_each| Rate {
            burst: NonZeroU32::new(count).unwrap(),
            one_each: Duration::from_millis(one_each),
        };
        #[rustfmt::skip]
        let table = [
            ("120/1m", Some(rate(120, 500))),
            (" 2 / 1h ", Some(rate(2, 1_800_000))),
            ("1/24h", Some(rate(1, 86_400_000))),
            ("0/1m", None), ("-1/1m", None), ("120", None), ("120/60", None), ("120/1m/1m", None), ("/1m", None), ("a/1m", None),
            ("10/999ms", None), ("10/25h", None), ("4294967296/1m", None), ("4000000000/1s", None),
        ];
        for (text, right) in table {
            assert_eq!(Rate::parse(text), right, "{text}");
        }
    }

    #[test]
    fn each_key_has_its_own_count_and_gets_room_back_with_time() {
        let clock = FakeRelativeClock::default();
        let keys = [Arc::from("a"), Arc::from("b")];
        let limits = RateLimits::with_clock(Rate::parse("2/1m"), &keys, clock.clone());
        assert_eq!([limits.count("a"), limits.count("a")], [Ok(()), Ok(())]);
        assert_eq!(limits.count("a"), Err(30));
        assert_eq!(limits.count("b"), Ok(()));
        assert_eq!(limits.count("admin"), Ok(()));
        clock.advance(Duration::from_millis(29_500));
        assert_eq!(limits.count("a"), Err(1));
        clock.advance(Duration::from_millis(500));
        assert_eq!(limits.count("a"), Ok(()));
        assert_eq!(limits.count("a"), Err(30));
    }

    #[test]
    fn without_a_rate_nobody_is_limited() {
        let limits = RateLimits::new(None, &[Arc::from("a")]);
        assert!((0..1_000).all(|_| limits.count("a").is_ok()));
    }
}
