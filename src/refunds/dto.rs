//! The refund on the wire.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::lifecycle::outlook;
use super::model::{Refund, RefundStatus, Refunded};
use crate::charges::dto::{AskedByBody, ResolvedOutcome};
use crate::charges::model::Retry;
use crate::openapi::schemas::{
    ChargeId, CurrencyCode, Cursor, Note, PageLimit, PartCents, ProviderId, RefundId,
    RefundReasonWord, RefundStatusWord, Seconds, Time,
};
use crate::payments::refund::RefundReason;
use crate::timestamp::rfc3339;

/// `POST /v1/refunds`: the charge, and for a part of it how much. The currency is the charge's.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = CreateRefund)]
pub struct RefundRequest {
    /// The charge whose money is given back.
    #[schema(value_type = ChargeId)]
    pub charge_id: String,
    /// How much of it; then the call needs an `Idempotency-Key`. All that is left when absent.
    #[schema(value_type = Option<PartCents>)]
    pub amount_cents: Option<i64>,
    /// Why.
    pub reason: Option<ReasonWord>,
}

/// Why money is given back, in the provider's words. `fraudulent` also has Stripe block the card and the e-mail address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RefundReason)]
pub enum ReasonWord {
    /// The customer had been charged for the same thing before.
    Duplicate,
    /// The payment was not the customer's doing.
    Fraudulent,
    /// The customer asked for it.
    RequestedByCustomer,
}

impl From<ReasonWord> for RefundReason {
    fn from(word: ReasonWord) -> Self {
        match word {
            ReasonWord::Duplicate => Self::Duplicate,
            ReasonWord::Fraudulent => Self::Fraudulent,
            ReasonWord::RequestedByCustomer => Self::RequestedByCustomer,
        }
    }
}

/// `POST /v1/refunds/{id}/resolve`: an operator's verdict on a refund in `needs_review`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ResolveRefund)]
pub struct ResolveRefundRequest {
    /// Whether the money was given back.
    pub outcome: ResolvedOutcome,
    /// The refund at the provider that proves a success; a failure has none.
    #[schema(value_type = Option<ProviderId>)]
    pub provider_refund_id: Option<String>,
    /// What was looked at and by whom.
    #[schema(value_type = Note)]
    pub note: String,
    /// Record it even where the provider says otherwise or cannot be asked.
    #[serde(default)]
    pub force: bool,
}

/// A refund as callers see it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Refund)]
pub struct RefundBody {
    #[schema(value_type = RefundId)]
    id: String,
    #[schema(value_type = ChargeId)]
    charge_id: String,
    #[schema(value_type = RefundStatusWord)]
    status: &'static str,
    /// Counts the attempts to give back what is left of the charge, from 1. A part has one.
    #[schema(minimum = 1)]
    attempt: i32,
    #[schema(value_type = PartCents)]
    amount_cents: i64,
    #[schema(value_type = CurrencyCode)]
    currency: String,
    #[schema(required = true, value_type = Option<RefundReasonWord>)]
    reason: Option<&'static str>,
    /// The key of the attempt, here and at the provider.
    idempotency_key: String,
    /// Who took the money and gives it back.
    provider: String,
    /// The refund at the provider, as far as it is known.
    #[schema(required = true, value_type = Option<ProviderId>)]
    provider_refund_id: Option<String>,
    /// There when it has failed, or the money came back.
    #[schema(required = true)]
    failure: Option<RefundFailureBody>,
    /// Was the money given back?
    refunded: Refunded,
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
    /// Where a refund is read; the inner one is null where no call began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AskedByBody>, required = false)]
    asked_by: Option<Option<AskedByBody>>,
}

/// Why a refund failed, in the provider's words.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RefundFailure)]
struct RefundFailureBody {
    code: String,
    /// The bank's reason, such as `lost_or_stolen_card`, when given.
    #[schema(required = true)]
    reason: Option<String>,
    #[schema(required = true)]
    message: Option<String>,
}

impl RefundBody {
    /// The refund with its two answers. Never with who asked: a stored answer is the same for everybody.
    pub fn new(refund: &Refund) -> Self {
        let outlook = outlook(refund);
        let failure = match &refund.status {
            RefundStatus::Failed(failure) | RefundStatus::Returned(failure) => {
                Some(RefundFailureBody {
                    code: failure.code.clone(),
                    reason: failure.decline_code.clone(),
                    message: failure.message.clone(),
                })
            }
            RefundStatus::Pending
            | RefundStatus::Processing
            | RefundStatus::NeedsReview
            | RefundStatus::Succeeded => None,
        };
        Self {
            id: refund.id.clone(),
            charge_id: refund.charge_id.clone(),
            status: refund.status.as_str(),
            attempt: refund.attempt,
            amount_cents: refund.amount_minor,
            currency: refund.currency.clone(),
            reason: refund.reason.map(RefundReason::as_str),
            idempotency_key: refund.idempotency_key.clone(),
            provider: refund.provider.clone(),
            provider_refund_id: refund.provider_refund_id.clone(),
            failure,
            refunded: outlook.refunded,
            retry: outlook.retry,
            retry_after_seconds: outlook.retry_after_seconds,
            created_at: rfc3339(refund.created_at_ms),
            settled_at: refund.settled_at_ms.map(rfc3339),
            asked_by: None,
        }
    }

    /// The same with who asked for it. All of refunds is for admins.
    pub fn with_asker(refund: &Refund) -> Self {
        Self {
            asked_by: Some(refund.asked_by.clone().map(AskedByBody::from)),
            ..Self::new(refund)
        }
    }

    /// With another time to ask again at, where the caller is to ask again later.
    pub fn retry_after(mut self, seconds: i64) -> Self {
        if self.retry == Retry::Later {
            self.retry_after_seconds = Some(seconds);
        }
        self
    }
}

/// `GET /v1/refunds`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListRefunds {
    /// Only this charge's.
    #[param(value_type = ChargeId, required = false)]
    pub charge_id: Option<String>,
    /// Only those that stand so.
    #[param(value_type = RefundStatusWord, required = false)]
    pub status: Option<String>,
    /// How many; 20 when absent.
    #[param(value_type = PageLimit, required = false)]
    pub limit: Option<String>,
    /// The `nextCursor` of the page before.
    #[param(value_type = Cursor, required = false)]
    pub cursor: Option<String>,
}

/// A page of refunds.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefundList {
    /// Newest first.
    pub data: Vec<RefundBody>,
    /// Pass it as `cursor` to get the next page; null on the last one.
    #[schema(required = true, value_type = Option<Cursor>)]
    pub next_cursor: Option<String>,
}
