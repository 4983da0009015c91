//! What the background worker and the webhooks ask of a store.

use std::time::Duration;

use chargeonce::charges::model::ChargeStatus;
use chargeonce::charges::repository::{AttemptRecord, EvidenceKind, NewAttempt};
use chargeonce::idempotency::repository::NewReservation;
use chargeonce::idempotency::reservation::{Claim, Recovery, Reservation, ReservationState};
use chargeonce::reconciler::repository::{DueAttempt, Work};
use chargeonce::webhooks::model::ProviderEvent;
use futures_util::future::join_all;

use crate::support::{
    Fixture, LEASE_MS, attempt, failed, history_line, live_records, needs_review, paid_by,
    processing, reservation, succeeded, unknown,
};

const PAST_LEASE: Duration = Duration::from_secs(601);

async fn reserved(store: &Fixture, key: &str) -> Reservation {
    store.find_reservation(key).await.unwrap().unwrap().value
}

async fn due(store: &Fixture, limit: i64) -> Vec<String> {
    let due = store.due_attempts(limit).await.unwrap();
    let invoice = |attempt: DueAttempt| match attempt.work {
        Work::Charge(invoice_id) => invoice_id,
        Work::Refund(id) => panic!("{id} is no charge's attempt"),
    };
    due.into_iter().map(invoice).collect()
}

fn event(id: &str) -> ProviderEvent {
    ProviderEvent {
        id: id.into(),
        kind: "payment_intent.succeeded".into(),
        payment_id: "pi_1".into(),
        created_at_ms: 1_700_000_000_000,
    }
}

