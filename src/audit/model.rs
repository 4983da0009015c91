//! What the audit holds of our books, and what it finds. Values only.

use serde::Serialize;

use crate::invoices::model::InvoiceStatus;

/// A charge in our books with its reservation, as far as the audit compares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookedCharge {
    /// Our id.
    pub id: String,
    /// Its invoice.
    pub invoice_id: String,
    /// The natural key, which the provider's payment carries in its metadata.
    pub idempotency_key: String,
    /// Where it stands.
    pub standing: Standing,
    /// Minor units.
    pub amount_minor: i64,
    /// ISO 4217 code in lower case.
    pub currency: String,
    /// The name of the provider that it was made with.
    pub provider: String,
    /// The payment object that it names.
    pub payment_id: Option<String>,
    /// What is known of an attempt without a verdict.
    pub evidence: Option<String>,
    /// Unix milliseconds, UTC.
    pub created_at_ms: i64,
    /// When its lease is over; Unix milliseconds by the database's clock.
    pub lease_expires_at_ms: i64,
    /// Until when the background worker leaves it alone; Unix milliseconds by the database's clock.
    pub recover_after_ms: i64,
    /// The earliest moment at which it may have been sent; Unix milliseconds by the database's clock.
    pub first_sent_at_ms: i64,
    /// True when its owner works on it no more.
    pub idle: bool,
}

/// Where a charge stands, without the reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Reserved; the provider may or may not have been asked.
    Pending,
    /// The provider has it and no verdict yet.
    Processing,
    /// A person must decide.
    NeedsReview,
    /// The money was taken.
    Succeeded,
    /// It took no money and never will.
    Failed,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Processing,
        Self::NeedsReview,
        Self::Succeeded,
        Self::Failed,
    ];

    /// The word in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::NeedsReview => "needs_review",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// All that our books say of an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookedInvoice {
    /// Its status; `None` when there is no such invoice.
    pub status: Option<InvoiceStatus>,
    /// Every attempt, the first one first.
    pub charges: Vec<BookedCharge>,
}

/// A difference between the books, or something in ours that somebody should look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Of which kind.
    pub kind: FindingKind,
    /// The invoice; `None` for a payment that names none.
    pub invoice_id: Option<String>,
    /// Our charge, where one is concerned.
    pub charge_id: Option<String>,
    /// The provider's payment, where one is concerned.
    pub payment_id: Option<String>,
    /// What our books say.
    pub ours: Option<Sum>,
    /// What the provider says.
    pub theirs: Option<Sum>,
    /// One plain sentence.
    pub detail: String,
}

/// The kinds of findings. The words are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// More than one payment of an invoice took money.
    PaidTwice,
    /// A payment took money and no charge accounts for it.
    PaidThereNotHere,
    /// A charge is recorded as paid and the provider shows no payment that took the money.
    PaidHereNotThere,
    /// A payment took another amount or currency than its charge says.
    AmountDiffers,
    /// A charge waits for a person's decision.
    ReviewOpen,
    /// An attempt has no verdict, and its key is too old to be sent again.
    OlderThanWindow,
    /// An attempt should have been taken over by the background worker and was not.
    Overdue,
}

impl FindingKind {
    /// The word in tables and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PaidTwice => "paid_twice",
            Self::PaidThereNotHere => "paid_there_not_here",
            Self::PaidHereNotThere => "paid_here_not_there",
            Self::AmountDiffers => "amount_differs",
            Self::ReviewOpen => "review_open",
            Self::OlderThanWindow => "older_than_window",
            Self::Overdue => "overdue",
        }
    }
}

/// An amount as one side has it; it need not be one that we could charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sum {
    /// Minor units.
    pub amount_cents: i64,
    /// ISO 4217 code in lower case.
    pub currency: String,
}
