//! Fault rules: how a call is made to fail, and at which point of its execution. Pure bookkeeping, no waiting here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a hanging call is held when the rule names no time.
const DEFAULT_HANG: Duration = Duration::from_secs(60 * 60);

/// One scripted failure. JSON: `{"key": "order-1", "fault": "drop_after", "times": 1, "ms": 500}`.
///
/// A rule matches a POST by its `Idempotency-Key`, and every matching POST uses it up once, a replay too.
/// The first matching rule in order of arrival wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// The exact `Idempotency-Key` to match; `None` matches any POST that has one.
    #[serde(default)]
    pub key: Option<String>,
    /// What the `Idempotency-Key` must end with, for clients that put a prefix before their keys. JSON name:
    /// `keySuffix`.
    #[serde(default, rename = "keySuffix")]
    pub key_suffix: Option<String>,
    /// What happens.
    pub fault: Fault,
    /// How many matching POSTs are hit.
    #[serde(default = "once")]
    pub times: u32,
    /// Milliseconds of a delay or a hang; 0 stands for no delay, and for one hour of hanging. JSON name: `ms`.
    #[serde(default, rename = "ms")]
    pub delay_ms: u64,
}

fn once() -> u32 {
    1
}

impl FaultRule {
    /// A rule that hits the next POST with a key, once.
    pub fn once(fault: Fault) -> Self {
        Self {
            key: None,
            key_suffix: None,
            fault,
            times: 1,
            delay_ms: 0,
        }
    }

    /// The same rule for one `Idempotency-Key` only.
    pub fn for_key(self, key: impl Into<String>) -> Self {
        Self {
            key: Some(key.into()),
            ..self
        }
    }

    fn matches(&self, key: &str) -> bool {
        let (exact, suffix) = (self.key.as_deref(), self.key_suffix.as_deref());
        exact.is_none_or(|wanted| wanted == key) && suffix.is_none_or(|end| key.ends_with(end))
    }

    /// How long a hanging call is held before it is cut.
    pub(super) fn hang(&self) -> Duration {
        if self.delay_ms == 0 {
            DEFAULT_HANG
        } else {
            Duration::from_millis(self.delay_ms)
        }
    }
}

/// What happens to a call. `before` means that nothing was executed, `after` that it was executed and the answer
/// is lost.
///
/// An `after` fault loses whatever the answer would have been: a replay, a conflict or a refusal too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Waits, with the key in flight, then serves the call; it is served even if the caller has hung up meanwhile.
    Delay,
    /// Cuts the connection; nothing is executed.
    DropBefore,
    /// Executes and stores the answer under the key, then cuts the connection.
    DropAfter,
    /// Executes nothing, gives no answer for a while, then cuts the connection.
    HangBefore,
    /// Executes at once, gives no answer for a while, then cuts the connection.
    HangAfter,
    /// Executes nothing; a 500 is stored under the key and replays for ever.
    #[serde(rename = "error_500_before")]
    Error500Before,
    /// Executes; a 500 is stored under the key and replays for ever, although the payment or refund was made.
    #[serde(rename = "error_500_after")]
    Error500After,
    /// Answers 503; nothing is executed or stored.
    #[serde(rename = "error_503")]
    Error503,
    /// Answers 429 `rate_limit`; nothing is executed or stored.
    RateLimit,
    /// Answers 429 `lock_timeout`; nothing is executed or stored.
    LockTimeout,
    /// Answers 401; nothing is executed or stored.
    Unauthorized,
    /// Executes and stores the answer, but sends a 200 with half of a JSON document.
    GarbageAfter,
    /// Charges one minor unit more than was asked for; gives one less back, of two or more.
    WrongAmount,
    /// Leaves the payment in `processing`, or the refund `pending`, until it is settled by hand.
    Processing,
}

/// The rules that are not used up, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct FaultQueue {
    rules: Vec<FaultRule>,
}

impl FaultQueue {
    /// Adds a rule behind the others.
    pub(super) fn push(&mut self, rule: FaultRule) {
        if rule.times > 0 {
            self.rules.push(rule);
        }
    }

    /// Takes one use of the first rule that matches the key.
    pub(super) fn take(&mut self, key: &str) -> Option<FaultRule> {
        let place = self.rules.iter().position(|rule| rule.matches(key))?;
        let rule = self.rules.get_mut(place)?;
        let taken = rule.clone();
        rule.times -= 1;
        if rule.times == 0 {
            self.rules.remove(place);
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_the_documented_json_name() {
        let names = [
            ("delay", Fault::Delay),
            ("drop_before", Fault::DropBefore),
            ("drop_after", Fault::DropAfter),
            ("hang_before", Fault::HangBefore),
            ("hang_after", Fault::HangAfter),
            ("error_500_before", Fault::Error500Before),
            ("error_500_after", Fault::Error500After),
            ("error_503", Fault::Error503),
            ("rate_limit", Fault::RateLimit),
            ("lock_timeout", Fault::LockTimeout),
            ("unauthorized", Fault::Unauthorized),
            ("garbage_after", Fault::GarbageAfter),
            ("wrong_amount", Fault::WrongAmount),
            ("processing", Fault::Processing),
        ];
        for (name, fault) in names {
            let rule: FaultRule =
                serde_json::from_value(serde_json::json!({ "fault": name })).unwrap();
            assert_eq!(rule, FaultRule::once(fault), "{name}");
        }
    }

    #[test]
    fn a_rule_may_match_the_end_of_a_key() {
        let rule: FaultRule =
            serde_json::from_str(r#"{"keySuffix": "charge:inv_1", "fault": "delay"}"#).unwrap();
        let table = [
            ("charge:inv_1", true),
            ("staging-charge:inv_1", true),
            ("charge:inv_12", false),
            ("", false),
        ];
        for (key, hit) in table {
            assert_eq!(rule.matches(key), hit, "{key}");
        }
    }

    #[test]
    fn the_first_matching_rule_wins_and_is_used_up() {
        let mut queue = FaultQueue::default();
        queue.push(FaultRule::once(Fault::DropAfter).for_key("a"));
        queue.push(FaultRule {
            times: 2,
            ..FaultRule::once(Fault::Error503)
        });
        let hits: Vec<_> = ["b", "a", "a", "a"]
            .map(|key| queue.take(key).map(|rule| rule.fault))
            .into();
        assert_eq!(
            hits,
            [
                Some(Fault::Error503),
                Some(Fault::DropAfter),
                Some(Fault::Error503),
                None
            ]
        );
    }
}
