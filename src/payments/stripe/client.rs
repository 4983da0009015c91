//! The port's Stripe side: prepare, send, find, cancel. Here are the loops and the deadlines; what an answer means is
//! in [`decision`], whether to repeat is in [`retry`].
//!
//! Every POST carries an idempotency key, and every repeat sends the same bytes under the same key.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use tokio::time::{Instant as TokioInstant, sleep};

use super::decision::Dialect;
use super::limiter::{Limiter, LimiterSettings};
use super::request::{self, Endpoint, RequestError};
use super::retry::{self, Backoff};
use super::transport::{HttpCall, Transport, TransportResult};
use super::{StripeApi, decision, lookup};
use crate::payments::outcome::{
    Failure, FailureKind, NotExecuted, NotExecutedReason, Outcome, ProviderPayment, Unknown,
    after_unknown,
};
use crate::payments::provider::{
    FrozenRequest, LookupError, PaymentOrder, PaymentPage, PaymentProvider, PaymentQuery,
    PrepareError, PreparedPayment, SendLimits,
};
use crate::payments::refund::RefundProvider;

/// Stripe's limit on `Idempotency-Key` (Stripe docs, Idempotent requests).
const MAX_KEY_CHARS: usize = 255;

/// How Stripe is spoken to.
#[derive(Debug, Clone)]
pub struct StripeSettings {
    /// The provider's name in the store: `stripe` or `mock`.
    pub name: &'static str,
    /// Which API charges.
    pub api: StripeApi,
    /// Stands before every key at the provider, so that two environments on one account do not meet.
    pub key_prefix: String,
    /// The time limit of one request.
    pub timeout: Duration,
    /// How often a request is repeated at most.
    pub max_retries: u32,
    /// The waits between repeats.
    pub backoff: Backoff,
    /// Our own limit on requests.
    pub limits: LimiterSettings,
}

impl StripeSettings {
    /// The longest that one send can take, waiting for the limiter not counted: every request up to its limit and
    /// every wait. A lease must be longer.
    pub fn longest_send(&self) -> Duration {
        self.backoff.longest_send(self.timeout, self.max_retries)
    }
}

/// [`PaymentProvider`] and [`RefundProvider`] in Stripe's dialect, over any [`Transport`].
pub struct StripeProvider<T> {
    settings: StripeSettings,
    transport: T,
    limiter: Limiter,
}

/// What became of a send with all its repeats.
pub(super) struct Settled<P> {
    /// What is known of the money.
    pub outcome: Outcome<P>,
    /// True when the last answer was a stored one: a snapshot of the first moment.
    pub replayed: bool,
}

