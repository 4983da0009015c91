//! Getting hold of a refund: freezing its request and reserving it, or taking an expired one over.

use std::time::Duration;

use uuid::Uuid;

use super::asking::Ask;
use super::lifecycle::Wanted;
use super::model::{Refund, RefundStatus};
use super::repository::{NewRefund, RefundSnapshot};
use super::service::{OPERATION, RefundsService};
use super::worker::HeldRefund;
use crate::access::caller::Caller;
use crate::charges::crash::{self, Step};
use crate::charges::model::Charge;
use crate::charges::reserving::lease_of;
use crate::error::Problem;
use crate::idempotency::repository::{NewReservation, Reading};
use crate::idempotency::reservation::{
    Claim, HeldLease, Moment, Recovery, Reservation, millis, new_lease_token,
};
use crate::payments::refund::RefundOrder;

/// A refund that may begin.
pub(super) struct Start {
    /// The attempt's number.
    pub attempt: i32,
    /// Minor units.
    pub amount_minor: i64,
    /// The database's time (Unix milliseconds).
    pub now_ms: i64,
}

impl RefundsService {
    /// Freezes the request and reserves the refund with it, before anything is sent that could move money. `None` when
    /// somebody else was first, or the charge has another sum of refunds by now.
    pub(super) async fn reserve(
        &self,
        snapshot: RefundSnapshot,
        ask: &Ask,
        start: Start,
        caller: &Caller,
    ) -> Result<Option<HeldRefund>, Problem> {
        let new = self.prepare(&snapshot, ask, &start, caller)?;
        crash::point(Step::BeforeReserve);
        let asked = Moment::now();
        let Some(reading) = self.parts.refunds.begin_refund(&new).await? else {
            return Ok(None);
        };
        crash::point(Step::AfterReserve);
        let held = self.held(
            new.refund,
            &snapshot.charge,
            reading,
            Recovery::Resend,
            asked,
        );
        held.map(Some)
    }

    /// The refund as it will be reserved, with the bytes that will be sent.
    fn prepare(
        &self,
        snapshot: &RefundSnapshot,
        ask: &Ask,
        start: &Start,
        caller: &Caller,
    ) -> Result<NewRefund, Problem> {
        let config = &self.parts.config;
        let charge = &snapshot.charge;
        let key = ask.key(start.attempt);
        let order = RefundOrder {
            charge_id: charge.id.clone(),
            invoice_id: charge.invoice_id.clone(),
            refund_key: key.clone(),
            attempt: start.attempt,
            installation_id: config.installation_id.clone(),
            payment_id: payment_of(charge)?,
            amount_minor: start.amount_minor,
            currency: charge.currency.clone(),
            reason: ask.reason,
        };
        let refund = Refund {
            id: new_refund_id(),
            charge_id: order.charge_id.clone(),
            portion: ask.portion.clone(),
            attempt: start.attempt,
            idempotency_key: key.clone(),
            status: RefundStatus::Pending,
            amount_minor: start.amount_minor,
            currency: order.currency.clone(),
            reason: ask.reason,
            provider: charge.provider.clone(),
            request: self.parts.provider.refunds().prepare_refund(&order),
            provider_refund_id: None,
            evidence: None,
            created_at_ms: start.now_ms,
            settled_at_ms: None,
            asked_by: Some(caller.asked()),
        };
        let reservation = NewReservation {
            key,
            operation: OPERATION,
            attempt: start.attempt,
            fingerprint: ask.fingerprint.clone(),
            lease_token: new_lease_token(),
            lease_ms: millis(config.reservation_ttl),
        };
        Ok(NewRefund {
            reservation,
            refund,
            rest_beside_minor: (ask.wanted == Wanted::Rest).then_some(snapshot.refunded_minor),
        })
    }

    pub(super) async fn take_over(
        &self,
        snapshot: RefundSnapshot,
        recovery: Recovery,
        claim: Claim,
    ) -> Result<Option<HeldRefund>, Problem> {
        let lease_ms = millis(lease_of(claim, self.parts.config.reservation_ttl));
        let Some((refund, expired)) = snapshot.own else {
            return Ok(None);
        };
        let asked = Moment::now();
        let token = new_lease_token();
        let keys = &self.parts.keys;
        let won = keys.take_over(&expired, &token, lease_ms, recovery, claim);
        let Some(reading) = won.await? else {
            return Ok(None);
        };
        tracing::warn!(
            charge.id = %refund.charge_id, refund.key = %refund.idempotency_key, attempt.number = refund.attempt,
            takeovers = reading.value.takeovers, ?recovery, "taken over"
        );
        crash::point(Step::AfterTakeOver);
        let held = self.held(refund, &snapshot.charge, reading, recovery, asked);
        held.map(Some)
    }

    fn held(
        &self,
        refund: Refund,
        charge: &Charge,
        reading: Reading<Reservation>,
        recovery: Recovery,
        asked: Moment,
    ) -> Result<HeldRefund, Problem> {
        let window = Duration::from_millis(self.parts.config.key_window_ms.unsigned_abs());
        // A look-up sends nothing, so the key's window does not bound it.
        let window = (recovery == Recovery::Resend).then_some(window);
        let lease = HeldLease::new(&reading.value, reading.now_ms, window, asked);
        Ok(HeldRefund {
            payment_id: payment_of(charge)?,
            refund,
            reservation: reading.value,
            lease,
            recovery,
        })
    }
}

/// A new id of ours. It begins with the time, so that the order of ids is that of the refunds.
pub(super) fn new_refund_id() -> String {
    format!("rfd_{}", Uuid::now_v7().simple())
}

/// The refunds of one payment are few, so all of them are listed, whenever they were made (Unix milliseconds): a bound by the
/// charge's own time would hide what was given back while our clock was ahead of the provider's.
pub(super) const EVER: i64 = 0;

/// The payment that took the charge's money; the database lets no charge succeed without one.
pub(super) fn payment_of(charge: &Charge) -> Result<String, Problem> {
    charge.provider_payment_id.clone().ok_or_else(|| {
        tracing::error!(charge.id = %charge.id, "a charge with a refund names no payment");
        Problem::internal()
    })
}
