//! Rows and their translation into models. What comes out of the database is checked here, on both ways.
//!
//! `None` is written as NULL and not as DEFAULT, so that every insert of a table is one and the same statement: with
//! DEFAULT diesel would have it prepared anew each time.

use diesel::prelude::*;

use super::StorageError;
use super::schema::{charges, idempotency_keys, invoices};
use crate::audit::model::{BookedCharge, Standing};
use crate::charges::model::{AskedBy, Charge, ChargeStatus, failure_kind_word, parse_failure_kind};
use crate::charges::repository::ChargeSnapshot;
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::{Recovery, Reservation, ReservationState, StoredResponse};
use crate::invoices::model::{Invoice, InvoiceStatus};
use crate::money::Money;
use crate::payments::outcome::Failure;
use crate::payments::provider::FrozenRequest;

#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = invoices, treat_none_as_default_value = false)]
pub struct InvoiceRow {
    pub id: String,
    pub customer_id: String,
    pub amount_cents: i64,
    pub currency: String,
    pub description: Option<String>,
    pub payment_method_id: Option<String>,
    pub metadata: String,
    pub status: String,
    pub revision: i32,
    pub created_at_ms: i64,
    pub updated_at_ms: i64,
}

#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = charges, treat_none_as_default_value = false)]
pub struct ChargeRow {
    pub id: String,
    pub invoice_id: String,
    pub attempt: i32,
    pub idempotency_key: String,
    pub status: String,
    pub amount_cents: i64,
    pub currency: String,
    pub customer_id: String,
    pub payment_method_id: Option<String>,
    pub invoice_revision: i32,
    pub provider: String,
    pub request_path: String,
    pub request_body: String,
    pub provider_payment_id: Option<String>,
    pub provider_payment_open: bool,
    pub failure_kind: Option<String>,
    pub failure_code: Option<String>,
    pub decline_code: Option<String>,
    pub advice_code: Option<String>,
    pub failure_message: Option<String>,
    pub evidence: Option<String>,
    pub created_at_ms: i64,
    pub updated_at_ms: i64,
    pub settled_at_ms: Option<i64>,
    pub asked_key: Option<String>,
    pub asked_request: Option<String>,
    pub asked_session: Option<String>,
}

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = idempotency_keys)]
pub struct KeyRow {
    pub key: String,
    pub operation: String,
    pub status: String,
    pub attempt: i32,
    pub fingerprint: String,
    pub lease_token: String,
    pub lease_expires_at_ms: i64,
    pub recovery: String,
    pub first_sent_at_ms: i64,
    pub last_sent_at_ms: i64,
    pub takeovers: i32,
    pub idle: bool,
    pub unanswered_since_ms: Option<i64>,
    pub response_status: Option<i32>,
    pub response_location: Option<String>,
    pub response_body: Option<String>,
}

/// An invoice, one of its attempts with its key, and the time.
pub type SnapshotRow = (InvoiceRow, Option<ChargeRow>, Option<KeyRow>, i64);

pub fn snapshot(row: SnapshotRow) -> Result<Reading<ChargeSnapshot>, StorageError> {
    let (invoice, charge, key, now_ms) = row;
    let latest = charge
        .zip(key)
        .map(|(charge, key)| Ok::<_, StorageError>((charge.try_into()?, key.try_into()?)))
        .transpose()?;
    let value = ChargeSnapshot {
        invoice: invoice.try_into()?,
        latest,
    };
    Ok(Reading { value, now_ms })
}

pub fn recovery_word(recovery: Recovery) -> &'static str {
    match recovery {
        Recovery::Resend => "resend",
        Recovery::LookUp => "look_up",
    }
}

pub fn corrupt(table: &str, id: &str, what: &str) -> StorageError {
    StorageError::Inconsistent(format!("{table} row {id}: {what}"))
}

impl TryFrom<InvoiceRow> for Invoice {
    type Error = StorageError;

    fn try_from(row: InvoiceRow) -> Result<Self, StorageError> {
        let broken = |what: &str| corrupt("invoices", &row.id, what);
        Ok(Self {
            money: Money::stored(row.amount_cents, &row.currency)
                .map_err(|_| broken("amount or currency"))?,
            metadata: serde_json::from_str(&row.metadata).map_err(|_| broken("metadata"))?,
            status: InvoiceStatus::parse(&row.status).ok_or_else(|| broken("status"))?,
            id: row.id,
            customer_id: row.customer_id,
            description: row.description,
            payment_method_id: row.payment_method_id,
            revision: row.revision,
            created_at_ms: row.created_at_ms,
            updated_at_ms: row.updated_at_ms,
        })
    }
}

