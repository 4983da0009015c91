//! Is it alive, and can it work?
pub mod controller;
