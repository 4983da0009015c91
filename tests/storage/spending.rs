//! An agent's cap on a day: what counts, and that parallel calls of one key stay below it together.

use chargeonce::access::limits::Day;
use chargeonce::charges::model::AskedBy;
use chargeonce::charges::repository::{Capped, DayCap, NewAttempt};
use chargeonce::invoices::model::Invoice;
use futures_util::future::join_all;

use crate::support::{Fixture, attempt, every_record, invoice};

/// An attempt over 12.50 USD, begun by this key.
fn asked(invoice: &Invoice, key: &str) -> NewAttempt {
    let mut new = attempt(invoice, 1);
    new.charge.asked_by = Some(AskedBy {
        key_name: Some(key.into()),
        request_id: "req_1".into(),
        session: None,
    });
    new
}

fn cap(key: &str, limit_minor: i64) -> DayCap {
    let at_ms = attempt(&invoice("inv_0"), 1).charge.created_at_ms;
    DayCap {
        key_name: key.into(),
        currency: "usd".into(),
        day: Day::of(at_ms),
        limit_minor,
    }
}

on_both_stores! {
    async fn parallel_attempts_of_one_key_stay_below_its_cap_and_the_rest_leaves_nothing(engine) {
        let store = Fixture::open(engine).await;
        let cap = cap("bot", 3 * 1250 + 1249);
        let mut attempts = Vec::new();
        for number in 0..12 {
            attempts.push(asked(&store.invoice(&format!("inv_{number}")).await, "bot"));
        }
        let outcomes = join_all(attempts.iter().map(|new| store.begin_capped_attempt(new, &cap))).await;
        let count = |right: fn(&Capped) -> bool| outcomes.iter().filter(|outcome| right(outcome.as_ref().unwrap())).count();
        assert_eq!(count(|outcome| matches!(outcome, Capped::Reserved(_))), 3, "{outcomes:?}");
        assert_eq!(count(|outcome| matches!(outcome, Capped::Over)), 9, "{outcomes:?}");
        assert_eq!((store.count("charges").await, store.count("idempotency_keys").await), (3, 3));
        assert_eq!(store.spent(&cap).await.unwrap(), 3 * 1250);
    }

    async fn everything_counts_but_what_has_failed_or_was_given_back(engine) {
        for (what, record) in every_record() {
            let store = Fixture::open(engine).await;
            let new = asked(&store.invoice("inv_1").await, "bot");
            let begun = store.begin(&new).await;
            assert_eq!(store.spent(&cap("bot", 1)).await.unwrap(), 1250, "pending");
            store.record(&begun, &record).await;
            let right = if ["failed", "released"].contains(&what) { 0 } else { 1250 };
            assert_eq!(store.spent(&cap("bot", 1)).await.unwrap(), right, "{what}");
        }
    }

    async fn only_the_keys_own_attempts_of_the_day_and_the_currency_count(engine) {
        let store = Fixture::open(engine).await;
        let new = asked(&store.invoice("inv_1").await, "bot");
        store.begin(&new).await;
        assert_eq!(store.find_charge(&new.charge.id).await.unwrap(), Some(new.charge));
        let mine = cap("bot", 1);
        let next = Day { from_ms: mine.day.until_ms, until_ms: mine.day.until_ms + 86_400_000 };
        let at_ms = attempt(&invoice("inv_0"), 1).charge.created_at_ms;
        #[rustfmt::skip]
        let table = [
            ("its own", mine.clone(), 1250),
            ("another key", DayCap { key_name: "other".into(), ..mine.clone() }, 0),
            ("another currency", DayCap { currency: "eur".into(), ..mine.clone() }, 0),
            ("the next day", DayCap { day: next, ..mine.clone() }, 0),
            ("a day that begins with it", DayCap { day: Day { from_ms: at_ms, until_ms: at_ms + 1 }, ..mine.clone() }, 1250),
            ("a day that ends before it", DayCap { day: Day { from_ms: at_ms - 1, until_ms: at_ms }, ..mine }, 0),
        ];
        for (what, cap, right) in table {
            assert_eq!(store.spent(&cap).await.unwrap(), right, "{what}");
        }
    }

    async fn a_key_that_is_there_is_lost_and_not_over(engine) {
        let store = Fixture::open(engine).await;
        let invoice = store.invoice("inv_1").await;
        store.begin(&asked(&invoice, "other")).await;
        let before = store.dump().await;
        let outcome = store.begin_capped_attempt(&asked(&invoice, "bot"), &cap("bot", 1250)).await.unwrap();
        assert_eq!(outcome, Capped::Lost);
        assert_eq!(store.dump().await, before, "nothing is left behind");
    }
}