impl TryFrom<&Invoice> for InvoiceRow {
    type Error = StorageError;

    fn try_from(invoice: &Invoice) -> Result<Self, StorageError> {
        Ok(Self {
            id: invoice.id.clone(),
            customer_id: invoice.customer_id.clone(),
            amount_cents: invoice.money.amount_minor(),
            currency: invoice.money.currency().as_str().to_owned(),
            description: invoice.description.clone(),
            payment_method_id: invoice.payment_method_id.clone(),
            metadata: serde_json::to_string(&invoice.metadata)
                .map_err(|error| StorageError::Inconsistent(error.to_string()))?,
            status: invoice.status.as_str().to_owned(),
            revision: invoice.revision,
            created_at_ms: invoice.created_at_ms,
            updated_at_ms: invoice.updated_at_ms,
        })
    }
}

impl TryFrom<ChargeRow> for Charge {
    type Error = StorageError;

    fn try_from(row: ChargeRow) -> Result<Self, StorageError> {
        Ok(Self {
            status: charge_status(&row)?,
            id: row.id,
            invoice_id: row.invoice_id,
            attempt: row.attempt,
            idempotency_key: row.idempotency_key,
            amount_minor: row.amount_cents,
            currency: row.currency,
            customer_id: row.customer_id,
            payment_method_id: row.payment_method_id,
            invoice_revision: row.invoice_revision,
            provider: row.provider,
            request: FrozenRequest {
                path: row.request_path,
                body: row.request_body,
            },
            provider_payment_id: row.provider_payment_id,
            evidence: row.evidence,
            created_at_ms: row.created_at_ms,
            settled_at_ms: row.settled_at_ms,
            asked_by: asked_by(row.asked_key, row.asked_request, row.asked_session),
        })
    }
}

/// Who asked, from the columns of a row.
pub fn asked_by(
    key_name: Option<String>,
    request_id: Option<String>,
    session: Option<String>,
) -> Option<AskedBy> {
    request_id.map(|request_id| AskedBy {
        key_name,
        request_id,
        session,
    })
}

fn charge_status(row: &ChargeRow) -> Result<ChargeStatus, StorageError> {
    Ok(match row.status.as_str() {
        "pending" => ChargeStatus::Pending,
        "processing" => ChargeStatus::Processing,
        "needs_review" => ChargeStatus::NeedsReview,
        "succeeded" => ChargeStatus::Succeeded,
        "failed" => {
            let kind = row.failure_kind.as_deref().and_then(parse_failure_kind);
            let (Some(kind), Some(code)) = (kind, row.failure_code.clone()) else {
                return Err(corrupt("charges", &row.id, "failed without a reason"));
            };
            ChargeStatus::Failed(Failure {
                kind,
                code,
                decline_code: row.decline_code.clone(),
                advice_code: row.advice_code.clone(),
                message: row.failure_message.clone(),
                payment_id: row.provider_payment_id.clone(),
                payment_open: row.provider_payment_open,
            })
        }
        _ => return Err(corrupt("charges", &row.id, "status")),
    })
}

impl From<&Charge> for ChargeRow {
    /// For a fresh attempt: whatever a verdict fills in is empty.
    fn from(charge: &Charge) -> Self {
        let asked = charge.asked_by.as_ref();
        Self {
            asked_key: asked.and_then(|asked| asked.key_name.clone()),
            asked_request: asked.map(|asked| asked.request_id.clone()),
            asked_session: asked.and_then(|asked| asked.session.clone()),
            id: charge.id.clone(),
            invoice_id: charge.invoice_id.clone(),
            attempt: charge.attempt,
            idempotency_key: charge.idempotency_key.clone(),
            status: charge.status.as_str().to_owned(),
            amount_cents: charge.amount_minor,
            currency: charge.currency.clone(),
            customer_id: charge.customer_id.clone(),
            payment_method_id: charge.payment_method_id.clone(),
            invoice_revision: charge.invoice_revision,
            provider: charge.provider.clone(),
            request_path: charge.request.path.clone(),
            request_body: charge.request.body.clone(),
            provider_payment_id: charge.provider_payment_id.clone(),
            provider_payment_open: false,
            failure_kind: None,
            failure_code: None,
            decline_code: None,
            advice_code: None,
            failure_message: None,
            evidence: charge.evidence.clone(),
            created_at_ms: charge.created_at_ms,
            updated_at_ms: charge.created_at_ms,
            settled_at_ms: charge.settled_at_ms,
        }
    }
}

