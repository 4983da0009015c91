//! Finding and cancelling payments, and reading a customer's default payment method.
//!
//! "Not found" is only said after the last page; anything that could not be asked or read is a [`LookupError`].

use std::cmp::Reverse;

use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::StripeApi;
use super::client::StripeProvider;
use super::decision::parse;
use super::objects::{intent_in, payment_of_charge, payment_of_intent};
use super::request::{cancel_path, list_path, payment_path};
use super::transport::{HttpAnswer, HttpCall, Transport, TransportResult};
use super::wire::{Charge, Customer, ErrorEnvelope, Identified, Page, PaymentIntent, Reference};
use crate::payments::outcome::{PaymentStatus, ProviderPayment};
use crate::payments::provider::{LookupError, PaymentPage, PaymentQuery, PrepareError};

/// At 100 payments a page: 10,000 payments of one customer within the look-up's span.
pub(super) const MAX_PAGES: usize = 100;

/// The default payment method that an answer about a customer names.
///
/// PaymentIntents take either kind, and the one for invoices is meant first. A legacy Charge takes sources, so that one
/// is meant first there; without any, Stripe is left to say so.
pub(super) fn default_method(
    api: StripeApi,
    result: &TransportResult,
) -> Result<Option<String>, PrepareError> {
    let answer = match result {
        TransportResult::Answer(answer) => answer,
        TransportResult::NotSent(_) | TransportResult::Lost(_) => {
            return Err(PrepareError::Unavailable(result.summary()));
        }
    };
    let no_method = |reason: &str| Err(PrepareError::NoPaymentMethod(reason.to_owned()));
    match answer.status {
        200 => {}
        401 | 403 => return Err(PrepareError::Credentials(result.summary())),
        404 => return no_method("the customer is not known to the provider"),
        _ => return Err(PrepareError::Unavailable(result.summary())),
    }
    let customer: Customer = parse(answer)
        .filter(|c: &Customer| c.id.is_some())
        .ok_or_else(|| {
            PrepareError::Unavailable("the answer about the customer is unreadable".to_owned())
        })?;
    if customer.deleted == Some(true) {
        return no_method("the customer was deleted at the provider");
    }
    let id = |reference: Option<&Reference<Identified>>| {
        reference
            .and_then(Reference::<Identified>::id)
            .filter(|id| !id.is_empty())
            .map(str::to_owned)
    };
    let source = id(customer.default_source.as_ref());
    let settings = customer.invoice_settings.as_ref();
    let for_invoices = id(settings.and_then(|s| s.default_payment_method.as_ref()));
    Ok(match api {
        StripeApi::PaymentIntents => for_invoices.or(source),
        StripeApi::Charges => source.or(for_invoices),
    })
}

/// The payments of an invoice, newest first: all that the list has, and the one that is known by its id.
pub(super) async fn find<T: Transport>(
    provider: &StripeProvider<T>,
    query: &PaymentQuery,
    deadline: Instant,
) -> Result<Vec<ProviderPayment>, LookupError> {
    let mut found = match provider.api() {
        StripeApi::PaymentIntents => list::<T, PaymentIntent>(provider, query, deadline).await?,
        StripeApi::Charges => list::<T, Charge>(provider, query, deadline).await?,
    };
    // One that is known by its id need not be in the list: it may be older, or lack our metadata.
    if let Some(id) = query.payment_id.as_deref()
        && found.iter().all(|payment| payment.id != id)
        && payment_path(provider.api(), id).is_some()
    {
        found.extend(retrieve(provider, id, deadline).await?);
    }
    Ok(found)
}

/// One payment by its id; `None` when there is none.
pub(super) async fn retrieve<T: Transport>(
    provider: &StripeProvider<T>,
    payment_id: &str,
    deadline: Instant,
) -> Result<Option<ProviderPayment>, LookupError> {
    let path = payment_path(provider.api(), payment_id).ok_or_else(odd_id)?;
    let result = provider.call(HttpCall::get(&path), deadline).await?;
    if result.status() == Some(404) {
        return Ok(None);
    }
    let payment = payment_in(provider.api(), success(&result)?)?;
    same_id(payment, payment_id).map(Some)
}

