//! How much an agent may spend: reading the setting, and judging an amount. Pure.

use std::collections::BTreeMap;

use crate::money::Currency;

/// One day, in milliseconds.
const DAY_MS: i64 = 86_400_000;

/// The limits of every other agent key.
const OTHERS: &str = "*";

/// The limits of all keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpendingLimits {
    own: BTreeMap<String, KeyLimits>,
    others: Option<KeyLimits>,
}

/// A key's limits, by currency. A currency that is not listed is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyLimits(BTreeMap<Currency, Limit>);

/// The limits in one currency, in its minor units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// On one charge.
    pub charge_minor: Option<i64>,
    /// On the sum of a day (UTC, by the database's clock).
    pub day_minor: Option<i64>,
}

/// Why a limit refuses a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimit {
    /// The key may not charge in this currency.
    Currency,
    /// The charge alone is over this limit, in minor units.
    Charge {
        /// The limit.
        limit_minor: i64,
    },
    /// With what was charged today it is over this limit, in minor units.
    Day {
        /// The limit.
        limit_minor: i64,
        /// Milliseconds until the next day.
        left_ms: i64,
    },
}

/// A day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// Its first millisecond (Unix).
    pub from_ms: i64,
    /// The first millisecond of the next.
    pub until_ms: i64,
}

impl Day {
    /// The day of a moment.
    pub fn of(now_ms: i64) -> Self {
        let from_ms = now_ms.div_euclid(DAY_MS).saturating_mul(DAY_MS);
        Self {
            from_ms,
            until_ms: from_ms.saturating_add(DAY_MS),
        }
    }
}

/// Why the setting is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// No `name:`.
    #[error("{0:?} is not name: currency charge=amount day=amount")]
    Shape(String),
    /// No agent key has the name.
    #[error("{0:?} is the name of no key in AGENT_API_KEYS")]
    UnknownKey(String),
    /// Two lines for one name.
    #[error("{0:?} is there twice")]
    Twice(String),
    /// The currency.
    #[error("{0:?} is no currency that can be charged, or is there twice for one key")]
    Currency(String),
    /// An amount.
    #[error(
        "{0:?} is not charge=amount or day=amount, each once, with a whole number of minor units above 0"
    )]
    Amount(String),
}

impl SpendingLimits {
    /// Reads `support-bot: usd charge=50000 day=200000, eur day=90000; *: usd charge=1000`.
    ///
    /// # Errors
    /// Shows the part that is at fault. `agents` are the names that may be limited.
    pub fn parse(text: &str, agents: &[impl AsRef<str>]) -> Result<Self, LimitsError> {
        let mut limits = Self::default();
        for line in text
            .split(';')
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let (name, list) = line
                .split_once(':')
                .ok_or_else(|| LimitsError::Shape(line.to_owned()))?;
            let name = name.trim();
            let key_limits = KeyLimits::parse(list)?;
            let is_known = match name {
                OTHERS => !agents.is_empty(),
                name => agents.iter().any(|agent| agent.as_ref() == name),
            };
            if !is_known {
                return Err(LimitsError::UnknownKey(name.to_owned()));
            }
            let former = if name == OTHERS {
                limits.others.replace(key_limits)
            } else {
                limits.own.insert(name.to_owned(), key_limits)
            };
            if former.is_some() {
                return Err(LimitsError::Twice(name.to_owned()));
            }
        }
        if limits == Self::default() {
            return Err(LimitsError::Shape(text.to_owned()));
        }
        Ok(limits)
    }

    /// The limits of an agent's key; `None` where nothing limits it.
    pub fn of(&self, key_name: &str) -> Option<&KeyLimits> {
        self.own.get(key_name).or(self.others.as_ref())
    }
}

impl KeyLimits {
    fn parse(list: &str) -> Result<Self, LimitsError> {
        let mut limits = BTreeMap::new();
        for part in list.split(',').map(str::trim) {
            let mut words = part.split_whitespace();
            let code = words
                .next()
                .ok_or_else(|| LimitsError::Shape(list.trim().to_owned()))?;
            let wrong = || LimitsError::Currency(code.to_owned());
            let currency = Currency::parse(code).map_err(|_| wrong())?;
            if limits
                .insert(currency, Limit::parse(part, words)?)
                .is_some()
            {
                return Err(wrong());
            }
        }
        Ok(Self(limits))
    }

    /// Judges a charge by itself. The limit on the day's sum, if there is one, is left to whoever knows the sum.
    ///
    /// # Errors
    /// Why it is refused, whatever was charged today.
    pub fn judge(&self, amount_minor: i64, currency: Currency) -> Result<Option<i64>, OverLimit> {
        let limit = self.0.get(&currency).ok_or(OverLimit::Currency)?;
        // What is over the day's limit by itself will be so tomorrow, too.
        let most = [limit.charge_minor, limit.day_minor];
        let least = most.into_iter().flatten().min();
        match least.filter(|limit_minor| amount_minor > *limit_minor) {
            Some(limit_minor) => Err(OverLimit::Charge { limit_minor }),
            None => Ok(limit.day_minor),
        }
    }
}

