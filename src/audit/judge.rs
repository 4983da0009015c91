//! The second look: everything that both sides know of one invoice, and what of it is a finding. Pure.

use std::cmp::Ordering;

use super::compare::Rules;
use super::model::{BookedCharge, BookedInvoice, Finding, FindingKind, Standing, Sum};
use crate::idempotency::decision::is_older_than;
use crate::invoices::model::InvoiceStatus;
use crate::payments::outcome::{PaymentStatus, ProviderPayment};

/// For how long an attempt may be due before the background worker is missed, in milliseconds. A round is shorter.
const OVERDUE_AFTER_MS: i64 = 600_000;

/// All that is known of one invoice, or of a payment that names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The invoice that the payments name.
    pub invoice_id: Option<String>,
    /// This installation's id, as its payments carry it.
    pub installation_id: String,
    /// What our books say of it.
    pub books: BookedInvoice,
    /// Its payments as the provider shows them: every one that a charge of it names or that took money in the period. A
    /// payment that a charge names and that is not here is not known to the provider.
    pub payments: Vec<ProviderPayment>,
    /// Charges of any invoice that are recorded as paid by one of these payments.
    pub claims: Vec<Claim>,
}

/// A charge that is recorded as paid by a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The payment.
    pub payment_id: String,
    /// The charge.
    pub charge_id: String,
    /// Its invoice.
    pub invoice_id: String,
}

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judged {
    /// What is wrong or open.
    pub findings: Vec<Finding>,
    /// Attempts that somebody works on, or that are not due yet.
    pub in_flight: u64,
}

/// How an attempt in `pending` or `processing` stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Live {
    /// Somebody works on it, or the background worker is to look at it later.
    InFlight,
    /// It is late, in one way or in both.
    Late {
        /// Its key is too old to be sent again.
        older_than_window: bool,
        /// The background worker should have taken it over by now.
        overdue: bool,
    },
}

/// How an attempt without a verdict stands, by its times.
pub fn live(charge: &BookedCharge, rules: &Rules, now_ms: i64) -> Live {
    let lease_runs = charge.lease_expires_at_ms > now_ms;
    if lease_runs && !charge.idle {
        return Live::InFlight;
    }
    let due_ms = charge.lease_expires_at_ms.max(charge.recover_after_ms);
    let is_ours = charge.provider == rules.provider;
    let older_than_window = is_older_than(charge.first_sent_at_ms, rules.key_window_ms, now_ms);
    let overdue = is_ours && is_older_than(due_ms, OVERDUE_AFTER_MS, now_ms);
    if older_than_window || overdue {
        return Live::Late {
            older_than_window,
            overdue,
        };
    }
    Live::InFlight
}

/// Judges a case at `now_ms` (Unix milliseconds by the database's clock).
pub fn judge(case: &Case, rules: &Rules, now_ms: i64) -> Judged {
    let mut judged = Judged::default();
    for charge in &case.books.charges {
        match charge.standing {
            Standing::Failed => {}
            Standing::Succeeded if charge.provider != rules.provider => {}
            Standing::Succeeded => judged.findings.extend(of_a_paid_charge(case, charge)),
            Standing::NeedsReview => judged.findings.extend(of_a_review(case, charge)),
            Standing::Pending | Standing::Processing => match live(charge, rules, now_ms) {
                Live::InFlight => judged.in_flight += 1,
                Live::Late {
                    older_than_window,
                    overdue,
                } => {
                    let shown = shown_of(case, charge);
                    if older_than_window {
                        let what = "has no verdict, and its key is too old to be sent again";
                        let detail = format!("The attempt {what}; {}.", shown_words(shown));
                        judged.findings.push(finding(
                            FindingKind::OlderThanWindow,
                            charge,
                            shown,
                            detail,
                        ));
                    }
                    if overdue {
                        let what = "should have been finished by the background worker, which is not running or cannot";
                        let detail = format!("The attempt {what}; {}.", shown_words(shown));
                        judged
                            .findings
                            .push(finding(FindingKind::Overdue, charge, shown, detail));
                    }
                }
            },
        }
    }
    judged.findings.extend(of_unaccounted_money(case));
    judged
}

