//! An operator's verdict on a charge that needs review. The provider is asked first: a verdict that contradicts what it
//! says is refused, unless the operator insists.

use std::time::{Duration, Instant};

use super::answer;
use super::lifecycle::outlook;
use super::model::{Charge, ChargeStatus};
use super::repository::{AttemptRecord, Evidence, EvidenceKind, Resolution};
use super::service::ChargesService;
use crate::error::{Code, Problem};
use crate::payments::outcome::{Failure, FailureKind, PaymentStatus, ProviderPayment};
use crate::payments::provider::{LookupError, PaymentQuery};

/// How long the provider may take to confirm a verdict; an operator is waiting.
const CONFIRM_TIME: Duration = Duration::from_secs(20);

/// How long a caller waits before it tries again when the provider cannot be asked, in seconds.
const PROVIDER_WAIT_SECONDS: i64 = 5;

/// The longest note of an operator, in characters.
pub const NOTE_LENGTH_MAX: usize = 1_000;

/// What an operator has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorVerdict {
    /// The payment that took the money; `None` when none did.
    pub paid_by: Option<String>,
    /// Why, in the operator's words.
    pub note: String,
    /// True to record it even where the provider says otherwise or cannot be asked.
    pub even_against_provider: bool,
}

impl ChargesService {
    /// Ends a charge in `needs_review`: with the payment that proves a success, or as failed.
    ///
    /// A success needs a payment that the provider shows as succeeded and that pays no other charge. A failure needs that
    /// no payment of the invoice took money or still may; what was never completed is cancelled first.
    pub async fn resolve(&self, id: String, verdict: OperatorVerdict) -> Result<Charge, Problem> {
        let service = self.clone();
        let resolved = self
            .parts
            .tasks
            .run(async move { service.resolve_in_task(&id, &verdict).await })
            .await;
        resolved.map_err(|_| Problem::internal())?
    }

    /// All payments of a charge's invoice as the provider shows them now, newest first.
    ///
    /// # Errors
    /// When there is no such charge, or the store or the provider cannot be asked.
    pub async fn payments_of(&self, id: String) -> Result<Vec<ProviderPayment>, Problem> {
        let service = self.clone();
        let asked = self
            .parts
            .tasks
            .run(async move {
                let charges = &service.parts.charges;
                let charge = charges.find_charge(&id).await?;
                let charge = charge.ok_or_else(answer::charge_not_found)?;
                let snapshot = charges.charge_snapshot(&charge.invoice_id).await?;
                let snapshot = snapshot.ok_or_else(answer::charge_not_found)?;
                let since_ms = snapshot.value.invoice.created_at_ms;
                service.payments_since(&charge, since_ms).await
            })
            .await;
        asked.map_err(|_| Problem::internal())?
    }

    async fn resolve_in_task(
        &self,
        id: &str,
        verdict: &OperatorVerdict,
    ) -> Result<Charge, Problem> {
        let charges = &self.parts.charges;
        let charge = charges
            .find_charge(id)
            .await?
            .ok_or_else(answer::charge_not_found)?;
        if charge.status != ChargeStatus::NeedsReview {
            return Err(self.not_in_review(&charge));
        }
        let Some(snapshot) = charges.charge_snapshot(&charge.invoice_id).await? else {
            return Err(answer::charge_not_found());
        };
        let asked = match &verdict.paid_by {
            Some(payment_id) => self.confirm_payment(&charge, payment_id).await,
            None => {
                let since_ms = snapshot.value.invoice.created_at_ms;
                self.confirm_no_payment(&charge, since_ms).await
            }
        };
        let asked = match asked {
            Ok(said) => said,
            Err(problem) if verdict.even_against_provider => {
                let said = problem.detail().to_owned();
                tracing::warn!(charge.id = %id, said, "an operator decides against the provider");
                format!("decided all the same: {said}")
            }
            Err(problem) => return Err(problem),
        };
        let (resolved, record) = self.verdict_on(&charge, verdict, snapshot.now_ms)?;
        let evidence = format!(
            "{}\nresolved: {}",
            charge.evidence.clone().unwrap_or_default(),
            verdict.note
        );
        let resolution = Resolution {
            record,
            evidence: evidence.trim().to_owned(),
            line: Evidence {
                at_ms: snapshot.now_ms,
                what: EvidenceKind::Resolution,
                detail: format!("{}: {} ({asked})", resolved.status.as_str(), verdict.note),
            },
            charge,
        };
        if !charges.resolve_review(&resolution).await? {
            return Err(self.not_in_review(&resolution.charge));
        }
        tracing::warn!(charge.id = %id, outcome = resolved.status.as_str(), "a review was resolved by an operator");
        Ok(resolved)
    }

