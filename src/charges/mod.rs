//! Charges: an invoice is charged exactly once, in one or more attempts.
//!
//! Read in this order: [`lifecycle`] (what a call may do, given what is stored), [`settlement`] (what a provider's answer
//! does to the attempt), [`service`] (the story of one charge), [`answer`] (what the caller is told).
pub mod answer;
pub mod config;
pub mod controller;
pub mod crash;
pub mod dto;
mod gathering;
pub(crate) mod journal;
mod latecomer;
pub mod lifecycle;
pub mod model;
pub mod notice;
pub mod ownership;
mod reading;
pub(crate) mod recording;
pub mod recovery;
mod replays;
pub mod repository;
pub(crate) mod reserving;
pub mod review;
mod room;
pub mod service;
pub mod settlement;
mod spending;
pub mod status;
pub mod takeover;
pub mod waiting;
pub mod worker;

#[cfg(test)]
pub(crate) mod fixtures;
