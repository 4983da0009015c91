//! What the processes of one test have in common: a database and a provider.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::service::{Service, ServiceBuilder};
use super::{Engine, PATIENCE, Provider, Reply, TestDatabase, eventually, now_ms, real_time};

/// A database and a provider; any number of services run on them.
pub struct TestApp {
    pub mock: Provider,
    pub database: Arc<TestDatabase>,
}

impl TestApp {
    pub async fn start(engine: Engine) -> Self {
        Self::on(TestDatabase::create(engine).await).await
    }

    /// On a database that the test has made.
    pub async fn on(database: TestDatabase) -> Self {
        Self {
            mock: Provider::start().await,
            database: Arc::new(database),
        }
    }

    /// A service to be configured.
    pub fn service(&self) -> ServiceBuilder {
        ServiceBuilder::new(&self.database.url, &self.mock.url())
    }

    /// A service with the usual settings.
    pub async fn serve(&self) -> Service {
        self.service().start().await
    }

    /// Moves the database's clock, as every service on it sees it.
    pub async fn age(&self, by: Duration) {
        self.database.age(by).await;
    }

    /// Moves it past every lease of the usual length.
    pub async fn age_past_leases(&self) {
        self.age(Duration::from_secs(11 * 60)).await;
    }

    /// Moves the clocks of the database and of the provider past the provider's memory for keys.
    pub async fn age_past_keys(&self) {
        let by = Duration::from_secs(25 * 3_600);
        self.age(by).await;
        self.mock.advance_clock(by);
    }

    /// The statuses of all attempts of an invoice, first attempt first.
    pub async fn attempts(&self, invoice_id: &str) -> Vec<String> {
        let sql = format!(
            "SELECT status AS value FROM charges WHERE invoice_id = '{invoice_id}' ORDER BY attempt"
        );
        self.database.words(&sql).await
    }

    /// Waits, without a call, until no attempt and no webhook is open. As long as there are fewer and fewer, it goes on.
    pub async fn nothing_is_open(&self) {
        let open = "SELECT c.status || ' ' || k.recovery || ' ' || k.key || ' of ' || c.invoice_id || ' takeovers ' || k.takeovers || ' idle ' || k.idle \
             || ' sent ' || k.first_sent_at_ms || ' lease until ' || k.lease_expires_at_ms || ' put off until ' || k.recover_after_ms \
             || ' ' || coalesce(c.evidence, '') AS value \
             FROM charges c JOIN idempotency_keys k ON k.key = c.idempotency_key WHERE c.status IN ('pending', 'processing') \
             UNION ALL SELECT 'event ' || id FROM provider_events WHERE status = 'pending'";
        let mut moved = Instant::now();
        let mut least = usize::MAX;
        loop {
            let left = self.database.words(open).await;
            if left.is_empty() {
                return;
            }
            if left.len() < least {
                (least, moved) = (left.len(), Instant::now());
            }
            assert!(moved.elapsed() < PATIENCE, "at {}: {left:#?}", now_ms());
            real_time(Duration::from_millis(50)).await;
        }
    }

    /// `chargeonce audit` finds nothing.
    pub async fn audit(&self) {
        let audit = self.service().run(&["audit", "--json"]).await;
        assert_eq!(audit.code, Some(0), "{} {}", audit.stdout, audit.stderr);
    }

    /// The provider keys under which payments of invoices were asked for, in order, each repeat included.
    pub fn sends(&self) -> Vec<String> {
        self.mock
            .requests()
            .into_iter()
            .filter(|request| request.method == "POST" && !request.path.ends_with("/cancel"))
            .filter_map(|request| request.idempotency_key)
            .collect()
    }

    /// Waits until the provider has got so many sends.
    pub async fn sent(&self, count: usize) {
        eventually("a request at the provider", async || {
            (self.sends().len() >= count).then_some(())
        })
        .await;
    }

    /// Waits until the invoice is paid in our books, without calling the service.
    pub async fn settled(&self, invoice_id: &str) {
        eventually("the charge is settled", async || {
            (self.attempts(invoice_id).await.last()? == "succeeded").then_some(())
        })
        .await;
    }

    /// What a caller is told about the money must be so at that moment.
    #[track_caller]
    pub fn check_truth(&self, invoice_id: &str, reply: &Reply) {
        let paid = self.mock.paid(invoice_id);
        assert!(paid <= 1, "{invoice_id} was charged {paid} times");
        let right = match reply.text("customerCharged").as_str() {
            "yes" => paid == 1,
            "no" => paid == 0,
            "unknown" => true,
            _ => false,
        };
        assert!(
            right && reply.status != 500,
            "paid {paid} times: {reply:#?}"
        );
    }
}
