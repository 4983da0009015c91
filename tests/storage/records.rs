//! Recording what became of an attempt: key, charge and invoice together, by the holder of the lease and nobody else.

use std::time::Duration;

use chargeonce::charges::model::ChargeStatus;
use chargeonce::charges::repository::AttemptRecord;
use chargeonce::idempotency::reservation::{Claim, Recovery, ReservationState};
use chargeonce::storage::StorageError;
use futures_util::future::join_all;

use crate::support::{
    Begun, Fixture, LEASE_MS, SETTLED_AT_MS, decline, every_record, failed, live_records,
    needs_review, paid_by, processing, response, succeeded, unknown,
};

in_both_ways! {
    async fn each_record_changes_invoice_charge_and_key_together_and_only_success_pays(engine) {
        let table = [
            (succeeded(), "paid succeeded/done"),
            (failed(), "open failed/failed"),
            (processing(), "open processing/in_progress"),
            (needs_review(), "open needs_review/in_progress"),
            (unknown(), "open pending/in_progress"),
            (AttemptRecord::Released, "open"),
        ];
        for (n, (record, state)) in table.iter().enumerate() {
            let store = Fixture::open(engine).await;
            let id = format!("inv_{n}");
            let begun = store.charging(&id).await;
            let bystander = store.charging("inv_bystander").await;
            assert_eq!(store.state(&id).await, "open pending/in_progress");

            assert!(store.record(&begun, record).await);

            assert_eq!(store.state(&id).await, *state);
            assert_eq!(store.state("inv_bystander").await, "open pending/in_progress", "{state}");
            assert_eq!(store.find_charge(&bystander.charge.id).await.unwrap(), Some(bystander.charge));
        }
    }

    async fn a_success_keeps_its_payment_its_time_and_its_answer(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        store.record(&begun, &paid_by("pi_paid")).await;

        let (charge, reservation) = latest(&store).await;
        assert_eq!(charge.status, ChargeStatus::Succeeded);
        assert_eq!((charge.provider_payment_id.as_deref(), charge.settled_at_ms), (Some("pi_paid"), Some(SETTLED_AT_MS)));
        assert_eq!(reservation.state, ReservationState::Done(response(201, "paid")));
        assert_eq!(charge.request, begun.charge.request);
    }

    async fn a_failure_keeps_its_reason_and_its_answer(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        store.record(&begun, &failed()).await;

        let (charge, reservation) = latest(&store).await;
        assert_eq!(charge.status, ChargeStatus::Failed(decline()));
        assert_eq!((charge.provider_payment_id.as_deref(), charge.settled_at_ms), (Some("pi_declined"), Some(SETTLED_AT_MS)));
        assert_eq!(reservation.state, ReservationState::Failed(response(402, "declined")));
    }

    async fn a_record_without_verdict_keeps_lease_and_evidence(engine) {
        let table = [
            (processing(), ChargeStatus::Processing, Some("pi_processing"), None, Recovery::LookUp),
            (needs_review(), ChargeStatus::NeedsReview, Some("pi_odd"), Some("another amount"), Recovery::LookUp),
            (unknown(), ChargeStatus::Pending, None, Some("no answer in time"), Recovery::LookUp),
            (
                AttemptRecord::Unknown { payment_id: Some("pi_seen".into()), evidence: "cut".into(), recovery: Recovery::Resend, wait_ms: 0, unanswered_since_ms: None },
                ChargeStatus::Pending, Some("pi_seen"), Some("cut"), Recovery::Resend,
            ),
        ];
        for (record, status, payment_id, evidence, recovery) in table {
            let store = Fixture::open(engine).await;
            let begun = store.charging("inv_1").await;
            let (_, before) = latest(&store).await;
            assert!(store.record(&begun, &record).await);

            let (charge, reservation) = latest(&store).await;
            assert_eq!(charge.status, status);
            assert_eq!((charge.provider_payment_id.as_deref(), charge.evidence.as_deref()), (payment_id, evidence), "{status:?}");
            assert_eq!((charge.settled_at_ms, reservation.recovery), (None, recovery));
            assert_eq!((reservation.state, reservation.lease_token), (before.state, before.lease_token));
            assert_eq!((reservation.lease_expires_at_ms, reservation.takeovers), (before.lease_expires_at_ms, 0));
        }
    }

    async fn a_payment_once_known_is_kept_by_later_records_that_name_none(engine) {
        let without = [
            AttemptRecord::NeedsReview { payment_id: None, evidence: "odd".into() },
            unknown(),
            AttemptRecord::Failed {
                failure: chargeonce::payments::outcome::Failure { payment_id: None, ..decline() },
                settled_at_ms: SETTLED_AT_MS,
                response: response(402, "declined"),
            },
        ];
        for record in without {
            let store = Fixture::open(engine).await;
            let mut begun = store.charging("inv_1").await;
            store.record(&begun, &processing()).await;
            begun.charge = latest(&store).await.0;

            assert!(store.record(&begun, &record).await);
            assert_eq!(latest(&store).await.0.provider_payment_id.as_deref(), Some("pi_processing"), "{record:?}");
        }
    }

    async fn every_record_without_verdict_may_be_followed_by_every_verdict(engine) {
        for (former, record) in live_records() {
            for (verdict, state) in [(succeeded(), "paid succeeded/done"), (failed(), "open failed/failed")] {
                let store = Fixture::open(engine).await;
                let begun = store.charging("inv_1").await;
                assert!(store.record(&begun, &record).await);
                assert!(store.record(&begun, &verdict).await, "{former}");
                assert_eq!(store.state("inv_1").await, state, "{former}");
            }
        }
    }

    async fn a_stale_token_records_nothing(engine) {
        let store = Fixture::open(engine).await;
        let former = store.charging("inv_1").await;
        store.age(Duration::from_millis(LEASE_MS.unsigned_abs() + 1)).await;
        let (_, expired) = latest(&store).await;
        store.take_over(&expired, "second owner", LEASE_MS, Recovery::Resend, Claim::Expired).await.unwrap().unwrap();
        let before = store.dump().await;

        for (what, record) in every_record() {
            assert!(!store.record(&former, &record).await, "{what}");
            assert_eq!(store.dump().await, before, "{what}");
        }
    }

    async fn a_verdict_is_followed_by_no_record(engine) {
        for verdict in [succeeded(), failed()] {
            let store = Fixture::open(engine).await;
            let begun = store.charging("inv_1").await;
            assert!(store.record(&begun, &verdict).await);
            let before = store.dump().await;

            for (what, record) in every_record() {
                assert!(!store.record(&begun, &record).await, "{what}");
                assert_eq!(store.dump().await, before, "{what}");
            }
        }
    }

    async fn nothing_is_released_that_an_earlier_owner_may_have_sent(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        store.age(Duration::from_millis(LEASE_MS.unsigned_abs() + 1)).await;
        let (_, expired) = latest(&store).await;
        let second = store.take_over(&expired, "second owner", LEASE_MS, Recovery::Resend, Claim::Expired).await.unwrap().unwrap();
        let begun = Begun { token: second.value.lease_token, ..begun };
        let before = store.dump().await;

        assert!(!store.record(&begun, &AttemptRecord::Released).await);
        assert_eq!(store.dump().await, before, "the charge's row is still there");
        assert!(store.record(&begun, &succeeded()).await);
    }

    async fn of_twenty_verdicts_at_once_one_is_written_and_the_tables_agree(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;

        let records: Vec<_> = (0..20).map(|n| if n % 2 == 0 { succeeded() } else { failed() }).collect();
        let written = join_all(records.iter().map(|record| store.record(&begun, record))).await;

        assert_eq!(written.iter().filter(|written| **written).count(), 1);
        let state = store.state("inv_1").await;
        assert!(["paid succeeded/done", "open failed/failed"].contains(&state.as_str()), "{state}");
    }

    async fn a_success_for_an_invoice_that_is_not_open_is_an_error_and_writes_nothing(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        store.database.execute("UPDATE invoices SET status = 'void'").await;
        let before = store.dump().await;

        let outcome = store.record_attempt(&begun.charge, &begun.token, &succeeded(), &[]).await;

        assert!(matches!(outcome, Err(StorageError::Inconsistent(_))), "{outcome:?}");
        assert_eq!(store.dump().await, before);
    }
}

async fn latest(
    store: &Fixture,
) -> (
    chargeonce::charges::model::Charge,
    chargeonce::idempotency::reservation::Reservation,
) {
    let snapshot = store.charge_snapshot("inv_1").await.unwrap().unwrap();
    snapshot.value.latest.unwrap()
}
