//! A charge (one attempt to take an invoice's money) and its states. No I/O and no wire format.

use crate::payments::outcome::{Failure, FailureKind};
use crate::payments::provider::FrozenRequest;

/// One attempt to charge an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// Our id (`chg_…`).
    pub id: String,
    /// The invoice.
    pub invoice_id: String,
    /// The attempt's number, from 1.
    pub attempt: i32,
    /// The natural key, the same here and at the provider.
    pub idempotency_key: String,
    /// Where it stands.
    pub status: ChargeStatus,
    /// Minor units, as frozen with the attempt.
    pub amount_minor: i64,
    /// ISO 4217 code in lower case.
    pub currency: String,
    /// The provider's customer id.
    pub customer_id: String,
    /// The payment method that the frozen request names.
    pub payment_method_id: Option<String>,
    /// The invoice's revision from which the attempt was made.
    pub invoice_revision: i32,
    /// The provider's name.
    pub provider: String,
    /// The exact bytes of every send.
    pub request: FrozenRequest,
    /// The payment object at the provider, once known.
    pub provider_payment_id: Option<String>,
    /// What is known of an attempt without a verdict.
    pub evidence: Option<String>,
    /// Unix milliseconds, UTC.
    pub created_at_ms: i64,
    /// When the verdict was recorded; Unix milliseconds, UTC.
    pub settled_at_ms: Option<i64>,
    /// Whose call began the attempt; `None` where none did.
    pub asked_by: Option<AskedBy>,
}

/// Who asked for a charge: kept with the attempt from its start, and never changed by who else asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedBy {
    /// The name of the API key; `None` where no keys are configured.
    pub key_name: Option<String>,
    /// The request's id.
    pub request_id: String,
    /// What the caller called its session.
    pub session: Option<String>,
}

/// Where a charge stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChargeStatus {
    /// Reserved; the provider may or may not have been asked.
    Pending,
    /// The provider has it and no verdict yet.
    Processing,
    /// A person must decide, with the evidence at hand.
    NeedsReview,
    /// The money was taken. For ever.
    Succeeded,
    /// It took no money and never will. For ever; another attempt may follow.
    Failed(Failure),
}

impl ChargeStatus {
    /// The word on the wire and in the database.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::NeedsReview => "needs_review",
            Self::Succeeded => "succeeded",
            Self::Failed(_) => "failed",
        }
    }

    /// All words, for filters.
    pub const WORDS: [&'static str; 5] = [
        "pending",
        "processing",
        "needs_review",
        "succeeded",
        "failed",
    ];
}

/// Was the customer charged?
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CustomerCharged {
    /// Yes, once.
    Yes,
    /// No, and nothing is under way that could.
    No,
    /// Not known yet.
    Unknown,
}

/// Should the call be repeated?
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// All is done.
    NotNeeded,
    /// At once.
    Now,
    /// After a while.
    Later,
    /// After something was changed (the payment method, the request).
    AfterChange,
    /// Not any more.
    Never,
}

/// The word for a failure's kind in the database.
pub fn failure_kind_word(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Declined => "declined",
        FailureKind::Refused => "refused",
        FailureKind::Canceled => "canceled",
        FailureKind::NeverExecuted => "never_executed",
    }
}

/// Reads that word.
pub fn parse_failure_kind(word: &str) -> Option<FailureKind> {
    [
        FailureKind::Declined,
        FailureKind::Refused,
        FailureKind::Canceled,
        FailureKind::NeverExecuted,
    ]
    .into_iter()
    .find(|kind| failure_kind_word(*kind) == word)
}
