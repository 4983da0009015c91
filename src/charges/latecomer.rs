//! A look at the provider before a further attempt, where an attempt before it was given up without an answer of the
//! provider: its request may have come to life after all (Stripe may roll an operation forward hours later).

use std::time::{Duration, Instant};

use super::answer;
use super::model::{Charge, ChargeStatus};
use super::ownership::is_marked;
use super::repository::ChargeSnapshot;
use super::reserving::{PROVIDER_WAIT_SECONDS, payments_since};
use super::service::ChargesService;
use crate::error::Problem;
use crate::payments::outcome::{FailureKind, PaymentStatus, ProviderPayment};
use crate::payments::provider::PaymentQuery;

/// How long the look may take; a caller is waiting, and nothing is reserved yet.
const LOOK_TIME: Duration = Duration::from_secs(20);

/// True when the attempt's failure was inferred, so that no further one may start blindly. A failure that the provider answered
/// needs no look: the answer stands for the request.
fn was_inferred(charge: &Charge) -> bool {
    match &charge.status {
        ChargeStatus::Failed(failure) => match failure.kind {
            FailureKind::NeverExecuted | FailureKind::Canceled => true,
            FailureKind::Declined | FailureKind::Refused => false,
        },
        ChargeStatus::Pending
        | ChargeStatus::Processing
        | ChargeStatus::NeedsReview
        | ChargeStatus::Succeeded => false,
    }
}

/// The payment of this invoice that forbids a further attempt: it took money, or may. What an operator has judged with the
/// provider's view before them is not judged again, but for money that was kept.
fn in_the_way<'a>(
    found: &'a [ProviderPayment],
    given_up: &Charge,
    installation_id: &str,
) -> Option<&'a ProviderPayment> {
    let was_judged = matches!(&given_up.status, ChargeStatus::Failed(failure) if failure.code == answer::RESOLVED_AS_FAILED);
    found
        .iter()
        .filter(|payment| is_marked(payment, &given_up.invoice_id, installation_id))
        .find(|payment| match payment.status {
            PaymentStatus::Succeeded => true,
            PaymentStatus::Processing
            | PaymentStatus::RequiresCapture
            | PaymentStatus::RequiresAction
            | PaymentStatus::Other(_) => !was_judged,
            PaymentStatus::Refunded
            | PaymentStatus::RequiresConfirmation
            | PaymentStatus::RequiresPaymentMethod
            | PaymentStatus::Canceled
            | PaymentStatus::Failed => false,
        })
}

impl ChargesService {
    /// Looks for a payment of the invoice where one of its attempts was given up without an answer, however many answered ones
    /// followed it, and parks what it finds. True when the invoice must be looked at again.
    ///
    /// # Errors
    /// When the provider or the store cannot be asked: then no attempt may start.
    pub(super) async fn meets_a_latecomer(
        &self,
        snapshot: &ChargeSnapshot,
        now_ms: i64,
    ) -> Result<bool, Problem> {
        let Some(charge) = self.given_up(snapshot).await? else {
            return Ok(false);
        };
        let installation_id = self.parts.config.installation_id.clone();
        let query = PaymentQuery {
            payment_id: charge.provider_payment_id.clone(),
            customer_id: charge.customer_id.clone(),
            invoice_id: charge.invoice_id.clone(),
            installation_id: installation_id.clone(),
            since_ms: payments_since(snapshot),
        };
        let provider = &self.parts.provider;
        let found = match provider.find(&query, Instant::now() + LOOK_TIME).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, invoice.id = %charge.invoice_id, "no further attempt before the provider can be asked for late payments");
                return Err(answer::cannot_be_looked_for(PROVIDER_WAIT_SECONDS));
            }
        };
        let Some(payment) = in_the_way(&found, &charge, &installation_id) else {
            return Ok(false);
        };
        let evidence = format!(
            "payment {} of this invoice ({}) came after its attempt was given up: {}",
            payment.id,
            payment.status.as_str(),
            charge.idempotency_key
        );
        self.park(payment.clone(), snapshot.clone(), evidence, now_ms)
            .await?;
        Ok(true)
    }

    /// The newest attempt of the invoice whose failure was inferred.
    async fn given_up(&self, snapshot: &ChargeSnapshot) -> Result<Option<Charge>, Problem> {
        let Some((latest, _)) = &snapshot.latest else {
            return Ok(None);
        };
        if was_inferred(latest) {
            return Ok(Some(latest.clone()));
        }
        if latest.attempt == 1 {
            return Ok(None);
        }
        let attempts = self.attempts_of(&latest.invoice_id).await?;
        let given_up = attempts.into_iter().filter(was_inferred);
        Ok(given_up.max_by_key(|charge| charge.attempt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charges::fixtures::{self, INSTALLATION};

    fn failed(kind: FailureKind, code: &str) -> ChargeStatus {
        ChargeStatus::Failed(fixtures::failure(kind, code))
    }

    #[test]
    fn only_an_attempt_that_was_given_up_without_an_answer_asks_for_a_look() {
        let table = [
            (failed(FailureKind::NeverExecuted, "never_executed"), true),
            (failed(FailureKind::Canceled, "canceled_unfinished"), true),
            (failed(FailureKind::Declined, "card_declined"), false),
            (failed(FailureKind::Refused, "parameter_missing"), false),
            (ChargeStatus::Succeeded, false),
            (ChargeStatus::Pending, false),
        ];
        for (status, wanted) in table {
            assert_eq!(
                was_inferred(&fixtures::charge(status.clone())),
                wanted,
                "{status:?}"
            );
        }
    }

    #[test]
    fn money_is_in_the_way_and_what_an_operator_judged_is_not_judged_again() {
        let given_up = failed(FailureKind::NeverExecuted, "never_executed");
        let judged = failed(FailureKind::Canceled, answer::RESOLVED_AS_FAILED);
        let table = [
            (PaymentStatus::Succeeded, true, true),
            (PaymentStatus::Processing, true, false),
            (PaymentStatus::RequiresCapture, true, false),
            (PaymentStatus::RequiresAction, true, false),
            (PaymentStatus::Other("new".into()), true, false),
            (PaymentStatus::Refunded, false, false),
            (PaymentStatus::RequiresConfirmation, false, false),
            (PaymentStatus::RequiresPaymentMethod, false, false),
            (PaymentStatus::Canceled, false, false),
            (PaymentStatus::Failed, false, false),
        ];
        for (status, after_silence, after_judgement) in table {
            let ours = fixtures::payment("pi_1", status.clone());
            let found = [ours.clone()];
            let is_in_the_way = |status: &ChargeStatus, found: &[ProviderPayment]| {
                in_the_way(found, &fixtures::charge(status.clone()), INSTALLATION).is_some()
            };
            assert_eq!(
                is_in_the_way(&given_up, &found),
                after_silence,
                "{status:?}"
            );
            assert_eq!(
                is_in_the_way(&judged, &found),
                after_judgement,
                "{status:?}"
            );
            let strangers = [ProviderPayment {
                installation_id: Some("another".into()),
                ..ours
            }];
            assert!(!is_in_the_way(&given_up, &strangers), "{status:?}");
        }
    }
}
