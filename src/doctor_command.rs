//! `chargeonce doctor`: whether this configuration is fit to run, in plain words.

use std::process::ExitCode;

use chargeonce::config::Settings;
use chargeonce::doctor::{Finding, Grade, examine};
use chargeonce::telemetry;
use clap::Args;

/// The configuration cannot be run with.
const UNFIT: u8 = 1;

/// Look at the settings, the database and the payment provider, and say what is wrong. Changes nothing. Ends with 0 when it can be
/// run so, with 1 when not.
#[derive(Args)]
pub struct DoctorCommand {}

impl DoctorCommand {
    pub async fn run(&self) -> ExitCode {
        let findings = match Settings::from_env() {
            Ok(settings) => {
                telemetry::start(settings.log_format);
                examine(&settings).await
            }
            Err(error) => vec![Finding::new(Grade::Bad, "settings", error.to_string())],
        };
        for Finding { grade, what, told } in &findings {
            println!("{:<8} {what:<10} {told}", grade.as_str());
        }
        let is_fit = findings.iter().all(|finding| finding.grade < Grade::Bad);
        if is_fit {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(UNFIT)
        }
    }
}