    /// The charge as it will be, and the record that makes it so.
    fn verdict_on(
        &self,
        charge: &Charge,
        verdict: &OperatorVerdict,
        settled_at_ms: i64,
    ) -> Result<(Charge, AttemptRecord), Problem> {
        let mut charge = charge.clone();
        charge.settled_at_ms = Some(settled_at_ms);
        let record = match verdict.paid_by.clone() {
            Some(payment_id) => {
                charge.status = ChargeStatus::Succeeded;
                charge.provider_payment_id = Some(payment_id.clone());
                let response =
                    answer::succeeded(&charge, self.policy()).map_err(|_| Problem::internal())?;
                AttemptRecord::Succeeded {
                    payment_id,
                    settled_at_ms,
                    response,
                }
            }
            None => {
                let failure = Failure {
                    kind: FailureKind::Canceled,
                    code: "resolved_as_failed".into(),
                    decline_code: None,
                    advice_code: None,
                    message: Some(
                        "An operator has found that the customer was not charged.".into(),
                    ),
                    payment_id: None,
                    payment_open: false,
                };
                charge.status = ChargeStatus::Failed(failure.clone());
                let response = answer::failed(&charge, &failure, self.policy());
                AttemptRecord::Failed {
                    failure,
                    settled_at_ms,
                    response,
                }
            }
        };
        Ok((charge, record))
    }

    /// The payment has taken money, and pays nothing else here.
    async fn confirm_payment(&self, charge: &Charge, payment_id: &str) -> Result<String, Problem> {
        let others = self.parts.charges.charges_of_payment(payment_id).await?;
        let elsewhere = others
            .iter()
            .find(|other| other.id != charge.id && other.status == ChargeStatus::Succeeded);
        if let Some(other) = elsewhere {
            return Err(contradicted(format!(
                "Payment {payment_id} already pays charge {}.",
                other.id
            )));
        }
        let deadline = Instant::now() + CONFIRM_TIME;
        let payment = self.parts.provider.retrieve(payment_id, deadline).await;
        match payment.map_err(cannot_be_asked)? {
            Some(payment) if payment.status == PaymentStatus::Succeeded => {
                Ok(format!("the provider shows {payment_id} as succeeded"))
            }
            Some(_) => Err(contradicted(format!(
                "The provider does not show payment {payment_id} as succeeded."
            ))),
            None => Err(contradicted(format!(
                "The provider knows no payment {payment_id}."
            ))),
        }
    }

    /// No payment of the invoice has taken money or still may; those that nobody completed are closed first.
    async fn confirm_no_payment(&self, charge: &Charge, since_ms: i64) -> Result<String, Problem> {
        let mut canceled = 0;
        for payment in self.payments_since(charge, since_ms).await? {
            match payment.status {
                PaymentStatus::RequiresAction
                | PaymentStatus::RequiresConfirmation
                | PaymentStatus::RequiresPaymentMethod => {
                    self.close(&payment.id).await?;
                    canceled += 1;
                }
                PaymentStatus::Canceled | PaymentStatus::Failed => {}
                PaymentStatus::Succeeded
                | PaymentStatus::Processing
                | PaymentStatus::RequiresCapture
                | PaymentStatus::Other(_) => {
                    return Err(contradicted(format!(
                        "Payment {} of this invoice has taken money at the provider, or still may.",
                        payment.id
                    )));
                }
            }
        }
        Ok(format!(
            "the provider shows no payment that took money; unfinished ones cancelled: {canceled}"
        ))
    }

    /// All payments of the charge's invoice, which are not older than the invoice, and the one that the charge names.
    async fn payments_since(
        &self,
        charge: &Charge,
        since_ms: i64,
    ) -> Result<Vec<ProviderPayment>, Problem> {
        let query = PaymentQuery {
            payment_id: None,
            customer_id: charge.customer_id.clone(),
            invoice_id: charge.invoice_id.clone(),
            installation_id: self.parts.config.installation_id.clone(),
            since_ms,
        };
        let provider = &self.parts.provider;
        let listed = provider.find(&query, Instant::now() + CONFIRM_TIME).await;
        let mut payments = listed.map_err(cannot_be_asked)?;
        if let Some(id) = &charge.provider_payment_id
            && !payments.iter().any(|payment| payment.id == *id)
        {
            let named = provider.retrieve(id, Instant::now() + CONFIRM_TIME).await;
            payments.extend(named.map_err(cannot_be_asked)?);
        }
        Ok(payments)
    }

    async fn close(&self, payment_id: &str) -> Result<(), Problem> {
        let key = format!("cancel:{payment_id}");
        let deadline = Instant::now() + CONFIRM_TIME;
        let canceled = self.parts.provider.cancel(payment_id, &key, deadline).await;
        match canceled.map_err(cannot_be_asked)?.status {
            PaymentStatus::Canceled => Ok(()),
            PaymentStatus::Succeeded
            | PaymentStatus::Processing
            | PaymentStatus::RequiresAction
            | PaymentStatus::RequiresConfirmation
            | PaymentStatus::RequiresPaymentMethod
            | PaymentStatus::RequiresCapture
            | PaymentStatus::Failed
            | PaymentStatus::Other(_) => Err(contradicted(format!(
                "Payment {payment_id} of this invoice could not be cancelled at the provider."
            ))),
        }
    }

    fn not_in_review(&self, charge: &Charge) -> Problem {
        Problem::new(
            Code::ChargeNotInReview,
            "This charge is not waiting for a decision. Read it to see how it ended.",
        )
        .never(outlook(charge, self.policy()).customer_charged)
    }
}

fn contradicted(what: String) -> Problem {
    answer::resolution_contradicted(&what)
}

fn cannot_be_asked(error: LookupError) -> Problem {
    tracing::warn!(%error, "a decision cannot be confirmed");
    answer::resolution_unconfirmed(PROVIDER_WAIT_SECONDS)
}
