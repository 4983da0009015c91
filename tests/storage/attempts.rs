//! Beginning an attempt: key and charge, all or nothing, and only for what the invoice is now.

use chargeonce::charges::model::ChargeStatus;
use chargeonce::charges::repository::AttemptRecord;
use chargeonce::idempotency::reservation::ReservationState;
use chargeonce::invoices::repository::Changed;
use futures_util::future::join_all;

use crate::support::{
    Fixture, assert_follows, attempt, decline, failed, invoice, live_records, reservation,
    succeeded,
};

in_both_ways! {
    async fn an_attempt_is_written_with_its_key_and_read_back_as_it_was(engine) {
        let store = Fixture::open(engine).await;
        let invoice = store.invoice("inv_1").await;
        let new = attempt(&invoice, 1);

        let begun = store.begin_attempt(&new).await.unwrap().unwrap();

        let snapshot = store.charge_snapshot("inv_1").await.unwrap().unwrap();
        assert_eq!(snapshot.value.invoice, invoice);
        let (charge, reservation) = snapshot.value.latest.unwrap();
        assert_eq!(charge, new.charge);
        assert_eq!(reservation, begun.value);
        assert_eq!((reservation.key, reservation.state), (new.charge.idempotency_key.clone(), ReservationState::InProgress));
        assert_eq!(store.find_charge(&new.charge.id).await.unwrap(), Some(new.charge));
        assert_eq!(store.state("inv_1").await, "open pending/in_progress");
        assert_follows(begun.now_ms, snapshot.now_ms);
    }

    async fn an_attempt_is_refused_unless_the_invoice_is_open_and_as_it_was_read(engine) {
        let store = Fixture::open(engine).await;
        let void = store.invoice("inv_void").await;
        store.void_invoice("inv_void").await.unwrap();
        let paid = store.charging("inv_paid").await;
        store.record(&paid, &succeeded()).await;
        let changed = store.invoice("inv_changed").await;
        store.set_payment_method("inv_changed", Some("pm_other")).await.unwrap();
        let before = store.dump().await;

        let mut ahead = store.reload("inv_changed").await;
        ahead.revision += 1;
        let table = [
            ("void", attempt(&void, 1)),
            ("paid", attempt(&store.reload("inv_paid").await, 2)),
            ("changed since it was read", attempt(&changed, 1)),
            ("of a revision to come", attempt(&ahead, 1)),
            ("unknown", attempt(&invoice("inv_unknown"), 1)),
        ];
        for (what, new) in table {
            assert_eq!(store.begin_attempt(&new).await.unwrap(), None, "{what}");
            assert_eq!(store.dump().await, before, "{what}: nothing is left behind");
        }
    }

    async fn an_attempt_is_refused_when_its_key_is_there(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        let other = store.invoice("inv_2").await;
        store.reserve(&reservation("charge:inv_2")).await.unwrap();
        let before = store.dump().await;

        let again = attempt(&store.reload("inv_1").await, 1);
        assert_eq!(again.charge.idempotency_key, begun.charge.idempotency_key);
        assert_eq!(store.begin_attempt(&again).await.unwrap(), None);
        assert_eq!(store.begin_attempt(&attempt(&other, 1)).await.unwrap(), None);
        assert_eq!(store.dump().await, before);
    }

    async fn an_attempt_under_another_key_is_refused_while_one_may_take_money(engine) {
        let store = Fixture::open(engine).await;
        for (what, record) in live_records() {
            let id = format!("inv_{what}");
            let running = store.charging(&id).await;
            let second = attempt(&store.reload(&id).await, 2);
            let before = store.dump().await;
            assert_eq!(store.begin_attempt(&second).await.unwrap(), None, "pending");
            assert_eq!(store.dump().await, before, "pending: no key is left behind");

            assert!(store.record(&running, &record).await);
            let before = store.dump().await;
            assert_eq!(store.begin_attempt(&second).await.unwrap(), None, "{what}");
            assert_eq!(store.dump().await, before, "{what}: no key is left behind");
        }
    }

    async fn an_attempts_number_is_used_once(engine) {
        let store = Fixture::open(engine).await;
        let first = store.charging("inv_1").await;
        store.record(&first, &failed()).await;
        let before = store.dump().await;

        let mut same_number = attempt(&store.reload("inv_1").await, 1);
        same_number.charge.idempotency_key = "charge:inv_1:other".into();
        same_number.reservation.key = "charge:inv_1:other".into();
        assert_eq!(store.begin_attempt(&same_number).await.unwrap(), None);
        assert_eq!(store.dump().await, before);
    }

    async fn a_failed_attempt_lets_the_next_begin_and_keeps_its_own_rows(engine) {
        let store = Fixture::open(engine).await;
        let mut begun = store.charging("inv_1").await;
        for number in 2..=4 {
            assert!(store.record(&begun, &failed()).await);
            begun = store.begin(&attempt(&store.reload("inv_1").await, number)).await;
        }
        assert!(store.record(&begun, &succeeded()).await);

        assert_eq!(store.state("inv_1").await, "paid failed/failed, paid failed/failed, paid failed/failed, paid succeeded/done");
        let first = store.database.words("SELECT id AS value FROM charges WHERE attempt = 1").await;
        let first = store.find_charge(&first[0]).await.unwrap().unwrap();
        assert_eq!(first.status, ChargeStatus::Failed(decline()));
    }

    async fn of_fifty_that_begin_the_same_attempt_one_wins(engine) {
        let store = Fixture::open(engine).await;
        let invoice = store.invoice("inv_1").await;

        let tries: Vec<_> = (0..50).map(|_| attempt(&invoice, 1)).collect();
        let outcomes = join_all(tries.iter().map(|new| store.begin_attempt(new))).await;

        let won: Vec<_> = outcomes.into_iter().zip(&tries).filter(|(outcome, _)| outcome.as_ref().unwrap().is_some()).collect();
        assert_eq!(won.len(), 1);
        assert_eq!(store.find_charge(&won[0].1.charge.id).await.unwrap().unwrap(), won[0].1.charge);
        assert_eq!((store.count("charges").await, store.count("idempotency_keys").await), (1, 1));
    }

    async fn of_twenty_different_attempts_at_once_one_wins_and_the_others_leave_no_key(engine) {
        let store = Fixture::open(engine).await;
        let invoice = store.invoice("inv_1").await;

        let tries: Vec<_> = (1..=20).map(|number| attempt(&invoice, number)).collect();
        let outcomes = join_all(tries.iter().map(|new| store.begin_attempt(new))).await;

        assert_eq!(outcomes.into_iter().filter(|outcome| outcome.as_ref().unwrap().is_some()).count(), 1);
        assert_eq!((store.count("charges").await, store.count("idempotency_keys").await), (1, 1));
    }

    async fn attempts_of_different_invoices_do_not_meet(engine) {
        let store = Fixture::open(engine).await;
        let mut tries = Vec::new();
        for n in 0..20 {
            tries.push(attempt(&store.invoice(&format!("inv_{n}")).await, 1));
        }

        let outcomes = join_all(tries.iter().map(|new| store.begin_attempt(new))).await;

        assert!(outcomes.into_iter().all(|outcome| outcome.unwrap().is_some()));
    }

    async fn a_released_attempt_can_begin_again_under_its_key(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        assert!(store.record(&begun, &AttemptRecord::Released).await);
        assert_eq!(store.state("inv_1").await, "open");

        let changed = store.set_payment_method("inv_1", Some("pm_other")).await.unwrap();
        assert!(matches!(changed, Changed::Yes(_)), "{changed:?}");
        let again = store.begin(&attempt(&store.reload("inv_1").await, 1)).await;

        assert_eq!(again.charge.idempotency_key, begun.charge.idempotency_key);
        assert!(!store.record(&begun, &succeeded()).await, "the former token is worth nothing");
        assert_eq!(store.state("inv_1").await, "open pending/in_progress");
    }
}