/// Transports know secrets.
impl<T> fmt::Debug for StripeProvider<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StripeProvider")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<T: Transport> StripeProvider<T> {
    /// A provider that speaks over `transport`.
    pub fn new(settings: StripeSettings, transport: T) -> Self {
        let limiter = Limiter::new(settings.limits);
        Self {
            settings,
            transport,
            limiter,
        }
    }

    pub(super) fn api(&self) -> StripeApi {
        self.settings.api
    }

    /// The key as the provider gets it; `None` when it cannot be one.
    pub(super) fn provider_key(&self, key: &str) -> Option<String> {
        let key = format!("{}{key}", self.settings.key_prefix);
        let usable = !key.is_empty()
            && key.len() <= MAX_KEY_CHARS
            && key.bytes().all(|b| (b' '..=b'~').contains(&b));
        usable.then_some(key)
    }

    /// One request, in its turn and within its time; `Err` when its turn does not come before the deadline.
    async fn once(
        &self,
        call: HttpCall<'_>,
        repeats_done: u32,
        deadline: TokioInstant,
        wall_deadline: Option<SystemTime>,
    ) -> Result<TransportResult, NotExecuted> {
        if TokioInstant::now() >= deadline {
            return Err(NotExecuted {
                reason: NotExecutedReason::OutOfTime,
                detail: "the time for sending was over".to_owned(),
            });
        }
        let turn = self.limiter.turn(deadline).await;
        let _permit = turn.map_err(|_| NotExecuted {
            reason: NotExecutedReason::RateLimited,
            detail: "our own limiter gave no turn in time".to_owned(),
        })?;
        let begun = TokioInstant::now();
        let left = deadline.saturating_duration_since(begun);
        let overslept = wall_deadline.is_some_and(|over| SystemTime::now() >= over);
        if left.is_zero() || overslept {
            return Err(NotExecuted {
                reason: NotExecutedReason::OutOfTime,
                detail: "the time for sending was over".to_owned(),
            });
        }
        let result = self
            .transport
            .call(call, self.settings.timeout.min(left))
            .await;
        log_request(&call, &result, repeats_done, begun.elapsed());
        Ok(result)
    }

    /// Waits before the next repeat; false when there is no repeat, or no time for one.
    async fn may_repeat(
        &self,
        result: &TransportResult,
        repeats_done: u32,
        deadline: TokioInstant,
    ) -> bool {
        if repeats_done >= self.settings.max_retries {
            return false;
        }
        let asked_for = result.headers().and_then(|headers| headers.retry_after);
        let backoff = self.settings.backoff;
        let wait = backoff.wait(repeats_done, rand::random::<f64>(), asked_for);
        if TokioInstant::now() + wait >= deadline {
            return false;
        }
        sleep(wait).await;
        true
    }

    /// A read or a cancel, repeated by the common rule within the deadline.
    pub(super) async fn call(
        &self,
        call: HttpCall<'_>,
        deadline: TokioInstant,
    ) -> Result<TransportResult, LookupError> {
        let mut repeats_done = 0;
        loop {
            let result = self
                .once(call, repeats_done, deadline, None)
                .await
                .map_err(|not_executed| LookupError(not_executed.detail))?;
            if !retry::repeats_call(&result)
                || !self.may_repeat(&result, repeats_done, deadline).await
            {
                return Ok(result);
            }
            repeats_done += 1;
        }
    }

    /// The payment method that an order is charged to: the one it names, else the customer's default at this moment.
    async fn payment_method(&self, order: &PaymentOrder) -> Result<Option<String>, PrepareError> {
        if order.payment_method_id.is_some() {
            return Ok(order.payment_method_id.clone());
        }
        let path = request::customer_path(&order.customer_id).ok_or_else(|| {
            PrepareError::NoPaymentMethod("the customer's id cannot be one".to_owned())
        })?;
        // A caller is waiting and nothing is reserved yet: one request's time for all the repeats.
        let deadline = TokioInstant::now() + self.settings.timeout;
        let result = self
            .call(HttpCall::get(&path), deadline)
            .await
            .map_err(|LookupError(reason)| PrepareError::Unavailable(reason))?;
        lookup::default_method(self.settings.api, &result)
    }

    /// Sends one frozen request as often as the rules allow, and says what is known afterwards.
    pub(super) async fn send_until_settled<D: Dialect>(
        &self,
        dialect: D,
        call: HttpCall<'_>,
        limits: SendLimits,
    ) -> Settled<D::Object> {
        let deadline = TokioInstant::from_std(limits.deadline);
        let mut earlier = limits
            .sent_before
            .then(|| Unknown::resend("an earlier send of this attempt may have happened"));
        let mut repeats_done = 0;
        loop {
            let (said, result) = match self
                .once(call, repeats_done, deadline, Some(limits.wall_deadline))
                .await
            {
                Ok(result) => (decision::read(dialect, &result), result),
                Err(not_executed) => {
                    return Settled {
                        outcome: join(earlier.as_ref(), Outcome::NotExecuted(not_executed)),
                        replayed: false,
                    };
                }
            };
            // A repeat after a send that executed nothing is still the first.
            let said = match earlier {
                Some(_) => said,
                None => decision::first_send(said, &result),
            };
            let repeat = retry::repeats_send(&said, &result, repeats_done);
            let outcome = join(earlier.as_ref(), said);
            if !repeat || !self.may_repeat(&result, repeats_done, deadline).await {
                return Settled {
                    outcome,
                    replayed: result.headers().is_some_and(|headers| headers.replayed),
                };
            }
            if let Outcome::Unknown(unknown) = outcome {
                earlier = Some(unknown);
            }
            repeats_done += 1;
        }
    }
}

