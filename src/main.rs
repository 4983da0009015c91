//! The `chargeonce` binary.
fn main() {}
