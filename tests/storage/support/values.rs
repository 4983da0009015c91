//! Invoices, attempts and records as the services make them.

use std::collections::BTreeMap;

use chargeonce::charges::model::{Charge, ChargeStatus};
use chargeonce::charges::repository::{AttemptRecord, Evidence, EvidenceKind, NewAttempt};
use chargeonce::idempotency::key::{charge_key, refund_key, refund_part_key};
use chargeonce::idempotency::repository::NewReservation;
use chargeonce::idempotency::reservation::{Recovery, StoredResponse, new_lease_token};
use chargeonce::invoices::model::{Invoice, InvoiceStatus};
use chargeonce::invoices::repository::InvoiceInsert;
use chargeonce::money::Money;
use chargeonce::payments::outcome::{Failure, FailureKind};
use chargeonce::payments::provider::FrozenRequest;
use chargeonce::refunds::model::{Portion, Refund, RefundStatus};
use chargeonce::refunds::repository::NewRefund;

/// How long the leases of these cases run.
pub const LEASE_MS: i64 = 600_000;

/// When these cases say that something was settled.
pub const SETTLED_AT_MS: i64 = 1_700_000_123_456;

/// An open invoice over 12.50 USD.
pub fn invoice(id: &str) -> Invoice {
    Invoice {
        id: id.into(),
        customer_id: "cus_1".into(),
        money: Money::new(1250, "usd").unwrap(),
        description: None,
        payment_method_id: Some("pm_card_visa".into()),
        metadata: BTreeMap::new(),
        status: InvoiceStatus::Open,
        revision: 1,
        created_at_ms: 1_700_000_000_000,
        updated_at_ms: 1_700_000_000_000,
    }
}

/// Its insertion, without any key.
pub fn insertion(invoice: &Invoice) -> InvoiceInsert {
    InvoiceInsert {
        invoice: invoice.clone(),
        response: response(201, "created"),
        natural_key: None,
        held_key: None,
    }
}

/// A key to be reserved by a new owner.
pub fn reservation(key: &str) -> NewReservation {
    NewReservation {
        key: key.into(),
        operation: "charge",
        attempt: 1,
        fingerprint: "f".into(),
        lease_token: new_lease_token(),
        lease_ms: LEASE_MS,
    }
}

/// The n-th attempt to charge an invoice, as read.
pub fn attempt(invoice: &Invoice, number: i32) -> NewAttempt {
    let key = charge_key(&invoice.id, number);
    let charge = Charge {
        id: format!("chg_{}", uuid::Uuid::now_v7().simple()),
        invoice_id: invoice.id.clone(),
        attempt: number,
        idempotency_key: key.clone(),
        status: ChargeStatus::Pending,
        amount_minor: invoice.money.amount_minor(),
        currency: invoice.money.currency().as_str().into(),
        customer_id: invoice.customer_id.clone(),
        payment_method_id: invoice.payment_method_id.clone(),
        invoice_revision: invoice.revision,
        provider: "mock".into(),
        request: FrozenRequest {
            path: "/v1/payment_intents".into(),
            body: format!("amount=1250&metadata[charge_key]={key}"),
        },
        provider_payment_id: None,
        evidence: None,
        created_at_ms: 1_700_000_000_500,
        settled_at_ms: None,
        asked_by: None,
    };
    let reservation = NewReservation {
        attempt: number,
        ..reservation(&key)
    };
    NewAttempt {
        reservation,
        charge,
    }
}

/// An answer to store.
pub fn response(status: u16, body: &str) -> StoredResponse {
    StoredResponse {
        status,
        location: (status == 201).then(|| "/v1/charges/chg_1".to_owned()),
        body: body.into(),
    }
}

/// A decline.
pub fn decline() -> Failure {
    Failure {
        kind: FailureKind::Declined,
        code: "card_declined".into(),
        decline_code: Some("insufficient_funds".into()),
        advice_code: Some("try_again_later".into()),
        message: Some("Your card has insufficient funds.".into()),
        payment_id: Some("pi_declined".into()),
        payment_open: true,
    }
}

