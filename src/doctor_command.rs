//! `chargeonce doctor`: whether this configuration is fit to run, in plain words.

use std::process::ExitCode;

use chargeonce::config::Settings;
use chargeonce::doctor::{Grade, examine};
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
        let settings = match Settings::from_env() {
            Ok(settings) => settings,
            Err(error) => {
                println!("{:<8} {:<10} {error}", Grade::Bad.as_str(), "settings");
                return ExitCode::from(UNFIT);
            }
        };
        telemetry::start(settings.log_format);
        println!(
            "{:<8} {:<10} They can be read and fit together.",
            Grade::Good.as_str(),
            "settings"
        );
        let findings = examine(&settings).await;
        for finding in &findings {
            println!(
                "{:<8} {:<10} {}",
                finding.grade.as_str(),
                finding.what,
                finding.told
            );
        }
        let is_fit = findings.iter().all(|finding| finding.grade < Grade::Bad);
        if is_fit {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(UNFIT)
        }
    }
}
