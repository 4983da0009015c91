//! What the provider told by webhook. No I/O and no wire format.

/// An event, as far as it is kept: it only wakes us up, and the payment itself is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderEvent {
    /// The provider's id of the event (`evt_…`).
    pub id: String,
    /// Its type (`payment_intent.succeeded`).
    pub kind: String,
    /// The payment object that it is about.
    pub payment_id: String,
    /// When the provider made it; Unix milliseconds, UTC.
    pub created_at_ms: i64,
}

/// An event that this process deals with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedEvent {
    /// Its id.
    pub id: String,
    /// Its type.
    pub kind: String,
    /// The payment object that it is about.
    pub payment_id: String,
    /// How often it was tried before this time.
    pub tries: i32,
    /// How long ago it was received, in milliseconds.
    pub age_ms: i64,
}
