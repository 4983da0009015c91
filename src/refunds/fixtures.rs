//! The values that unit tests of the refunds begin from.

use super::model::{Portion, Refund, RefundStatus};
use super::repository::RefundSnapshot;
use crate::charges::fixtures as charges;
use crate::charges::model::ChargeStatus;
use crate::idempotency::reservation::{Reservation, ReservationState};
use crate::payments::outcome::{Failure, FailureKind};
use crate::payments::provider::FrozenRequest;
use crate::payments::refund::{ProviderRefund, RefundState};

pub const INSTALLATION: &str = charges::INSTALLATION;
pub const PAYMENT: &str = "pi_1";

pub fn part() -> Portion {
    Portion::Part {
        header_key: "hash".into(),
    }
}

/// The first attempt to give back what is left of the first charge, 12.50 USD, made at 0.
pub fn refund(status: RefundStatus) -> Refund {
    Refund {
        id: "rfd_1".into(),
        charge_id: "chg_1".into(),
        portion: Portion::Rest,
        attempt: 1,
        idempotency_key: "refund:chg_1".into(),
        status,
        amount_minor: 1250,
        currency: "usd".into(),
        reason: None,
        provider: "mock".into(),
        request: FrozenRequest {
            path: "/v1/refunds".into(),
            body: "amount=1250".into(),
        },
        provider_refund_id: None,
        evidence: None,
        created_at_ms: 0,
        settled_at_ms: None,
        asked_by: None,
    }
}

/// Its reservation, with a lease until 600 000.
pub fn reservation(state: ReservationState) -> Reservation {
    Reservation {
        key: "refund:chg_1".into(),
        operation: "refund".into(),
        ..charges::reservation(state)
    }
}

/// The paid charge of 12.50 USD, with this refund of it and the sum of all.
pub fn snapshot(refunded_minor: i64, own: Option<(Refund, ReservationState)>) -> RefundSnapshot {
    RefundSnapshot {
        charge: charges::charge(ChargeStatus::Succeeded),
        refunded_minor,
        own: own.map(|(refund, state)| (refund, reservation(state))),
    }
}

pub fn failure(kind: FailureKind, code: &str) -> Failure {
    super::settlement::bare(kind, code, None)
}

/// A refund at the provider with all the marks of the first attempt.
pub fn found(id: &str, status: RefundState) -> ProviderRefund {
    ProviderRefund {
        id: id.into(),
        payment_id: Some(PAYMENT.into()),
        status,
        amount_minor: 1250,
        currency: "usd".into(),
        refund_key: Some("refund:chg_1".into()),
        charge_id: Some("chg_1".into()),
        installation_id: Some(INSTALLATION.into()),
        failure: None,
    }
}
