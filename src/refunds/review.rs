//! An operator's verdict on a refund that needs review. The provider is asked first: a verdict that contradicts what it says
//! is refused, unless the operator insists.

use std::time::{Duration, Instant};

use super::answer;
use super::model::{Refund, RefundStatus};
use super::repository::{RefundResolution, RefundSnapshot};
use super::reserving::{EVER, payment_of};
use super::service::RefundsService;
use super::settlement::{Ours, bare, gives_money};
use crate::charges::answer::RESOLVED_AS_FAILED;
use crate::charges::repository::{AttemptRecord, Evidence, EvidenceKind};
use crate::charges::reserving::PROVIDER_WAIT_SECONDS;
use crate::charges::settlement::all_sends_are_old;
use crate::error::Problem;
use crate::idempotency::repository::Reading;
use crate::payments::outcome::{Failure, FailureKind};
use crate::payments::provider::LookupError;
use crate::payments::refund::{ProviderRefund, RefundQuery, RefundState};
use crate::storage::StorageError;

/// How long the provider may take to confirm a verdict; an operator is waiting.
const CONFIRM_TIME: Duration = Duration::from_secs(20);

/// What an operator has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundVerdict {
    /// The refund at the provider that gave the money back; `None` when none did.
    pub given_by: Option<String>,
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

impl RefundsService {
    /// Ends a refund in `needs_review`: with the refund at the provider that proves a success, or as failed.
    ///
    /// A success needs a refund of this charge's payment that the provider shows as succeeded, over the same amount, that
    /// is no other refund of ours. A failure needs that none of this refund's own gave money back, or still may.
    pub async fn resolve(&self, id: String, verdict: RefundVerdict) -> Result<Refund, Problem> {
        let service = self.clone();
        let resolve = async move { service.resolve_in_task(&id, &verdict).await };
        let resolved = self.parts.tasks.run(resolve).await;
        resolved.map_err(|_| Problem::internal())?
    }

    async fn resolve_in_task(&self, id: &str, verdict: &RefundVerdict) -> Result<Refund, Problem> {
        let refunds = &self.parts.refunds;
        let Some(reading) = refunds.refund_by_id(id).await? else {
            return Err(answer::refund_not_found());
        };
        let own = reading.value.own.as_ref().map(|(refund, _)| refund.clone());
        let refund = own.ok_or_else(answer::refund_not_found)?;
        if refund.status != RefundStatus::NeedsReview {
            return Err(answer::not_in_review(&refund));
        }
        let asked = match &verdict.given_by {
            _ if self.is_anothers(&reading.value) => Err(contradicted(format!(
                "This refund was made with the provider {}, which is not the one that is set now.",
                refund.provider
            ))),
            Some(given_by) => self.confirm_refund(&refund, &reading, given_by).await,
            None => self.confirm_no_refund(&refund, &reading).await,
        };
        let asked = match asked {
            Ok(said) => said,
            Err(Refusal {
                problem,
                may_force: true,
            }) if verdict.even_against_provider => {
                let said = problem.detail().to_owned();
                tracing::warn!(refund.id = %id, said, "an operator decides against the provider");
                format!("decided all the same: {said}")
            }
            Err(refusal) => return Err(refusal.problem),
        };
        let (resolved, record) = verdict_on(&refund, verdict, reading.now_ms)?;
        let known = refund.evidence.clone().unwrap_or_default();
        let evidence = format!("{known}\nresolved: {}", verdict.note);
        let resolution = RefundResolution {
            record,
            evidence: evidence.trim().to_owned(),
            line: Evidence {
                at_ms: reading.now_ms,
                what: EvidenceKind::Resolution,
                detail: format!("{}: {} ({asked})", resolved.status.as_str(), verdict.note),
            },
            refund,
        };
        if !refunds.resolve_refund(&resolution).await? {
            return Err(answer::not_in_review(&resolution.refund));
        }
        tracing::warn!(refund.id = %id, outcome = resolved.status.as_str(), "a review was resolved by an operator");
        Ok(resolved)
    }

    /// The refund gives this charge's payment back, has done so, over the same amount, and is no other one of ours.
    async fn confirm_refund(
        &self,
        refund: &Refund,
        Reading {
            value: snapshot,
            now_ms,
        }: &Reading<RefundSnapshot>,
        given_by: &str,
    ) -> Result<String, Refusal> {
        let now_ms = *now_ms;
        let others = self.parts.refunds.refunds_given_by(given_by).await?;
        let elsewhere = others.iter().find(|other| {
            other.id != refund.id && !matches!(other.status, RefundStatus::Failed(_))
        });
        if let Some(other) = elsewhere {
            let what = format!("Refund {given_by} already settles {}.", other.id);
            return Err(Refusal {
                // It could not be recorded twice.
                may_force: false,
                ..contradicted(what)
            });
        }
        let all = self.refunds_of(snapshot, given_by).await?;
        let Some(found) = all.iter().find(|found| found.id == given_by) else {
            return Err(contradicted(format!(
                "The provider knows no refund {given_by} of this payment."
            )));
        };
        let payment_id = payment_of(&snapshot.charge)?;
        let ours = self.ours(refund, &payment_id);
        // What was parked because it came late carries the key of the attempt that had been given up.
        let another = match ours.is(found) {
            true => ours.other_money(found),
            false => ours.mismatch(found),
        };
        if let Some(what) = another {
            return Err(contradicted(format!("The provider shows that {what}.")));
        }
        if found.status != RefundState::Succeeded {
            return Err(contradicted(format!(
                "The provider does not show refund {given_by} as succeeded."
            )));
        }
        let other = all
            .iter()
            .find(|other| other.id != given_by && ours.is(other) && gives_money(&other.status));
        if let Some(other) = other {
            return Err(contradicted(format!(
                "Refund {} was made by this one's own request and has given money back, too, or still may.",
                other.id
            )));
        }
        if !ours.is(found) && self.may_still_execute(refund, snapshot, now_ms) {
            return Err(contradicted(
                "This refund's own request was sent a short time ago, and may still give money back beside that one."
                    .to_owned(),
            ));
        }
        Ok(format!("the provider shows {given_by} as succeeded"))
    }