#[async_trait]
impl<T: Transport> PaymentProvider for StripeProvider<T> {
    fn name(&self) -> &'static str {
        self.settings.name
    }

    fn refunds(&self) -> &dyn RefundProvider {
        self
    }

    async fn prepare(&self, order: &PaymentOrder) -> Result<PreparedPayment, PrepareError> {
        let method = self.payment_method(order).await?;
        match request::freeze(self.settings.api, order, method.as_deref()) {
            Ok(request) => Ok(PreparedPayment {
                request,
                payment_method_id: method,
            }),
            Err(RequestError::NoPaymentMethod) => Err(PrepareError::NoPaymentMethod(
                "the customer has no default payment method".to_owned(),
            )),
            Err(RequestError::OddPaymentId) => Err(PrepareError::Unavailable(
                "the open payment's id cannot be one".to_owned(),
            )),
        }
    }

    async fn send(&self, key: &str, request: &FrozenRequest, limits: SendLimits) -> Outcome {
        let Some(endpoint) = Endpoint::of_path(&request.path) else {
            return Outcome::Unknown(Unknown::look_up(
                "the stored request is not one of this provider",
            ));
        };
        let Some(key) = self.provider_key(key) else {
            return unusable_key(limits);
        };
        let call = HttpCall::post(&request.path, &key, &request.body);
        self.send_until_settled(endpoint, call, limits)
            .await
            .outcome
    }

    async fn find(
        &self,
        query: &PaymentQuery,
        deadline: Instant,
    ) -> Result<Vec<ProviderPayment>, LookupError> {
        lookup::find(self, query, TokioInstant::from_std(deadline)).await
    }

    async fn retrieve(
        &self,
        payment_id: &str,
        deadline: Instant,
    ) -> Result<Option<ProviderPayment>, LookupError> {
        lookup::retrieve(self, payment_id, TokioInstant::from_std(deadline)).await
    }

    async fn page(
        &self,
        installation_id: &str,
        since_ms: i64,
        after: Option<&str>,
        deadline: Instant,
    ) -> Result<PaymentPage, LookupError> {
        let deadline = TokioInstant::from_std(deadline);
        lookup::page(self, installation_id, since_ms, after, deadline).await
    }

    async fn cancel(
        &self,
        payment_id: &str,
        key: &str,
        deadline: Instant,
    ) -> Result<ProviderPayment, LookupError> {
        let key = self
            .provider_key(key)
            .ok_or_else(|| LookupError("the idempotency key cannot be one".to_owned()))?;
        lookup::cancel(self, payment_id, &key, TokioInstant::from_std(deadline)).await
    }
}

/// The golden rule: an answer settles only the send that it answers.
fn join<P>(earlier: Option<&Unknown>, said: Outcome<P>) -> Outcome<P> {
    match earlier {
        Some(earlier) => after_unknown(earlier, said),
        None => said,
    }
}

/// Nothing can be sent under a key that is none.
pub(super) fn unusable_key<P>(limits: SendLimits) -> Outcome<P> {
    let earlier = limits
        .sent_before
        .then(|| Unknown::look_up("an earlier send of this attempt may have happened"));
    let failure = Failure {
        kind: FailureKind::Refused,
        code: "idempotency_key_invalid".to_owned(),
        decline_code: None,
        advice_code: None,
        message: Some(format!(
            "With its prefix the idempotency key is empty, longer than {MAX_KEY_CHARS} characters or not plain ASCII."
        )),
        payment_id: None,
        payment_open: false,
    };
    join(earlier.as_ref(), Outcome::Failed(failure))
}

/// One line a request. No query, no body, no key.
fn log_request(
    call: &HttpCall<'_>,
    result: &TransportResult,
    repeats_done: u32,
    elapsed: Duration,
) {
    let headers = result.headers();
    tracing::debug!(
        provider.request.method = call.method.as_str(),
        provider.request.path = call.path(),
        provider.request.attempt = repeats_done + 1,
        provider.request.elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        provider.response.status = result.status(),
        provider.response.request_id = headers.and_then(|h| h.request_id.as_deref()),
        provider.response.replayed = headers.is_some_and(|h| h.replayed),
        provider.response.rate_limited_reason =
            headers.and_then(|h| h.rate_limited_reason.as_deref()),
        "Request to the payment provider: {}",
        result.summary(),
    );
}
