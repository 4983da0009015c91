//! Getting hold of an attempt: freezing its request and reserving it, or taking an expired one over.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::answer;
use super::crash::{self, Step};
use super::model::{AskedBy, Charge, ChargeStatus};
use super::repository::{ChargeSnapshot, NewAttempt};
use super::service::{ChargesService, OPERATION};
use super::worker::HeldAttempt;
use crate::access::caller::Caller;
use crate::error::Problem;
use crate::idempotency::fingerprint::fingerprint;
use crate::idempotency::key::charge_key;
use crate::idempotency::repository::{NewReservation, Reading};
use crate::idempotency::reservation::{
    Claim, HeldLease, Moment, Recovery, Reservation, millis, new_lease_token,
};
use crate::invoices::model::Invoice;
use crate::payments::provider::{PaymentOrder, PrepareError};

/// How long a caller waits before it tries again when the provider is away, in seconds; and when our credentials are
/// refused, which takes an operator.
pub(crate) const PROVIDER_WAIT_SECONDS: i64 = 5;
pub(crate) const CREDENTIALS_WAIT_SECONDS: i64 = 60;

/// How long the lease of a look runs that a notice has brought forward. Longer than a look-up and a cancel take.
const LOOK_LEASE: Duration = Duration::from_secs(180);

/// An attempt that may begin.
pub(super) struct Start {
    /// Its number.
    pub attempt: i32,
    /// The payment object that the last attempt left open.
    pub open_payment_id: Option<String>,
    /// What the key stands for.
    pub fingerprint: String,
    /// The database's time (Unix milliseconds).
    pub now_ms: i64,
}

impl ChargesService {
    /// True when the running attempt was made with another provider than the one that is set now, which knows nothing of
    /// it: neither sending it there nor asking there would tell the truth.
    pub(super) fn is_anothers(&self, snapshot: &ChargeSnapshot) -> bool {
        let own = self.parts.provider.name();
        let foreign = snapshot
            .latest
            .as_ref()
            .filter(|(charge, _)| charge.provider != own);
        if let Some((charge, _)) = foreign {
            tracing::error!(
                charge.key = %charge.idempotency_key, provider = %charge.provider,
                "an attempt of another provider is unresolved: set PAYMENT_PROVIDER back until it is"
            );
        }
        foreign.is_some()
    }

    /// Freezes the request and reserves the attempt with it, before anything is sent that could move money.
    pub(super) async fn reserve(
        &self,
        snapshot: &ChargeSnapshot,
        start: Start,
        caller: &Caller,
    ) -> Result<Option<Arc<HeldAttempt>>, Problem> {
        let invoice = &snapshot.invoice;
        let cap = self.cap_for(caller, invoice.money, start.now_ms).await?;
        let new = Arc::new(self.prepare(invoice, start, caller.asked()).await?);
        crash::point(Step::BeforeReserve);
        let asked = Moment::now();
        let begun = self
            .begin_under(&new, cap.as_ref(), caller, invoice.money)
            .await?;
        let Some(reading) = begun else {
            return Ok(None);
        };
        crash::point(Step::AfterReserve);
        Ok(Some(self.held(
            new.charge.clone(),
            reading,
            Recovery::Resend,
            payments_since(snapshot),
            asked,
        )))
    }

    /// The attempt as it will be reserved, with the bytes that will be sent.
    async fn prepare(
        &self,
        invoice: &Invoice,
        start: Start,
        asked_by: AskedBy,
    ) -> Result<NewAttempt, Problem> {
        let config = &self.parts.config;
        let Start {
            attempt,
            open_payment_id,
            fingerprint,
            now_ms,
        } = start;
        let order = PaymentOrder {
            invoice_id: invoice.id.clone(),
            charge_key: charge_key(&invoice.id, attempt),
            attempt,
            installation_id: config.installation_id.clone(),
            amount_minor: invoice.money.amount_minor(),
            currency: invoice.money.currency().as_str().to_owned(),
            customer_id: invoice.customer_id.clone(),
            payment_method_id: invoice.payment_method_id.clone(),
            open_payment_id,
        };
        let prepared = self
            .parts
            .provider
            .prepare(&order)
            .await
            .map_err(not_prepared)?;
        let charge = Charge {
            id: format!("chg_{}", Uuid::now_v7().simple()),
            invoice_id: order.invoice_id,
            attempt,
            idempotency_key: order.charge_key.clone(),
            status: ChargeStatus::Pending,
            amount_minor: order.amount_minor,
            currency: order.currency,
            customer_id: order.customer_id,
            payment_method_id: prepared.payment_method_id,
            invoice_revision: invoice.revision,
            provider: self.parts.provider.name().to_owned(),
            request: prepared.request,
            provider_payment_id: order.open_payment_id,
            evidence: None,
            created_at_ms: now_ms,
            settled_at_ms: None,
            asked_by: Some(asked_by),
        };
        let reservation = NewReservation {
            key: order.charge_key,
            operation: OPERATION,
            attempt,
            fingerprint,
            lease_token: new_lease_token(),
            lease_ms: millis(config.reservation_ttl),
        };
        Ok(NewAttempt {
            reservation,
            charge,
        })
    }

