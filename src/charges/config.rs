//! What the service of the charges is told.

use std::time::Duration;

use super::lifecycle::RetryPolicy;
use crate::access::limits::SpendingLimits;
use crate::bound::Bound;
use crate::metrics::Metrics;

/// What the service is built from.
pub struct ChargesConfig {
    /// Rules after a failure, and the key's window.
    pub policy: RetryPolicy,
    /// How long a reservation's lease runs.
    pub reservation_ttl: Duration,
    /// How long a caller waits for its own charge at most.
    pub response_wait: Duration,
    /// Marks this installation's payments at the provider.
    pub installation_id: String,
    /// How much memory finished answers are kept in, in bytes.
    pub replay_cache_bytes: u64,
    /// What agents may spend.
    pub limits: SpendingLimits,
    /// How many attempts are worked on at once.
    pub room: Bound,
    /// Where calls and verdicts are counted.
    pub metrics: Metrics,
}
