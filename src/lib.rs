//! chargeonce charges an invoice exactly once, whoever calls it and however often.
pub mod money;
pub mod payments;