impl TryFrom<KeyRow> for Reservation {
    type Error = StorageError;

    fn try_from(row: KeyRow) -> Result<Self, StorageError> {
        let broken = |what: &str| corrupt("idempotency_keys", &row.key, what);
        let response = match (row.response_status, row.response_body) {
            (Some(status), Some(body)) => Some(StoredResponse {
                status: u16::try_from(status).map_err(|_| broken("response_status"))?,
                location: row.response_location,
                body,
            }),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return Err(broken("half an answer")),
        };
        let state = match (row.status.as_str(), response) {
            ("in_progress", None) => ReservationState::InProgress,
            ("done", Some(response)) => ReservationState::Done(response),
            ("failed", Some(response)) => ReservationState::Failed(response),
            (_, _) => return Err(broken("status does not fit its answer")),
        };
        let recovery = [Recovery::Resend, Recovery::LookUp]
            .into_iter()
            .find(|recovery| recovery_word(*recovery) == row.recovery)
            .ok_or_else(|| broken("recovery"))?;
        Ok(Self {
            key: row.key,
            operation: row.operation,
            state,
            attempt: row.attempt,
            fingerprint: row.fingerprint,
            lease_token: row.lease_token,
            lease_expires_at_ms: row.lease_expires_at_ms,
            recovery,
            first_sent_at_ms: row.first_sent_at_ms,
            last_sent_at_ms: row.last_sent_at_ms,
            takeovers: row.takeovers,
            idle: row.idle,
            unanswered_since_ms: row.unanswered_since_ms,
        })
    }
}

/// The columns of a failure, for the update that records it.
#[derive(AsChangeset)]
#[diesel(table_name = charges)]
pub struct FailureColumns<'a> {
    provider_payment_open: bool,
    failure_kind: Option<&'a str>,
    failure_code: Option<&'a str>,
    decline_code: Option<&'a str>,
    advice_code: Option<&'a str>,
    failure_message: Option<&'a str>,
}

impl<'a> From<&'a Failure> for FailureColumns<'a> {
    fn from(failure: &'a Failure) -> Self {
        Self {
            provider_payment_open: failure.payment_open,
            failure_kind: Some(failure_kind_word(failure.kind)),
            failure_code: Some(&failure.code),
            decline_code: failure.decline_code.as_deref(),
            advice_code: failure.advice_code.as_deref(),
            failure_message: failure.message.as_deref(),
        }
    }
}

/// A charge as the audit reads it: without what was asked and answered, so that a page stays small.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = charges)]
pub struct AuditChargeRow {
    pub id: String,
    pub invoice_id: String,
    pub idempotency_key: String,
    pub status: String,
    pub amount_cents: i64,
    pub currency: String,
    pub provider: String,
    pub provider_payment_id: Option<String>,
    pub evidence: Option<String>,
    pub created_at_ms: i64,
}

/// Its reservation, likewise.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = idempotency_keys)]
pub struct AuditKeyRow {
    pub lease_expires_at_ms: i64,
    pub recover_after_ms: i64,
    pub first_sent_at_ms: i64,
    pub idle: bool,
}

impl TryFrom<(AuditChargeRow, AuditKeyRow)> for BookedCharge {
    type Error = StorageError;

    fn try_from((charge, key): (AuditChargeRow, AuditKeyRow)) -> Result<Self, StorageError> {
        let standing = Standing::ALL
            .into_iter()
            .find(|standing| standing.as_str() == charge.status);
        Ok(Self {
            standing: standing.ok_or_else(|| corrupt("charges", &charge.id, "status"))?,
            id: charge.id,
            invoice_id: charge.invoice_id,
            idempotency_key: charge.idempotency_key,
            amount_minor: charge.amount_cents,
            currency: charge.currency,
            provider: charge.provider,
            payment_id: charge.provider_payment_id,
            evidence: charge.evidence,
            created_at_ms: charge.created_at_ms,
            lease_expires_at_ms: key.lease_expires_at_ms,
            recover_after_ms: key.recover_after_ms,
            first_sent_at_ms: key.first_sent_at_ms,
            idle: key.idle,
        })
    }
}
