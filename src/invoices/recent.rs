//! Invoices that this process has just created, kept in memory until they are first charged.
//!
//! Most invoices are charged soon after they were made, through the same process. What was just written need not be read again to
//! prepare the attempt: the reservation holds only while the invoice is open, unchanged and without another attempt, and whoever
//! loses it looks. So what is remembered may be out of date, and must never be what a caller is answered by.

use std::time::{Duration, Instant, SystemTime};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::model::Invoice;
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::millis;

/// How much memory they take at most, in bytes, roughly.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What an entry takes besides its texts, in bytes, roughly.
const ENTRY_BYTES: usize = 300;

/// How far the two clocks of this process may differ over an invoice that is still remembered. They do when the machine slept:
/// then the database's time cannot be told from ours.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(1);

/// The memory of them.
pub struct RecentInvoices(Cache<String, Recent, Bytes>);

#[derive(Clone)]
struct Recent {
    invoice: Invoice,
    created: Instant,
    created_by_wall: SystemTime,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<String, Recent> for Bytes {
    fn weight(&self, id: &String, recent: &Recent) -> u64 {
        let Invoice {
            customer_id,
            description,
            payment_method_id,
            metadata,
            ..
        } = &recent.invoice;
        let pairs = metadata
            .iter()
            .map(|(key, value)| 64 + key.len() + value.len());
        let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts =
            2 * id.len() + customer_id.len() + optional(description) + optional(payment_method_id);
        u64::try_from(ENTRY_BYTES + texts + pairs.sum::<usize>()).unwrap_or(u64::MAX)
    }
}

impl RecentInvoices {
    /// Without any.
    pub fn new() -> Self {
        let invoices = usize::try_from(BYTES_MAX / 400).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(invoices, BYTES_MAX, Bytes))
    }

    /// Remembers an invoice whose creation was committed; `created_at_ms` is the database's time at that moment.
    pub fn keep(&self, invoice: Invoice) {
        let recent = Recent {
            created: Instant::now(),
            created_by_wall: SystemTime::now(),
            invoice,
        };
        self.0.insert(recent.invoice.id.clone(), recent);
    }

    /// Forgets one that was changed.
    pub fn forget(&self, id: &str) {
        drop(self.0.remove(id));
    }

    /// Takes one out, as it was when it was created, with the database's time now as this process's clock counts it on.
    pub fn take(&self, id: &str) -> Option<Reading<Invoice>> {
        let (_, recent) = self.0.remove(id)?;
        let past = recent.created.elapsed();
        let by_wall = recent.created_by_wall.elapsed().ok()?;
        (past.abs_diff(by_wall) <= CLOCKS_APART_MAX).then(|| Reading {
            now_ms: recent.invoice.created_at_ms.saturating_add(millis(past)),
            value: recent.invoice,
        })
    }
}

impl Default for RecentInvoices {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charges::fixtures::invoice;

    fn named(id: &str) -> Invoice {
        Invoice {
            id: id.into(),
            created_at_ms: 1_000,
            ..invoice()
        }
    }

    #[test]
    fn each_is_given_out_once() {
        let recent = RecentInvoices::new();
        recent.keep(named("inv_1"));
        assert_eq!(recent.take("inv_2"), None);
        let taken = recent.take("inv_1").expect("it was kept");
        assert_eq!(taken.value, named("inv_1"));
        assert!((1_000..2_000).contains(&taken.now_ms), "{}", taken.now_ms);
        assert_eq!(recent.take("inv_1"), None);
    }

    #[test]
    fn one_that_was_changed_is_forgotten() {
        let recent = RecentInvoices::new();
        recent.keep(named("inv_1"));
        recent.forget("inv_1");
        assert_eq!(recent.take("inv_1"), None);
    }

    #[test]
    fn nothing_is_known_once_the_clocks_went_apart() {
        for (wall_ahead_ms, known) in [(0, true), (900, true), (1_500, false)] {
            let recent = RecentInvoices::new();
            recent.keep(named("inv_1"));
            let (id, mut kept) = recent.0.remove("inv_1").expect("it was kept");
            kept.created_by_wall -= Duration::from_millis(wall_ahead_ms);
            recent.0.insert(id, kept);
            assert_eq!(recent.take("inv_1").is_some(), known, "{wall_ahead_ms} ms");
        }
    }

    #[test]
    fn they_stay_below_their_bound() {
        let recent = RecentInvoices::new();
        for number in 0..100_000 {
            recent.keep(Invoice {
                description: Some("x".repeat(500)),
                ..named(&format!("inv_{number}"))
            });
        }
        let weight = recent.0.weight();
        assert!((BYTES_MAX / 2..=BYTES_MAX).contains(&weight), "{weight}");
    }
}
