//! What a call asks for, read from its body and its headers. Pure.

use super::answer;
use super::dto::RefundRequest;
use super::lifecycle::Wanted;
use super::model::{Portion, Refund};
use super::service::OPERATION;
use crate::access::caller::Caller;
use crate::error::Problem;
use crate::idempotency::fingerprint::fingerprint;
use crate::idempotency::key::{HeaderKey, refund_key, refund_part_key};
use crate::payments::refund::RefundReason;

/// What a call asks for.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub charge_id: String,
    /// By whose key it is given back.
    pub portion: Portion,
    /// How much.
    pub wanted: Wanted,
    /// Why.
    pub reason: Option<RefundReason>,
    /// What the key stands for.
    pub fingerprint: String,
}

impl Ask {
    /// Reads a request. A header key names a part; all that is left has its natural key, which wins over any other.
    pub fn new(
        request: RefundRequest,
        caller: &Caller,
        key: Option<&HeaderKey>,
    ) -> Result<Self, Problem> {
        let reason = request.reason.map(RefundReason::from);
        let mut content = serde_json::json!({ "chargeId": request.charge_id });
        let (portion, wanted) = match request.amount_cents {
            None => (Portion::Rest, Wanted::Rest),
            Some(amount_minor) => {
                let key = key.ok_or_else(answer::key_required)?;
                content["amountCents"] = amount_minor.into();
                content["reason"] = reason.map(RefundReason::as_str).into();
                let header_key = key.hash(caller.principal(), OPERATION);
                (Portion::Part { header_key }, Wanted::Part(amount_minor))
            }
        };
        let fingerprint = fingerprint(OPERATION, &content).map_err(|error| {
            tracing::error!(%error, "a fingerprint could not be made");
            Problem::internal()
        })?;
        Ok(Self {
            charge_id: request.charge_id,
            portion,
            wanted,
            reason,
            fingerprint,
        })
    }

    /// What a refund that is there was asked by.
    pub fn of(refund: &Refund, fingerprint: String) -> Self {
        let wanted = match &refund.portion {
            Portion::Rest => Wanted::Rest,
            Portion::Part { .. } => Wanted::Part(refund.amount_minor),
        };
        Self {
            charge_id: refund.charge_id.clone(),
            portion: refund.portion.clone(),
            wanted,
            reason: refund.reason,
            fingerprint,
        }
    }

    /// The key of an attempt.
    pub fn key(&self, attempt: i32) -> String {
        match &self.portion {
            Portion::Rest => refund_key(&self.charge_id, attempt),
            Portion::Part { header_key } => refund_part_key(&self.charge_id, header_key),
        }
    }
}

/// Under which name a refund runs in this process: that of its first attempt.
pub(super) fn name_of(charge_id: &str, portion: &Portion) -> String {
    match portion {
        Portion::Rest => refund_key(charge_id, 1),
        Portion::Part { header_key } => refund_part_key(charge_id, header_key),
    }
}
