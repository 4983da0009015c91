//! What the provider tells by itself: a payment, fetched because an event named it. It is compared with our books, and
//! wakes up whoever finishes the attempt; money that no attempt accounts for is parked for a person.

use std::sync::Arc;

use uuid::Uuid;

use super::model::{Charge, ChargeStatus};
use super::recovery::Recovered;
use super::repository::{ChargeSnapshot, Evidence, EvidenceKind, NewAttempt};
use super::reserving::charge_fingerprint;
use super::review::was_resolved_as_failed;
use super::service::{ChargesService, OPERATION};
use crate::error::Problem;
use crate::idempotency::key::charge_key;
use crate::idempotency::repository::{NewReservation, Reading};
use crate::idempotency::reservation::{Claim, new_lease_token};
use crate::invoices::model::InvoiceStatus;
use crate::payments::outcome::{PaymentStatus, ProviderPayment};
use crate::payments::provider::FrozenRequest;
use crate::storage::StorageError;

/// What a notice led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noticed {
    /// The attempt was looked at.
    Recovered(Recovered),
    /// Our books say the same, or the payment took no money and nobody waits for it.
    Known,
    /// The payment does not carry this installation's id.
    NotOurs,
    /// It is ours, and our books have no such invoice: a restored backup, or another program with our id.
    UnknownInvoice,
    /// It took money, or may, and no attempt accounts for it: parked with the invoice.
    Parked,
    /// It took money, and our books cannot take it up: the invoice is void, or paid by another payment.
    Contradiction(String),
}

/// What a payment asks for, given what is stored. Pure.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Response {
    Nothing,
    LookUp,
    Park(String),
    Contradict(String),
}

/// Decides what a payment of this invoice asks for. `was_judged` is true when an operator has already ended an attempt with
/// this payment as failed (after a refund by hand, say): whatever is told of it later does not open the case again.
fn response_to(payment: &ProviderPayment, snapshot: &ChargeSnapshot, was_judged: bool) -> Response {
    let takes_money = match payment.status {
        PaymentStatus::Succeeded | PaymentStatus::Processing | PaymentStatus::RequiresCapture => {
            true
        }
        PaymentStatus::RequiresAction
        | PaymentStatus::RequiresConfirmation
        | PaymentStatus::RequiresPaymentMethod
        | PaymentStatus::Canceled
        | PaymentStatus::Failed
        | PaymentStatus::Other(_) => false,
    };
    let latest = snapshot.latest.as_ref().map(|(charge, _)| charge);
    match latest.map(|charge| (charge, &charge.status)) {
        Some((_, ChargeStatus::Pending)) => match payment.status {
            // Nobody has confirmed it: there is nothing to learn yet.
            PaymentStatus::RequiresConfirmation => Response::Nothing,
            PaymentStatus::Succeeded
            | PaymentStatus::Processing
            | PaymentStatus::RequiresAction
            | PaymentStatus::RequiresPaymentMethod
            | PaymentStatus::RequiresCapture
            | PaymentStatus::Canceled
            | PaymentStatus::Failed
            | PaymentStatus::Other(_) => Response::LookUp,
        },
        Some((_, ChargeStatus::Processing)) => match payment.status {
            PaymentStatus::Processing | PaymentStatus::RequiresAction => Response::Nothing,
            PaymentStatus::Succeeded
            | PaymentStatus::RequiresConfirmation
            | PaymentStatus::RequiresPaymentMethod
            | PaymentStatus::RequiresCapture
            | PaymentStatus::Canceled
            | PaymentStatus::Failed
            | PaymentStatus::Other(_) => Response::LookUp,
        },
        Some((_, ChargeStatus::NeedsReview)) => Response::Nothing,
        Some((charge, ChargeStatus::Succeeded)) => {
            let is_the_same = charge.provider_payment_id.as_deref() == Some(payment.id.as_str());
            if !takes_money || is_the_same || was_judged {
                return Response::Nothing;
            }
            Response::Contradict(format!(
                "payment {} takes money for an invoice that is already paid by {}",
                payment.id,
                charge.provider_payment_id.as_deref().unwrap_or("another")
            ))
        }
        Some((_, ChargeStatus::Failed(_))) | None if !takes_money || was_judged => {
            Response::Nothing
        }
        Some((_, ChargeStatus::Failed(_))) | None => match snapshot.invoice.status {
            InvoiceStatus::Open => Response::Park(format!(
                "the provider has payment {} of this invoice, over {} {}, and no running attempt accounts for it",
                payment.id, payment.amount_minor, payment.currency
            )),
            InvoiceStatus::Paid | InvoiceStatus::Void => Response::Contradict(format!(
                "payment {} takes money for an invoice that is {}",
                payment.id,
                snapshot.invoice.status.as_str()
            )),
        },
    }
}

