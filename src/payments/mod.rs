//! Payments: the provider port, its answers, and the adapters.
