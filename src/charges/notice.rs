//! What the provider tells by itself: a payment, fetched because an event named it. It is compared with our books, and
//! wakes up whoever finishes the attempt; money that no attempt accounts for is parked for a person.

use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::model::{Charge, ChargeStatus};
use super::recovery::Recovered;
use super::repository::{ChargeSnapshot, Evidence, EvidenceKind, NewAttempt};
use super::reserving::charge_fingerprint;
use super::service::{ChargesService, OPERATION};
use crate::error::Problem;
use crate::idempotency::key::charge_key;
use crate::idempotency::repository::{NewReservation, Reading};
use crate::idempotency::reservation::{Claim, new_lease_token};
use crate::invoices::model::InvoiceStatus;
use crate::payments::outcome::{PaymentStatus, ProviderPayment};
use crate::payments::provider::{FrozenRequest, LookupError};

/// How long fetching a payment may take.
const FETCH_TIME: Duration = Duration::from_secs(30);

/// How often a payment and our books are compared before it is left for later.
const ROUNDS_MAX: usize = 3;

/// Why no notice could be taken.
#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    /// The payment could not be fetched.
    #[error(transparent)]
    Provider(#[from] LookupError),
    /// The books could not be read or written.
    #[error("the books: {0}")]
    Books(#[from] Problem),
}

/// What a notice led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noticed {
    /// The attempt was looked at.
    Recovered(Recovered),
    /// Our books say the same, or the payment took no money and nobody waits for it.
    Known,
    /// It takes money, and whether our books will account for it is not decided yet: somebody works on the invoice's attempt,
    /// or a person has to judge it.
    Waiting,
    /// The provider knows no such payment.
    UnknownPayment,
    /// The payment does not carry this installation's id.
    NotOurs,
    /// It is ours, and our books have no such invoice: a restored backup, or another program with our id.
    UnknownInvoice,
    /// It took money, or may, and no attempt accounts for it: parked with the invoice.
    Parked,
    /// A refund of it had succeeded, and its money came back.
    Returned,
    /// It took money, and our books cannot take it up: the invoice is void, or paid by another payment.
    Contradiction(String),
}

/// What a payment asks for, given what is stored. Pure.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Response {
    /// Our books say the same, or it took no money and nobody waits for it.
    Nothing,
    /// The running attempt may be its own: look the attempt up.
    LookUp,
    /// It takes money, and the attempt that is not over yet does not account for it: see what becomes of that one.
    Wait,
    /// It takes money and nothing accounts for it.
    Park(String),
    /// It takes money and the books cannot take it up.
    Contradict(String),
}

impl Response {
    /// True for what a payment that has moved on meanwhile must not lead to.
    fn must_be_sure(&self) -> bool {
        match self {
            Self::Wait | Self::Park(_) | Self::Contradict(_) => true,
            Self::Nothing | Self::LookUp => false,
        }
    }
}

/// True for a payment that took money, holds it, or may take it without anybody's doing.
fn takes_money(payment: &ProviderPayment) -> bool {
    match payment.status {
        PaymentStatus::Succeeded | PaymentStatus::Processing | PaymentStatus::RequiresCapture => {
            true
        }
        PaymentStatus::Refunded
        | PaymentStatus::RequiresAction
        | PaymentStatus::RequiresConfirmation
        | PaymentStatus::RequiresPaymentMethod
        | PaymentStatus::Canceled
        | PaymentStatus::Failed
        | PaymentStatus::Other(_) => false,
    }
}

/// Decides what a payment of this invoice asks for. `looked_up` is true once the running attempt has been looked at because
/// of it: the look may have settled on this payment, or on another one.
fn response_to(payment: &ProviderPayment, snapshot: &ChargeSnapshot, looked_up: bool) -> Response {
    let Some((charge, _)) = &snapshot.latest else {
        return without_attempt(payment, snapshot);
    };
    let is_its = charge.provider_payment_id.as_deref() == Some(payment.id.as_str());
    match charge.status {
        ChargeStatus::Pending | ChargeStatus::Processing if looked_up => {
            // Its own may well be under way without a verdict; money that was taken must get into the books.
            let is_accounted_for = is_its && payment.status == PaymentStatus::Processing;
            match takes_money(payment) && !is_accounted_for {
                true => Response::Wait,
                false => Response::Nothing,
            }
        }
        ChargeStatus::Pending => match payment.status {
            // Nobody has confirmed it: there is nothing to learn yet.
            PaymentStatus::RequiresConfirmation => Response::Nothing,
            PaymentStatus::Succeeded
            | PaymentStatus::Refunded
            | PaymentStatus::Processing
            | PaymentStatus::RequiresAction
            | PaymentStatus::RequiresPaymentMethod
            | PaymentStatus::RequiresCapture
            | PaymentStatus::Canceled
            | PaymentStatus::Failed
            | PaymentStatus::Other(_) => Response::LookUp,
        },
        ChargeStatus::Processing => match payment.status {
            PaymentStatus::Processing | PaymentStatus::RequiresAction if is_its => {
                Response::Nothing
            }
            PaymentStatus::Succeeded
            | PaymentStatus::Refunded
            | PaymentStatus::Processing
            | PaymentStatus::RequiresAction
            | PaymentStatus::RequiresConfirmation
            | PaymentStatus::RequiresPaymentMethod
            | PaymentStatus::RequiresCapture
            | PaymentStatus::Canceled
            | PaymentStatus::Failed
            | PaymentStatus::Other(_) => Response::LookUp,
        },
        // A person is at it. What they decide is looked at again with this payment in mind.
        ChargeStatus::NeedsReview if takes_money(payment) && !is_its => Response::Wait,
        ChargeStatus::NeedsReview => Response::Nothing,
        ChargeStatus::Succeeded if !takes_money(payment) || is_its => Response::Nothing,
        ChargeStatus::Succeeded => Response::Contradict(format!(
            "payment {} takes money for an invoice that is already paid by {}",
            payment.id,
            charge.provider_payment_id.as_deref().unwrap_or("another")
        )),
        ChargeStatus::Failed(_) => without_attempt(payment, snapshot),
    }
}

