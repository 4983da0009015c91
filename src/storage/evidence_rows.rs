//! Rows of histories and their translation into models; the rest as in [`rows`](super::rows).

use diesel::prelude::*;
use uuid::Uuid;

use super::StorageError;
use super::rows::corrupt;
use super::schema::{charge_evidence, refund_evidence};
use crate::charges::repository::{Evidence, EvidenceKind};

#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = charge_evidence)]
pub struct EvidenceRow {
    pub id: String,
    pub charge_id: String,
    pub at_ms: i64,
    pub what: String,
    pub detail: String,
}

impl EvidenceRow {
    /// A new line. Its id begins with the time at which it is written, so that the order of ids is that of the lines.
    pub fn new(charge_id: &str, line: &Evidence) -> Self {
        Self {
            id: Uuid::now_v7().simple().to_string(),
            charge_id: charge_id.to_owned(),
            at_ms: line.at_ms,
            what: line.what.as_str().to_owned(),
            detail: line.detail.clone(),
        }
    }
}

/// What a word says that happened.
fn evidence_kind(word: &str) -> Option<EvidenceKind> {
    let mut kinds = EvidenceKind::ALL.into_iter();
    kinds.find(|kind| kind.as_str() == word)
}

impl TryFrom<EvidenceRow> for Evidence {
    type Error = StorageError;

    fn try_from(row: EvidenceRow) -> Result<Self, StorageError> {
        let kind = evidence_kind(&row.what);
        Ok(Self {
            at_ms: row.at_ms,
            what: kind.ok_or_else(|| corrupt("charge_evidence", &row.id, "what"))?,
            detail: row.detail,
        })
    }
}

#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = refund_evidence)]
pub struct RefundEvidenceRow {
    pub id: String,
    pub refund_id: String,
    pub at_ms: i64,
    pub what: String,
    pub detail: String,
}

impl RefundEvidenceRow {
    /// A new line. Its id begins with the time at which it is written, so that the order of ids is that of the lines.
    pub fn new(refund_id: &str, line: &Evidence) -> Self {
        Self {
            id: Uuid::now_v7().simple().to_string(),
            refund_id: refund_id.to_owned(),
            at_ms: line.at_ms,
            what: line.what.as_str().to_owned(),
            detail: line.detail.clone(),
        }
    }
}

impl TryFrom<RefundEvidenceRow> for Evidence {
    type Error = StorageError;

    fn try_from(row: RefundEvidenceRow) -> Result<Self, StorageError> {
        let kind = evidence_kind(&row.what);
        Ok(Self {
            at_ms: row.at_ms,
            what: kind.ok_or_else(|| corrupt("refund_evidence", &row.id, "what"))?,
            detail: row.detail,
        })
    }
}
