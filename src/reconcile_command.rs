//! `chargeonce reconcile`: the background worker as a process of its own.

use chargeonce::app::App;
use chargeonce::config::{ProviderSettings, Settings};
use chargeonce::reconciler::sweeper::Sweep;
use chargeonce::telemetry;
use clap::Args;

/// Finish what dead or silent processes left behind. The service does the same by itself every RECONCILE_INTERVAL.
#[derive(Args)]
pub struct ReconcileCommand {
    /// Do one round, print what it did, and stop. Without it, round follows round until the process is told to stop.
    #[arg(long)]
    once: bool,
}

impl ReconcileCommand {
    pub async fn run(&self) -> Result<(), Box<dyn std::error::Error>> {
        let settings = Settings::from_env()?;
        let traces = telemetry::start_with_traces(settings.log_format, settings.traces.as_ref())?;
        needs_a_provider_of_its_own(&settings)?;
        let app = App::build(&settings).await?;
        if self.once {
            let sweep = app.reconciler.sweep().await;
            // What has begun is not cut off, whatever the round came to.
            app.tasks.drain(settings.shutdown_grace).await;
            print!("{}", summary(&sweep?));
        } else {
            if settings.reconciler.interval.is_zero() {
                return Err("RECONCILE_INTERVAL is 0: there is no round to do".into());
            }
            let reconciler = app.reconciler.clone();
            tokio::spawn(async move { reconciler.run().await });
            let signal = chargeonce::server::stop_signal().await?;
            tracing::info!(signal, "told to stop");
            // The round that runs is one of the tasks; it begins nothing more.
            app.tasks.drain(settings.shutdown_grace).await;
        }
        traces.end().await;
        Ok(())
    }
}

/// The in-process mock's books are in the process that serves; another process would ask an empty one.
pub fn needs_a_provider_of_its_own(settings: &Settings) -> Result<(), String> {
    match settings.provider {
        ProviderSettings::Mock { .. } => Err(
            "PAYMENT_PROVIDER=mock keeps its books inside the process that serves, so no other process can ask it. \
             Run `chargeonce mock-stripe` and set PAYMENT_PROVIDER=stripe with STRIPE_API_BASE to try this"
                .into(),
        ),
        ProviderSettings::Stripe { .. } => Ok(()),
    }
}

/// What a round did, for people.
fn summary(sweep: &Sweep) -> String {
    let mut lines = Vec::new();
    let looked_at: usize = sweep.attempts.values().sum();
    lines.push(format!("attempts looked at  {looked_at}"));
    for (outcome, count) in &sweep.attempts {
        lines.push(format!("  {outcome:<16}  {count}"));
    }
    let looked_at: usize = sweep.refunds.values().sum();
    lines.push(format!("refunds looked at   {looked_at}"));
    for (outcome, count) in &sweep.refunds {
        lines.push(format!("  {outcome:<16}  {count}"));
    }
    lines.push(format!("events dealt with   {}", sweep.events));
    if let Some(reading) = &sweep.backlog {
        let backlog = &reading.value;
        let age = |since_ms: Option<i64>| match since_ms {
            Some(since_ms) => format!(", oldest {} s", (reading.now_ms - since_ms).max(0) / 1_000),
            None => String::new(),
        };
        lines.push(format!(
            "still unsettled     {}{}",
            backlog.unsettled,
            age(backlog.oldest_unsettled_ms)
        ));
        lines.push(format!(
            "reviews open        {}{}",
            backlog.reviews,
            age(backlog.oldest_review_ms)
        ));
        let refunds = &backlog.refunds;
        lines.push(format!(
            "refunds unsettled   {}{}",
            refunds.unsettled,
            age(refunds.oldest_unsettled_ms)
        ));
        lines.push(format!(
            "refund reviews      {}{}",
            refunds.reviews,
            age(refunds.oldest_review_ms)
        ));
        lines.push(format!("events pending      {}", backlog.events));
    }
    lines.push(format!(
        "took                {} ms\n",
        sweep.took.as_millis()
    ));
    lines.join("\n")
}
