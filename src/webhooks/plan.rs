//! What becomes of an event once its payment was looked at. Pure.

use super::model::ClaimedEvent;
use crate::charges::notice::Noticed;
use crate::charges::recovery::Recovered;

/// The first wait before an event is looked at again, doubled each time up to the longest, in milliseconds.
const WAIT_FIRST_MS: i64 = 5_000;
const WAIT_LONGEST_MS: i64 = 3_600_000;

/// For how long an event whose payment cannot be fetched or read is tried, in milliseconds. An audit finds what it was about.
const GIVE_UP_ASKING_MS: i64 = 30 * 24 * 3_600_000;

/// For how long an event whose payment or invoice is not known is looked at again, in milliseconds. Stripe delivers for
/// three days, too (Stripe docs, Webhooks).
const GIVE_UP_MS: i64 = 3 * 24 * 3_600_000;

/// What becomes of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// It is dealt with, with this outcome in a word.
    Over(&'static str),
    /// It is looked at again.
    Later {
        /// After this time.
        wait_ms: i64,
        /// Why, in a word.
        why: &'static str,
    },
}

/// Decides by what was found: `None` when the provider or the store could not be asked.
pub fn outlook(event: &ClaimedEvent, found: Option<&Noticed>) -> Outlook {
    let later = |why| Outlook::Later {
        wait_ms: wait_ms(event.tries),
        why,
    };
    let up_to = |age_max_ms, why| match event.age_ms >= age_max_ms {
        true => Outlook::Over(why),
        false => later(why),
    };
    let for_a_while = |why| up_to(GIVE_UP_MS, why);
    match found {
        None => up_to(GIVE_UP_ASKING_MS, "not_asked"),
        Some(Noticed::UnknownPayment) => for_a_while("unknown_payment"),
        Some(Noticed::UnknownInvoice) => for_a_while("unknown_invoice"),
        // Never given up: there is money in it.
        Some(Noticed::Waiting) => later("waiting"),
        Some(Noticed::NotOurs) => Outlook::Over("not_ours"),
        Some(Noticed::Known) => Outlook::Over("known"),
        Some(Noticed::Parked) => Outlook::Over("parked"),
        Some(Noticed::Returned) => Outlook::Over("returned"),
        Some(Noticed::Contradiction(_)) => Outlook::Over("contradiction"),
        Some(Noticed::Recovered(recovered)) => match recovered {
            Recovered::Busy { retry_after_ms } => Outlook::Later {
                // Its owner is usually done long before its lease is.
                wait_ms: (*retry_after_ms).clamp(1, wait_ms(event.tries)),
                why: "busy",
            },
            Recovered::Foreign => for_a_while("another_provider"),
            Recovered::Succeeded
            | Recovered::Failed
            | Recovered::Processing
            | Recovered::Unknown
            | Recovered::NeedsReview
            | Recovered::Nothing => Outlook::Over(recovered.as_str()),
        },
    }
}

fn wait_ms(tries: i32) -> i64 {
    let doublings = u32::try_from(tries).unwrap_or(0).min(40);
    let factor = 1_i64.checked_shl(doublings).unwrap_or(i64::MAX);
    WAIT_FIRST_MS.saturating_mul(factor).min(WAIT_LONGEST_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tries: i32, age_ms: i64) -> ClaimedEvent {
        ClaimedEvent {
            id: "evt_1".into(),
            kind: "payment_intent.succeeded".into(),
            payment_id: "pi_1".into(),
            tries,
            age_ms,
        }
    }

    #[test]
    fn an_event_ends_only_when_it_is_dealt_with() {
        let later = |wait_ms, why| Outlook::Later { wait_ms, why };
        let over = Outlook::Over;
        let recovered = |recovered| Some(Noticed::Recovered(recovered));
        let busy = |retry_after_ms| recovered(Recovered::Busy { retry_after_ms });
        const DAYS: i64 = 24 * 3_600_000;
        #[rustfmt::skip]
        let table = [
            ("not asked", 0, 0, None, later(5_000, "not_asked")),
            ("not asked, again", 3, 0, None, later(40_000, "not_asked")),
            ("not asked, for long", 1_000, 29 * DAYS, None, later(3_600_000, "not_asked")),
            ("not asked, for too long", 1_000, 30 * DAYS, None, over("not_asked")),
            ("no such payment yet", 0, 0, Some(Noticed::UnknownPayment), later(5_000, "unknown_payment")),
            ("no such payment at all", 9, 3 * DAYS, Some(Noticed::UnknownPayment), over("unknown_payment")),
            ("money, and a person is at it", 3, 100 * DAYS, Some(Noticed::Waiting), later(40_000, "waiting")),
            ("no such invoice yet", 1, 0, Some(Noticed::UnknownInvoice), later(10_000, "unknown_invoice")),
            ("no such invoice at all", 9, 3 * DAYS, Some(Noticed::UnknownInvoice), over("unknown_invoice")),
            ("somebody else's", 0, 0, Some(Noticed::NotOurs), over("not_ours")),
            ("known", 0, 0, Some(Noticed::Known), over("known")),
            ("parked", 0, 0, Some(Noticed::Parked), over("parked")),
            ("a refund came back", 0, 0, Some(Noticed::Returned), over("returned")),
            ("against the books", 0, 0, Some(Noticed::Contradiction("x".into())), over("contradiction")),
            ("settled", 0, 0, recovered(Recovered::Succeeded), over("succeeded")),
            ("still unknown: the clock goes on", 0, 0, recovered(Recovered::Unknown), over("unknown")),
            ("somebody works on it", 0, 0, busy(2_000), later(2_000, "busy")),
            ("somebody has a long lease", 2, 0, busy(600_000), later(20_000, "busy")),
            ("a lease without an end", 1_000, 0, busy(i64::MAX), later(3_600_000, "busy")),
            ("another provider's", 0, 0, recovered(Recovered::Foreign), later(5_000, "another_provider")),
        ];
        for (case, tries, age_ms, found, right) in table {
            assert_eq!(
                outlook(&event(tries, age_ms), found.as_ref()),
                right,
                "{case}"
            );
        }
    }
}