/// No attempt is running that could account for the payment.
fn without_attempt(payment: &ProviderPayment, snapshot: &ChargeSnapshot) -> Response {
    if !takes_money(payment) {
        return Response::Nothing;
    }
    match snapshot.invoice.status {
        InvoiceStatus::Open => Response::Park(format!(
            "the provider has payment {} of this invoice, over {} {}, and no running attempt accounts for it",
            payment.id, payment.amount_minor, payment.currency
        )),
        InvoiceStatus::Paid | InvoiceStatus::Void => Response::Contradict(format!(
            "payment {} takes money for an invoice that is {}",
            payment.id,
            snapshot.invoice.status.as_str()
        )),
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

    /// Fetches a payment and takes notice of it, until it and our books agree or nothing can be done now. Safe to call at any
    /// time and any number of times.
    ///
    /// # Errors
    /// When the provider or the store cannot be asked.
    pub async fn notice(&self, payment_id: &str) -> Result<Noticed, NoticeError> {
        let mut recovered = None;
        let Some(mut payment) = self.fetch(payment_id).await? else {
            return Ok(Noticed::UnknownPayment);
        };
        for _ in 0..ROUNDS_MAX {
            let installation_id = self.parts.config.installation_id.as_str();
            if payment.installation_id.as_deref() != Some(installation_id) {
                return Ok(Noticed::NotOurs);
            }
            let Some(invoice_id) = payment.invoice_id.clone() else {
                return Ok(Noticed::UnknownInvoice);
            };
            let Some(Reading {
                value: snapshot,
                now_ms,
            }) = self.snapshot_of(&invoice_id).await?
            else {
                return Ok(Noticed::UnknownInvoice);
            };
            let looked_up = recovered.is_some();
            let mut response = response_to(&payment, &snapshot, looked_up);
            if response.must_be_sure() {
                // What was fetched before the books were read may be older than they are.
                let Some(fresh) = self.fetch(payment_id).await? else {
                    return Ok(Noticed::UnknownPayment);
                };
                payment = fresh;
                response = response_to(&payment, &snapshot, looked_up);
            }
            match response {
                Response::Nothing => {
                    return Ok(recovered.map_or(Noticed::Known, Noticed::Recovered));
                }
                Response::Wait => return Ok(Noticed::Waiting),
                Response::LookUp => match self.recover(invoice_id, Claim::ExpiredOrIdle).await? {
                    away @ (Recovered::Busy { .. } | Recovered::Foreign) => {
                        return Ok(Noticed::Recovered(away));
                    }
                    // Whether the books now account for this very payment, the next round tells.
                    looked_at @ (Recovered::Succeeded
                    | Recovered::Failed
                    | Recovered::Processing
                    | Recovered::Unknown
                    | Recovered::NeedsReview
                    | Recovered::Nothing) => recovered = Some(looked_at),
                },
                Response::Contradict(what) => {
                    tracing::error!(invoice.id = %invoice_id, payment.id = %payment.id, what, "money that the books cannot take up");
                    return Ok(Noticed::Contradiction(what));
                }
                Response::Park(evidence) => {
                    let service = self.clone();
                    let found = payment.clone();
                    let park = async move { service.park(found, snapshot, evidence, now_ms).await };
                    let parked = self.parts.tasks.run(park).await;
                    if parked.map_err(|_| Problem::internal())?? {
                        return Ok(Noticed::Parked);
                    }
                    // An attempt has begun meanwhile: look again.
                }
            }
        }
        Ok(Noticed::Waiting)
    }

    async fn fetch(&self, payment_id: &str) -> Result<Option<ProviderPayment>, LookupError> {
        let deadline = Instant::now() + FETCH_TIME;
        self.parts.provider.retrieve(payment_id, deadline).await
    }

    async fn snapshot_of(
        &self,
        invoice_id: &str,
    ) -> Result<Option<Reading<ChargeSnapshot>>, Problem> {
        let charges = Arc::clone(&self.parts.charges);
        let id = invoice_id.to_owned();
        let read = self
            .parts
            .tasks
            .run(async move { charges.charge_snapshot(&id).await });
        Ok(read.await.map_err(|_| Problem::internal())??)
    }

    /// Opens an attempt that only holds the payment, so that nobody charges the invoice again before a person has looked.
    pub(super) async fn park(
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
            asked_by: None,
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
