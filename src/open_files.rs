//! How many files this process may have open. Each connection is one: of a caller, of the database, of the provider.
//!
//! Callers come in any number and the others do not, so callers' connections are kept to what the limit leaves besides: an idle
//! crowd must never take the file that a charge needs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{ProviderSettings, Settings};

/// The files that are open anyway: the program's own, its threads' and those of an embedded store.
const OWN: usize = 64;

/// How many connections of callers may be open at once: as many as are set, and no more than the operating system leaves room
/// for. Raises this process's own limit as far as it may.
pub fn room_for_callers(settings: &Settings) -> usize {
    let provider = match settings.provider {
        ProviderSettings::Mock { .. } => 0,
        ProviderSettings::Stripe { .. } => settings
            .provider_limits
            .in_flight
            .unwrap_or(settings.load.charges)
            .min(settings.load.charges),
    };
    let others = OWN + settings.store.pool_size + provider;
    let wanted = settings.load.connections;
    let open_files = raise(others + wanted);
    let room = room(open_files, others).min(wanted);
    if room < wanted {
        tracing::warn!(
            open_files,
            room,
            wanted,
            "the limit on open files (ulimit -n) leaves room for fewer connections of callers than MAX_CONNECTIONS"
        );
    }
    room
}

/// Raises the limit of this process to what is wanted, as far as the operating system allows, and says what it is then.
pub fn raise(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
    let allowed = limit.maximum.map_or(wanted, |most| most.min(wanted));
    let before = limit.current.unwrap_or(u64::MAX);
    let mut now = before;
    if before < allowed {
        let raised = Rlimit {
            current: Some(allowed),
            maximum: limit.maximum,
        };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => now = allowed,
            Err(error) => tracing::warn!(%error, "the limit on open files cannot be raised"),
        }
    }
    usize::try_from(now).unwrap_or(usize::MAX)
}

/// What a limit leaves for callers. Where it is too low for everything they have a quarter of it: it is then tight for all.
fn room(open_files: usize, others: usize) -> usize {
    open_files.saturating_sub(others).max(open_files / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_have_what_the_limit_leaves_or_a_quarter_of_it() {
        let table = [
            (65_536, 124, 65_412),
            (1_024, 124, 900),
            (1_024, 1_000, 256),
            (64, 10_074, 16),
            (1, 124, 1),
        ];
        for (open_files, others, right) in table {
            assert_eq!(room(open_files, others), right, "{open_files} {others}");
        }
    }

    #[test]
    fn a_limit_is_raised_and_never_lowered() {
        let before = raise(0);
        assert!(before >= 1);
        assert!(raise(before + 1) >= before);
    }
}
