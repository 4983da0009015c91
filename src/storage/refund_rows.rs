//! Rows of refunds and their translation into models; the rest as in [`rows`](super::rows).

use diesel::prelude::*;

use super::StorageError;
use super::rows::{asked_by, corrupt};
use super::schema::refunds;
use crate::charges::model::{failure_kind_word, parse_failure_kind};
use crate::payments::outcome::Failure;
use crate::payments::provider::FrozenRequest;
use crate::payments::refund::RefundReason;
use crate::refunds::model::{Portion, Refund, RefundStatus};

#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = refunds, treat_none_as_default_value = false)]
pub struct RefundRow {
    pub id: String,
    pub charge_id: String,
    pub attempt: i32,
    pub idempotency_key: String,
    pub header_key: Option<String>,
    pub status: String,
    pub amount_cents: i64,
    pub currency: String,
    pub reason: Option<String>,
    pub provider: String,
    pub request_path: String,
    pub request_body: String,
    pub provider_refund_id: Option<String>,
    pub failure_kind: Option<String>,
    pub failure_code: Option<String>,
    pub failure_reason: Option<String>,
    pub failure_message: Option<String>,
    pub evidence: Option<String>,
    pub asked_key: Option<String>,
    pub asked_request: Option<String>,
    pub asked_session: Option<String>,
    pub created_at_ms: i64,
    pub updated_at_ms: i64,
    pub settled_at_ms: Option<i64>,
}

impl TryFrom<RefundRow> for Refund {
    type Error = StorageError;

    fn try_from(row: RefundRow) -> Result<Self, StorageError> {
        let status = refund_status(&row)?;
        let reason = match row.reason.as_deref() {
            Some(word) => {
                let reason = RefundReason::parse(word);
                Some(reason.ok_or_else(|| corrupt("refunds", &row.id, "reason"))?)
            }
            None => None,
        };
        Ok(Self {
            status,
            reason,
            id: row.id,
            charge_id: row.charge_id,
            portion: match row.header_key {
                Some(header_key) => Portion::Part { header_key },
                None => Portion::Rest,
            },
            attempt: row.attempt,
            idempotency_key: row.idempotency_key,
            amount_minor: row.amount_cents,
            currency: row.currency,
            provider: row.provider,
            request: FrozenRequest {
                path: row.request_path,
                body: row.request_body,
            },
            provider_refund_id: row.provider_refund_id,
            evidence: row.evidence,
            created_at_ms: row.created_at_ms,
            settled_at_ms: row.settled_at_ms,
            asked_by: asked_by(row.asked_key, row.asked_request, row.asked_session),
        })
    }
}

fn refund_status(row: &RefundRow) -> Result<RefundStatus, StorageError> {
    let failure = || {
        let kind = row.failure_kind.as_deref().and_then(parse_failure_kind);
        let (Some(kind), Some(code)) = (kind, row.failure_code.clone()) else {
            return Err(corrupt("refunds", &row.id, "failed without a reason"));
        };
        Ok(Failure {
            kind,
            code,
            decline_code: row.failure_reason.clone(),
            advice_code: None,
            message: row.failure_message.clone(),
            payment_id: row.provider_refund_id.clone(),
            payment_open: false,
        })
    };
    Ok(match row.status.as_str() {
        "pending" => RefundStatus::Pending,
        "processing" => RefundStatus::Processing,
        "needs_review" => RefundStatus::NeedsReview,
        "succeeded" => RefundStatus::Succeeded,
        "failed" => RefundStatus::Failed(failure()?),
        "returned" => RefundStatus::Returned(failure()?),
        _ => return Err(corrupt("refunds", &row.id, "status")),
    })
}

impl From<&Refund> for RefundRow {
    /// For a fresh refund: whatever a verdict fills in is empty.
    fn from(refund: &Refund) -> Self {
        let asked = refund.asked_by.as_ref();
        Self {
            id: refund.id.clone(),
            charge_id: refund.charge_id.clone(),
            attempt: refund.attempt,
            idempotency_key: refund.idempotency_key.clone(),
            header_key: match &refund.portion {
                Portion::Part { header_key } => Some(header_key.clone()),
                Portion::Rest => None,
            },
            status: refund.status.as_str().to_owned(),
            amount_cents: refund.amount_minor,
            currency: refund.currency.clone(),
            reason: refund.reason.map(|reason| reason.as_str().to_owned()),
            provider: refund.provider.clone(),
            request_path: refund.request.path.clone(),
            request_body: refund.request.body.clone(),
            provider_refund_id: refund.provider_refund_id.clone(),
            failure_kind: None,
            failure_code: None,
            failure_reason: None,
            failure_message: None,
            evidence: refund.evidence.clone(),
            asked_key: asked.and_then(|asked| asked.key_name.clone()),
            asked_request: asked.map(|asked| asked.request_id.clone()),
            asked_session: asked.and_then(|asked| asked.session.clone()),
            created_at_ms: refund.created_at_ms,
            updated_at_ms: refund.created_at_ms,
            settled_at_ms: refund.settled_at_ms,
        }
    }
}

/// The columns of a failure, for the update that records it.
#[derive(AsChangeset)]
#[diesel(table_name = refunds)]
pub struct RefundFailureColumns<'a> {
    failure_kind: Option<&'a str>,
    failure_code: Option<&'a str>,
    failure_reason: Option<&'a str>,
    failure_message: Option<&'a str>,
}

impl<'a> From<&'a Failure> for RefundFailureColumns<'a> {
    fn from(failure: &'a Failure) -> Self {
        Self {
            failure_kind: Some(failure_kind_word(failure.kind)),
            failure_code: Some(&failure.code),
            failure_reason: failure.decline_code.as_deref(),
            failure_message: failure.message.as_deref(),
        }
    }
}
