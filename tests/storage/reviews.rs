//! An operator's verdict on a charge that only a person can judge.

use chargeonce::charges::model::{Charge, ChargeStatus};
use chargeonce::charges::repository::{AttemptRecord, Resolution};
use futures_util::future::join_all;

use crate::support::{
    Begun, Fixture, decline, failed, history_line, needs_review, processing, succeeded, unknown,
};

in_both_ways! {
    async fn a_review_ends_with_a_success_or_a_failure_and_its_note(engine) {
        for (record, state) in [(succeeded(), "paid succeeded/done"), (failed(), "open failed/failed")] {
            let store = Fixture::open(engine).await;
            let begun = in_review(&store, "inv_1").await;

            assert!(store.resolve_review(&resolution(&begun.charge, record)).await.unwrap());

            assert_eq!(store.state("inv_1").await, state);
            let charge = store.find_charge(&begun.charge.id).await.unwrap().unwrap();
            assert_eq!(charge.evidence.as_deref(), Some("another amount; seen by a person"));
            let status = if state.starts_with("paid") { ChargeStatus::Succeeded } else { ChargeStatus::Failed(decline()) };
            assert_eq!(charge.status, status);
        }
    }

    async fn only_a_charge_in_review_is_resolved(engine) {
        let records = [("pending", unknown()), ("processing", processing()), ("succeeded", succeeded()), ("failed", failed())];
        for (what, record) in records {
            let store = Fixture::open(engine).await;
            let begun = store.charging("inv_1").await;
            store.record(&begun, &record).await;
            let before = store.dump().await;

            for verdict in [succeeded(), failed()] {
                assert!(!store.resolve_review(&resolution(&begun.charge, verdict)).await.unwrap(), "{what}");
                assert_eq!(store.dump().await, before, "{what}: the note is not written either");
            }
        }
    }

    async fn a_charge_that_was_given_back_meanwhile_is_not_resolved(engine) {
        let store = Fixture::open(engine).await;
        let begun = store.charging("inv_1").await;
        assert!(store.record(&begun, &AttemptRecord::Released).await);

        for verdict in [succeeded(), failed()] {
            assert!(!store.resolve_review(&resolution(&begun.charge, verdict)).await.unwrap());
        }
        assert_eq!(store.state("inv_1").await, "open");
    }

    async fn of_twenty_operators_at_once_one_decides(engine) {
        let store = Fixture::open(engine).await;
        let begun = in_review(&store, "inv_1").await;

        let resolutions: Vec<_> = (0..20).map(|n| resolution(&begun.charge, if n % 2 == 0 { succeeded() } else { failed() })).collect();
        let outcomes = join_all(resolutions.iter().map(|resolution| store.resolve_review(resolution))).await;

        assert_eq!(outcomes.into_iter().filter(|outcome| *outcome.as_ref().unwrap()).count(), 1);
        let state = store.state("inv_1").await;
        assert!(["paid succeeded/done", "open failed/failed"].contains(&state.as_str()), "{state}");
    }

    async fn an_operator_and_the_lease_holder_that_decide_at_once_never_hinder_each_other(engine) {
        let store = Fixture::open(engine).await;
        for round in 0..40 {
            let id = format!("inv_{round}");
            let begun = in_review(&store, &id).await;
            let by_operator = resolution(&begun.charge, if round % 2 == 0 { succeeded() } else { failed() });
            let by_holder = if round % 3 == 0 { failed() } else { succeeded() };

            let (operator, holder) = tokio::join!(
                store.resolve_review(&by_operator),
                store.record_attempt(&begun.charge, &begun.token, &by_holder, &[]),
            );

            assert_eq!([operator.unwrap(), holder.unwrap()].iter().filter(|written| **written).count(), 1, "round {round}");
            let state = store.state(&id).await;
            assert!(["paid succeeded/done", "open failed/failed"].contains(&state.as_str()), "{state}");
        }
    }
}

fn resolution(charge: &Charge, record: AttemptRecord) -> Resolution {
    Resolution {
        charge: charge.clone(),
        record,
        evidence: "another amount; seen by a person".into(),
        line: history_line("seen by a person"),
    }
}

async fn in_review(store: &Fixture, id: &str) -> Begun {
    let begun = store.charging(id).await;
    assert!(store.record(&begun, &needs_review()).await);
    begun
}
