//! Refunds: the money of a charge, or a part of it, is given back exactly once for each key.
//!
//! The machine is that of the charges: reserve under a key with the frozen request, send, settle under the lease. What is a
//! refund's own is here. Read in this order: [`lifecycle`] (what a call may do, given what is stored), [`settlement`] (what a
//! provider's answer does).
pub mod lifecycle;
pub mod model;
pub mod repository;
pub mod settlement;

#[cfg(test)]
pub(crate) mod fixtures;
