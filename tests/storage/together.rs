//! What several attempts in one transaction have to do with each other: nothing.

use std::sync::Arc;

use chargeonce::charges::repository::{NewAttempt, Settlement};
use chargeonce::together::NotTogether;

use crate::support::{
    Begun, Fixture, assert_follows, assert_runs_from_its_writing, attempt, failed, invoice,
    succeeded,
};

on_both_stores! {
    async fn of_those_reserved_together_each_wins_or_loses_by_itself(engine) {
        let store = Fixture::open(engine).await;
        store.charging("inv_running").await;
        let free = store.invoice("inv_free").await;
        let also_free = store.invoice("inv_also_free").await;
        let again = attempt(&store.reload("inv_running").await, 1);
        let company: Vec<_> = [again, attempt(&free, 1), attempt(&free, 1), attempt(&also_free, 1)].map(Arc::new).into();

        let outcomes = store.begin_attempts(&company).await.unwrap();

        let won: Vec<bool> = outcomes.iter().map(Option::is_some).collect();
        assert_eq!(won, [false, true, false, true]);
        for (new, outcome) in company.iter().zip(outcomes) {
            let stored = store.find_charge(&new.charge.id).await.unwrap();
            let Some(begun) = outcome else {
                assert_eq!(stored, None);
                continue;
            };
            assert_eq!(stored.as_ref(), Some(&new.charge));
            let snapshot = store.charge_snapshot(&new.charge.invoice_id).await.unwrap().unwrap();
            assert_eq!(snapshot.value.latest, Some((new.charge.clone(), begun.value.clone())));
            assert_runs_from_its_writing(&begun, new.reservation.lease_ms);
            assert_follows(begun.now_ms, snapshot.now_ms);
        }
        assert_eq!((store.count("charges").await, store.count("idempotency_keys").await), (3, 3));
    }

    async fn one_that_cannot_be_written_takes_nobody_with_it(engine) {
        let store = Fixture::open(engine).await;
        let free = store.invoice("inv_free").await;
        // Its key is free and its number is not, which only the constraints of the charges tell.
        let first = store.charging("inv_odd").await;
        store.record(&first, &failed()).await;
        let mut odd = attempt(&store.reload("inv_odd").await, 1);
        odd.charge.idempotency_key = "charge:inv_odd:other".into();
        odd.reservation.key = "charge:inv_odd:other".into();
        let before = store.dump().await;

        let company = [Arc::new(attempt(&free, 1)), Arc::new(odd)];
        let refused = store.begin_attempts(&company).await;

        assert!(matches!(refused, Err(NotTogether::Refused(_))), "{refused:?}");
        assert_eq!(store.dump().await, before, "all of it is taken back, for each to be tried alone");
        assert!(store.begin_attempt(&company[0]).await.unwrap().is_some());
        assert_eq!(store.begin_attempt(&company[1]).await.unwrap(), None);
    }

    async fn of_those_settled_together_each_is_recorded_while_its_own_lease_holds(engine) {
        let store = Fixture::open(engine).await;
        let (paid, declined, lost) = (
            store.charging("inv_paid").await,
            store.charging("inv_declined").await,
            store.charging("inv_lost").await,
        );
        let lost = Begun { token: "another".into(), ..lost };
        let company = [(&paid, succeeded()), (&declined, failed()), (&lost, succeeded())].map(|(begun, record)| {
            Arc::new(Settlement { charge: begun.charge.clone(), lease_token: begun.token.clone(), record })
        });

        assert_eq!(store.record_verdicts(&company).await.unwrap(), [true, true, false]);

        assert_eq!(store.state("inv_paid").await, "paid succeeded/done");
        assert_eq!(store.state("inv_declined").await, "open failed/failed");
        assert_eq!(store.state("inv_lost").await, "open pending/in_progress");
        let again = store.record_verdicts(&company).await.unwrap();
        assert_eq!(again, [false, false, false], "a verdict is recorded once");
    }

    async fn a_success_that_the_books_refuse_takes_no_other_with_it(engine) {
        let store = Fixture::open(engine).await;
        let (fine, void) = (store.charging("inv_fine").await, store.charging("inv_void").await);
        store.database.execute("UPDATE invoices SET status = 'void' WHERE id = 'inv_void'").await;
        let company = [&fine, &void].map(|begun| {
            Arc::new(Settlement { charge: begun.charge.clone(), lease_token: begun.token.clone(), record: succeeded() })
        });
        let before = store.dump().await;

        let refused = store.record_verdicts(&company).await;

        assert!(matches!(refused, Err(NotTogether::Refused(_))), "{refused:?}");
        assert_eq!(store.dump().await, before);
        assert!(store.record(&fine, &succeeded()).await);
    }

    async fn invoices_are_read_together_as_each_is_read_alone(engine) {
        let store = Fixture::open(engine).await;
        store.invoice("inv_new").await;
        store.paid("inv_paid").await;
        let mut begun = store.charging("inv_often").await;
        for number in 2..=12 {
            store.record(&begun, &failed()).await;
            begun = store.begin(&attempt(&store.reload("inv_often").await, number)).await;
        }
        let ids = ["inv_often", "inv_none", "inv_new", "inv_paid", "inv_often"].map(|id| Arc::new(id.to_owned()));

        let together = store.charge_snapshots(&ids).await.unwrap();

        assert_eq!(together.len(), ids.len());
        for (id, read) in ids.iter().zip(together) {
            let alone = store.charge_snapshot(id).await.unwrap();
            assert_eq!(read.map(|reading| reading.value), alone.map(|reading| reading.value), "{id}");
        }
    }

    async fn two_companies_with_the_same_members_share_them_out(engine) {
        let store = Fixture::open(engine).await;
        let mut invoices = Vec::new();
        for number in 0..40 {
            invoices.push(store.insert(&invoice(&format!("inv_{number:02}"))).await);
        }
        let company = |back: bool| -> Vec<Arc<NewAttempt>> {
            let mut all: Vec<_> = invoices.iter().map(|invoice| Arc::new(attempt(invoice, 1))).collect();
            if back {
                all.reverse();
            }
            all
        };
        let (one, other) = (company(false), company(true));

        let (first, second) = tokio::join!(store.begin_attempts(&one), store.begin_attempts(&other));

        let (first, mut second) = (first.unwrap(), second.unwrap());
        second.reverse();
        for (number, (first, second)) in first.iter().zip(&second).enumerate() {
            assert!(first.is_some() != second.is_some(), "{number}: one of them");
        }
        assert_eq!((store.count("charges").await, store.count("idempotency_keys").await), (40, 40));
    }
}
