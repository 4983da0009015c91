//! Reading single variables.

use std::time::Duration;

use super::{ConfigError, DURATION_MAX, wrong};

/// Reads variables.
pub(super) struct Reader<F>(pub(super) F);

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// An empty variable is an absent one.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        (self.0)(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }

    /// True for a variable that is there and says nothing.
    pub(super) fn is_blank(&self, name: &str) -> bool {
        (self.0)(name).is_some_and(|value| value.trim().is_empty())
    }

    pub(super) fn duration(
        &self,
        name: &'static str,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        self.duration_up_to(name, default, DURATION_MAX)
    }

    pub(super) fn duration_up_to(
        &self,
        name: &'static str,
        default: Duration,
        most: Duration,
    ) -> Result<Duration, ConfigError> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        let parsed = humantime::parse_duration(&text);
        parsed
            .ok()
            .filter(|duration| *duration <= most)
            .ok_or_else(|| {
                let days = most.as_secs() / (24 * 3_600);
                wrong(
                    name,
                    format!(
                        "{text:?} is no duration such as 90s, 10m or 20h, of {days} days at most"
                    ),
                )
            })
    }

    pub(super) fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
        &self,
        name: &'static str,
        default: T,
        least: T,
        most: T,
    ) -> Result<T, ConfigError> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        match text.parse::<T>() {
            Ok(number) if number >= least && number <= most => Ok(number),
            Ok(_) | Err(_) => Err(wrong(
                name,
                format!("{text:?} is no whole number from {least} to {most}"),
            )),
        }
    }

    /// Names of hosts, separated by commas; without scheme, port or path.
    pub(super) fn host_names(&self, name: &'static str) -> Result<Vec<String>, ConfigError> {
        let text = self.text(name).unwrap_or_default();
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|host| !host.is_empty());
        let names: Vec<String> = names.map(str::to_ascii_lowercase).collect();
        let is_name = |host: &String| {
            host.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
        };
        if names.iter().all(is_name) {
            Ok(names)
        } else {
            Err(wrong(
                name,
                "must be names of hosts such as billing.example.com, separated by commas, without scheme or port",
            ))
        }
    }

    pub(super) fn choice<T: Copy>(
        &self,
        name: &'static str,
        default: T,
        choices: &[(&str, T)],
    ) -> Result<T, ConfigError> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        choices
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, choice)| *choice)
            .ok_or_else(|| {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                wrong(name, format!("{text:?} is none of {}", words.join(", ")))
            })
    }
}
