//! `chargeonce audit`: our books held against the provider's, for an operator or a scheduler.

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use chargeonce::app::App;
use chargeonce::audit::report::Report;
use chargeonce::audit::service::{Progress, Step};
use chargeonce::config::Settings;
use chargeonce::telemetry;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::reconcile_command::needs_a_provider_of_its_own;

/// It could be done, and there are findings.
const FINDINGS: u8 = 1;

/// It could not be done; nothing is known.
const NOT_DONE: u8 = 2;

/// Compare our books with the provider's, and say what does not fit or is open. It changes nothing.
///
/// Ends with 0 when all is well, with 1 when there are findings, and with 2 when it could not be done.
#[derive(Args)]
pub struct AuditCommand {
    /// Compare what was made within this time (30d, 12h). What has no verdict is looked at whatever its age.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = humantime::parse_duration)]
    since: Duration,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

impl AuditCommand {
    /// Audits and prints; the code says what came of it.
    pub async fn run(&self) -> ExitCode {
        match self.audit().await {
            Ok(report) if report.is_clean() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::from(FINDINGS),
            Err(error) => {
                eprintln!("chargeonce cannot audit: {error}");
                ExitCode::from(NOT_DONE)
            }
        }
    }

    async fn audit(&self) -> Result<Report, Box<dyn Error>> {
        let settings = Settings::from_env()?;
        telemetry::start(settings.log_format);
        needs_a_provider_of_its_own(&settings)?;
        let app = App::build(&settings).await?;
        let report = if std::io::stderr().is_terminal() {
            let bar = Bar::new();
            let report = app.audit.run(self.since, &bar).await;
            bar.0.finish_and_clear();
            report?
        } else {
            app.audit.run(self.since, &()).await?
        };
        let text = if self.json {
            report.to_json()? + "\n"
        } else {
            report.to_text()
        };
        // A reader that went away is no finding.
        std::io::stdout().lock().write_all(text.as_bytes())?;
        Ok(report)
    }
}

/// The progress, on a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(120));
        bar.set_message("reading the provider's payments");
        Self(bar)
    }
}

impl Progress for Bar {
    fn step(&self, step: Step) {
        match step {
            Step::TheirPage(count) => {
                self.0.inc(u64::try_from(count).unwrap_or_default());
                self.0
                    .set_message(format!("{} payments read there", self.0.position()));
            }
            Step::OurPage(_) => self.0.set_message("reading our charges"),
            Step::Suspects(count) => {
                self.0.set_position(0);
                self.0.set_length(u64::try_from(count).unwrap_or_default());
                self.0.set_message("looked at again");
                // Without a style of its own the spinner would not show how far it has got.
                if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} of {len} {msg}") {
                    self.0.set_style(style);
                }
            }
            Step::Looked => self.0.inc(1),
        }
    }
}