    /// Nothing that is this refund's own gave money back, or still may.
    async fn confirm_no_refund(
        &self,
        refund: &Refund,
        reading: &Reading<RefundSnapshot>,
    ) -> Result<String, Refusal> {
        let snapshot = &reading.value;
        let named = refund.provider_refund_id.clone().unwrap_or_default();
        let found = self.refunds_of(snapshot, &named).await?;
        let payment_id = payment_of(&snapshot.charge)?;
        let ours = self.ours(refund, &payment_id);
        let own = || found.iter().filter(|found| ours.is(found));
        if let Some(given) = own().find(|found| found.status == RefundState::Succeeded) {
            return Err(Refusal {
                // To call this failed would be to give the money back again.
                may_force: false,
                problem: answer::resolution_over_money(&given.id),
            });
        }
        if let Some(open) = own().find(|found| gives_money(&found.status)) {
            return Err(contradicted(format!(
                "Refund {} may still give the money back at the provider.",
                open.id
            )));
        }
        if own().next().is_none() && self.may_still_execute(refund, snapshot, reading.now_ms) {
            return Err(contradicted(
                "This refund's own request was sent a short time ago, and may still give money back at the provider."
                    .to_owned(),
            ));
        }
        Ok("the provider shows no refund of this key that gave money back".to_owned())
    }

    /// True when this refund's own request was sent so lately that it may still be executed. One that was parked without naming a
    /// refund has lost its key to another request, and one that came late never had a request: these can execute nothing.
    fn may_still_execute(&self, refund: &Refund, snapshot: &RefundSnapshot, now_ms: i64) -> bool {
        let window_ms = self.parts.config.key_window_ms;
        let reservation = snapshot.own.as_ref().map(|(_, reservation)| reservation);
        let is_old = reservation.is_some_and(|held| all_sends_are_old(held, window_ms, now_ms));
        refund.provider_refund_id.is_some() && !is_old && !refund.request.path.is_empty()
    }

    /// All refunds of the charge's payment, and the one that is named.
    async fn refunds_of(
        &self,
        snapshot: &RefundSnapshot,
        named: &str,
    ) -> Result<Vec<ProviderRefund>, Refusal> {
        let query = RefundQuery {
            payment_id: payment_of(&snapshot.charge)?,
            refund_id: Some(named.to_owned()).filter(|id| !id.is_empty()),
            since_ms: EVER,
        };
        let provider = self.parts.provider.refunds();
        let found = provider.find_refunds(&query, Instant::now() + CONFIRM_TIME);
        found.await.map_err(cannot_be_asked)
    }

    pub(super) fn ours<'a>(&'a self, refund: &'a Refund, payment_id: &'a str) -> Ours<'a> {
        Ours {
            refund,
            payment_id,
            installation_id: &self.parts.config.installation_id,
        }
    }
}

/// The refund as it will be, and the record that makes it so.
fn verdict_on(
    refund: &Refund,
    verdict: &RefundVerdict,
    settled_at_ms: i64,
) -> Result<(Refund, AttemptRecord), Problem> {
    let mut refund = refund.clone();
    refund.settled_at_ms = Some(settled_at_ms);
    let record = match verdict.given_by.clone() {
        Some(given_by) => {
            refund.status = RefundStatus::Succeeded;
            refund.provider_refund_id = Some(given_by.clone());
            let response = answer::succeeded(&refund).map_err(|_| Problem::internal())?;
            AttemptRecord::Succeeded {
                payment_id: given_by,
                settled_at_ms,
                response,
            }
        }
        None => {
            let failure = Failure {
                message: Some("An operator has found that nothing was given back.".into()),
                ..bare(FailureKind::Canceled, RESOLVED_AS_FAILED, None)
            };
            refund.status = RefundStatus::Failed(failure.clone());
            let response = answer::failed(&refund, &failure);
            AttemptRecord::Failed {
                failure,
                settled_at_ms,
                response,
            }
        }
    };
    Ok((refund, record))
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

/// The books could not be read, or contradict themselves: nothing can be decided on them.
impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            may_force: false,
        }
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        Problem::from(error).into()
    }
}
