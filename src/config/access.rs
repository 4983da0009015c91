//! The settings of API keys, agents' limits, and how long header keys are kept.

use std::time::Duration;

use super::reader::Reader;
use super::{ConfigError, wrong};
use crate::access::keys::{ApiKeys, Scope};
use crate::access::limits::SpendingLimits;
use crate::access::rate::Rate;

/// How long finished header keys are kept where nothing else is set.
const KEY_RETENTION_DEFAULT: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Below it, an orchestrator that resumes its plan the next day would do everything twice.
const KEY_RETENTION_LEAST: Duration = Duration::from_secs(24 * 3_600);

/// Ten years.
const KEY_RETENTION_MOST: Duration = Duration::from_secs(3_650 * 24 * 3_600);

/// Who may call what, and how much agents may spend.
#[derive(Debug, Clone, Default)]
pub struct AccessSettings {
    /// The API keys; none: everybody may do everything.
    pub keys: ApiKeys,
    /// What agents may spend.
    pub limits: SpendingLimits,
    /// How often an agent may call.
    pub rate: Option<Rate>,
}

pub(super) fn settings<F: Fn(&str) -> Option<String>>(
    reader: &Reader<F>,
) -> Result<AccessSettings, ConfigError> {
    let mut keys = ApiKeys::default();
    for (name, scope) in [
        ("ADMIN_API_KEYS", Scope::Admin),
        ("AGENT_API_KEYS", Scope::Agent),
    ] {
        if reader.is_blank(name) {
            let problem = "is set and empty, and without any key everybody may do everything; give it one, or remove it";
            return Err(wrong(name, problem));
        }
        if let Some(list) = reader.text(name) {
            keys.add(scope, &list)
                .map_err(|error| wrong(name, error.to_string()))?;
        }
    }
    let agents = keys.names(Scope::Agent);
    let limits = match reader.text("AGENT_LIMITS") {
        Some(text) => SpendingLimits::parse(&text, &agents)
            .map_err(|error| wrong("AGENT_LIMITS", error.to_string()))?,
        None => SpendingLimits::default(),
    };
    let rate = match reader.text("AGENT_RATE_LIMIT") {
        Some(text) => Some(Rate::parse(&text).ok_or_else(|| {
            let problem = format!("{text:?} is no count and time such as 120/1m, of 1s to 24h");
            wrong("AGENT_RATE_LIMIT", problem)
        })?),
        None => None,
    };
    Ok(AccessSettings { keys, limits, rate })
}

/// `None` keeps them for ever.
pub(super) fn key_retention<F: Fn(&str) -> Option<String>>(
    reader: &Reader<F>,
) -> Result<Option<Duration>, ConfigError> {
    const NAME: &str = "IDEMPOTENCY_KEY_RETENTION";
    let kept = reader.duration_up_to(NAME, KEY_RETENTION_DEFAULT, KEY_RETENTION_MOST)?;
    if kept.is_zero() {
        return Ok(None);
    }
    if kept < KEY_RETENTION_LEAST {
        return Err(wrong(
            NAME,
            "must be at least 24h, or 0s to keep them for ever",
        ));
    }
    Ok(Some(kept))
}