    /// True when the invoice has another latest attempt by now.
    pub(super) async fn has_moved_on(&self, before: &ChargeSnapshot) -> Result<bool, Problem> {
        let key = |snapshot: &ChargeSnapshot| {
            let latest = snapshot.latest.as_ref();
            latest.map(|(charge, _)| charge.idempotency_key.clone())
        };
        let now = self.parts.charges.charge_snapshot(&before.invoice.id);
        let now = now.await?.map(|reading| reading.value);
        Ok(now.is_some_and(|now| key(&now) != key(before)))
    }

    pub(super) async fn take_over(
        &self,
        snapshot: ChargeSnapshot,
        recovery: Recovery,
        claim: Claim,
    ) -> Result<Option<Arc<HeldAttempt>>, Problem> {
        let lease_ms = millis(lease_of(claim, self.parts.config.reservation_ttl));
        let payments_since_ms = payments_since(&snapshot);
        let Some((charge, expired)) = snapshot.latest else {
            return Ok(None);
        };
        let asked = Moment::now();
        let won = self
            .parts
            .keys
            .take_over(&expired, &new_lease_token(), lease_ms, recovery, claim)
            .await?;
        let Some(reading) = won else { return Ok(None) };
        tracing::warn!(
            invoice.id = %charge.invoice_id, charge.key = %charge.idempotency_key, attempt.number = charge.attempt,
            takeovers = reading.value.takeovers, ?recovery, "taken over"
        );
        self.parts.config.metrics.taken_over();
        crash::point(Step::AfterTakeOver);
        Ok(Some(self.held(
            charge,
            reading,
            recovery,
            payments_since_ms,
            asked,
        )))
    }

    fn held(
        &self,
        charge: Charge,
        reading: Reading<Reservation>,
        recovery: Recovery,
        payments_since_ms: i64,
        asked: Moment,
    ) -> Arc<HeldAttempt> {
        let window = Duration::from_millis(self.policy().key_window_ms.unsigned_abs());
        // A look-up sends nothing, so the key's window does not bound it.
        let window = (recovery == Recovery::Resend).then_some(window);
        let lease = HeldLease::new(&reading.value, reading.now_ms, window, asked);
        Arc::new(HeldAttempt {
            charge,
            reservation: reading.value,
            lease,
            recovery,
            payments_since_ms,
        })
    }
}

/// How long the lease of a takeover runs.
pub(crate) fn lease_of(claim: Claim, whole: Duration) -> Duration {
    match claim {
        Claim::Expired => whole,
        // A look that was only brought forward must not keep a lost request from being sent again for long.
        Claim::ExpiredOrIdle => whole.min(LOOK_LEASE),
    }
}

/// No payment of an invoice is older than the invoice, nor than the first send of its attempt: whichever is older, because
/// the two may have been stamped by different clocks.
pub(super) fn payments_since(snapshot: &ChargeSnapshot) -> i64 {
    let created_at_ms = snapshot.invoice.created_at_ms;
    let latest = snapshot.latest.as_ref();
    latest.map_or(created_at_ms, |(_, reservation)| {
        created_at_ms.min(reservation.first_sent_at_ms)
    })
}

/// What the natural key stands for. The same for every call on an invoice, so that it never mismatches.
pub(super) fn charge_fingerprint(invoice_id: &str) -> Result<String, Problem> {
    fingerprint(OPERATION, &serde_json::json!({ "invoiceId": invoice_id })).map_err(|error| {
        tracing::error!(%error, "a fingerprint could not be made");
        Problem::internal()
    })
}

fn not_prepared(error: PrepareError) -> Problem {
    match error {
        PrepareError::Unavailable(detail) => {
            tracing::warn!(%detail, "the provider is not available");
            answer::provider_unavailable(PROVIDER_WAIT_SECONDS)
        }
        PrepareError::Credentials(detail) => {
            tracing::error!(%detail, "the provider does not accept our credentials");
            answer::provider_unavailable(CREDENTIALS_WAIT_SECONDS)
        }
        PrepareError::NoPaymentMethod(detail) => {
            tracing::info!(%detail, "the customer cannot be charged");
            answer::no_payment_method()
        }
    }
}