on_both_stores! {
    async fn only_an_idle_reservation_is_given_away_before_its_lease_is_over_and_only_to_look(engine) {
        for (record, is_idle) in [(None, false), (Some(unknown()), true), (Some(processing()), true)] {
            for (recovery, claim) in [
                (Recovery::LookUp, Claim::ExpiredOrIdle), (Recovery::LookUp, Claim::Expired),
                (Recovery::Resend, Claim::ExpiredOrIdle), (Recovery::Resend, Claim::Expired),
            ] {
                let store = Fixture::open(engine).await;
                let begun = store.charging("inv_1").await;
                if let Some(record) = &record {
                    assert!(store.record(&begun, record).await);
                }
                let before = reserved(&store, &begun.charge.idempotency_key).await;
                assert_eq!(before.idle, is_idle);

                let taken = store.take_over(&before, "second", LEASE_MS, recovery, claim).await.unwrap();

                let may = is_idle && recovery == Recovery::LookUp && claim == Claim::ExpiredOrIdle;
                assert_eq!(taken.is_some(), may, "{record:?} {recovery:?} {claim:?}");
                if let Some(taken) = taken {
                    assert!(!taken.value.idle, "the new owner works on it");
                    assert_eq!(taken.value.last_sent_at_ms, before.last_sent_at_ms, "a look is no send");
                    assert!(!store.record(&begun, &succeeded()).await, "the old owner is fenced off");
                }
            }
        }
    }

    async fn a_decision_from_before_the_owner_stopped_takes_nothing_over(engine) {
        for (name, record) in live_records() {
            let store = Fixture::open(engine).await;
            let begun = store.charging("inv_1").await;
            store.age(PAST_LEASE).await;
            let read = reserved(&store, &begun.charge.idempotency_key).await;
            // Late, but nobody has taken it over yet: its record stands.
            assert!(store.record(&begun, &record).await);
            let before = store.dump().await;

            for (recovery, claim) in [(Recovery::Resend, Claim::Expired), (Recovery::LookUp, Claim::ExpiredOrIdle)] {
                let taken = store.take_over(&read, "second", LEASE_MS, recovery, claim).await.unwrap();
                assert_eq!(taken, None, "{name} {recovery:?}");
            }

            assert_eq!(store.dump().await, before);
            let again = reserved(&store, &begun.charge.idempotency_key).await;
            assert!(store.take_over(&again, "second", LEASE_MS, Recovery::LookUp, Claim::Expired).await.unwrap().is_some());
        }
    }

    async fn due_is_what_has_no_verdict_and_an_owner_whose_lease_is_over(engine) {
        let store = Fixture::open(engine).await;
        for (name, record) in [
            ("pending", None), ("unknown", Some(unknown())), ("processing", Some(processing())), ("review", Some(needs_review())),
            ("paid", Some(succeeded())), ("failed", Some(failed())), ("released", Some(AttemptRecord::Released)),
        ] {
            let begun = store.charging(name).await;
            if let Some(record) = record {
                assert!(store.record(&begun, &record).await);
            }
        }
        store.reserve(&reservation("header:key:k")).await.unwrap().unwrap();

        assert_eq!(due(&store, 100).await, Vec::<String>::new(), "all leases run");
        store.age(PAST_LEASE).await;
        let mut all = due(&store, 100).await;
        all.sort();
        assert_eq!(all, ["pending", "processing", "unknown"]);
        assert_eq!(due(&store, 2).await.len(), 2);
    }

    async fn what_waits_longest_is_due_first(engine) {
        let store = Fixture::open(engine).await;
        for id in ["first", "second", "third"] {
            store.charging(id).await;
            store.age(Duration::from_secs(1)).await;
        }
        store.age(PAST_LEASE).await;

        assert_eq!(due(&store, 100).await, ["first", "second", "third"]);
    }

    async fn what_is_put_off_is_not_due_until_then_and_only_its_owner_can_put_it_off(engine) {
        let store = Fixture::open(engine).await;
        let later = AttemptRecord::Unknown { payment_id: None, evidence: "x".into(), recovery: Recovery::LookUp, wait_ms: 3_600_000, unanswered_since_ms: None };
        let begun = store.charging("recorded").await;
        store.record(&begun, &later).await;
        store.charging("put off").await;
        store.charging("taken meanwhile").await;
        store.age(PAST_LEASE).await;
        assert_eq!(due(&store, 100).await, ["put off", "taken meanwhile"]);

        for attempt in store.due_attempts(100).await.unwrap() {
            if attempt.work == Work::Charge("taken meanwhile".into()) {
                let expired = reserved(&store, &attempt.key).await;
                store.take_over(&expired, "second", LEASE_MS, Recovery::Resend, Claim::Expired).await.unwrap().unwrap();
            }
            store.put_off(&attempt, 3_600_000).await.unwrap();
        }
        assert_eq!(due(&store, 100).await, Vec::<String>::new());
        store.age(PAST_LEASE).await;
        assert_eq!(due(&store, 100).await, ["taken meanwhile"]);
        store.age(Duration::from_secs(3_600)).await;

        let mut all = due(&store, 100).await;
        all.sort();
        assert_eq!(all, ["put off", "recorded", "taken meanwhile"]);
    }

    async fn the_backlog_counts_what_is_open_and_how_old_it_is(engine) {
        let store = Fixture::open(engine).await;
        let none = store.backlog().await.unwrap();
        assert_eq!((none.value.unsettled, none.value.oldest_unsettled_ms, none.value.reviews, none.value.events), (0, None, 0, 0));
        store.charging("pending").await;
        for (name, record) in live_records() {
            let begun = store.charging(name).await;
            store.record(&begun, &record).await;
        }
        let paid = store.charging("paid").await;
        store.record(&paid, &succeeded()).await;
        store.store_event(&event("evt_1")).await.unwrap();
        store.store_event(&event("evt_2")).await.unwrap();
        let claimed = store.claim_event("evt_2", 60_000).await.unwrap().unwrap();
        store.end_event(&claimed, "known").await.unwrap();

        let some = store.backlog().await.unwrap();

        assert_eq!((some.value.unsettled, some.value.reviews, some.value.events), (3, 1, 1));
        assert_eq!(some.value.oldest_unsettled_ms, Some(paid.charge.created_at_ms));
        assert!(some.now_ms > 1_700_000_000_000);
    }

    async fn a_payment_is_parked_only_with_an_open_invoice_that_nobody_charges(engine) {
        let store = Fixture::open(engine).await;
        let parked = |invoice: &chargeonce::invoices::model::Invoice, number| {
            let NewAttempt { mut charge, reservation } = attempt(invoice, number);
            charge.status = ChargeStatus::NeedsReview;
            charge.provider_payment_id = Some("pi_late".into());
            NewAttempt { charge, reservation: NewReservation { lease_ms: 0, ..reservation } }
        };
        let lines = [history_line("found")];
        let fresh = store.invoice("fresh").await;
        let new = parked(&fresh, 1);
        assert!(store.park_payment(&new, &lines).await.unwrap());
        assert!(!store.park_payment(&parked(&fresh, 1), &lines).await.unwrap(), "once");
        assert!(!store.park_payment(&parked(&fresh, 2), &lines).await.unwrap(), "one is live");
        assert_eq!(store.state("fresh").await, "open needs_review/in_progress");
        assert_eq!(store.list_evidence(&new.charge.id).await.unwrap(), lines);
        assert_eq!(store.charges_of_payment("pi_late").await.unwrap(), std::slice::from_ref(&new.charge));

        let begun = store.charging("declined").await;
        store.record(&begun, &failed()).await;
        let declined = store.reload("declined").await;
        assert!(store.park_payment(&parked(&declined, 2), &lines).await.unwrap());
        let void = store.invoice("void").await;
        store.void_invoice("void").await.unwrap();
        assert!(!store.park_payment(&parked(&void, 1), &lines).await.unwrap());
        let begun = store.charging("paid").await;
        store.record(&begun, &succeeded()).await;
        let paid = store.reload("paid").await;
        assert!(!store.park_payment(&parked(&paid, 2), &lines).await.unwrap());

        assert!(matches!(reserved(&store, &new.reservation.key).await.state, ReservationState::InProgress));
        assert_eq!(store.count("charge_evidence").await, 2);
    }

    async fn history_is_kept_in_order_and_only_with_its_record(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        let lines: Vec<_> = (0..20).map(|n| history_line(&format!("line {n}"))).collect();

        let refused = store.record_attempt(&begun.charge, "another", &succeeded(), &lines).await.unwrap();
        assert!(!refused);
        assert_eq!(store.list_evidence(&begun.charge.id).await.unwrap(), []);
        assert!(store.record_attempt(&begun.charge, &begun.token, &unknown(), &lines[..10]).await.unwrap());
        assert!(store.record_attempt(&begun.charge, &begun.token, &succeeded(), &lines[10..]).await.unwrap());

        assert_eq!(store.list_evidence(&begun.charge.id).await.unwrap(), lines);
        assert_eq!(store.list_evidence("chg_other").await.unwrap(), []);
    }

    async fn every_kind_of_history_can_be_stored(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        let lines = EvidenceKind::ALL.map(|what| chargeonce::charges::repository::Evidence { what, ..history_line("x") });

        assert!(store.record_attempt(&begun.charge, &begun.token, &unknown(), &lines).await.unwrap());

        assert_eq!(store.list_evidence(&begun.charge.id).await.unwrap(), lines);
    }

    async fn an_event_is_stored_once_and_claimed_by_one(engine) {
        let store = Fixture::open(engine).await;
        let new = event("evt_1");
        let stored = join_all((0..10).map(|_| store.store_event(&new))).await;
        assert_eq!(stored.into_iter().filter(|stored| *stored.as_ref().unwrap()).count(), 1);
        assert_eq!(store.due_events(10).await.unwrap(), ["evt_1"]);

        let claims = join_all((0..10).map(|_| store.claim_event("evt_1", 60_000))).await;
        let claimed: Vec<_> = claims.into_iter().filter_map(Result::unwrap).collect();

        assert_eq!(claimed.len(), 1);
        assert_eq!((claimed[0].payment_id.as_str(), claimed[0].tries), ("pi_1", 0));
        assert_eq!(store.due_events(10).await.unwrap(), Vec::<String>::new(), "claimed");
        store.age(Duration::from_secs(60)).await;
        let again = store.claim_event("evt_1", 60_000).await.unwrap().unwrap();
        assert_eq!(again.tries, 1, "its claimant died");
        assert!((60_000..120_000).contains(&again.age_ms), "{}", again.age_ms);
        assert_eq!(store.claim_event("evt_none", 60_000).await.unwrap(), None);
    }

    async fn an_event_is_over_for_good_and_forgotten_only_then(engine) {
        let store = Fixture::open(engine).await;
        for id in ["evt_over", "evt_open"] {
            store.store_event(&event(id)).await.unwrap();
        }
        let over = store.claim_event("evt_over", 60_000).await.unwrap().unwrap();
        store.end_event(&over, "known").await.unwrap();
        store.end_event(&over, "another").await.unwrap();
        store.put_off_event(&over, 0).await.unwrap();
        assert_eq!(store.database.words("SELECT outcome AS value FROM provider_events WHERE id = 'evt_over'").await, ["known"]);
        assert!(!store.store_event(&event("evt_over")).await.unwrap(), "it is remembered");
        let open = store.claim_event("evt_open", 60_000).await.unwrap().unwrap();
        store.put_off_event(&open, 10_000).await.unwrap();
        assert_eq!(store.due_events(10).await.unwrap(), Vec::<String>::new());
        assert_eq!(store.forget_events(60_000).await.unwrap(), 0, "too young");
        store.age(Duration::from_secs(61)).await;
        assert_eq!(store.due_events(10).await.unwrap(), ["evt_open"]);

        assert_eq!(store.forget_events(60_000).await.unwrap(), 1);

        assert_eq!(store.database.words("SELECT id AS value FROM provider_events").await, ["evt_open"]);
    }

    async fn whoever_claimed_an_event_too_long_ago_decides_nothing_about_it(engine) {
        let store = Fixture::open(engine).await;
        store.store_event(&event("evt_1")).await.unwrap();
        let slow = store.claim_event("evt_1", 60_000).await.unwrap().unwrap();
        store.age(Duration::from_secs(61)).await;
        let successor = store.claim_event("evt_1", 60_000).await.unwrap().unwrap();

        store.end_event(&slow, "known").await.unwrap();
        store.put_off_event(&slow, 0).await.unwrap();
        assert_eq!(store.due_events(10).await.unwrap(), Vec::<String>::new());
        store.put_off_event(&successor, 0).await.unwrap();

        assert_eq!(store.due_events(10).await.unwrap(), ["evt_1"]);
    }

    async fn an_event_that_came_to_nothing_is_opened_when_it_comes_again(engine) {
        for (outcome, opens) in [
            ("unknown_payment", true), ("unknown_invoice", true), ("another_provider", true), ("contradiction", true), ("not_asked", true),
            ("known", false), ("succeeded", false), ("failed", false), ("parked", false), ("not_ours", false),
        ] {
            let store = Fixture::open(engine).await;
            store.store_event(&event("evt_1")).await.unwrap();
            assert!(!store.reopen_event("evt_1").await.unwrap(), "it is open");
            let claimed = store.claim_event("evt_1", 60_000).await.unwrap().unwrap();
            store.end_event(&claimed, outcome).await.unwrap();

            assert_eq!(store.reopen_event("evt_1").await.unwrap(), opens, "{outcome}");
            assert_eq!(store.due_events(10).await.unwrap().len(), usize::from(opens));
        }
    }

    async fn one_payment_pays_one_charge(engine) {
        let store = Fixture::open(engine).await;
        let first = store.charging("inv_1").await;
        let second = store.charging("inv_2").await;
        assert!(store.record(&first, &paid_by("pi_1")).await);

        let refused = store.record_attempt(&second.charge, &second.token, &paid_by("pi_1"), &[]).await;

        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(store.state("inv_2").await, "open pending/in_progress");
    }

    async fn a_takeover_is_not_put_off_by_what_was_put_off_before(engine) {
        let store = Fixture::open(engine).await;
        let later = AttemptRecord::Unknown {
            payment_id: None, evidence: "x".into(), recovery: Recovery::LookUp, wait_ms: 3_600_000, unanswered_since_ms: Some(7),
        };
        let begun = store.charging("inv_1").await;
        store.record(&begun, &later).await;
        store.age(PAST_LEASE).await;
        let expired = reserved(&store, &begun.charge.idempotency_key).await;
        assert!(expired.unanswered_since_ms.is_some());
        store.take_over(&expired, "second", LEASE_MS, Recovery::LookUp, Claim::Expired).await.unwrap().unwrap();
        assert_eq!(due(&store, 10).await, Vec::<String>::new());

        store.age(PAST_LEASE).await;
        assert_eq!(due(&store, 10).await, ["inv_1"], "its owner died: the wait of its forerunner is not its own");
    }
}
