//! A stateful stand-in for Stripe with a real idempotency layer.
//!
//! It keeps what Stripe keeps (payment intents, charges, refunds, customers, payment methods, events), stores the
//! first answer to every `Idempotency-Key`, replays it, forgets it after 24 hours of its own clock, and can be told to
//! fail at any point of a call ([`FaultRule`]). Its [`Ledger`] is the truth to audit a caller against.
//!
//! The engine ([`MockStripe`]) takes plain bytes and gives plain bytes: it knows no HTTP library and nothing of
//! chargeonce's own domain. Only [`http`] imports a web server; it puts the engine on a socket with Stripe's paths. Events
//! leave it through a [`WebhookSink`]; the one that speaks HTTP is [`HttpSender`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use chargeonce::payments::mock::{Fault, FaultRule, MockReply, MockRequest, MockStripe};
//!
//! let stripe = MockStripe::new();
//! stripe.add_fault(FaultRule::once(Fault::DropAfter));
//! let body = "amount=500&currency=usd&payment_method=pm_card_visa&confirm=true";
//! let request = MockRequest::post("/v1/payment_intents", "order-1", body);
//!
//! // The card is charged, the answer is lost; the resend gets the first answer and charges nothing.
//! assert!(matches!(stripe.handle(request.clone()).await, MockReply::Cut));
//! assert!(matches!(stripe.handle(request).await, MockReply::Answer(answer) if answer.status == 200));
//! assert_eq!(stripe.ledger().payments.len(), 1);
//! # }
//! ```

mod admission;
mod amount;
mod answer;
mod attempt;
mod capture;
mod chaos;
mod charges;
mod control;
mod control_webhooks;
mod customers;
mod delivery;
mod engine;
mod errors;
mod events;
mod fault;
mod form;
pub mod http;
mod idempotency;
mod intent;
mod intents;
mod ledger;
mod message;
mod paging;
mod payment_methods;
mod refunds;
mod router;
mod scenario;
mod search;
mod sender;
mod signature;
#[cfg(test)]
mod tests;
mod webhooks;

pub use chaos::{Chaos, ChaosPlan};
pub use control::controls;
pub use delivery::{WebhookPost, WebhookSink};
pub use engine::MockStripe;
pub use fault::{Fault, FaultRule};
pub use http::serve;
pub use ledger::{Ledger, Payment, RefundRow};
pub use message::{MockReply, MockRequest, MockResponse, RecordedRequest};
pub use sender::{HttpSender, Reach};
pub use webhooks::{
    Delivery, DeliveryAttempt, DeliveryState, RetryPolicy, WebhookEndpoint, WebhookFault,
    WebhookFaultRule,
};