/// A success, each by a payment of its own.
pub fn succeeded() -> AttemptRecord {
    paid_by(&format!("pi_{}", uuid::Uuid::now_v7().simple()))
}

/// A success by this payment.
pub fn paid_by(payment_id: &str) -> AttemptRecord {
    AttemptRecord::Succeeded {
        payment_id: payment_id.into(),
        settled_at_ms: SETTLED_AT_MS,
        response: response(201, "paid"),
    }
}

pub fn failed() -> AttemptRecord {
    AttemptRecord::Failed {
        failure: decline(),
        settled_at_ms: SETTLED_AT_MS,
        response: response(402, "declined"),
    }
}

pub fn processing() -> AttemptRecord {
    AttemptRecord::Processing {
        payment_id: "pi_processing".into(),
        wait_ms: 0,
    }
}

pub fn needs_review() -> AttemptRecord {
    AttemptRecord::NeedsReview {
        payment_id: Some("pi_odd".into()),
        evidence: "another amount".into(),
    }
}

pub fn unknown() -> AttemptRecord {
    AttemptRecord::Unknown {
        payment_id: None,
        evidence: "no answer in time".into(),
        recovery: Recovery::LookUp,
        wait_ms: 0,
        unanswered_since_ms: None,
    }
}

/// One of each.
pub fn every_record() -> [(&'static str, AttemptRecord); 6] {
    [
        ("succeeded", succeeded()),
        ("failed", failed()),
        ("processing", processing()),
        ("needs_review", needs_review()),
        ("unknown", unknown()),
        ("released", AttemptRecord::Released),
    ]
}

/// The records after which the attempt still may take money.
pub fn live_records() -> [(&'static str, AttemptRecord); 3] {
    [
        ("unknown", unknown()),
        ("processing", processing()),
        ("needs_review", needs_review()),
    ]
}

/// A line of a charge's history.
pub fn history_line(detail: &str) -> Evidence {
    Evidence {
        at_ms: SETTLED_AT_MS,
        what: EvidenceKind::Resolution,
        detail: detail.into(),
    }
}

/// The n-th attempt to give back what is left of a charge over 12.50 USD, of which so much was given back before.
pub fn rest_of(charge_id: &str, number: i32, refunded_minor: i64) -> NewRefund {
    let key = refund_key(charge_id, number);
    let refund = refund(charge_id, &key, Portion::Rest, 1250 - refunded_minor);
    NewRefund {
        reservation: NewReservation {
            operation: "refund",
            attempt: number,
            ..reservation(&key)
        },
        refund: Refund {
            attempt: number,
            ..refund
        },
        rest_beside_minor: Some(refunded_minor),
    }
}

/// A part of a charge, under a caller's key.
pub fn part_of(charge_id: &str, header_key: &str, amount_minor: i64) -> NewRefund {
    let key = refund_part_key(charge_id, header_key);
    let portion = Portion::Part {
        header_key: header_key.into(),
    };
    NewRefund {
        reservation: NewReservation {
            operation: "refund",
            ..reservation(&key)
        },
        refund: refund(charge_id, &key, portion, amount_minor),
        rest_beside_minor: None,
    }
}

fn refund(charge_id: &str, key: &str, portion: Portion, amount_minor: i64) -> Refund {
    Refund {
        id: format!("rfd_{}", uuid::Uuid::now_v7().simple()),
        charge_id: charge_id.into(),
        portion,
        attempt: 1,
        idempotency_key: key.into(),
        status: RefundStatus::Pending,
        amount_minor,
        currency: "usd".into(),
        reason: None,
        provider: "mock".into(),
        request: FrozenRequest {
            path: "/v1/refunds".into(),
            body: format!("amount={amount_minor}&metadata[refund_key]={key}"),
        },
        provider_refund_id: None,
        evidence: None,
        created_at_ms: 1_700_000_000_700,
        settled_at_ms: None,
        asked_by: None,
    }
}