/// What a charge that is recorded as paid lacks at the provider.
fn of_a_paid_charge(case: &Case, charge: &BookedCharge) -> Option<Finding> {
    let named = charge.payment_id.as_deref().unwrap_or("none");
    let lacks = |payment, which: String| {
        let detail = format!("The charge is recorded as paid by payment {named}, which {which}.");
        let kind = FindingKind::PaidHereNotThere;
        Some(finding(kind, charge, payment, detail))
    };
    let Some(payment) = payment_named(case, charge) else {
        return lacks(None, "the provider does not know".into());
    };
    if !matches!(
        payment.status,
        PaymentStatus::Succeeded | PaymentStatus::Refunded
    ) {
        let shown = format!("the provider shows as {}", payment.status.as_str());
        return lacks(Some(payment), shown);
    }
    if let Some(rightful) = rightful_claim(case, payment)
        && rightful.charge_id != charge.id
    {
        let elsewhere = format!(
            "pays charge {} of invoice {} already",
            rightful.charge_id, rightful.invoice_id
        );
        return lacks(Some(payment), elsewhere);
    }
    if names_another(case, payment) {
        let marks = "names another invoice or another installation";
        return lacks(Some(payment), marks.into());
    }
    difference(charge, payment)
}

/// The one charge that a payment can pay of those recorded as paid by it: that of the invoice which it names, else the first.
fn rightful_claim<'a>(case: &'a Case, payment: &ProviderPayment) -> Option<&'a Claim> {
    let claims = case
        .claims
        .iter()
        .filter(|claim| claim.payment_id == payment.id);
    let order = |one: &&Claim, other: &&Claim| -> Ordering {
        let is_named = |claim: &Claim| payment.invoice_id.as_ref() == Some(&claim.invoice_id);
        is_named(other)
            .cmp(&is_named(one))
            .then_with(|| one.charge_id.cmp(&other.charge_id))
    };
    claims.min_by(order)
}

/// A payment that took another amount than the charge says.
fn difference(charge: &BookedCharge, payment: &ProviderPayment) -> Option<Finding> {
    if payment.amount_minor == charge.amount_minor && payment.currency == charge.currency {
        return None;
    }
    let detail = format!(
        "Payment {} took another amount than its charge says.",
        payment.id
    );
    Some(finding(
        FindingKind::AmountDiffers,
        charge,
        Some(payment),
        detail,
    ))
}

fn of_a_review(case: &Case, charge: &BookedCharge) -> Vec<Finding> {
    let shown = shown_of(case, charge);
    let evidence = charge.evidence.as_deref().unwrap_or_default();
    let why = evidence.lines().next().unwrap_or_default();
    let detail = format!(
        "The charge waits for a person's decision ({why}); {}.",
        shown_words(shown)
    );
    let mut findings = vec![finding(FindingKind::ReviewOpen, charge, shown, detail)];
    let took_money = shown.filter(|payment| payment.status == PaymentStatus::Succeeded);
    findings.extend(took_money.and_then(|payment| difference(charge, payment)));
    findings
}

/// Payments that took money for this invoice and that no charge accounts for. A charge without a verdict accounts for one
/// of them: its own finding, or its owner's next record, tells of it.
fn of_unaccounted_money(case: &Case) -> Vec<Finding> {
    let is_claimed = |id: &str| case.claims.iter().any(|claim| claim.payment_id == id);
    let live = case.books.charges.iter().find(|charge| {
        matches!(
            charge.standing,
            Standing::Pending | Standing::Processing | Standing::NeedsReview
        )
    });
    let owed = live.and_then(|charge| shown_of(case, charge));
    let is_owed = |payment: &ProviderPayment| owed.is_some_and(|owed| owed.id == payment.id);
    let paid_by_charge = case
        .books
        .charges
        .iter()
        .find(|charge| charge.standing == Standing::Succeeded);
    let taken: Vec<&ProviderPayment> = case
        .payments
        .iter()
        .filter(|payment| payment.status == PaymentStatus::Succeeded && is_of(case, payment))
        .collect();
    let accounted = taken
        .iter()
        .find(|payment| is_claimed(&payment.id) || is_owed(payment));
    let mut first = paid_by_charge
        .and_then(|charge| charge.payment_id.as_deref())
        .or(accounted.map(|payment| payment.id.as_str()));
    let mut findings = Vec::new();
    for payment in taken
        .iter()
        .filter(|payment| !is_claimed(&payment.id) && !is_owed(payment))
    {
        findings.push(match (first, &case.invoice_id) {
            (Some(first), Some(_)) => {
                let detail = format!(
                    "The provider took money for this invoice more than once: payment {} beside {first}.",
                    payment.id
                );
                unaccounted(FindingKind::PaidTwice, case, payment, detail)
            }
            (_, _) => {
                let detail = format!("Payment {} took money, and {}.", payment.id, missing(case));
                unaccounted(FindingKind::PaidThereNotHere, case, payment, detail)
            }
        });
        first = first.or(Some(payment.id.as_str()));
    }
    findings
}

