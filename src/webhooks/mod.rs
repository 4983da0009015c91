//! Webhooks: the provider tells that something happened.
//!
//! An event is checked ([`signature`]), stored once by its id and answered at once. Then the payment is fetched, compared
//! with our books ([`crate::charges::notice`]) and settled by the same path as every takeover, as [`plan`] says how often.
//! What an event says is never believed by itself: events come late, twice, out of order, or before our own answer.
pub mod controller;
pub mod dto;
pub mod model;
pub mod plan;
pub mod repository;
pub mod service;
pub mod signature;
