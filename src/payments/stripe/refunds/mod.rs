//! Money given back, in Stripe's dialect: the refund side of the port.
//!
//! - [`request`]: orders as form-encoded bytes, and what frozen bytes ask for (pure).
//! - [`decision`]: what an answer to a refund means for the money (pure).
//! - [`objects`]: Stripe's Refund in our words (pure).
//!
//! What is not about refunds (repeats, deadlines, the table of statuses) is the payments' own, in the folder above.

pub mod decision;
pub mod objects;
pub mod request;

use std::time::Instant;

use async_trait::async_trait;
use tokio::time::Instant as TokioInstant;

use self::decision::RefundAnswer;
use self::objects::refund_of;
use self::request::Asked;
use super::client::{StripeProvider, unusable_key};
use super::decision::parse;
use super::lookup::{MAX_PAGES, Paged, next_page, odd_id, one_page, success, unreadable};
use super::transport::{HttpCall, Transport};
use super::wire::{Page, Refund};
use crate::payments::outcome::{Failure, Outcome, Unknown};
use crate::payments::provider::{FrozenRequest, LookupError, SendLimits};
use crate::payments::refund::{
    ProviderRefund, RefundOrder, RefundPage, RefundProvider, RefundQuery,
};

#[async_trait]
impl<T: Transport> RefundProvider for StripeProvider<T> {
    fn prepare_refund(&self, order: &RefundOrder) -> FrozenRequest {
        request::freeze(self.api(), order)
    }

    async fn send_refund(
        &self,
        key: &str,
        request: &FrozenRequest,
        limits: SendLimits,
    ) -> Outcome<ProviderRefund> {
        let Some(asked) = Asked::of(request) else {
            return Outcome::Unknown(Unknown::look_up(
                "the stored request is not a refund of this provider",
            ));
        };
        let Some(key) = self.provider_key(key) else {
            return unusable_key(limits);
        };
        let call = HttpCall::post(&request.path, &key, &request.body);
        let settled = self
            .send_until_settled(RefundAnswer { asked: &asked }, call, limits)
            .await;
        match settled.outcome {
            Outcome::Succeeded(refund) | Outcome::Processing(refund) if settled.replayed => {
                state_now(self, refund, limits.deadline).await
            }
            Outcome::Failed(failure) if decision::was_given_back(&failure) => {
                ours_or(self, failure, &asked, limits.deadline).await
            }
            outcome @ (Outcome::Succeeded(_)
            | Outcome::Processing(_)
            | Outcome::Failed(_)
            | Outcome::NotExecuted(_)
            | Outcome::Unknown(_)) => outcome,
        }
    }

    async fn find_refunds(
        &self,
        query: &RefundQuery,
        deadline: Instant,
    ) -> Result<Vec<ProviderRefund>, LookupError> {
        let mut found = list(self, query, deadline).await?;
        // One that is known by its id need not be in the list: it may be older.
        if let Some(id) = query.refund_id.as_deref()
            && found.iter().all(|refund| refund.id != id)
            && request::refund_path(id).is_some()
        {
            found.extend(self.retrieve_refund(id, deadline).await?);
        }
        Ok(found)
    }

    async fn retrieve_refund(
        &self,
        refund_id: &str,
        deadline: Instant,
    ) -> Result<Option<ProviderRefund>, LookupError> {
        let path = request::refund_path(refund_id).ok_or_else(odd_id)?;
        let deadline = TokioInstant::from_std(deadline);
        let result = self.call(HttpCall::get(&path), deadline).await?;
        if result.status() == Some(404) {
            return Ok(None);
        }
        let refund = parse::<Refund>(success(&result)?)
            .and_then(|refund| refund_of(&refund, None))
            .ok_or_else(unreadable)?;
        if refund.id == refund_id {
            Ok(Some(refund))
        } else {
            Err(LookupError("the answer is about another refund".to_owned()))
        }
    }

    async fn page_refunds(
        &self,
        since_ms: i64,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<RefundPage, LookupError> {
        let path = request::list_path(None, since_ms, after);
        let deadline = TokioInstant::from_std(deadline);
        let page = one_page::<T, Refund>(self, &path, deadline).await?;
        Ok(RefundPage {
            refunds: refunds_in(&page, None)?,
            next: next_page(&page)?,
        })
    }
}

impl Paged for Refund {
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

/// A stored answer is a snapshot of the first moment, and a refund may fail after it succeeded: its state of now counts.
/// Where that cannot be had, the stored answer stands, as it would have stood at the first moment.
async fn state_now<T: Transport>(
    provider: &StripeProvider<T>,
    stored: ProviderRefund,
    deadline: Instant,
) -> Outcome<ProviderRefund> {
    match provider.retrieve_refund(&stored.id, deadline).await {
        Ok(Some(now)) => decision::of_refund(ProviderRefund {
            payment_id: stored.payment_id,
            ..now
        }),
        Ok(None) | Err(LookupError(_)) => decision::of_refund(stored),
    }
}

/// The payment's money was given back before this send. That may have been this very refund, of which our books have
/// forgotten the first send (a restored backup) and Stripe the key: then it is found by its marks.
async fn ours_or<T: Transport>(
    provider: &StripeProvider<T>,
    failure: Failure,
    asked: &Asked,
    deadline: Instant,
) -> Outcome<ProviderRefund> {
    let query = RefundQuery {
        payment_id: asked.payment_id.clone(),
        refund_id: None,
        since_ms: 0,
    };
    match provider.find_refunds(&query, deadline).await {
        Ok(found) => match found.into_iter().find(|refund| asked.is_given_by(refund)) {
            Some(refund) => decision::of_refund(refund),
            None => Outcome::Failed(failure),
        },
        Err(LookupError(reason)) => Outcome::Unknown(Unknown::look_up(format!(
            "{}, and the payment's refunds could not be read: {reason}",
            failure.code
        ))),
    }
}

async fn list<T: Transport>(
    provider: &StripeProvider<T>,
    query: &RefundQuery,
    deadline: Instant,
) -> Result<Vec<ProviderRefund>, LookupError> {
    let payment = request::payment_parameter(provider.api(), &query.payment_id);
    let deadline = TokioInstant::from_std(deadline);
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let of_payment = Some((payment, query.payment_id.as_str()));
        let path = request::list_path(of_payment, query.since_ms, after.as_deref());
        let page = one_page::<T, Refund>(provider, &path, deadline).await?;
        found.extend(refunds_in(&page, Some(&query.payment_id))?);
        after = next_page(&page)?;
        if after.is_none() {
            return Ok(found);
        }
    }
    Err(LookupError(format!(
        "the payment has more than {MAX_PAGES} pages of refunds"
    )))
}

/// The refunds of a page, in Stripe's own order: newest first.
fn refunds_in(
    page: &Page<Refund>,
    asked: Option<&str>,
) -> Result<Vec<ProviderRefund>, LookupError> {
    let refunds: Option<Vec<ProviderRefund>> = page
        .data
        .iter()
        .map(|refund| refund_of(refund, asked))
        .collect();
    refunds.ok_or_else(unreadable)
}
