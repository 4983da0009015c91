//! Is this configuration fit to run? Looks at the settings, the store and the provider, and changes nothing.

use std::time::{Duration, Instant};

use chrono::Utc;

use crate::app::{BuildError, provider};
use crate::config::{ProviderSettings, Settings};
use crate::health::what_is_wrong;
use crate::storage::{self, Engine, Inspection};

/// How long the provider is asked.
const PROVIDER_TIME: Duration = Duration::from_secs(20);

/// The oldest PostgreSQL that is supported, as `server_version_num` has it.
const POSTGRES_OLDEST: i32 = 140_000;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// As it should be.
    Good,
    /// It works; somebody should know.
    Warning,
    /// It will not work, or a promise does not hold.
    Bad,
}

impl Grade {
    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Bad => "FAILED",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// What was looked at: `settings`, `access`, `store`, `provider`, `webhooks`, `recovery`.
    pub what: &'static str,
    /// What is so and what to do, in a sentence or two.
    pub told: String,
}

impl Finding {
    /// A finding.
    pub fn new(grade: Grade, what: &'static str, told: impl Into<String>) -> Self {
        Self {
            grade,
            what,
            told: told.into(),
        }
    }
}

/// Looks at everything.
pub async fn examine(settings: &Settings) -> Vec<Finding> {
    let told = "They can be read and fit together.";
    let mut findings = vec![Finding::new(Grade::Good, "settings", told)];
    findings.extend(of_settings(settings));
    findings.push(match storage::inspect(&settings.store).await {
        Ok(inspection) => of_store(settings, &inspection, Utc::now().timestamp_millis()),
        Err(error) => Finding::new(
            Grade::Bad,
            "store",
            format!("{} cannot be used: {error}.", settings.store.describe()),
        ),
    });
    findings.push(of_provider(settings).await);
    findings
}

/// What the settings alone tell. Pure.
pub fn of_settings(settings: &Settings) -> Vec<Finding> {
    let good = |what, told: &str| Finding::new(Grade::Good, what, told);
    let warning = |what, told: &str| Finding::new(Grade::Warning, what, told);
    let is_stripe = matches!(settings.provider, ProviderSettings::Stripe { .. });
    let access = if settings.access.keys.is_empty() {
        warning(
            "access",
            "There are no API keys: whoever is on this machine may do everything. Set ADMIN_API_KEYS and AGENT_API_KEYS.",
        )
    } else {
        good("access", "Callers need an API key.")
    };
    let webhooks = match (is_stripe, settings.webhook_secrets.is_empty()) {
        (_, false) => good("webhooks", "Events are taken and their signatures checked."),
        (true, true) => warning(
            "webhooks",
            "STRIPE_WEBHOOK_SECRET is not set, so late verdicts are found by the background worker only, and later.",
        ),
        (false, true) => good("webhooks", "The mock in this process sends none."),
    };
    let recovery = if settings.reconciler.interval.is_zero() {
        warning(
            "recovery",
            "RECONCILE_INTERVAL is 0: what a dead process leaves behind waits for its next caller, unless chargeonce reconcile runs elsewhere.",
        )
    } else {
        good(
            "recovery",
            "This process recovers what others leave behind.",
        )
    };
    vec![access, webhooks, recovery]
}

/// What the store says of itself. Pure.
pub fn of_store(settings: &Settings, inspection: &Inspection, clock_ms: i64) -> Finding {
    let bad = |told: String| Finding::new(Grade::Bad, "store", told);
    let name = settings.store.describe();
    let condition = match inspection {
        Inspection::Absent => {
            return Finding::new(
                Grade::Good,
                "store",
                format!("{name} does not exist yet and is made at the start."),
            );
        }
        Inspection::Standby => {
            return bad(format!(
                "{name} is a standby and cannot be written to. Name the primary too: DATABASE_URL takes several hosts."
            ));
        }
        Inspection::Postgres { version, .. } if *version < POSTGRES_OLDEST => {
            return bad(format!(
                "{name} is PostgreSQL {}; 14 is the oldest that is supported.",
                version / 10_000
            ));
        }
        Inspection::Postgres { commits_wait, .. } if !commits_wait => {
            return bad(format!(
                "{name} has fsync off: a reservation may be lost in a power failure, and its charge made again."
            ));
        }
        Inspection::Postgres { condition, .. } | Inspection::Sqlite { condition } => condition,
    };
    if condition.schema.is_empty() {
        let told = format!("{name} answers; its tables are made at the start.");
        return Finding::new(Grade::Good, "store", told);
    }
    match what_is_wrong(condition, clock_ms) {
        Some(_) if condition.schema < condition.schema_needed => Finding::new(
            Grade::Warning,
            "store",
            format!(
                "{name} has the schema of an older release; it is brought up to date at the start, or by chargeonce migrate."
            ),
        ),
        Some(wrong) => bad(wrong),
        None => Finding::new(
            Grade::Good,
            "store",
            format!("{name} answers, and its schema is current."),
        ),
    }
}

