//! Keys: one owner, leases, takeovers, endings.

use std::time::Duration;

use chargeonce::idempotency::reservation::{
    Claim, Ending, Recovery, Reservation, ReservationState,
};
use futures_util::future::join_all;

use crate::support::{
    Fixture, LEASE_MS, assert_follows, assert_runs_from_its_writing, reservation, response,
};

const EXPIRED: Duration = Duration::from_millis(LEASE_MS.unsigned_abs() + 1);

on_both_stores! {
    async fn of_fifty_that_reserve_a_key_at_once_one_wins(engine) {
        let store = Fixture::open(engine).await;

        let tries: Vec<_> = (0..50).map(|_| reservation("charge:inv_1")).collect();
        let outcomes = join_all(tries.iter().map(|new| store.reserve(new))).await;

        let won: Vec<_> = outcomes.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(won.len(), 1);
        let stored = store.find_reservation("charge:inv_1").await.unwrap().unwrap().value;
        assert_eq!(stored, won[0].value, "the winner holds what is stored");
    }

    async fn a_reservation_is_found_as_it_was_made(engine) {
        let store = Fixture::open(engine).await;
        let new = reservation("charge:inv_1");

        let made = store.reserve(&new).await.unwrap().unwrap();
        let found = store.find_reservation("charge:inv_1").await.unwrap().unwrap();

        assert_eq!(made.value, found.value);
        let value = &made.value;
        assert_eq!((value.key.as_str(), value.operation.as_str(), value.attempt), ("charge:inv_1", "charge", 1));
        assert_eq!((&value.fingerprint, &value.lease_token), (&new.fingerprint, &new.lease_token));
        assert_eq!((&value.state, value.recovery, value.takeovers), (&ReservationState::InProgress, Recovery::Resend, 0));
        assert_runs_from_its_writing(&made, LEASE_MS);
        assert_follows(value.first_sent_at_ms, value.last_sent_at_ms);
        assert_follows(value.last_sent_at_ms, made.now_ms);
        assert_follows(made.now_ms, found.now_ms);
    }

    async fn an_unknown_key_has_no_reservation(engine) {
        let store = Fixture::open(engine).await;
        store.reserve(&reservation("charge:inv_1")).await.unwrap();

        for key in ["charge:inv_2", "charge:inv_1 ", "CHARGE:INV_1", "", "charge:inv%", "' OR '1'='1"] {
            assert_eq!(store.find_reservation(key).await.unwrap(), None, "{key:?}");
        }
    }

    async fn a_lease_that_runs_is_not_taken_over(engine) {
        let store = Fixture::open(engine).await;
        store.reserve(&reservation("k")).await.unwrap();
        store.age(Duration::from_millis(LEASE_MS.unsigned_abs() - 60_000)).await;
        let held = found(&store, "k").await;
        let before = store.dump().await;

        let taken = store.take_over(&held, "thief", LEASE_MS, Recovery::Resend, Claim::Expired).await.unwrap();

        assert_eq!(taken, None);
        assert_eq!(store.dump().await, before);
    }

    async fn of_twenty_that_take_an_expired_lease_over_at_once_one_wins(engine) {
        let store = Fixture::open(engine).await;
        store.reserve(&reservation("k")).await.unwrap();
        store.age(EXPIRED).await;
        let expired = found(&store, "k").await;

        let tokens: Vec<String> = (0..20).map(|n| format!("owner-{n}")).collect();
        let outcomes = join_all(tokens.iter().map(|token| store.take_over(&expired, token, LEASE_MS, Recovery::Resend, Claim::Expired))).await;

        let won: Vec<_> = outcomes.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(won.len(), 1);
        assert_eq!(won[0].value, found(&store, "k").await);
        assert_eq!(won[0].value.takeovers, 1);
        assert_runs_from_its_writing(&won[0], LEASE_MS);
    }

    async fn a_takeover_needs_the_token_that_was_read(engine) {
        let store = Fixture::open(engine).await;
        store.reserve(&reservation("k")).await.unwrap();
        store.age(EXPIRED).await;
        let mut stale = found(&store, "k").await;
        stale.lease_token = "of another owner".into();
        let before = store.dump().await;

        assert_eq!(store.take_over(&stale, "thief", LEASE_MS, Recovery::Resend, Claim::Expired).await.unwrap(), None);
        assert_eq!(store.dump().await, before);
    }

    async fn only_a_takeover_that_may_send_moves_the_last_send_and_none_moves_the_first(engine) {
        for (recovery, moves) in [(Recovery::Resend, true), (Recovery::LookUp, false)] {
            let store = Fixture::open(engine).await;
            store.reserve(&reservation("k")).await.unwrap();
            store.age(EXPIRED).await;
            let expired = found(&store, "k").await;

            let taken = store.take_over(&expired, "second", LEASE_MS, recovery, Claim::Expired).await.unwrap().unwrap();

            assert_eq!(taken.value.first_sent_at_ms, expired.first_sent_at_ms);
            assert_eq!(taken.value.last_sent_at_ms != expired.last_sent_at_ms, moves, "{recovery:?}");
            if moves {
                assert_follows(taken.value.last_sent_at_ms, taken.now_ms);
            }
            assert_eq!((taken.value.attempt, taken.value.fingerprint), (expired.attempt, expired.fingerprint));
        }
    }

    async fn takeovers_are_counted_and_each_ends_the_former_owners_right(engine) {
        let store = Fixture::open(engine).await;
        let mut owner = store.reserve(&reservation("k")).await.unwrap().unwrap().value;
        for count in 1..=3 {
            store.age(EXPIRED).await;
            let former = owner.lease_token.clone();
            let token = format!("owner-{count}");
            owner = store.take_over(&found(&store, "k").await, &token, LEASE_MS, Recovery::LookUp, Claim::Expired).await.unwrap().unwrap().value;

            assert_eq!((owner.takeovers, owner.lease_token.as_str()), (count, token.as_str()));
            assert!(!store.settle("k", &former, &Ending::Done(response(201, "late"))).await.unwrap());
        }
        assert!(store.settle("k", &owner.lease_token, &Ending::Done(response(201, "right"))).await.unwrap());
    }

    async fn an_expired_owner_that_nobody_replaced_may_still_settle(engine) {
        let store = Fixture::open(engine).await;
        let held = store.reserve(&reservation("k")).await.unwrap().unwrap().value;
        store.age(EXPIRED).await;

        assert!(store.settle("k", &held.lease_token, &Ending::Done(response(201, "{}"))).await.unwrap());
    }

    async fn a_key_settles_once_and_its_answer_never_changes(engine) {
        let endings = [
            (Ending::Done(response(201, "{\"paid\":true}")), ReservationState::Done(response(201, "{\"paid\":true}"))),
            (Ending::Failed(response(402, "declined")), ReservationState::Failed(response(402, "declined"))),
        ];
        for (ending, state) in endings {
            let store = Fixture::open(engine).await;
            let held = store.reserve(&reservation("k")).await.unwrap().unwrap().value;
            assert!(!store.settle("k", "of another owner", &ending).await.unwrap());
            assert_eq!(found(&store, "k").await, held, "a stranger's settling changes nothing");

            assert!(store.settle("k", &held.lease_token, &ending).await.unwrap());
            assert_eq!(found(&store, "k").await.state, state);
            store.age(EXPIRED).await;
            let before = store.dump().await;
            for again in [Ending::Done(response(200, "other")), Ending::Failed(response(500, "other")), ending.clone()] {
                assert!(!store.settle("k", &held.lease_token, &again).await.unwrap());
            }
            let stored = found(&store, "k").await;
            assert_eq!(store.take_over(&stored, "thief", LEASE_MS, Recovery::Resend, Claim::Expired).await.unwrap(), None);
            assert_eq!(store.reserve(&reservation("k")).await.unwrap(), None);
            assert_eq!(store.dump().await, before);
        }
    }

    async fn of_twenty_settlings_at_once_one_is_written(engine) {
        let store = Fixture::open(engine).await;
        let held = store.reserve(&reservation("k")).await.unwrap().unwrap().value;

        let endings: Vec<_> = (0..20).map(|n| Ending::Done(response(201, &format!("answer {n}")))).collect();
        let outcomes = join_all(endings.iter().map(|ending| store.settle("k", &held.lease_token, ending))).await;

        let written: Vec<_> = outcomes.into_iter().zip(&endings).filter(|(outcome, _)| *outcome.as_ref().unwrap()).collect();
        assert_eq!(written.len(), 1);
        assert_eq!(found(&store, "k").await.state, ReservationState::Done(written[0].1.response().clone()));
    }
}

async fn found(store: &Fixture, key: &str) -> Reservation {
    store.find_reservation(key).await.unwrap().unwrap().value
}