/// A page of this installation's payments, of all customers.
pub(super) async fn page<T: Transport>(
    provider: &StripeProvider<T>,
    installation_id: &str,
    since_ms: i64,
    after: Option<&str>,
    deadline: Instant,
) -> Result<PaymentPage, LookupError> {
    let path = list_path(provider.api(), None, since_ms, after);
    match provider.api() {
        StripeApi::PaymentIntents => {
            let page = one_page::<T, PaymentIntent>(provider, &path, deadline).await?;
            of_installation(&page, installation_id)
        }
        StripeApi::Charges => {
            let page = one_page::<T, Charge>(provider, &path, deadline).await?;
            of_installation(&page, installation_id)
        }
    }
}

/// One page of a list.
pub(super) async fn one_page<T: Transport, L: Paged>(
    provider: &StripeProvider<T>,
    path: &str,
    deadline: Instant,
) -> Result<Page<L>, LookupError> {
    let result = provider.call(HttpCall::get(path), deadline).await?;
    parse(success(&result)?).ok_or_else(unreadable)
}

/// Where the page after this one begins; `None` on the last one.
pub(super) fn next_page<L: Paged>(page: &Page<L>) -> Result<Option<String>, LookupError> {
    if !page.has_more {
        return Ok(None);
    }
    let last = page.data.last().and_then(Paged::id);
    last.map(|id| Some(id.to_owned())).ok_or_else(unreadable)
}

/// The payments of a page that carry this installation's id.
fn of_installation<L: Listed>(
    page: &Page<L>,
    installation_id: &str,
) -> Result<PaymentPage, LookupError> {
    let ours = page
        .data
        .iter()
        .filter(|entry| entry.mark("installation_id") == Some(installation_id));
    let payments: Option<Vec<ProviderPayment>> = ours.map(Listed::payment).collect();
    Ok(PaymentPage {
        payments: payments.ok_or_else(unreadable)?,
        next: next_page(page)?,
    })
}

/// Closes a payment and says what state it is in afterwards. A legacy Charge cannot be closed, only looked at.
pub(super) async fn cancel<T: Transport>(
    provider: &StripeProvider<T>,
    payment_id: &str,
    key: &str,
    deadline: Instant,
) -> Result<ProviderPayment, LookupError> {
    match provider.api() {
        StripeApi::PaymentIntents => {
            let path = cancel_path(payment_id).ok_or_else(odd_id)?;
            let result = provider
                .call(HttpCall::post(&path, key, ""), deadline)
                .await?;
            if let Some(payment) = state_after_cancel(&result, payment_id) {
                return Ok(payment);
            }
        }
        StripeApi::Charges => {}
    }
    let path = payment_path(provider.api(), payment_id).ok_or_else(odd_id)?;
    let result = provider.call(HttpCall::get(&path), deadline).await?;
    same_id(payment_in(provider.api(), success(&result)?)?, payment_id)
}

/// The payment's state as the cancel's own answer tells it. A replayed answer is a snapshot of an earlier moment, so
/// only a final `canceled` is taken from it.
fn state_after_cancel(result: &TransportResult, payment_id: &str) -> Option<ProviderPayment> {
    let answer = match result {
        TransportResult::Answer(answer) => answer,
        TransportResult::NotSent(_) | TransportResult::Lost(_) => return None,
    };
    let payment = if answer.status == 200 {
        payment_of_intent(&parse::<PaymentIntent>(answer)?)?
    } else {
        payment_of_intent(intent_in(&parse::<ErrorEnvelope>(answer)?.error)?)?
    };
    let fresh = !answer.headers.replayed || payment.status == PaymentStatus::Canceled;
    (fresh && payment.id == payment_id).then_some(payment)
}

