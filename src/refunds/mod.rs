//! Refunds: the money of a charge is given back exactly once: all that is left of it under its natural key, a part of it
//! under a key of the caller's.
//!
//! The machine is that of the charges: reserve under a key with the frozen request, send, settle under the lease. What is a
//! refund's own is here. Read in this order: [`lifecycle`] (what a call may do, given what is stored), [`settlement`] (what a
//! provider's answer does), [`service`] (the story of one refund), [`answer`] (what the caller is told).
pub mod answer;
mod asking;
pub mod controller;
pub mod dto;
mod latecomer;
pub mod lifecycle;
pub mod model;
mod notice;
mod reading;
mod recording;
pub mod recovery;
pub mod repository;
mod reserving;
pub mod review;
mod room;
pub mod service;
pub mod settlement;
mod waiting;
pub mod worker;

#[cfg(test)]
pub(crate) mod fixtures;
