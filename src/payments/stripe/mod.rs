//! Stripe's dialect of the provider port.
//!
//! - [`client`]: the port itself, [`StripeProvider`]: prepare, send, find, cancel.
//! - [`request`]: orders as form-encoded bytes (pure).
//! - [`decision`]: what an answer means for the money (pure); the table to read first.
//! - [`retry`]: whether a send is repeated, and after what wait (pure).
//! - [`objects`], [`wire`]: Stripe's objects in our words, and its JSON as it comes.
//! - [`refunds`]: all of that for money given back.
//! - `lookup`: finding and cancelling payments, reading a customer.
//! - [`limiter`]: our own limit on requests, below Stripe's.
//! - [`transport`]: the way there; over HTTP by [`http`], to the stand-in in this process by [`in_process`].
//!
//! API v1 only. The version is pinned ([`http::STRIPE_VERSION`]), so an upgrade of the account changes nothing here.

pub mod client;
pub mod decision;
pub mod http;
pub mod in_process;
pub mod limiter;
mod lookup;
pub mod objects;
pub mod refunds;
pub mod request;
pub mod retry;
pub mod transport;
pub mod wire;

#[cfg(test)]
mod tests;

pub use client::{StripeProvider, StripeSettings};
pub use http::{HttpSettings, HttpSetupError, HttpTransport, STRIPE_API_BASE};
pub use in_process::InProcessTransport;
pub use limiter::LimiterSettings;
pub use request::is_plain_id;
pub use retry::Backoff;

/// Which of Stripe's APIs charges.
///
/// It must not be changed while attempts are unresolved: look-ups ask the API of the settings only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripeApi {
    /// PaymentIntents: one object an invoice, which can succeed once at most.
    PaymentIntents,
    /// The legacy Charges, for gateways that have nothing else. Only keys and our own store prevent a second charge.
    Charges,
}
