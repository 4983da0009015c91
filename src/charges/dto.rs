//! The charge on the wire.

use serde::{Deserialize, Serialize};

use super::lifecycle::{RetryPolicy, outlook};
use super::model::{Charge, ChargeStatus, CustomerCharged, Retry};
use super::repository::Evidence;
use crate::access::caller::Caller;
use crate::timestamp::rfc3339;

/// `POST /v1/charges`: the invoice and nothing else. Amount, currency, customer and key come from the backend.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChargeRequest {
    /// The invoice to charge.
    pub invoice_id: String,
}

/// `POST /v1/charges/{id}/resolve`: an operator's verdict on a charge in `needs_review`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveRequest {
    /// Whether the customer was charged.
    pub outcome: ResolvedOutcome,
    /// The payment at the provider that proves a success.
    pub provider_payment_id: Option<String>,
    /// What was looked at and by whom.
    pub note: String,
    /// Record it even where the provider says otherwise or cannot be asked.
    #[serde(default)]
    pub force: bool,
}

/// An operator's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolvedOutcome {
    /// The customer was charged.
    Succeeded,
    /// The customer was not charged and will not be.
    Failed,
}

/// A charge as callers see it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChargeBody {
    id: String,
    invoice_id: String,
    status: &'static str,
    attempt: i32,
    amount_cents: i64,
    currency: String,
    customer_id: String,
    payment_method_id: Option<String>,
    idempotency_key: String,
    provider: String,
    provider_payment_id: Option<String>,
    failure: Option<FailureBody>,
    customer_charged: CustomerCharged,
    retry: Retry,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<i64>,
    created_at: String,
    settled_at: Option<String>,
    /// For admins only; the inner one is null where no call began the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_by: Option<Option<AskedByBody>>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct AskedByBody {
    key_name: Option<String>,
    request_id: String,
    session: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureBody {
    code: String,
    decline_code: Option<String>,
    advice_code: Option<String>,
    message: Option<String>,
}

impl ChargeBody {
    /// The charge with its two answers, as the retry policy gives them.
    pub fn new(charge: &Charge, policy: &RetryPolicy) -> Self {
        let outlook = outlook(charge, policy);
        let failure = match &charge.status {
            ChargeStatus::Failed(failure) => Some(FailureBody {
                code: failure.code.clone(),
                decline_code: failure.decline_code.clone(),
                advice_code: failure.advice_code.clone(),
                message: failure.message.clone(),
            }),
            ChargeStatus::Pending
            | ChargeStatus::Processing
            | ChargeStatus::NeedsReview
            | ChargeStatus::Succeeded => None,
        };
        Self {
            id: charge.id.clone(),
            invoice_id: charge.invoice_id.clone(),
            status: charge.status.as_str(),
            attempt: charge.attempt,
            amount_cents: charge.amount_minor,
            currency: charge.currency.clone(),
            customer_id: charge.customer_id.clone(),
            payment_method_id: charge.payment_method_id.clone(),
            idempotency_key: charge.idempotency_key.clone(),
            provider: charge.provider.clone(),
            provider_payment_id: charge.provider_payment_id.clone(),
            failure,
            customer_charged: outlook.customer_charged,
            retry: outlook.retry,
            retry_after_seconds: outlook.retry_after_seconds,
            created_at: rfc3339(charge.created_at_ms),
            settled_at: charge.settled_at_ms.map(rfc3339),
            asked_by: None,
        }
    }

    /// With who asked for it, for eyes that may see it. Never in a stored answer: that is the same for everybody.
    pub fn seen_by(mut self, caller: &Caller, charge: &Charge) -> Self {
        if caller.is_admin() {
            let asked = charge.asked_by.clone();
            self.asked_by = Some(asked.map(|asked| AskedByBody {
                key_name: asked.key_name,
                request_id: asked.request_id,
                session: asked.session,
            }));
        }
        self
    }

    /// With another time to ask again at, where the caller is to ask again later.
    pub fn retry_after(mut self, seconds: i64) -> Self {
        if self.retry == Retry::Later {
            self.retry_after_seconds = Some(seconds);
        }
        self
    }
}

/// A page of charges.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChargeList {
    /// Newest first.
    pub data: Vec<ChargeBody>,
    /// Pass it as `cursor` to get the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// The history of a charge.
#[derive(Debug, Clone, Serialize)]
pub struct EvidenceList {
    /// Oldest first. Empty for a charge that went straight to its verdict.
    pub data: Vec<EvidenceBody>,
}

/// One line of it.
#[derive(Debug, Clone, Serialize)]
pub struct EvidenceBody {
    /// RFC 3339, UTC.
    pub at: String,
    /// `taken_over`, `send`, `look_up`, `cancel`, `record`, `notice` or `resolution`.
    pub what: &'static str,
    /// The rest in words.
    pub detail: String,
}

impl From<Evidence> for EvidenceBody {
    fn from(line: Evidence) -> Self {
        Self {
            at: rfc3339(line.at_ms),
            what: line.what.as_str(),
            detail: line.detail,
        }
    }
}
