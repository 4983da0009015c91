//! What a run of the checker is about: the times, the faults that may happen, and which protections are in place.

use std::str::FromStr;

use chargeonce::charges::lifecycle::RetryPolicy;

/// Model time is counted in minutes; production's functions get it in milliseconds.
pub const MINUTE_MS: i64 = 60_000;

/// `PROVIDER_KEY_WINDOW` by default: 20 h.
pub const WINDOW: u16 = 20 * 60;

/// What the provider promises to remember a key for after its first use: 24 h.
pub const RETENTION: u16 = 24 * 60;

/// ASSUMPTION: a request that has left is executed within this time, or never. No request leaves later than the end of
/// the key's window, so that none is executed once its key is forgotten. Time limits of TCP, of proxies and of the
/// provider's own front are minutes; this is the most that the two windows together can bear, and `mutations` shows that
/// they could not bear more.
pub const REQUEST_LIFE: u16 = RETENTION - WINDOW;

/// The short wait, and `RESERVATION_TTL` by default: 10 m.
pub const SHORT_WAIT: u16 = 10;

/// The long wait ends right before the key's window does, one short wait before it. Two of them outlive the provider's
/// memory, three of them outlive the patience with look-ups that fail.
pub const LONG_WAIT: u16 = WINDOW - SHORT_WAIT;

/// What the provider may say to a request that it has not met before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Said {
    /// The money is taken.
    Paid,
    /// A decline; stored under the key.
    Declined,
    /// The request is refused before execution (a 400): nothing is stored, the next send may fare better.
    Refused,
    /// Turned away before execution (a 429, a 401): nothing is stored.
    TurnedAway,
    /// A 500, stored; the money was taken all the same.
    BrokenPaid,
    /// A 500, stored; nothing was executed.
    BrokenUnpaid,
    /// A 500, stored; the provider carries the payment on by itself and may take the money later.
    BrokenRunning,
    /// A 500 in front of execution, not stored.
    BrokenBefore,
    /// The payment is in the provider's hands, without a verdict.
    Processing,
    /// The customer must act (3-D Secure).
    ActionNeeded,
}

/// The protections that can be taken out, to see that the checker misses them.
#[derive(Clone, Copy, Debug)]
pub struct Protections {
    /// The reservation is committed before the provider is called; without it, when there is an answer to record.
    pub reserve_first: bool,
    /// Guarded writes name the lease token.
    pub lease_token: bool,
    /// Every send of an attempt goes under the same key; without it a takeover sends under a new one.
    pub same_key: bool,
    /// Nothing is sent once the key's window is over.
    pub window: bool,
    /// An answer settles only the send that it answers.
    pub own_answer_only: bool,
    /// A takeover that was decided before the attempt's owner stopped takes nothing over.
    pub fresh_takeover: bool,
}

impl Protections {
    /// All in place: what production does.
    pub const ALL: Self = Self {
        reserve_first: true,
        lease_token: true,
        same_key: true,
        window: true,
        own_answer_only: true,
        fresh_takeover: true,
    };
}

/// Bounds and faults of one run. Calls, crashes, takeovers and long waits are not bounded: ages are kept relative to now and
/// stop where nothing changes any more, so the state space is finite without.
#[derive(Clone, Debug)]
pub struct Setting {
    /// For the report.
    pub name: &'static str,
    /// PaymentIntents (a later attempt confirms the payment that the earlier one left open) instead of one-shot charges.
    pub intents: bool,
    /// What the provider may answer.
    pub answers: &'static [Said],
    /// Connections may fail before anything is sent.
    pub connections_fail: bool,
    /// Look-ups and cancels may fail.
    pub look_ups_fail: bool,
    /// Executing takes time, in which other requests under the same key get a 409.
    pub slow_executions: bool,
    /// The provider's events wake the service up.
    pub webhooks: bool,
    /// Callers that call again and again.
    pub callers: usize,
    /// Workers that may live at the same time.
    pub workers: usize,
    /// `CHARGE_MAX_ATTEMPTS`.
    pub attempts: u8,
    /// Automatic repeats within one send (`PROVIDER_MAX_RETRIES`).
    pub repeats: u8,
    /// `RESERVATION_TTL` in short waits.
    pub lease: u16,
    /// How long after it has left a request may still be executed.
    pub request_life: u16,
    /// Short waits in all; the bound on how finely leases, sends and windows may be interleaved.
    pub short_waits: u8,
    /// Records that undo what stands are looked at.
    pub records_are_watched: bool,
    /// Threads of the checker.
    pub threads: usize,
    /// What stands against a second charge.
    pub protections: Protections,
}

/// A bound from the environment; what is not set there stays as short as `make test` has it.
fn bound<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    let number = text.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{name} is no number in range: {text}")))
}

impl Setting {
    /// The short form: two callers, the reconciler and two workers at one attempt.
    pub fn new(name: &'static str, answers: &'static [Said]) -> Self {
        Self {
            name,
            intents: false,
            answers,
            connections_fail: true,
            look_ups_fail: false,
            slow_executions: false,
            webhooks: false,
            callers: 2,
            workers: 2,
            attempts: 1,
            repeats: 0,
            lease: 1,
            request_life: REQUEST_LIFE,
            short_waits: 1,
            records_are_watched: false,
            threads: 1,
            protections: Protections::ALL,
        }
    }

    /// With the bounds of the environment.
    pub fn widened(self) -> Self {
        Self {
            callers: bound("MODEL_CALLERS").unwrap_or(self.callers),
            workers: bound("MODEL_WORKERS").unwrap_or(self.workers),
            attempts: bound("MODEL_ATTEMPTS").unwrap_or(self.attempts),
            repeats: bound("MODEL_REPEATS").unwrap_or(self.repeats),
            lease: bound("MODEL_LEASE").unwrap_or(self.lease),
            short_waits: bound("MODEL_WAITS").unwrap_or(self.short_waits),
            ..self.threaded()
        }
    }

    /// With as many threads as the environment says.
    pub fn threaded(self) -> Self {
        Self {
            threads: bound("MODEL_THREADS").unwrap_or(self.threads),
            ..self
        }
    }

    /// Where an age stops growing: older makes no difference to anybody.
    pub fn oldest(&self) -> u16 {
        if self.look_ups_fail {
            2 * WINDOW
        } else {
            WINDOW
        }
    }

    /// The policy that production's decisions get.
    pub fn policy(&self) -> RetryPolicy {
        RetryPolicy {
            attempts_max: i32::from(self.attempts),
            cooldown_ms: 0,
            key_window_ms: self.window_ms(),
        }
    }

    /// The key's window; without the protection it never ends.
    pub fn window_ms(&self) -> i64 {
        if self.protections.window {
            i64::from(WINDOW) * MINUTE_MS
        } else {
            i64::MAX / 4
        }
    }

    /// The lease in minutes.
    pub fn lease_minutes(&self) -> u16 {
        self.lease * SHORT_WAIT
    }
}
