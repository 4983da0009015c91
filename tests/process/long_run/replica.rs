//! One replica: at the same address as long as the run lasts, whatever process answers there.

use std::time::Duration;

use tokio::sync::Mutex;

use crate::support::{Process, ServiceBuilder, TestApp, eventually, free_port, real_time};

pub struct Replica {
    pub url: String,
    builder: ServiceBuilder,
    process: Mutex<Option<Process>>,
    /// What the logs say that must never be said.
    pub complaints: Mutex<Vec<String>>,
}

impl Replica {
    /// Starts it with the settings of the run: short leases, a background worker, webhooks.
    pub async fn start(app: &TestApp, lease: Duration, interval: Duration) -> Self {
        let port = free_port();
        let builder = app
            .service()
            .set("PORT", &port.to_string())
            .set("PROVIDER_TIMEOUT", "500ms")
            // A repeat within a call may take seconds; here that is what takeovers are for.
            .set("PROVIDER_MAX_RETRIES", "0")
            .set("RESERVATION_TTL", &format!("{}ms", lease.as_millis()))
            .set("RECONCILE_INTERVAL", &format!("{}ms", interval.as_millis()))
            .set("STRIPE_WEBHOOK_SECRET", crate::support::WEBHOOK_SECRET)
            .set("DATABASE_TIMEOUT", "2s")
            .set("RESPONSE_WAIT", "5s")
            .set("RUST_LOG", "error");
        let replica = Self {
            url: format!("http://127.0.0.1:{port}"),
            builder,
            process: Mutex::new(None),
            complaints: Mutex::new(Vec::new()),
        };
        replica.start_again().await;
        replica
    }

    /// Starts a process there. With the database away it ends at once, and is started again, as any supervisor would.
    pub async fn start_again(&self) {
        let mut slot = self.process.lock().await;
        let mut said = String::new();
        for _ in 0..100 {
            let mut process = self.builder.clone().spawn();
            let listens = eventually("a start, or its end", async || {
                match process.stdout().contains("chargeonce listens on ") {
                    true => Some(true),
                    false => (!process.is_running()).then_some(false),
                }
            })
            .await;
            if listens {
                *slot = Some(process);
                return;
            }
            said = process.stderr();
            real_time(Duration::from_millis(200)).await;
        }
        panic!("{} cannot be started: {said}", self.url);
    }

    /// As `kill -9`, or the end of a process that somebody pulls the plug of.
    pub async fn kill(&self) {
        let mut slot = self.process.lock().await;
        let Some(mut process) = slot.take() else {
            return;
        };
        process.kill().await;
        let log = process.stderr();
        let is_a_defect = |line: &&str| {
            ["panicked", "contradict", "internal_error", "inconsistent"]
                .iter()
                .any(|word| line.contains(word))
        };
        let found = log.lines().filter(is_a_defect).map(str::to_owned);
        self.complaints.lock().await.extend(found);
    }
}
