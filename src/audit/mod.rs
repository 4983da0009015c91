//! The audit: our books held against the provider's, from its lists and never from its search.
//!
//! It writes nothing and settles nothing. Read [`compare`] (the first look, over pages), [`judge`] (the second, invoice by
//! invoice: what counts as a finding), then [`service`] (reading both sides). The first two are pure.
pub mod compare;
pub mod judge;
pub mod model;
pub mod report;
pub mod repository;
pub mod service;
