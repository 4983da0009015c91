//! A look at the provider before a further attempt, where the attempt before it was given up without an answer of the
//! provider: its request may have come to life after all (Stripe may roll an operation forward hours later).

use std::time::{Duration, Instant};

use super::answer;
use super::model::ChargeStatus;
use super::ownership::is_marked;
use super::repository::ChargeSnapshot;
use super::reserving::{PROVIDER_WAIT_SECONDS, payments_since};
use super::service::ChargesService;
use crate::error::Problem;
use crate::payments::outcome::{FailureKind, PaymentStatus, ProviderPayment};
use crate::payments::provider::PaymentQuery;

/// How long the look may take; a caller is waiting, and nothing is reserved yet.
const LOOK_TIME: Duration = Duration::from_secs(20);

/// True when the latest attempt's failure was inferred, so that the next one must not start blindly. A failure that the
/// provider answered needs no look: the answer stands for the request.
fn was_inferred(snapshot: &ChargeSnapshot) -> bool {
    let Some((charge, _)) = &snapshot.latest else {
        return false;
    };
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
    snapshot: &ChargeSnapshot,
    installation_id: &str,
) -> Option<&'a ProviderPayment> {
    let was_judged = snapshot.latest.as_ref().is_some_and(|(charge, _)| {
        matches!(&charge.status, ChargeStatus::Failed(failure) if failure.code == answer::RESOLVED_AS_FAILED)
    });
    found
        .iter()
        .filter(|payment| is_marked(payment, &snapshot.invoice.id, installation_id))
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
    /// Looks for a payment of the invoice where the latest attempt was given up without an answer, and parks what it finds.
    /// True when the invoice must be looked at again.
    ///
    /// # Errors
    /// When the provider or the store cannot be asked: then no attempt may start.
    pub(super) async fn meets_a_latecomer(
        &self,
        snapshot: &ChargeSnapshot,
        now_ms: i64,
    ) -> Result<bool, Problem> {
        let Some((charge, _)) = snapshot.latest.as_ref().filter(|_| was_inferred(snapshot)) else {
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
                return Err(answer::provider_unavailable(PROVIDER_WAIT_SECONDS));
            }
        };
        let Some(payment) = in_the_way(&found, snapshot, &installation_id) else {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charges::fixtures::{self, INSTALLATION};
    use crate::idempotency::reservation::ReservationState;

    fn failed(kind: FailureKind, code: &str) -> ChargeStatus {
        ChargeStatus::Failed(fixtures::failure(kind, code))
    }

    fn latest(status: &ChargeStatus) -> ChargeSnapshot {
        let state = ReservationState::Failed(fixtures::answer(409));
        let charge = fixtures::charge(status.clone());
        ChargeSnapshot {
            invoice: fixtures::invoice(),
            latest: Some((charge, fixtures::reservation(state))),
        }
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
            assert_eq!(was_inferred(&latest(&status)), wanted, "{status:?}");
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
                in_the_way(found, &latest(status), INSTALLATION).is_some()
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
