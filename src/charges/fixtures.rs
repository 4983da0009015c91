//! The values that unit tests of the charges begin from.

use super::model::{Charge, ChargeStatus};
use crate::idempotency::reservation::{Recovery, Reservation, ReservationState, StoredResponse};
use crate::invoices::model::{Invoice, InvoiceStatus};
use crate::money::Money;
use crate::payments::outcome::{Failure, FailureKind, PaymentStatus, ProviderPayment};
use crate::payments::provider::FrozenRequest;

pub const INSTALLATION: &str = "ins_1";

pub fn answer(status: u16) -> StoredResponse {
    StoredResponse {
        status,
        location: None,
        body: "{}".into(),
    }
}

/// Open, 12.50 USD, on the customer's default card.
pub fn invoice() -> Invoice {
    Invoice {
        id: "inv_1".into(),
        customer_id: "cus_1".into(),
        money: Money::new(1250, "usd").unwrap(),
        description: None,
        payment_method_id: None,
        metadata: Default::default(),
        status: InvoiceStatus::Open,
        revision: 1,
        created_at_ms: 0,
        updated_at_ms: 0,
    }
}

/// The invoice's first attempt, made at 0.
pub fn charge(status: ChargeStatus) -> Charge {
    Charge {
        id: "chg_1".into(),
        invoice_id: "inv_1".into(),
        attempt: 1,
        idempotency_key: "charge:inv_1".into(),
        status,
        amount_minor: 1250,
        currency: "usd".into(),
        customer_id: "cus_1".into(),
        payment_method_id: Some("pm_1".into()),
        invoice_revision: 1,
        provider: "mock".into(),
        request: FrozenRequest {
            path: "/v1/payment_intents".into(),
            body: "amount=1250".into(),
        },
        provider_payment_id: None,
        evidence: None,
        created_at_ms: 0,
        settled_at_ms: None,
        asked_by: None,
    }
}

/// Its reservation, with a lease until 600 000.
pub fn reservation(state: ReservationState) -> Reservation {
    Reservation {
        key: "charge:inv_1".into(),
        operation: "charge".into(),
        state,
        attempt: 1,
        fingerprint: "same".into(),
        lease_token: "token".into(),
        lease_expires_at_ms: 600_000,
        recovery: Recovery::Resend,
        first_sent_at_ms: 0,
        last_sent_at_ms: 0,
        takeovers: 0,
        idle: false,
        unanswered_since_ms: None,
    }
}

pub fn failure(kind: FailureKind, code: &str) -> Failure {
    Failure {
        kind,
        code: code.into(),
        decline_code: None,
        advice_code: None,
        message: None,
        payment_id: Some("pi_1".into()),
        payment_open: true,
    }
}

/// A payment with all the marks of the first attempt.
pub fn payment(id: &str, status: PaymentStatus) -> ProviderPayment {
    ProviderPayment {
        id: id.into(),
        status,
        amount_minor: 1250,
        currency: "usd".into(),
        invoice_id: Some("inv_1".into()),
        installation_id: Some(INSTALLATION.into()),
        charge_key: Some("charge:inv_1".into()),
        failure: None,
    }
}
