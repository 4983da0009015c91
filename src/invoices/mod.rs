//! Invoices: what a customer owes. The amount, the currency and the customer are fixed when the invoice is made, and
//! only the backend says them: a charge names an invoice and nothing else.
pub mod controller;
pub mod dto;
pub mod listing;
pub mod model;
pub mod repository;
pub mod service;
