//! The charge on the wire.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::lifecycle::{RetryPolicy, outlook};
use super::model::{AskedBy, Charge, ChargeStatus, CustomerCharged, Retry};
use super::repository::Evidence;
use crate::access::caller::Caller;
use crate::openapi::schemas::{
    AmountCents, ChargeId, ChargeStatusWord, CurrencyCode, Cursor, EvidenceWord, InvoiceId, Note,
    PageLimit, ProviderId, Seconds, Time,
};
use crate::timestamp::rfc3339;

/// `POST /v1/charges`: the invoice and nothing else. Amount, currency, customer and key come from the backend.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChargeRequest {
    /// The invoice to charge.
    #[schema(value_type = InvoiceId)]
    pub invoice_id: String,
}

/// `POST /v1/charges/{id}/resolve`: an operator's verdict on a charge in `needs_review`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveRequest {
    /// Whether the customer was charged.
    pub outcome: ResolvedOutcome,
    /// The payment at the provider that proves a success; a failure has none.
    #[schema(value_type = Option<ProviderId>)]
    pub provider_payment_id: Option<String>,
    /// What was looked at and by whom.
    #[schema(value_type = Note)]
    pub note: String,
    /// Record it even where the provider says otherwise or cannot be asked.
    #[serde(default)]
    pub force: bool,
}

/// An operator's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolvedOutcome {
    /// The customer was charged.
    Succeeded,
    /// The customer was not charged and will not be.
    Failed,
}

/// A charge as callers see it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Charge)]
pub struct ChargeBody {
    #[schema(value_type = ChargeId)]
    id: String,
    #[schema(value_type = InvoiceId)]
    invoice_id: String,
    #[schema(value_type = ChargeStatusWord)]
    status: &'static str,
    /// Counts the attempts to charge the invoice, from 1.
    #[schema(minimum = 1)]
    attempt: i32,
    #[schema(value_type = AmountCents)]
    amount_cents: i64,
    #[schema(value_type = CurrencyCode)]
    currency: String,
    #[schema(value_type = ProviderId)]
    customer_id: String,
    /// Null where the customer's default was left to the provider.
    #[schema(required = true, value_type = Option<ProviderId>)]
    payment_method_id: Option<String>,
    /// The natural key of the attempt, here and at the provider.
    idempotency_key: String,
    /// Who took the money.
    provider: String,
    /// The payment at the provider, as far as it is known.
    #[schema(required = true, value_type = Option<ProviderId>)]
    provider_payment_id: Option<String>,
    /// There when the attempt has failed.
    #[schema(required = true)]
    failure: Option<FailureBody>,
    customer_charged: CustomerCharged,
    retry: Retry,
    /// There with `retry: later`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Seconds, required = false)]
    retry_after_seconds: Option<i64>,
    #[schema(value_type = Time)]
    created_at: String,
    /// Null while there is no verdict.
    #[schema(required = true, value_type = Option<Time>)]
    settled_at: Option<String>,
    /// For admins only; the inner one is null where no call began the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AskedByBody>, required = false)]
    asked_by: Option<Option<AskedByBody>>,
}

/// Who called when the attempt began.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AskedBy)]
pub(crate) struct AskedByBody {
    /// The API key's name; null where no keys were configured.
    #[schema(required = true)]
    key_name: Option<String>,
    /// The request's id.
    request_id: String,
    /// The caller's own name for its session, if it sent one (`X-Agent-Session`).
    #[schema(required = true)]
    session: Option<String>,
}

impl From<AskedBy> for AskedByBody {
    fn from(asked: AskedBy) -> Self {
        Self {
            key_name: asked.key_name,
            request_id: asked.request_id,
            session: asked.session,
        }
    }
}

/// Why an attempt failed, in the provider's words.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Failure)]
struct FailureBody {
    code: String,
    #[schema(required = true)]
    decline_code: Option<String>,
    #[schema(required = true)]
    advice_code: Option<String>,
    #[schema(required = true)]
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
            self.asked_by = Some(asked.map(AskedByBody::from));
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

/// `GET /v1/charges`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListCharges {
    /// Only this invoice's.
    #[param(value_type = InvoiceId, required = false)]
    pub invoice_id: Option<String>,
    /// Only those that stand so.
    #[param(value_type = ChargeStatusWord, required = false)]
    pub status: Option<String>,
    /// How many; 20 when absent.
    #[param(value_type = PageLimit, required = false)]
    pub limit: Option<String>,
    /// The `nextCursor` of the page before.
    #[param(value_type = Cursor, required = false)]
    pub cursor: Option<String>,
}

/// A page of charges.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChargeList {
    /// Newest first.
    pub data: Vec<ChargeBody>,
    /// Pass it as `cursor` to get the next page; null on the last one.
    #[schema(required = true, value_type = Option<Cursor>)]
    pub next_cursor: Option<String>,
}

/// The history of a charge.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct EvidenceList {
    /// Oldest first. Empty for a charge that went straight to its verdict.
    pub data: Vec<EvidenceBody>,
}

/// One line of it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = EvidenceLine)]
pub struct EvidenceBody {
    /// RFC 3339, UTC.
    #[schema(value_type = Time)]
    pub at: String,
    /// `taken_over`, `send`, `look_up`, `cancel`, `record`, `notice` or `resolution`.
    #[schema(value_type = EvidenceWord)]
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