/// What a list is made of.
pub(super) trait Paged: DeserializeOwned {
    /// Its id: where the page after it begins.
    fn id(&self) -> Option<&str>;
}

/// What a list of payments is made of.
trait Listed: Paged {
    fn created(&self) -> i64;
    fn mark(&self, name: &str) -> Option<&str>;
    fn payment(&self) -> Option<ProviderPayment>;
}

impl Paged for PaymentIntent {
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl Paged for Charge {
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl Listed for PaymentIntent {
    fn created(&self) -> i64 {
        self.created.unwrap_or(0)
    }
    fn mark(&self, name: &str) -> Option<&str> {
        self.metadata.as_ref()?.get(name).map(String::as_str)
    }
    fn payment(&self) -> Option<ProviderPayment> {
        payment_of_intent(self)
    }
}

impl Listed for Charge {
    fn created(&self) -> i64 {
        self.created.unwrap_or(0)
    }
    fn mark(&self, name: &str) -> Option<&str> {
        self.metadata.as_ref()?.get(name).map(String::as_str)
    }
    fn payment(&self) -> Option<ProviderPayment> {
        payment_of_charge(self)
    }
}

async fn list<T: Transport, L: Listed>(
    provider: &StripeProvider<T>,
    query: &PaymentQuery,
    deadline: Instant,
) -> Result<Vec<ProviderPayment>, LookupError> {
    let mut found: Vec<(i64, ProviderPayment)> = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let path = list_path(
            provider.api(),
            Some(&query.customer_id),
            query.since_ms,
            after.as_deref(),
        );
        let page = one_page::<T, L>(provider, &path, deadline).await?;
        for entry in page.data.iter().filter(|entry| is_ours(*entry, query)) {
            found.push((entry.created(), entry.payment().ok_or_else(unreadable)?));
        }
        after = next_page(&page)?;
        if after.is_none() {
            // Stable: Stripe's own order, newest first, stands among equals.
            found.sort_by_key(|(created, _)| Reverse(*created));
            return Ok(found.into_iter().map(|(_, payment)| payment).collect());
        }
    }
    Err(LookupError(format!(
        "the customer has more than {MAX_PAGES} pages of payments"
    )))
}

fn is_ours(entry: &impl Listed, query: &PaymentQuery) -> bool {
    entry.mark("invoice_id") == Some(&query.invoice_id)
        && entry.mark("installation_id") == Some(&query.installation_id)
}

/// A complete 200; anything else is no answer to the question.
pub(super) fn success(result: &TransportResult) -> Result<&HttpAnswer, LookupError> {
    match result {
        TransportResult::Answer(answer) if answer.status == 200 => Ok(answer),
        TransportResult::Answer(_) | TransportResult::NotSent(_) | TransportResult::Lost(_) => {
            Err(LookupError(result.summary()))
        }
    }
}

fn payment_in(api: StripeApi, answer: &HttpAnswer) -> Result<ProviderPayment, LookupError> {
    let payment = match api {
        StripeApi::PaymentIntents => {
            parse::<PaymentIntent>(answer).and_then(|intent| payment_of_intent(&intent))
        }
        StripeApi::Charges => parse::<Charge>(answer).and_then(|charge| payment_of_charge(&charge)),
    };
    payment.ok_or_else(unreadable)
}

fn same_id(payment: ProviderPayment, asked_for: &str) -> Result<ProviderPayment, LookupError> {
    if payment.id == asked_for {
        Ok(payment)
    } else {
        Err(LookupError(
            "the answer is about another payment".to_owned(),
        ))
    }
}

pub(super) fn odd_id() -> LookupError {
    LookupError("the id cannot be one".to_owned())
}

pub(super) fn unreadable() -> LookupError {
    LookupError("the answer is unreadable".to_owned())
}
