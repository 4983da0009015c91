//! The settings of how much goes on at once.

use std::time::Duration;

use super::reader::Reader;
use super::{ConfigError, wrong};
use crate::payments::stripe::LimiterSettings;

/// Charges and refunds that one process works on at once. Each takes a few kilobytes while the provider is asked.
const CHARGES_DEFAULT: usize = 10_000;

/// All charges may have a caller that waits, and there is room for those who read and repeat.
const REQUESTS_DEFAULT: usize = 12_000;

/// All requests have a connection, and there is room for idle ones and for probes.
const CONNECTIONS_DEFAULT: usize = 15_000;

/// Linux has no longer queue unless it is told to (`net.core.somaxconn`).
const BACKLOG_DEFAULT: u32 = 4_096;

/// How long a connection without a request is kept.
const IDLE_TIME_DEFAULT: Duration = Duration::from_secs(5);

/// How long an answer may lie unread.
const ANSWER_TIME_DEFAULT: Duration = Duration::from_secs(30);

/// No setting makes sense beyond it.
const COUNT_MAX: usize = 1_000_000;

/// How much goes on at once in this process.
#[derive(Debug, Clone)]
pub struct LoadSettings {
    /// Connections of callers at most.
    pub connections: usize,
    /// Connections that wait for one of them to end, at most.
    pub backlog: u32,
    /// How long a connection is kept between two requests.
    pub idle_time: Duration,
    /// How long a caller may leave an answer unread, or its arrival unconfirmed, before its connection is cut.
    pub answer_time: Duration,
    /// Requests at most.
    pub requests: usize,
    /// Charges and refunds at most.
    pub charges: usize,
}

pub(super) fn settings<F: Fn(&str) -> Option<String>>(
    reader: &Reader<F>,
) -> Result<LoadSettings, ConfigError> {
    let load = LoadSettings {
        connections: reader.number("MAX_CONNECTIONS", CONNECTIONS_DEFAULT, 1, COUNT_MAX)?,
        backlog: reader.number("CONNECTION_BACKLOG", BACKLOG_DEFAULT, 1, 65_535)?,
        idle_time: reader.duration("CONNECTION_IDLE_TIME", IDLE_TIME_DEFAULT)?,
        answer_time: reader.duration("ANSWER_READ_TIME", ANSWER_TIME_DEFAULT)?,
        requests: reader.number("REQUEST_CONCURRENCY", REQUESTS_DEFAULT, 1, COUNT_MAX)?,
        charges: reader.number("CHARGE_CONCURRENCY", CHARGES_DEFAULT, 1, COUNT_MAX)?,
    };
    if load.connections <= load.requests {
        return Err(wrong(
            "MAX_CONNECTIONS",
            "must be more than REQUEST_CONCURRENCY, or a probe could not connect while all requests are taken",
        ));
    }
    // For the reason that REQUEST_HEADER_TIME has.
    if load.idle_time < Duration::from_secs(1) {
        return Err(wrong("CONNECTION_IDLE_TIME", "must be at least 1s"));
    }
    // To the operating system, zero is for ever.
    if load.answer_time < Duration::from_secs(1) {
        return Err(wrong("ANSWER_READ_TIME", "must be at least 1s"));
    }
    Ok(load)
}

/// 0 switches a limit off.
pub(super) fn provider_limits<F: Fn(&str) -> Option<String>>(
    reader: &Reader<F>,
) -> Result<LimiterSettings, ConfigError> {
    let usual = LimiterSettings::default();
    let per_second = reader.number(
        "PROVIDER_RATE_LIMIT",
        usual.per_second.unwrap_or(0),
        0,
        10_000,
    )?;
    let in_flight = reader.number(
        "PROVIDER_CONCURRENCY",
        usual.in_flight.unwrap_or(0),
        0,
        100_000,
    )?;
    Ok(LimiterSettings {
        per_second: Some(per_second).filter(|limit| *limit > 0),
        in_flight: Some(in_flight).filter(|limit| *limit > 0),
    })
}
