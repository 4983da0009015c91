//! Reading both sides: first by pages, then once more whatever did not fit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::compare::{Rules, Suspect, Tally};
use super::judge::{Case, Claim, Judged, judge};
use super::model::BookedInvoice;
use super::report::Report;
use super::repository::{AuditPart, AuditRepository, Place};
use crate::charges::model::ChargeStatus;
use crate::charges::repository::ChargeRepository;
use crate::http::text::is_invoice_id;
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::millis;
use crate::payments::outcome::ProviderPayment;
use crate::payments::provider::{LookupError, PaymentPage, PaymentProvider};
use crate::storage::StorageError;

/// Charges of a page of ours.
const PAGE: i64 = 200;

/// How much further back than the period our charges are read, in milliseconds: the provider's pages reach a day further
/// back, and a payment may be made a day after its charge.
const MARGIN_MS: i64 = 2 * 24 * 3_600_000;

/// How long one question to the provider may take, its own repeats included.
const ASK_TIME: Duration = Duration::from_secs(60);

/// How often a question that the provider did not answer is asked.
const TRIES: u32 = 4;

/// How often an invoice that moves while it is looked at is looked at again.
const ROUNDS_MAX: usize = 5;

/// What the audit is built from.
#[derive(Debug, Clone)]
pub struct AuditConfig {
    /// Marks this installation's payments at the provider.
    pub installation_id: String,
    /// How long after its first send an attempt's key may be sent again.
    pub key_window: Duration,
    /// How long to wait before a question is asked a second time; doubled for each further one.
    pub retry_wait: Duration,
}

/// Why there is no report. Never to be read as "clean", nor as a finding.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The store could not be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The provider could not be read.
    #[error(transparent)]
    Provider(#[from] LookupError),
}

/// Where an audit has got to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A page of the provider's was read, with so many payments of ours.
    TheirPage(usize),
    /// A page of our charges was read, with so many.
    OurPage(usize),
    /// So many invoices need a second look.
    Suspects(usize),
    /// One of them was looked at.
    Looked,
}

/// Somebody who watches an audit.
pub trait Progress: Send + Sync {
    /// It has got this far.
    fn step(&self, step: Step);
}

/// Nobody watches.
impl Progress for () {
    fn step(&self, _step: Step) {}
}

/// Compares our books with the provider's. Cheap to clone.
#[derive(Clone)]
pub struct AuditService {
    books: Arc<dyn AuditRepository>,
    charges: Arc<dyn ChargeRepository>,
    provider: Arc<dyn PaymentProvider>,
    installation_id: String,
    rules: Rules,
    retry_wait: Duration,
}

impl AuditService {
    /// Over its ports.
    pub fn new(
        books: Arc<dyn AuditRepository>,
        charges: Arc<dyn ChargeRepository>,
        provider: Arc<dyn PaymentProvider>,
        config: AuditConfig,
    ) -> Self {
        let rules = Rules {
            provider: provider.name().to_owned(),
            key_window_ms: millis(config.key_window),
        };
        Self {
            books,
            charges,
            provider,
            installation_id: config.installation_id,
            rules,
            retry_wait: config.retry_wait,
        }
    }

    /// Compares everything that was made within `span` before now, and every charge without a verdict of any age.
    ///
    /// Costs a request for each hundred payments of the provider's account, whoever made them, and a few for each invoice
    /// that does not fit at the first look. It writes nothing and may run beside the service.
    ///
    /// # Errors
    /// When one of the two sides could not be read to the end.
    pub async fn run(&self, span: Duration, progress: &dyn Progress) -> Result<Report, AuditError> {
        let begun_ms = self.our_time().await?;
        let since_ms = begun_ms.saturating_sub(millis(span)).max(0);
        let mut tally = Tally::new(&self.rules, since_ms, begun_ms);
        // Theirs first: a payment that is made meanwhile is then missing from the pages only where its charge is younger
        // than the audit, or was still without a verdict.
        self.read_theirs(since_ms, &mut tally, progress).await?;
        self.read_ours(since_ms, &mut tally, progress).await?;
        let (mut counts, suspects) = tally.finish();
        progress.step(Step::Suspects(suspects.len()));
        let mut findings = Vec::new();
        for suspect in suspects {
            let judged = self.look(suspect).await?;
            counts.in_flight += judged.in_flight;
            findings.extend(judged.findings);
            progress.step(Step::Looked);
        }
        findings.sort_by(|one, other| {
            (one.kind, &one.invoice_id, &one.payment_id).cmp(&(
                other.kind,
                &other.invoice_id,
                &other.payment_id,
            ))
        });
        Ok(Report {
            checked_at_ms: begun_ms,
            since_ms,
            counts,
            findings,
        })
    }

    async fn our_time(&self) -> Result<i64, StorageError> {
        let nothing = AuditPart::MadeSince(i64::MAX);
        Ok(self.books.audit_page(nothing, None, 1).await?.now_ms)
    }

