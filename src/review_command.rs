//! `chargeonce review`: the charges that wait for a person, for that person.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chargeonce::app::App;
use chargeonce::audit::model::Sum;
use chargeonce::audit::report::{printable, sum};
use chargeonce::charges::dto::ChargeBody;
use chargeonce::charges::model::{Charge, ChargeStatus};
use chargeonce::charges::repository::ChargeFilter;
use chargeonce::charges::review::{NOTE_LENGTH_MAX, OperatorVerdict};
use chargeonce::config::Settings;
use chargeonce::error::Problem;
use chargeonce::http::text;
use chargeonce::payments::outcome::ProviderPayment;
use chargeonce::telemetry;
use chargeonce::timestamp::rfc3339;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};

use crate::reconcile_command::needs_a_provider_of_its_own;

/// It was refused.
const REFUSED: u8 = 1;

/// It could not be done.
const NOT_DONE: u8 = 2;

/// Charges that the store gives at a time.
const PAGE: i64 = 100;

/// Look at the charges that wait for a person's decision, and decide.
///
/// Ends with 1 when a decision was refused, and with 2 when the store, the provider or the settings were in the way.
#[derive(Args)]
pub struct ReviewCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List them, newest first.
    List {
        /// Print one JSON document instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Tell all that is known of a charge, here and at the provider, and what can be decided.
    Explain {
        /// The charge (chg_...).
        charge_id: String,
    },
    Resolve(Resolve),
}

/// Decide whether the customer was charged. The provider is asked first.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("outcome").required(true))]
struct Resolve {
    /// The charge (chg_...).
    charge_id: String,
    /// The customer was charged, by this payment of the provider's.
    #[arg(long, value_name = "PAYMENT", group = "outcome")]
    paid_by: Option<String>,
    /// The customer was not charged and will not be.
    #[arg(long, group = "outcome")]
    not_charged: bool,
    /// What was looked at, and by whom.
    #[arg(long, value_name = "TEXT")]
    note: String,
    /// Record it even where the provider says otherwise or cannot be asked.
    #[arg(long)]
    force: bool,
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The service said no.
    #[error("{}", .0.detail())]
    Problem(#[from] Problem),
    /// Something else was in the way.
    #[error(transparent)]
    Other(#[from] Box<dyn Error>),
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            // What is ours or the provider's fault is no answer to the operator.
            Self::Problem(problem) if problem.code().status() >= 500 => NOT_DONE,
            Self::Problem(_) => REFUSED,
            Self::Other(_) => NOT_DONE,
        }
    }
}

impl ReviewCommand {
    /// Does it and prints; the code says what came of it.
    pub async fn run(&self) -> ExitCode {
        match self.answer().await {
            Ok(text) => match std::io::stdout().lock().write_all(text.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::from(NOT_DONE),
            },
            Err(failure) => {
                eprintln!("chargeonce review: {failure}");
                ExitCode::from(failure.exit_code())
            }
        }
    }

    async fn answer(&self) -> Result<String, Failure> {
        let other = |error: Box<dyn Error>| Failure::Other(error);
        let settings = Settings::from_env().map_err(|error| other(error.into()))?;
        telemetry::start(settings.log_format);
        needs_a_provider_of_its_own(&settings).map_err(|error| other(error.into()))?;
        let app = App::build(&settings)
            .await
            .map_err(|error| other(error.into()))?;
        let text = match &self.action {
            Action::List { json } => list(&app, *json).await,
            Action::Explain { charge_id } => explain(&app, charge_id).await,
            Action::Resolve(decision) => decision.record(&app).await,
        };
        app.tasks.drain(settings.shutdown_grace).await;
        text
    }
}

impl Resolve {
    async fn record(&self, app: &App) -> Result<String, Failure> {
        text::free_text("--note", &self.note, 1, NOTE_LENGTH_MAX)?;
        if let Some(id) = &self.paid_by {
            text::provider_id("--paid-by", id)?;
        }
        let verdict = OperatorVerdict {
            paid_by: self.paid_by.clone().filter(|_| !self.not_charged),
            note: self.note.clone(),
            even_against_provider: self.force,
        };
        let charge = app.charges.resolve(self.charge_id.clone(), verdict).await?;
        Ok(about(&charge))
    }
}

async fn list(app: &App, json: bool) -> Result<String, Failure> {
    let mut charges: Vec<Charge> = Vec::new();
    loop {
        let filter = ChargeFilter {
            status: Some(ChargeStatus::NeedsReview.as_str().to_owned()),
            after: charges.last().map(|last| last.id.clone()),
            limit: PAGE,
            ..ChargeFilter::default()
        };
        let page = app.charges.list(filter).await?;
        if page.is_empty() {
            break;
        }
        charges.extend(page);
    }
    if json {
        let data: Vec<serde_json::Value> = charges
            .iter()
            .map(|charge| {
                serde_json::json!({
                    "charge": ChargeBody::new(charge, app.charges.policy()),
                    "evidence": charge.evidence,
                })
            })
            .collect();
        let document = serde_json::json!({ "data": data });
        return Ok(format!("{document:#}\n"));
    }
    if charges.is_empty() {
        return Ok("No charge waits for a decision.\n".to_owned());
    }
    let mut table = grid(["charge", "age", "amount", "invoice", "payment", "why"]);
    for charge in &charges {
        let evidence = charge.evidence.as_deref().unwrap_or_default();
        table.add_row([
            charge.id.clone(),
            age(charge.created_at_ms),
            amount(charge.amount_minor, &charge.currency),
            charge.invoice_id.clone(),
            or_dash(charge.provider_payment_id.as_deref()),
            printable(evidence.lines().next().unwrap_or_default()),
        ]);
    }
    Ok(format!(
        "{table}\nMore about one of them: chargeonce review explain <charge>\n"
    ))
}

