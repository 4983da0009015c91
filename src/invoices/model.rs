//! An invoice and its states. No I/O and no wire format.

use std::collections::BTreeMap;

use crate::money::Money;

/// An invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoice {
    /// The caller's own number or an id of ours (`inv_…`). Holds letters, digits and `. _ ~ -` only.
    pub id: String,
    /// The provider's customer id.
    pub customer_id: String,
    /// What is owed.
    pub money: Money,
    /// Free text for people.
    pub description: Option<String>,
    /// The payment method to charge; `None` is the customer's default.
    pub payment_method_id: Option<String>,
    /// The caller's own pairs; kept and returned, never interpreted.
    pub metadata: BTreeMap<String, String>,
    /// Where it stands.
    pub status: InvoiceStatus,
    /// Counts changes of the payment method, from 1.
    pub revision: i32,
    /// Unix milliseconds, UTC.
    pub created_at_ms: i64,
    /// Unix milliseconds, UTC.
    pub updated_at_ms: i64,
}

/// Where an invoice stands. `open` may become `paid` or `void`; these two are for ever, in the database as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvoiceStatus {
    /// To be paid.
    Open,
    /// Paid by exactly one charge.
    Paid,
    /// Will not be charged.
    Void,
}

impl InvoiceStatus {
    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paid => "paid",
            Self::Void => "void",
        }
    }

    /// All of them.
    pub const ALL: [Self; 3] = [Self::Open, Self::Paid, Self::Void];

    /// Reads that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}
