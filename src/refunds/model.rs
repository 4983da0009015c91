//! A refund (one attempt to give a charge's money back, or a part of it) and its states. No I/O and no wire format.

use crate::charges::model::AskedBy;
use crate::payments::outcome::Failure;
use crate::payments::provider::FrozenRequest;
use crate::payments::refund::RefundReason;

/// One attempt to give money back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    /// Our id (`rfd_…`).
    pub id: String,
    /// The charge whose money it gives back.
    pub charge_id: String,
    /// What of the charge, and by whose key.
    pub portion: Portion,
    /// The attempt's number, from 1. A part has one attempt: whoever wants another one sends another key.
    pub attempt: i32,
    /// The key, the same here and at the provider.
    pub idempotency_key: String,
    /// Where it stands.
    pub status: RefundStatus,
    /// Minor units, as frozen with the attempt.
    pub amount_minor: i64,
    /// ISO 4217 code in lower case; the charge's.
    pub currency: String,
    /// Why, where the caller said.
    pub reason: Option<RefundReason>,
    /// The provider's name; the charge's.
    pub provider: String,
    /// The exact bytes of every send.
    pub request: FrozenRequest,
    /// The refund object at the provider, once known.
    pub provider_refund_id: Option<String>,
    /// What is known of an attempt without a verdict.
    pub evidence: Option<String>,
    /// Unix milliseconds, UTC.
    pub created_at_ms: i64,
    /// When the verdict was recorded; Unix milliseconds, UTC.
    pub settled_at_ms: Option<i64>,
    /// Whose call began the attempt; `None` where none did.
    pub asked_by: Option<AskedBy>,
}

/// What of a charge is given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Portion {
    /// All that is left of it, under the charge's natural key.
    Rest,
    /// A part that the caller names, under a key of the caller's.
    Part {
        /// A hash of the header key with its owner and the operation: unique among all refunds.
        header_key: String,
    },
}

/// Where a refund stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundStatus {
    /// Reserved; the provider may or may not have been asked.
    Pending,
    /// The provider has it and no verdict yet.
    Processing,
    /// A person must decide, with the evidence at hand.
    NeedsReview,
    /// The money was given back.
    Succeeded,
    /// It gave nothing back and never will. For ever.
    Failed(Failure),
    /// It had succeeded, and the customer's bank sent the money back (Stripe docs, Refunds: failed refunds). For ever.
    Returned(Failure),
}

impl RefundStatus {
    /// The word on the wire and in the database.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::NeedsReview => "needs_review",
            Self::Succeeded => "succeeded",
            Self::Failed(_) => "failed",
            Self::Returned(_) => "returned",
        }
    }

    /// All words, for filters.
    pub const WORDS: [&'static str; 6] = [
        "pending",
        "processing",
        "needs_review",
        "succeeded",
        "failed",
        "returned",
    ];
}

/// Was the money given back that the call asked to give back?
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Refunded {
    /// Yes, once.
    Yes,
    /// No, and nothing is under way that could.
    No,
    /// Not known yet.
    Unknown,
}