    async fn read_theirs(
        &self,
        since_ms: i64,
        tally: &mut Tally<'_>,
        progress: &dyn Progress,
    ) -> Result<(), AuditError> {
        let mut after: Option<String> = None;
        loop {
            let PaymentPage { payments, next } = self
                .patiently(async |deadline| {
                    let installation_id = self.installation_id.as_str();
                    let page =
                        self.provider
                            .page(installation_id, since_ms, after.as_deref(), deadline);
                    page.await
                })
                .await?;
            progress.step(Step::TheirPage(payments.len()));
            payments
                .into_iter()
                .for_each(|payment| tally.add_payment(payment));
            if next.is_some() && next == after {
                return Err(LookupError("a page of the list leads back to itself".into()).into());
            }
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn read_ours(
        &self,
        since_ms: i64,
        tally: &mut Tally<'_>,
        progress: &dyn Progress,
    ) -> Result<(), AuditError> {
        let from_ms = since_ms.saturating_sub(MARGIN_MS);
        for part in [
            AuditPart::UnsettledBefore(from_ms),
            AuditPart::MadeSince(from_ms),
        ] {
            let mut after: Option<Place> = None;
            loop {
                let Reading {
                    value: page,
                    now_ms,
                } = self.books.audit_page(part, after.as_ref(), PAGE).await?;
                progress.step(Step::OurPage(page.len()));
                page.iter()
                    .for_each(|charge| tally.add_charge(charge, now_ms));
                let is_full = i64::try_from(page.len()).is_ok_and(|count| count >= PAGE);
                after = page
                    .last()
                    .filter(|_| is_full)
                    .map(|charge| (charge.created_at_ms, charge.id.clone()));
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads one invoice from both sides and judges it. The provider is read between two equal readings of our books, so
    /// that nothing which was settled meanwhile looks like a difference.
    async fn look(&self, suspect: Suspect) -> Result<Judged, AuditError> {
        let mut before = self.booked(&suspect).await?;
        for _ in 0..ROUNDS_MAX {
            let case = self.case(&suspect, &before.value).await?;
            let after = self.booked(&suspect).await?;
            if after.value == before.value {
                return Ok(judge(&case, &self.rules, after.now_ms));
            }
            before = after;
        }
        // It never stands still: somebody works on it.
        tracing::info!(invoice.id = ?suspect.invoice_id, "moved during every look; the next audit will see it");
        Ok(Judged {
            findings: Vec::new(),
            in_flight: 1,
        })
    }

    async fn booked(&self, suspect: &Suspect) -> Result<Reading<BookedInvoice>, StorageError> {
        // What a payment names as its invoice may be any text; ours are of a kind.
        match &suspect.invoice_id {
            Some(invoice_id) if is_invoice_id(invoice_id) => {
                self.books.audit_invoice(invoice_id).await
            }
            Some(_) | None => Ok(Reading {
                value: BookedInvoice {
                    status: None,
                    charges: Vec::new(),
                },
                now_ms: self.our_time().await?,
            }),
        }
    }

    /// The invoice's payments, each by its id, and the charges of whatever invoice that claim them.
    async fn case(&self, suspect: &Suspect, books: &BookedInvoice) -> Result<Case, AuditError> {
        let named = books
            .charges
            .iter()
            .filter(|charge| charge.provider == self.rules.provider)
            .filter_map(|charge| charge.payment_id.clone());
        let ids: BTreeSet<String> = suspect.payment_ids.iter().cloned().chain(named).collect();
        let mut payments: Vec<ProviderPayment> = Vec::new();
        let mut claims = Vec::new();
        for id in ids {
            // An id that could be no payment's, recorded by an operator's force, is known to no provider.
            if is_askable(&id) {
                let shown =
                    self.patiently(async |deadline| self.provider.retrieve(&id, deadline).await);
                payments.extend(shown.await?);
            }
            let charges = self.charges.charges_of_payment(&id).await?;
            // Whatever provider's name a charge has: the payment's id is the same one.
            let paid = charges
                .into_iter()
                .filter(|charge| charge.status == ChargeStatus::Succeeded);
            claims.extend(paid.map(|charge| Claim {
                payment_id: id.clone(),
                charge_id: charge.id,
                invoice_id: charge.invoice_id,
            }));
        }
        Ok(Case {
            invoice_id: suspect.invoice_id.clone(),
            installation_id: self.installation_id.clone(),
            books: books.clone(),
            payments,
            claims,
        })
    }

    /// Asks the provider, and asks again where it gave no answer.
    async fn patiently<T>(
        &self,
        ask: impl AsyncFn(Instant) -> Result<T, LookupError>,
    ) -> Result<T, LookupError> {
        let mut wait = self.retry_wait;
        for _ in 1..TRIES {
            match ask(Instant::now() + ASK_TIME).await {
                Ok(answer) => return Ok(answer),
                Err(error) => tracing::warn!(%error, wait_ms = wait.as_millis(), "asking again"),
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
        ask(Instant::now() + ASK_TIME).await
    }
}

/// True for an id that the provider can be asked about.
fn is_askable(payment_id: &str) -> bool {
    !payment_id.is_empty()
        && payment_id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}