async fn of_provider(settings: &Settings) -> Finding {
    let bad = |told: String| Finding::new(Grade::Bad, "provider", told);
    let ProviderSettings::Stripe { api_base, .. } = &settings.provider else {
        let told =
            "The mock in this process: nobody's money. Set PAYMENT_PROVIDER=stripe to charge.";
        let is_lasting = settings.store.engine() == Some(Engine::Postgres);
        let grade = if is_lasting {
            Grade::Warning
        } else {
            Grade::Good
        };
        return Finding::new(grade, "provider", told);
    };
    let provider = match provider(settings).map_err(BuildError::from) {
        Ok(provider) => provider,
        Err(error) => return bad(format!("{error}.")),
    };
    let deadline = Instant::now() + PROVIDER_TIME;
    // A list that can be read shows more than an answer: that it is Stripe's, and that the key may read payments.
    let (nobody, now_ms) = ("", Utc::now().timestamp_millis());
    match provider.page(nobody, now_ms, None, deadline).await {
        Ok(_) => Finding::new(
            Grade::Good,
            "provider",
            format!("{api_base} answers and takes the secret key."),
        ),
        Err(error) => bad(format!("{api_base}: {error}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StoreCondition;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        Settings::from_lookup(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
        .unwrap()
    }

    fn condition(schema: &str) -> StoreCondition {
        StoreCondition {
            now_ms: NOW_MS,
            schema: schema.into(),
            schema_needed: "20261130000012".into(),
        }
    }

    fn postgres(version: i32, commits_wait: bool, schema: &str) -> Inspection {
        Inspection::Postgres {
            version,
            commits_wait,
            condition: condition(schema),
        }
    }

    #[test]
    fn what_a_store_lacks_is_told_by_how_bad_it_is() {
        let current = "20261130000012";
        let sqlite = |schema| Inspection::Sqlite {
            condition: condition(schema),
        };
        #[rustfmt::skip]
        let table = [
            (postgres(150_004, true, current), NOW_MS, Grade::Good, "its schema is current"),
            (postgres(150_004, true, ""), NOW_MS, Grade::Good, "made at the start"),
            (postgres(150_004, true, "20261129000001"), NOW_MS, Grade::Warning, "older release"),
            (postgres(150_004, true, "20271129000001"), NOW_MS, Grade::Good, "its schema is current"),
            (postgres(130_012, true, current), NOW_MS, Grade::Bad, "PostgreSQL 13; 14 is the oldest"),
            (postgres(150_004, false, current), NOW_MS, Grade::Bad, "fsync off"),
            (postgres(150_004, true, current), NOW_MS + 120_000, Grade::Bad, "120 seconds ahead of"),
            (Inspection::Standby, NOW_MS, Grade::Bad, "standby"),
            (Inspection::Absent, NOW_MS, Grade::Good, "made at the start"),
            (sqlite(current), NOW_MS, Grade::Good, "its schema is current"),
            (sqlite("20261129000001"), NOW_MS, Grade::Warning, "older release"),
        ];
        for (inspection, clock_ms, grade, words) in table {
            let finding = of_store(&settings(&[]), &inspection, clock_ms);
            assert_eq!(finding.grade, grade, "{inspection:?}: {finding:?}");
            assert!(finding.told.contains(words), "{inspection:?}: {finding:?}");
        }
    }

    #[test]
    fn what_the_settings_lack_is_a_warning() {
        let stripe = [
            ("PAYMENT_PROVIDER", "stripe"),
            ("STRIPE_SECRET_KEY", "sk_test_1"),
            ("RECONCILE_INTERVAL", "0s"),
        ];
        let whole = [
            ("PAYMENT_PROVIDER", "stripe"),
            ("STRIPE_SECRET_KEY", "sk_test_1"),
            ("STRIPE_WEBHOOK_SECRET", "whsec_1"),
            ("ADMIN_API_KEYS", "ops=0123456789abcdef"),
        ];
        let table: [(&[(&str, &str)], &[&str]); 3] = [
            (&[], &["access"]),
            (&stripe, &["access", "webhooks", "recovery"]),
            (&whole, &[]),
        ];
        for (variables, warned) in table {
            let findings = of_settings(&settings(variables));
            let of_grade = |grade| -> Vec<&str> {
                let found = findings.iter().filter(|finding| finding.grade == grade);
                found.map(|finding| finding.what).collect()
            };
            assert_eq!(of_grade(Grade::Warning), warned, "{variables:?}");
            assert_eq!(of_grade(Grade::Bad), Vec::<&str>::new(), "{variables:?}");
        }
    }
}
