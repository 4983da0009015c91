//! Payments: the provider port, what its answers mean, and the adapters behind it.
//!
//! - [`provider`]: the port. A charge is prepared (its request bytes are frozen), sent, looked up, cancelled.
//! - [`refund`]: its refund side: money given back, prepared, sent and looked up in the same manner.
//! - [`outcome`]: what an answer says about the money, in our own words and without any provider's.
//! - [`declines`]: which declines are hard, and which may be tried again.
//! - [`stripe`]: Stripe's dialect of the port, over HTTP or over the in-process mock.
//! - [`measured`]: any provider, timed.
//! - [`mock`]: a stateful stand-in for Stripe that knows nothing of this service.
pub mod declines;
pub mod measured;
pub mod mock;
pub mod outcome;
pub mod provider;
pub mod refund;
pub mod stripe;
