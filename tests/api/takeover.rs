//! Two workers on one attempt, and two replicas on one invoice: one charge, one verdict, and both callers hear it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chargeonce::payments::mock::{Fault, FaultRule, MockStripe};
use chargeonce::payments::outcome::{Failure, FailureKind, Outcome, ProviderPayment};
use chargeonce::payments::provider::{
    FrozenRequest, LookupError, PaymentOrder, PaymentPage, PaymentProvider, PaymentQuery,
    PrepareError, PreparedPayment, SendLimits,
};
use chargeonce::payments::refund::RefundProvider;
use futures_util::future::join_all;
use tokio::sync::Semaphore;

use crate::support::{Line, TestApp};

/// Holds the answer of the first send back until it is released, as a network would.
struct Late {
    inner: Arc<dyn PaymentProvider>,
    sends: AtomicUsize,
    gate: Semaphore,
    /// What the late answer says instead of the truth, if anything.
    says: Option<Outcome>,
}

impl Late {
    fn over(mock: &MockStripe, says: Option<Outcome>) -> Arc<Self> {
        Arc::new(Self {
            inner: Line::default().provider(mock),
            sends: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            says,
        })
    }

    async fn first_send_is_out(&self) {
        while self.sends.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[async_trait]
impl PaymentProvider for Late {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn refunds(&self) -> &dyn RefundProvider {
        self.inner.refunds()
    }

    async fn prepare(&self, order: &PaymentOrder) -> Result<PreparedPayment, PrepareError> {
        self.inner.prepare(order).await
    }

    async fn send(&self, key: &str, request: &FrozenRequest, limits: SendLimits) -> Outcome {
        let outcome = self.inner.send(key, request, limits).await;
        if self.sends.fetch_add(1, Ordering::SeqCst) > 0 {
            return outcome;
        }
        self.gate.acquire().await.unwrap().forget();
        self.says.clone().unwrap_or(outcome)
    }

    async fn find(
        &self,
        query: &PaymentQuery,
        deadline: Instant,
    ) -> Result<Vec<ProviderPayment>, LookupError> {
        self.inner.find(query, deadline).await
    }

    async fn retrieve(
        &self,
        payment_id: &str,
        deadline: Instant,
    ) -> Result<Option<ProviderPayment>, LookupError> {
        self.inner.retrieve(payment_id, deadline).await
    }

    async fn page(
        &self,
        installation_id: &str,
        since_ms: i64,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<PaymentPage, LookupError> {
        self.inner
            .page(installation_id, since_ms, after, deadline)
            .await
    }

    async fn cancel(
        &self,
        payment_id: &str,
        key: &str,
        deadline: Instant,
    ) -> Result<ProviderPayment, LookupError> {
        self.inner.cancel(payment_id, key, deadline).await
    }
}

fn decline() -> Outcome {
    Outcome::Failed(Failure {
        kind: FailureKind::Declined,
        code: "card_declined".into(),
        decline_code: None,
        advice_code: None,
        message: None,
        payment_id: None,
        payment_open: false,
    })
}

on_both_stores! {
    async fn the_late_worker_is_fenced_off_and_both_callers_see_one_result(engine) {
        // Whatever the late answer says, the record of the new owner stands.
        for says in [None, Some(decline())] {
            let mock = MockStripe::new();
            let provider = Late::over(&mock, says);
            let app = TestApp::with(engine).mock(&mock).provider(Arc::clone(&provider) as Arc<dyn PaymentProvider>).start().await;
            let replica = app.replica().start().await;
            app.invoice("inv_1").await;

            let first_caller = async { app.charge("inv_1").await };
            let second_caller = async {
                provider.first_send_is_out().await;
                app.past_lease().await;
                let taken_over = replica.charge("inv_1").await;
                provider.gate.add_permits(1);
                taken_over
            };
            let (first, second) = tokio::join!(first_caller, second_caller);

            second.assert(201, "", "yes", "not_needed");
            first.assert(201, "", "yes", "not_needed");
            assert_eq!(first.body, second.body);
            assert_eq!(app.times_paid("inv_1"), 1);
            assert_eq!(app.attempts("inv_1").await, ["succeeded"]);
            let takeovers = "SELECT CAST(takeovers AS BIGINT) AS value FROM idempotency_keys WHERE key = 'charge:inv_1'";
            assert_eq!(app.database.number(takeovers).await, 1);
            app.check_oracles(&[first, second]).await;
        }
    }

    async fn a_verdict_that_cannot_be_recorded_is_told_as_unknown_and_found_later(engine) {
        let mock = MockStripe::new();
        let provider = Late::over(&mock, None);
        // The record is tried again until the lease is over.
        let app = TestApp::with(engine)
            .set("PROVIDER_TIMEOUT", "500ms")
            .set("PROVIDER_MAX_RETRIES", "0")
            .set("RESERVATION_TTL", "2s")
            .mock(&mock)
            .provider(Arc::clone(&provider) as Arc<dyn PaymentProvider>)
            .start()
            .await;
        app.invoice("inv_1").await;

        let caller = async {
            // A machine that stalls for a whole lease lets it end before anything is sent, and the reservation is given back.
            loop {
                let reply = app.charge("inv_1").await;
                if reply.status != 503 || provider.sends.load(Ordering::SeqCst) > 0 {
                    return reply;
                }
            }
        };
        let breakdown = async {
            provider.first_send_is_out().await;
            app.database.execute("ALTER TABLE charges RENAME TO charges_away").await;
            provider.gate.add_permits(1);
        };
        let (unrecorded, ()) = tokio::join!(caller, breakdown);
        app.database.execute("ALTER TABLE charges_away RENAME TO charges").await;
        unrecorded.assert(202, "", "unknown", "later");
        app.past_lease().await;
        let found = app.charge("inv_1").await;

        found.assert(201, "", "yes", "not_needed");
        assert_eq!(app.times_paid("inv_1"), 1);
        app.check_oracles(&[unrecorded, found]).await;
    }

    async fn a_takeover_that_finds_its_twin_at_work_waits_for_the_truth(engine) {
        let app = TestApp::with(engine).set("PROVIDER_TIMEOUT", "60s").start().await;
        let replica = app.replica().start().await;
        // The longer ones are for a machine so slow that the twin's work is done before anybody can meet it.
        for delay_ms in [2_000, 8_000, 30_000] {
            let id = format!("inv_{delay_ms}");
            app.invoice(&id).await;
            app.mock.add_fault(FaultRule { delay_ms, ..FaultRule::once(Fault::Delay) });
            let left = app.charge_and_leave(&id).await;
            app.until("sent", |app| app.sends_for(&id) == 1).await;

            app.past_lease().await;
            let taken_over = replica.charge(&id).await;
            let was_at_work = app.times_paid(&id) == 0;
            app.until("paid", |app| app.times_paid(&id) == 1).await;
            app.charge_waiting(&id, 20).await;
            app.past_lease().await;
            let found = replica.charge(&id).await;

            found.assert(201, "", "yes", "not_needed");
            assert_eq!(app.times_paid(&id), 1);
            app.check_oracles(&[left, taken_over.clone(), found]).await;
            if was_at_work {
                taken_over.assert(202, "", "unknown", "later");
                return;
            }
        }
        panic!("nobody has met the twin at work");
    }

    async fn of_many_that_find_an_expired_lease_one_takes_it_over(engine) {
        let app = TestApp::start(engine).await;
        let replica = app.replica().start().await;
        app.invoice("inv_1").await;
        app.fault("inv_1", Fault::DropAfter, 3);
        let lost = app.charge("inv_1").await;
        app.mock.set_latency(Duration::from_millis(200));

        app.past_lease().await;
        let replies = join_all((0..20).map(|n| if n % 2 == 0 { app.charge("inv_1") } else { replica.charge("inv_1") })).await;

        assert_eq!(replies.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).count(), 1);
        for reply in replies.iter().filter(|reply| reply.status != 201) {
            reply.assert(409, "charge_in_progress", "unknown", "later");
        }
        assert_eq!(app.sends().len(), 4);
        app.check_oracles(&[replies, vec![lost]].concat()).await;
    }

    async fn two_hundred_calls_on_two_replicas_are_one_charge(engine) {
        let app = TestApp::start(engine).await;
        let replica = app.replica().start().await;
        app.mock.set_latency(Duration::from_millis(300));
        app.invoice("inv_1").await;

        let replies = join_all((0..200).map(|n| if n % 2 == 0 { app.charge("inv_1") } else { replica.charge("inv_1") })).await;

        assert_eq!(replies.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).count(), 1);
        for reply in replies.iter().filter(|reply| reply.status != 201) {
            reply.assert(409, "charge_in_progress", "unknown", "later");
        }
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&replies).await;
    }
}