impl Limit {
    fn parse<'a>(part: &str, words: impl Iterator<Item = &'a str>) -> Result<Self, LimitsError> {
        let mut limit = Self::default();
        for word in words {
            let wrong = || LimitsError::Amount(word.to_owned());
            let (kind, amount) = word.split_once('=').ok_or_else(wrong)?;
            let amount_minor = amount
                .parse::<i64>()
                .ok()
                .filter(|amount| *amount > 0)
                .ok_or_else(wrong)?;
            let place = match kind {
                "charge" => &mut limit.charge_minor,
                "day" => &mut limit.day_minor,
                _ => return Err(wrong()),
            };
            if place.replace(amount_minor).is_some() {
                return Err(wrong());
            }
        }
        if limit == Self::default() {
            return Err(LimitsError::Amount(part.to_owned()));
        }
        Ok(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENTS: [&str; 2] = ["support-bot", "other"];

    fn usd() -> Currency {
        Currency::parse("usd").unwrap()
    }

    #[test]
    fn an_amount_is_judged_by_its_keys_limits() {
        let text =
            "support-bot: usd charge=500 day=2000, eur day=900, jpy charge=100 ; *: USD charge=50;";
        let limits = SpendingLimits::parse(text, &AGENTS).unwrap();
        let charge = |limit_minor| Err(OverLimit::Charge { limit_minor });
        #[rustfmt::skip]
        let table = [
            ("support-bot", 500, "usd", Ok(Some(2000))),
            ("support-bot", 501, "usd", charge(500)),
            ("support-bot", 900, "eur", Ok(Some(900))),
            ("support-bot", 901, "eur", charge(900)),
            ("support-bot", 100, "jpy", Ok(None)),
            ("support-bot", 101, "jpy", charge(100)),
            ("support-bot", 1, "gbp", Err(OverLimit::Currency)),
            ("other", 50, "usd", Ok(None)),
            ("other", 51, "usd", charge(50)),
            ("other", 1, "eur", Err(OverLimit::Currency)),
        ];
        for (key, amount, currency, right) in table {
            let judged = limits
                .of(key)
                .unwrap()
                .judge(amount, Currency::parse(currency).unwrap());
            assert_eq!(judged, right, "{key} {amount} {currency}");
        }
    }

    #[test]
    fn a_key_without_a_line_has_no_limits() {
        let limits = SpendingLimits::parse("support-bot: usd day=1", &AGENTS).unwrap();
        assert_eq!(limits.of("other"), None);
        assert_eq!(SpendingLimits::default().of("support-bot"), None);
        assert!(limits.of("support-bot").unwrap().judge(2, usd()).is_err());
    }

    #[test]
    fn a_bad_setting_is_refused_and_shows_the_part_at_fault() {
        let shape = |text: &str| LimitsError::Shape(text.into());
        let amount = |text: &str| LimitsError::Amount(text.into());
        let currency = |text: &str| LimitsError::Currency(text.into());
        #[rustfmt::skip]
        let table = [
            (";", shape(";")),
            ("support-bot", shape("support-bot")),
            ("support-bot:", shape("")),
            ("support-bot: usd day=1,", shape("usd day=1,")),
            ("suport-bot: usd day=1", LimitsError::UnknownKey("suport-bot".into())),
            ("other: usd day=1; other: eur day=1", LimitsError::Twice("other".into())),
            ("*: usd day=1; *: eur day=1", LimitsError::Twice("*".into())),
            ("other: usd day=1, USD day=2", currency("USD")),
            ("other: xyz day=1", currency("xyz")),
            ("other: day=1", currency("day=1")),
            ("other: usd", amount("usd")),
            ("other: usd 500", amount("500")),
            ("other: usd day=0", amount("day=0")),
            ("other: usd day=-5", amount("day=-5")),
            ("other: usd day=1.5", amount("day=1.5")),
            ("other: usd week=5", amount("week=5")),
            ("other: usd day=5 day=6", amount("day=6")),
        ];
        for (text, right) in table {
            assert_eq!(SpendingLimits::parse(text, &AGENTS), Err(right), "{text}");
        }
        let nobody: [&str; 0] = [];
        let refused = SpendingLimits::parse("*: usd day=1", &nobody);
        assert_eq!(refused, Err(LimitsError::UnknownKey("*".into())));
    }

    #[test]
    fn a_day_is_that_of_utc() {
        #[rustfmt::skip]
        let table = [(0, 0), (1, 0), (DAY_MS - 1, 0), (DAY_MS, DAY_MS), (1_796_000_000_000, 1_795_996_800_000), (-1, -DAY_MS)];
        for (now_ms, from_ms) in table {
            let until_ms = from_ms + DAY_MS;
            assert_eq!(Day::of(now_ms), Day { from_ms, until_ms }, "{now_ms}");
        }
    }
}