/// Why nothing accounts for a payment of this case.
fn missing(case: &Case) -> &'static str {
    if case.invoice_id.is_none() {
        return "it carries our mark without naming an invoice";
    }
    match case.books.status {
        None => "our books have no such invoice",
        Some(InvoiceStatus::Void) => "the invoice is void here",
        Some(InvoiceStatus::Open | InvoiceStatus::Paid) => {
            "no charge of the invoice is recorded as paid by it"
        }
    }
}

/// True for a payment of this case's invoice; one without marks is of the invoice whose charge names it.
fn is_of(case: &Case, payment: &ProviderPayment) -> bool {
    let named = payment.invoice_id.as_ref();
    named.is_none() || named == case.invoice_id.as_ref()
}

/// True for a payment whose marks say that it was made for something else: another invoice, or another program's.
fn names_another(case: &Case, payment: &ProviderPayment) -> bool {
    let installation = payment.installation_id.as_ref();
    !is_of(case, payment) || installation.is_some_and(|id| *id != case.installation_id)
}

fn payment_named<'a>(case: &'a Case, charge: &BookedCharge) -> Option<&'a ProviderPayment> {
    let id = charge.payment_id.as_deref()?;
    case.payments.iter().find(|payment| payment.id == id)
}

/// The payment of a charge without a verdict: one that took money and pays nothing else, first of all the one that the
/// charge names; else the one that it names, whatever became of it.
fn shown_of<'a>(case: &'a Case, charge: &BookedCharge) -> Option<&'a ProviderPayment> {
    let is_free = |payment: &&ProviderPayment| {
        payment.status == PaymentStatus::Succeeded
            && is_of(case, payment)
            && !case
                .claims
                .iter()
                .any(|claim| claim.payment_id == payment.id)
    };
    let named = payment_named(case, charge);
    named
        .filter(is_free)
        .or_else(|| case.payments.iter().find(is_free))
        .or(named)
}

fn shown_words(shown: Option<&ProviderPayment>) -> String {
    match shown {
        Some(payment) => format!(
            "the provider shows payment {} as {}",
            payment.id,
            payment.status.as_str()
        ),
        None => "no payment of it is known".to_owned(),
    }
}

fn finding(
    kind: FindingKind,
    charge: &BookedCharge,
    payment: Option<&ProviderPayment>,
    detail: String,
) -> Finding {
    let named = payment.map(|payment| payment.id.clone());
    Finding {
        kind,
        invoice_id: Some(charge.invoice_id.clone()),
        charge_id: Some(charge.id.clone()),
        payment_id: named.or_else(|| charge.payment_id.clone()),
        ours: Some(ours(charge)),
        theirs: payment.map(theirs),
        detail,
    }
}

/// A finding about a payment, with the charge that it was made for where there is one.
fn unaccounted(
    kind: FindingKind,
    case: &Case,
    payment: &ProviderPayment,
    detail: String,
) -> Finding {
    let charge = case.books.charges.iter().rev().find(|charge| {
        charge.payment_id.as_ref() == Some(&payment.id)
            || payment.charge_key.as_ref() == Some(&charge.idempotency_key)
    });
    Finding {
        kind,
        invoice_id: case.invoice_id.clone(),
        charge_id: charge.map(|charge| charge.id.clone()),
        payment_id: Some(payment.id.clone()),
        ours: charge.map(ours),
        theirs: Some(theirs(payment)),
        detail,
    }
}

fn ours(charge: &BookedCharge) -> Sum {
    Sum {
        amount_cents: charge.amount_minor,
        currency: charge.currency.clone(),
    }
}

fn theirs(payment: &ProviderPayment) -> Sum {
    Sum {
        amount_cents: payment.amount_minor,
        currency: payment.currency.clone(),
    }
}

#[cfg(test)]
pub(super) mod tests;