impl ChargesService {
    /// True when a charge that is over names this payment as the one that took the money.
    pub async fn is_settled_by(&self, payment_id: &str) -> Result<bool, Problem> {
        let charges = Arc::clone(&self.parts.charges);
        let id = payment_id.to_owned();
        let read = self
            .parts
            .tasks
            .run(async move { charges.charges_of_payment(&id).await });
        let named = read.await.map_err(|_| Problem::internal())??;
        Ok(named
            .iter()
            .any(|charge| charge.status == ChargeStatus::Succeeded))
    }

    /// Takes notice of a payment as the provider shows it now. Safe to call at any time and any number of times.
    pub async fn notice(&self, payment: ProviderPayment) -> Result<Noticed, Problem> {
        let installation_id = self.parts.config.installation_id.as_str();
        if payment.installation_id.as_deref() != Some(installation_id) {
            return Ok(Noticed::NotOurs);
        }
        let Some(invoice_id) = payment.invoice_id.clone() else {
            return Ok(Noticed::UnknownInvoice);
        };
        let charges = Arc::clone(&self.parts.charges);
        let (id, payment_id) = (invoice_id.clone(), payment.id.clone());
        let read = self.parts.tasks.run(async move {
            let named = charges.charges_of_payment(&payment_id).await?;
            Ok::<_, StorageError>((charges.charge_snapshot(&id).await?, named))
        });
        let (snapshot, named) = read.await.map_err(|_| Problem::internal())??;
        let Some(Reading {
            value: snapshot,
            now_ms,
        }) = snapshot
        else {
            return Ok(Noticed::UnknownInvoice);
        };
        let was_judged = named.iter().any(was_resolved_as_failed);
        Ok(match response_to(&payment, &snapshot, was_judged) {
            Response::Nothing => Noticed::Known,
            Response::LookUp => {
                Noticed::Recovered(self.recover(invoice_id, Claim::ExpiredOrIdle).await?)
            }
            Response::Contradict(what) => {
                tracing::error!(invoice.id = %invoice_id, payment.id = %payment.id, what, "money that the books cannot take up");
                Noticed::Contradiction(what)
            }
            Response::Park(evidence) => {
                let service = self.clone();
                let park = async move { service.park(payment, snapshot, evidence, now_ms).await };
                let parked = self.parts.tasks.run(park).await;
                match parked.map_err(|_| Problem::internal())?? {
                    true => Noticed::Parked,
                    // An attempt has begun meanwhile: look again.
                    false => Noticed::Recovered(Recovered::Busy {
                        retry_after_ms: 1_000,
                    }),
                }
            }
        })
    }

    /// Opens an attempt that only holds the payment, so that nobody charges the invoice again before a person has looked.
    async fn park(
        &self,
        payment: ProviderPayment,
        snapshot: ChargeSnapshot,
        evidence: String,
        now_ms: i64,
    ) -> Result<bool, Problem> {
        let invoice = snapshot.invoice;
        let attempt = snapshot.latest.map_or(1, |(charge, _)| charge.attempt + 1);
        let key = charge_key(&invoice.id, attempt);
        let charge = Charge {
            id: format!("chg_{}", Uuid::now_v7().simple()),
            invoice_id: invoice.id.clone(),
            attempt,
            idempotency_key: key.clone(),
            status: ChargeStatus::NeedsReview,
            amount_minor: invoice.money.amount_minor(),
            currency: invoice.money.currency().as_str().to_owned(),
            customer_id: invoice.customer_id,
            payment_method_id: None,
            invoice_revision: invoice.revision,
            provider: self.parts.provider.name().to_owned(),
            // Nothing was ever sent for it, and nothing can be.
            request: FrozenRequest {
                path: String::new(),
                body: String::new(),
            },
            provider_payment_id: Some(payment.id.clone()),
            evidence: Some(evidence.clone()),
            created_at_ms: now_ms,
            settled_at_ms: None,
        };
        let reservation = NewReservation {
            key,
            operation: OPERATION,
            attempt,
            fingerprint: charge_fingerprint(&invoice.id)?,
            lease_token: new_lease_token(),
            lease_ms: 0,
        };
        let lines = [Evidence {
            at_ms: now_ms,
            what: EvidenceKind::Notice,
            detail: evidence.clone(),
        }];
        let new = NewAttempt {
            reservation,
            charge,
        };
        let parked = self.parts.charges.park_payment(&new, &lines).await?;
        if parked {
            tracing::error!(
                invoice.id = %invoice.id, charge.id = %new.charge.id, payment.id = %payment.id, outcome = "needs_review", evidence,
                "a payment that no attempt accounts for is parked"
            );
        }
        Ok(parked)
    }
}
