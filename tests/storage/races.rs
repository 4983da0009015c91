//! Two that want opposite things of one invoice at the same moment: one of them loses, and nothing contradicts itself.

use chargeonce::charges::repository::AttemptRecord;
use chargeonce::invoices::repository::Changed;

use crate::support::{Begun, Fixture, attempt, succeeded};

const ROUNDS: usize = 100;

in_both_ways! {
    async fn a_void_invoice_never_has_a_charge_that_may_take_money(engine) {
        let store = Fixture::open(engine).await;
        for round in 0..ROUNDS {
            let id = format!("inv_{round}");
            let new = attempt(&store.invoice(&id).await, 1);

            let (void, begun) = tokio::join!(store.void_invoice(&id), store.begin_attempt(&new));

            let void = matches!(void.unwrap(), Changed::Yes(_));
            let begun = begun.unwrap().is_some();
            assert!(void != begun, "round {round}: void {void}, begun {begun}");
            let state = store.state(&id).await;
            assert_eq!(state, if void { "void" } else { "open pending/in_progress" }, "round {round}");
        }
        assert_eq!(store.count("idempotency_keys").await, store.count("charges").await, "no key without a charge");
    }

    async fn a_charge_has_the_payment_method_of_the_revision_it_was_made_from(engine) {
        let store = Fixture::open(engine).await;
        for round in 0..ROUNDS {
            let id = format!("inv_{round}");
            let new = attempt(&store.invoice(&id).await, 1);

            let (changed, begun) = tokio::join!(store.set_payment_method(&id, Some("pm_new")), store.begin_attempt(&new));

            let changed = matches!(changed.unwrap(), Changed::Yes(_));
            let begun = begun.unwrap().is_some();
            assert!(changed != begun, "round {round}: changed {changed}, begun {begun}");
            let stored = store.reload(&id).await;
            assert_eq!(stored.revision, if changed { 2 } else { 1 });
        }
        let differing = "SELECT c.id AS value FROM charges c JOIN invoices i ON i.id = c.invoice_id \
            WHERE c.invoice_revision <> i.revision OR c.payment_method_id <> i.payment_method_id";
        assert_eq!(store.database.words(differing).await, Vec::<String>::new());
    }

    async fn a_late_attempt_and_the_success_of_the_first_never_hinder_each_other(engine) {
        let store = Fixture::open(engine).await;
        for round in 0..ROUNDS {
            let id = format!("inv_{round}");
            let invoice = store.invoice(&id).await;
            let begun = store.begin(&attempt(&invoice, 1)).await;
            let (late, next) = (attempt(&invoice, 1), attempt(&invoice, 2));

            let record = succeeded();
            let (recorded, late, next) = tokio::join!(
                store.record_attempt(&begun.charge, &begun.token, &record, &[]),
                store.begin_attempt(&late),
                store.begin_attempt(&next),
            );

            assert!(recorded.unwrap(), "round {round}: money that was taken is recorded");
            assert_eq!((late.unwrap(), next.unwrap()), (None, None), "round {round}");
            assert_eq!(store.state(&id).await, "paid succeeded/done");
        }
    }

    async fn an_attempt_given_back_and_the_same_one_begun_never_hinder_each_other(engine) {
        let store = Fixture::open(engine).await;
        for round in 0..ROUNDS {
            let id = format!("inv_{round}");
            let invoice = store.invoice(&id).await;
            let begun = store.begin(&attempt(&invoice, 1)).await;
            let again = attempt(&invoice, 1);

            let (released, begun_again) = tokio::join!(
                store.record_attempt(&begun.charge, &begun.token, &AttemptRecord::Released, &[]),
                store.begin_attempt(&again),
            );

            assert!(released.unwrap(), "round {round}");
            match begun_again.unwrap() {
                None => assert_eq!(store.state(&id).await, "open"),
                Some(reading) => {
                    let again = Begun { charge: again.charge, token: reading.value.lease_token };
                    assert!(store.record(&again, &succeeded()).await, "round {round}");
                }
            }
        }
    }
}