async fn explain(app: &App, charge_id: &str) -> Result<String, Failure> {
    let charge = app.charges.find(charge_id.to_owned()).await?;
    let history = app.charges.evidence(charge_id.to_owned()).await?;
    let mut text = about(&charge);
    if let Some(evidence) = &charge.evidence {
        text.push_str("\nWhat is known\n");
        for line in evidence.lines() {
            text.push_str(&format!("  {}\n", printable(line)));
        }
    }
    text.push_str("\nIts history\n");
    if history.is_empty() {
        text.push_str("  nothing was noted\n");
    } else {
        let mut table = grid(["at", "what", "detail"]);
        for line in &history {
            table.add_row([
                rfc3339(line.at_ms),
                line.what.as_str().to_owned(),
                printable(&line.detail),
            ]);
        }
        text.push_str(&format!("{table}\n"));
    }
    text.push_str("\nAt the provider now\n");
    // Whatever the provider is up to, what is known here is worth reading.
    match app.charges.payments_of(charge_id.to_owned()).await {
        Ok(payments) if payments.is_empty() => {
            text.push_str("  no payment of this invoice\n");
        }
        Ok(payments) => text.push_str(&format!("{}\n", at_provider(&payments))),
        Err(problem) => text.push_str(&format!(
            "  it could not be asked: {}\n",
            problem.code().title()
        )),
    }
    text.push_str(&next_steps(&charge));
    Ok(text)
}

fn at_provider(payments: &[ProviderPayment]) -> Table {
    let mut table = grid(["payment", "status", "amount"]);
    for payment in payments {
        table.add_row([
            printable(&payment.id),
            printable(payment.status.as_str()),
            amount(payment.amount_minor, &payment.currency),
        ]);
    }
    table
}

/// What an operator can do about a charge, as commands to be copied.
fn next_steps(charge: &Charge) -> String {
    if charge.status != ChargeStatus::NeedsReview {
        return format!(
            "\nNothing is to be decided: the charge is {}.\n",
            charge.status.as_str()
        );
    }
    let id = &charge.id;
    let payment = charge.provider_payment_id.as_deref().unwrap_or("PAYMENT");
    format!(
        "\nWhat you can do, once you have looked at the provider's dashboard\n\
         \x20 The customer was charged, by a payment that stays:\n\
         \x20   chargeonce review resolve {id} --paid-by {payment} --note \"what you saw, and who you are\"\n\
         \x20 The customer was not charged and will not be; the invoice may then be charged again:\n\
         \x20   chargeonce review resolve {id} --not-charged --note \"what you saw, and who you are\"\n\
         A decision that the provider contradicts is refused. With --force it is recorded all the same, but never that the\n\
         customer was not charged while a payment has kept the money: refund it first.\n"
    )
}

/// The charge, a line a fact.
fn about(charge: &Charge) -> String {
    let settled = charge.settled_at_ms.map(rfc3339);
    let failure = match &charge.status {
        ChargeStatus::Failed(failure) => Some(failure.code.clone()),
        ChargeStatus::Pending
        | ChargeStatus::Processing
        | ChargeStatus::NeedsReview
        | ChargeStatus::Succeeded => None,
    };
    let made = format!(
        "{} ({} ago)",
        rfc3339(charge.created_at_ms),
        age(charge.created_at_ms)
    );
    #[rustfmt::skip]
    let facts = [
        ("charge", charge.id.clone()),
        ("invoice", charge.invoice_id.clone()),
        ("status", charge.status.as_str().to_owned()),
        ("failure", or_dash(failure.as_deref())),
        ("amount", amount(charge.amount_minor, &charge.currency)),
        ("attempt", format!("{}, key {}", charge.attempt, charge.idempotency_key)),
        ("customer", printable(&charge.customer_id)),
        ("payment", format!("{} at {}", or_dash(charge.provider_payment_id.as_deref()), charge.provider)),
        ("made", made),
        ("asked by", asked_by(charge)),
        ("settled", or_dash(settled.as_deref())),
    ];
    let lines = facts.map(|(name, value)| format!("{name:<10}{value}\n"));
    lines.concat()
}

/// Whose call began the attempt.
fn asked_by(charge: &Charge) -> String {
    let Some(asked) = &charge.asked_by else {
        return "-".to_owned();
    };
    let key = asked.key_name.as_deref().unwrap_or("no key");
    let session = asked.session.as_deref();
    let session = session.map_or_else(String::new, |session| format!(", session {session}"));
    printable(&format!("{key}, request {}{session}", asked.request_id))
}

fn grid<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(header);
    table
}

fn amount(amount_minor: i64, currency: &str) -> String {
    sum(&Sum {
        amount_cents: amount_minor,
        currency: currency.to_owned(),
    })
}

fn or_dash(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), printable)
}

/// How long ago, in whole seconds; by this machine's clock, and only for reading.
fn age(since_ms: i64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let since = Duration::from_millis(u64::try_from(since_ms).unwrap_or_default());
    let seconds = now.saturating_sub(since).as_secs();
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}
