//! An operator's verdict on a charge that needs review. The provider is asked first: a verdict that contradicts what it
//! says is refused, unless the operator insists.

use std::time::{Duration, Instant};

use super::answer;
use super::lifecycle::outlook;
use super::model::{Charge, ChargeStatus};
use super::ownership::{may_still_arrive, names_another};
use super::repository::{AttemptRecord, ChargeSnapshot, Evidence, EvidenceKind, Resolution};
use super::service::ChargesService;
use super::settlement::all_sends_are_old;
use crate::error::{Code, Problem};
use crate::idempotency::repository::Reading;
use crate::idempotency::reservation::new_lease_token;
use crate::payments::outcome::{Failure, FailureKind, PaymentStatus, ProviderPayment};
use crate::payments::provider::{LookupError, PaymentQuery};
use crate::storage::StorageError;

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

/// Why a decision is not recorded.
struct Refusal {
    problem: Problem,
    /// True when the operator may insist.
    may_force: bool,
}

impl ChargesService {
    /// Ends a charge in `needs_review`: with the payment that proves a success, or as failed.
    ///
    /// A success needs a payment of this invoice that the provider shows as succeeded, that pays no other charge, and beside
    /// which no other one took money. A failure needs that no payment of the invoice took money and kept it, or still may; what
    /// was never completed is cancelled.
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
                let named = charge.provider_payment_id.clone().unwrap_or_default();
                let found = service.payments_since(&charge, &named, since_ms).await;
                found.map_err(|refusal| refusal.problem)
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
        let since_ms = snapshot.value.invoice.created_at_ms;
        let asked = match &verdict.paid_by {
            _ if charge.provider != self.parts.provider.name() => Err(contradicted(format!(
                "This charge was made with the provider {}, which is not the one that is set now.",
                charge.provider
            ))),
            Some(payment_id) => self.confirm_payment(&charge, payment_id, since_ms).await,
            None => self.confirm_no_payment(&charge, &snapshot).await,
        };
        let asked = match asked {
            Ok(said) => said,
            Err(Refusal {
                problem,
                may_force: true,
            }) if verdict.even_against_provider => {
                let said = problem.detail().to_owned();
                tracing::warn!(charge.id = %id, said, "an operator decides against the provider");
                format!("decided all the same: {said}")
            }
            Err(refusal) => return Err(refusal.problem),
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
                    code: answer::RESOLVED_AS_FAILED.into(),
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

    /// The payment is this invoice's, has taken money and pays nothing else here, and no other payment of the invoice has or
    /// still may.
    async fn confirm_payment(
        &self,
        charge: &Charge,
        payment_id: &str,
        since_ms: i64,
    ) -> Result<String, Refusal> {
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
        let payments = self.payments_since(charge, payment_id, since_ms).await?;
        let Some(payment) = payments.iter().find(|payment| payment.id == payment_id) else {
            return Err(contradicted(format!(
                "The provider knows no payment {payment_id}."
            )));
        };
        let installation_id = self.parts.config.installation_id.as_str();
        let is_ours = payment.installation_id.as_deref() == Some(installation_id);
        if payment.invoice_id.as_deref() != Some(charge.invoice_id.as_str()) {
            let refusal = contradicted(format!(
                "Payment {payment_id} was not made for this invoice."
            ));
            return Err(Refusal {
                // Another invoice of ours has a claim to it, and could not be paid by it any more.
                may_force: !(is_ours && payment.invoice_id.is_some()),
                ..refusal
            });
        }
        // Another program on the same account may number its invoices alike.
        if !is_ours {
            return Err(contradicted(format!(
                "Payment {payment_id} does not carry this installation's id: another program may have made it."
            )));
        }
        if payment.status != PaymentStatus::Succeeded {
            return Err(contradicted(format!(
                "The provider does not show payment {payment_id} as succeeded."
            )));
        }
        let another = payments
            .iter()
            .find(|payment| payment.id != payment_id && may_have_money(payment));
        match another {
            Some(another) => Err(contradicted(format!(
                "Payment {} of this invoice has taken money at the provider, too, or still may.",
                another.id
            ))),
            None => Ok(format!("the provider shows {payment_id} as succeeded")),
        }
    }

    /// No payment of the invoice has taken money and kept it, or still may; those that nobody completed are closed, whatever
    /// else there is. A payment that names another invoice or installation is none of this one's.
    async fn confirm_no_payment(
        &self,
        charge: &Charge,
        snapshot: &Reading<ChargeSnapshot>,
    ) -> Result<String, Refusal> {
        let named = charge.provider_payment_id.clone().unwrap_or_default();
        let since_ms = snapshot.value.invoice.created_at_ms;
        let mut found = self.payments_since(charge, &named, since_ms).await?;
        let installation_id = &self.parts.config.installation_id;
        found.retain(|payment| !names_another(payment, &charge.invoice_id, installation_id));
        let mut contradictions = Vec::new();
        let window_ms = self.policy().key_window_ms;
        let latest = snapshot.value.latest.as_ref();
        let is_old = latest.is_some_and(|(_, reservation)| {
            all_sends_are_old(reservation, window_ms, snapshot.now_ms)
        });
        if may_still_arrive(charge, &found, is_old) {
            contradictions.push(contradicted(
                "This attempt's own request was sent a short time ago, and may still take money at the provider."
                    .to_owned(),
            ));
        }
        let mut canceled = 0;
        for payment in found {
            match payment.status {
                PaymentStatus::RequiresAction
                | PaymentStatus::RequiresConfirmation
                | PaymentStatus::RequiresPaymentMethod => match self.close(&payment.id).await {
                    Ok(()) => canceled += 1,
                    Err(refusal) => contradictions.push(refusal),
                },
                PaymentStatus::Canceled | PaymentStatus::Failed | PaymentStatus::Refunded => {}
                // To call this failed would be to charge the customer again.
                PaymentStatus::Succeeded => contradictions.push(Refusal {
                    may_force: false,
                    problem: answer::resolution_over_money(&payment.id),
                }),
                PaymentStatus::Processing
                | PaymentStatus::RequiresCapture
                | PaymentStatus::Other(_) => contradictions.push(contradicted(format!(
                    "Payment {} of this invoice may still take money at the provider.",
                    payment.id
                ))),
            }
        }
        // What cannot be forced is told first.
        contradictions.sort_by_key(|refusal| refusal.may_force);
        match contradictions.into_iter().next() {
            Some(refusal) => Err(refusal),
            None => Ok(format!(
                "the provider shows no payment that took money and kept it; unfinished ones cancelled: {canceled}"
            )),
        }
    }

    /// All payments of the charge's invoice, which are not older than the invoice, and the one that is named.
    async fn payments_since(
        &self,
        charge: &Charge,
        named: &str,
        since_ms: i64,
    ) -> Result<Vec<ProviderPayment>, Refusal> {
        let query = PaymentQuery {
            payment_id: Some(named.to_owned()).filter(|id| !id.is_empty()),
            customer_id: charge.customer_id.clone(),
            invoice_id: charge.invoice_id.clone(),
            installation_id: self.parts.config.installation_id.clone(),
            since_ms,
        };
        let provider = &self.parts.provider;
        let found = provider.find(&query, Instant::now() + CONFIRM_TIME).await;
        found.map_err(cannot_be_asked)
    }

    async fn close(&self, payment_id: &str) -> Result<(), Refusal> {
        // Each decision asks anew: a stored error would be repeated for a day.
        let key = format!("cancel:{payment_id}:{}", new_lease_token());
        let deadline = Instant::now() + CONFIRM_TIME;
        let canceled = self.parts.provider.cancel(payment_id, &key, deadline).await;
        let payment = canceled.map_err(cannot_be_asked)?;
        match payment.status == PaymentStatus::Canceled {
            true => Ok(()),
            false => Err(contradicted(format!(
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

fn may_have_money(payment: &ProviderPayment) -> bool {
    match payment.status {
        PaymentStatus::Succeeded
        | PaymentStatus::Processing
        | PaymentStatus::RequiresCapture
        | PaymentStatus::RequiresAction
        | PaymentStatus::Other(_) => true,
        PaymentStatus::Refunded
        | PaymentStatus::RequiresConfirmation
        | PaymentStatus::RequiresPaymentMethod
        | PaymentStatus::Canceled
        | PaymentStatus::Failed => false,
    }
}

fn contradicted(what: String) -> Refusal {
    Refusal {
        problem: answer::resolution_contradicted(&what),
        may_force: true,
    }
}

fn cannot_be_asked(error: LookupError) -> Refusal {
    tracing::warn!(%error, "a decision cannot be confirmed");
    Refusal {
        problem: answer::resolution_unconfirmed(PROVIDER_WAIT_SECONDS),
        may_force: true,
    }
}

/// The books could not be read: nothing can be decided without them.
impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        Self {
            problem: error.into(),
            may_force: false,
        }
    }
}
