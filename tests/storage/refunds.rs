//! Refunds: the charge's sum, reserving, recording, and what the database itself refuses.

use std::time::Duration;

use chargeonce::charges::repository::AttemptRecord;
use chargeonce::idempotency::reservation::{Claim, Recovery, ReservationState};
use chargeonce::payments::refund::RefundReason;
use chargeonce::reconciler::repository::Work;
use chargeonce::refunds::model::{Portion, RefundStatus};
use chargeonce::refunds::repository::{RefundFilter, RefundResolution};
use futures_util::future::join_all;

use crate::support::{
    Fixture, LEASE_MS, SETTLED_AT_MS, decline, every_record, failed, history_line, needs_review,
    paid_by, part_of, processing, response, rest_of, succeeded, unknown,
};

const EXPIRED: Duration = Duration::from_millis(LEASE_MS.unsigned_abs() + 1);

fn header(key: &str) -> Portion {
    Portion::Part {
        header_key: key.into(),
    }
}

on_both_stores! {
    async fn a_refund_is_written_with_its_key_and_the_charges_sum_and_read_back_as_it_was(engine) {
        let store = Fixture::open(engine).await;
        let charge = store.paid("inv_1").await;
        let mut new = part_of(&charge, "h1", 500);
        new.refund.reason = Some(RefundReason::RequestedByCustomer);

        let begun = store.begin_refund(&new).await.unwrap().unwrap();

        let snapshot = store.refund_snapshot(&charge, &header("h1")).await.unwrap().unwrap();
        assert_eq!((snapshot.value.charge.id.as_str(), snapshot.value.refunded_minor), (charge.as_str(), 500));
        let (refund, reservation) = snapshot.value.own.clone().unwrap();
        assert_eq!((&refund, &reservation), (&new.refund, &begun.value));
        assert_eq!(store.find_refund(&refund.id).await.unwrap(), Some(refund.clone()));
        assert_eq!(store.refund_by_id(&refund.id).await.unwrap().unwrap().value, snapshot.value);
        assert_eq!(store.refunds(&charge).await, "500 pending/in_progress");
        for other in [Portion::Rest, header("h2")] {
            let others = store.refund_snapshot(&charge, &other).await.unwrap().unwrap().value;
            assert_eq!((others.own, others.refunded_minor), (None, 500), "{other:?}");
        }
        assert_eq!(store.refund_snapshot("chg_none", &Portion::Rest).await.unwrap(), None);
        assert_eq!(store.refund_by_id("rfd_none").await.unwrap(), None);
    }

    async fn a_refund_is_refused_unless_the_charge_took_the_money_and_has_room(engine) {
        let store = Fixture::open(engine).await;
        let running = store.charging("inv_running").await.charge.id;
        let declined = store.charging("inv_declined").await;
        store.record(&declined, &failed()).await;
        let charge = store.paid("inv_1").await;
        store.begin_refund_of(&part_of(&charge, "h1", 1000)).await;
        let before = store.dump().await;

        let table = [
            ("a charge without a verdict", rest_of(&running, 1, 0)),
            ("a charge that failed", part_of(&declined.charge.id, "h2", 1)),
            ("no charge", rest_of("chg_none", 1, 0)),
            ("one cent too much", part_of(&charge, "h2", 251)),
            ("all, as if nothing had been given back", rest_of(&charge, 1, 0)),
            ("the rest, from a sum that is none", rest_of(&charge, 1, 1100)),
            ("the same key", part_of(&charge, "h1", 1)),
        ];
        for (what, new) in table {
            assert_eq!(store.begin_refund(&new).await.unwrap(), None, "{what}");
            assert_eq!(store.dump().await, before, "{what}: nothing is left behind");
        }
        store.begin_refund_of(&rest_of(&charge, 1, 1000)).await;
        assert_eq!(store.refunds(&charge).await, "1250 pending/in_progress pending/in_progress");
    }

    async fn of_many_parts_at_once_as_many_are_granted_as_there_is_room_for(engine) {
        let store = Fixture::open(engine).await;
        let charge = store.paid("inv_1").await;
        let parts: Vec<_> = (0..20).map(|n| part_of(&charge, &format!("h{n}"), 400)).collect();

        let outcomes = join_all(parts.iter().map(|new| store.begin_refund(new))).await;

        let granted = outcomes.iter().filter(|outcome| outcome.as_ref().unwrap().is_some()).count();
        assert_eq!(granted, 3, "{outcomes:?}");
        assert_eq!((store.count("refunds").await, store.count("idempotency_keys").await), (3, 4));
        assert_eq!(store.refunds(&charge).await, "1200 pending/in_progress pending/in_progress pending/in_progress");
    }

    async fn of_many_that_give_the_rest_back_at_once_one_wins(engine) {
        let store = Fixture::open(engine).await;
        let charge = store.paid("inv_1").await;
        let tries: Vec<_> = (0..20).map(|_| rest_of(&charge, 1, 0)).collect();

        let outcomes = join_all(tries.iter().map(|new| store.begin_refund(new))).await;

        assert_eq!(outcomes.iter().filter(|outcome| outcome.as_ref().unwrap().is_some()).count(), 1);
        assert_eq!(store.refunds(&charge).await, "1250 pending/in_progress");
    }

    async fn a_header_key_is_one_refunds_whatever_the_charge(engine) {
        let store = Fixture::open(engine).await;
        let (first, second) = (store.paid("inv_1").await, store.paid("inv_2").await);
        let new = part_of(&first, "h1", 100);
        store.begin_refund_of(&new).await;
        let before = store.dump().await;

        assert_eq!(store.begin_refund(&part_of(&second, "h1", 100)).await.unwrap(), None);

        assert_eq!(store.dump().await, before);
        let seen = store.refund_snapshot(&second, &header("h1")).await.unwrap().unwrap().value;
        assert_eq!((seen.charge.id, seen.refunded_minor), (second, 0));
        assert_eq!(seen.own.unwrap().0, new.refund, "its use for another charge is seen");
    }

    async fn each_record_changes_refund_key_and_sum_together(engine) {
        let table = [
            (succeeded(), "1250 succeeded/done"),
            (failed(), "0 failed/failed"),
            (processing(), "1250 processing/in_progress"),
            (needs_review(), "1250 needs_review/in_progress"),
            (unknown(), "1250 pending/in_progress"),
            (AttemptRecord::Released, "0"),
        ];
        for (record, state) in table {
            let store = Fixture::open(engine).await;
            let charge = store.paid("inv_1").await;
            let bystander = store.paid("inv_2").await;
            store.begin_refund_of(&part_of(&bystander, "h", 7)).await;
            let new = rest_of(&charge, 1, 0);
            let token = store.begin_refund_of(&new).await;

            assert!(!store.record_of(&new.refund, "of another owner", &record).await);
            assert_eq!(store.refunds(&charge).await, "1250 pending/in_progress");
            assert!(store.record_of(&new.refund, &token, &record).await);

            assert_eq!(store.refunds(&charge).await, state);
            assert_eq!(store.refunds(&bystander).await, "7 pending/in_progress", "{state}");
            assert_eq!(store.state("inv_1").await, "paid succeeded/done", "the charge itself stays as it is");
        }
    }

    async fn a_verdict_keeps_its_refund_its_reason_and_its_answer(engine) {
        let store = Fixture::open(engine).await;
        let charge = store.paid("inv_1").await;
        let given = part_of(&charge, "h1", 500);
        let token = store.begin_refund_of(&given).await;
        store.record_of(&given.refund, &token, &paid_by("re_1")).await;
        let refused = part_of(&charge, "h2", 500);
        let token = store.begin_refund_of(&refused).await;
        store.record_of(&refused.refund, &token, &failed()).await;

        let read = async |key| store.refund_snapshot(&charge, &header(key)).await.unwrap().unwrap().value.own.unwrap();
        let (refund, reservation) = read("h1").await;
        assert_eq!((refund.status, refund.provider_refund_id.as_deref(), refund.settled_at_ms), (RefundStatus::Succeeded, Some("re_1"), Some(SETTLED_AT_MS)));
        assert_eq!(reservation.state, ReservationState::Done(response(201, "paid")));
        let (refund, reservation) = read("h2").await;
        let kept = chargeonce::payments::outcome::Failure { advice_code: None, payment_open: false, ..decline() };
        assert_eq!((refund.status, refund.provider_refund_id.as_deref()), (RefundStatus::Failed(kept), Some("pi_declined")));
        assert_eq!(reservation.state, ReservationState::Failed(response(402, "declined")));
        assert_eq!(store.refunds_given_by("re_1").await.unwrap().len(), 1);
        assert_eq!(store.refunds(&charge).await, "500 succeeded/done failed/failed");
    }

    async fn a_verdict_is_followed_by_no_record_and_a_stale_token_records_nothing(engine) {
        for verdict in [succeeded(), failed()] {
            let store = Fixture::open(engine).await;
            let charge = store.paid("inv_1").await;
            let new = rest_of(&charge, 1, 0);
            let former = store.begin_refund_of(&new).await;
            store.age(EXPIRED).await;
            let expired = store.refund_by_id(&new.refund.id).await.unwrap().unwrap().value.own.unwrap().1;
            let taken = store.take_over(&expired, "second", LEASE_MS, Recovery::Resend, Claim::Expired).await.unwrap().unwrap();
            let before = store.dump().await;
            for (what, record) in every_record() {
                assert!(!store.record_of(&new.refund, &former, &record).await, "{what}");
            }
            assert!(!store.record_of(&new.refund, "second", &AttemptRecord::Released).await, "an earlier owner may have sent it");
            assert_eq!(store.dump().await, before);

            assert!(store.record_of(&new.refund, &taken.value.lease_token, &verdict).await);
            let before = store.dump().await;
            for (what, record) in every_record() {
                assert!(!store.record_of(&new.refund, "second", &record).await, "{what}");
            }
            assert_eq!(store.dump().await, before);
        }
    }

    async fn a_failed_attempt_at_the_rest_lets_the_next_begin_and_a_live_one_does_not(engine) {
        for (what, record, next) in [("failed", failed(), true), ("processing", processing(), false), ("review", needs_review(), false), ("succeeded", succeeded(), false)] {
            let store = Fixture::open(engine).await;
            let charge = store.paid("inv_1").await;
            let first = rest_of(&charge, 1, 0);
            let token = store.begin_refund_of(&first).await;
            store.record_of(&first.refund, &token, &record).await;
            // Room or not: a live attempt of the rest stands in the way by itself.
            store.database.execute("UPDATE charges SET refunded_cents = 0").await;
            assert_eq!(store.begin_refund(&rest_of(&charge, 2, 0)).await.unwrap().is_some(), next, "{what}");
        }
    }

    async fn money_that_came_back_makes_room_once(engine) {
        let store = Fixture::open(engine).await;
        let charge = store.paid("inv_1").await;
        let new = rest_of(&charge, 1, 0);
        let token = store.begin_refund_of(&new).await;
        let line = history_line("came back");
        assert!(!store.return_refund(&new.refund, &decline(), &line).await.unwrap(), "it has not succeeded");
        store.record_of(&new.refund, &token, &paid_by("re_1")).await;

        let why = decline();
        let both = join_all((0..2).map(|_| store.return_refund(&new.refund, &why, &line))).await;

        assert_eq!(both.into_iter().filter(|done| *done.as_ref().unwrap()).count(), 1);
        assert_eq!(store.refunds(&charge).await, "0 returned/done");
        let stored = store.find_refund(&new.refund.id).await.unwrap().unwrap();
        assert!(matches!(&stored.status, RefundStatus::Returned(failure) if failure.code == "card_declined"), "{stored:?}");
        assert_eq!(store.list_refund_evidence(&new.refund.id).await.unwrap(), [line]);
        store.begin_refund_of(&rest_of(&charge, 2, 0)).await;
    }

    async fn only_what_is_under_review_is_resolved_and_once(engine) {
        for (verdict, state) in [(paid_by("re_1"), "1250 succeeded/done"), (failed(), "0 failed/failed")] {
            let store = Fixture::open(engine).await;
            let charge = store.paid("inv_1").await;
            let new = rest_of(&charge, 1, 0);
            let token = store.begin_refund_of(&new).await;
            let resolution = RefundResolution { refund: new.refund.clone(), record: verdict, evidence: "seen".into(), line: history_line("decided") };
            let before = store.dump().await;
            assert!(!store.resolve_refund(&resolution).await.unwrap());
            assert_eq!(store.dump().await, before);

            store.record_of(&new.refund, &token, &needs_review()).await;
            assert!(store.resolve_refund(&resolution).await.unwrap());
            assert!(!store.resolve_refund(&resolution).await.unwrap());

            assert_eq!(store.refunds(&charge).await, state);
            assert_eq!(store.list_refund_evidence(&new.refund.id).await.unwrap().len(), 1);
        }
    }

    async fn what_is_parked_takes_room_and_waits_for_a_person(engine) {
        let store = Fixture::open(engine).await;
        let charge = store.paid("inv_1").await;
        let mut new = part_of(&charge, "late:re_1", 1000);
        new.refund.status = RefundStatus::NeedsReview;
        assert!(store.park_refund(&new, &[history_line("late")]).await.unwrap());
        assert!(!store.park_refund(&new, &[history_line("late")]).await.unwrap());
        assert_eq!(store.refunds(&charge).await, "1000 needs_review/in_progress");
        assert_eq!(store.begin_refund(&part_of(&charge, "h", 251)).await.unwrap(), None);
    }

    async fn what_is_due_of_refunds_has_no_verdict_and_nobody_at_it(engine) {
        let store = Fixture::open(engine).await;
        let charge = store.paid("inv_1").await;
        store.charging("inv_2").await;
        let records = [("pending", None), ("processing", Some(processing())), ("review", Some(needs_review())), ("succeeded", Some(succeeded())), ("failed", Some(failed()))];
        let mut open = Vec::new();
        for (what, record) in records {
            let new = part_of(&charge, what, 10);
            let token = store.begin_refund_of(&new).await;
            if let Some(record) = record {
                assert!(store.record_of(&new.refund, &token, &record).await);
            }
            if ["pending", "processing"].contains(&what) {
                open.push(Work::Refund(new.refund.id.clone()));
            }
        }
        assert_eq!(store.due_refunds(100).await.unwrap(), [], "their leases run");
        store.age(EXPIRED).await;

        let due = store.due_refunds(100).await.unwrap();
        assert_eq!(due.iter().map(|attempt| attempt.work.clone()).collect::<Vec<_>>(), open);
        assert_eq!(store.due_refunds(1).await.unwrap(), due[..1]);
        assert_eq!(store.due_attempts(100).await.unwrap().len(), 1, "the charge's own are another list");
        store.put_off(&due[0], 3_600_000).await.unwrap();
        assert_eq!(store.due_refunds(100).await.unwrap(), due[1..]);
        let backlog = store.backlog().await.unwrap().value;
        assert_eq!((backlog.refunds.unsettled, backlog.refunds.reviews), (2, 1));
        assert_eq!((backlog.unsettled, backlog.reviews), (1, 0));
    }

    async fn refunds_are_found_by_the_payment_that_they_give_back(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        assert!(store.record(&begun, &paid_by("pi_1")).await);
        let other = store.paid("inv_2").await;
        let (first, second) = (part_of(&begun.charge.id, "h1", 10), part_of(&begun.charge.id, "h2", 10));
        for new in [&first, &part_of(&other, "h3", 10), &second] {
            store.begin_refund_of(new).await;
        }
        assert_eq!(store.refunds_of_payment("pi_1").await.unwrap(), [second.refund, first.refund]);
        assert_eq!(store.refunds_of_payment("pi_none").await.unwrap(), []);
    }

    async fn refunds_are_listed_newest_first_by_charge_and_status(engine) {
        let store = Fixture::open(engine).await;
        let (charge, other) = (store.paid("inv_1").await, store.paid("inv_2").await);
        let mut ids = Vec::new();
        for n in 0..5 {
            let new = part_of(&charge, &format!("h{n}"), 10);
            let token = store.begin_refund_of(&new).await;
            if n % 2 == 0 {
                store.record_of(&new.refund, &token, &succeeded()).await;
            }
            ids.insert(0, new.refund.id);
        }
        store.begin_refund_of(&rest_of(&other, 1, 0)).await;
        let list = async |filter: RefundFilter| {
            let listed = store.list_refunds(&RefundFilter { limit: 3, ..filter }).await.unwrap();
            listed.into_iter().map(|refund| refund.id).collect::<Vec<_>>()
        };
        let of_charge = || RefundFilter { charge_id: Some(charge.clone()), ..RefundFilter::default() };
        assert_eq!(list(of_charge()).await, ids[..3]);
        assert_eq!(list(RefundFilter { after: Some(ids[2].clone()), ..of_charge() }).await, ids[3..]);
        assert_eq!(list(RefundFilter { status: Some("pending".into()), ..of_charge() }).await, [ids[1].clone(), ids[3].clone()]);
        assert_eq!(list(RefundFilter::default()).await[1..], ids[..2]);
    }

    async fn the_database_itself_refuses_what_must_not_be(engine) {
        let store = Fixture::open(engine).await;
        let charge = store.paid("inv_1").await;
        let given = part_of(&charge, "h1", 500);
        let token = store.begin_refund_of(&given).await;
        store.record_of(&given.refund, &token, &paid_by("re_1")).await;
        let refused = part_of(&charge, "h2", 500);
        let token = store.begin_refund_of(&refused).await;
        store.record_of(&refused.refund, &token, &failed()).await;
        let running = part_of(&charge, "h3", 100);
        store.begin_refund_of(&running).await;
        let of = |new: &chargeonce::refunds::repository::NewRefund, set: &str| format!("UPDATE refunds SET {set} WHERE id = '{}'", new.refund.id);
        let no_verdict = "settled_at_ms = NULL, failure_kind = NULL, failure_code = NULL";
        let mut statements = vec![
            "UPDATE charges SET refunded_cents = 1251".to_owned(),
            "UPDATE charges SET refunded_cents = -1".to_owned(),
            "UPDATE charges SET refunded_cents = NULL".to_owned(),
            of(&given, "status = 'failed', failure_kind = 'declined', failure_code = 'c'"),
            of(&given, "status = 'pending', settled_at_ms = NULL"),
            of(&given, "status = 'returned'"),
            of(&refused, "status = 'succeeded', failure_kind = NULL, failure_code = NULL"),
            of(&refused, "status = 'returned'"),
            of(&refused, &format!("status = 'pending', {no_verdict}")),
            of(&running, "status = 'succeeded', settled_at_ms = 1"),
            of(&running, "status = 'succeeded', settled_at_ms = 1, provider_refund_id = 're_1'"),
            of(&running, "status = 'failed', settled_at_ms = 1"),
            of(&running, "status = 'unheard_of'"),
            of(&running, "settled_at_ms = 1"),
            "DELETE FROM charges".to_owned(),
            "DELETE FROM idempotency_keys WHERE operation = 'refund'".to_owned(),
        ];
        let frozen = [
            "attempt = 2", "amount_cents = 1", "currency = 'eur'", "reason = 'duplicate'", "provider = 'other'", "request_path = '/'",
            "request_body = ''", "header_key = NULL", "asked_key = 'a'", "asked_request = 'a'", "asked_session = 'a'",
            "idempotency_key = 'charge:inv_1'", "charge_id = charge_id",
        ];
        statements.extend(frozen.map(|set| of(&running, set)));
        for statement in statements {
            let before = store.dump().await;
            let outcome = store.database.try_execute(&statement).await;
            assert!(outcome.is_err(), "{statement} was done: {outcome:?}");
            assert_eq!(store.dump().await, before, "{statement}");
        }
        let back = of(&given, "status = 'returned', failure_kind = 'declined', failure_code = 'c'");
        assert_eq!(store.database.execute(&back).await, 1, "the bank may send it back");
        let again = of(&given, "status = 'succeeded', failure_kind = NULL, failure_code = NULL");
        assert!(store.database.try_execute(&again).await.is_err());
    }
}
