//! The invoice on the wire.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::model::Invoice;
use crate::error::{Code, Problem};
use crate::http::text;
use crate::money::Money;
use crate::openapi::schemas::{
    AmountCents, CurrencyCode, Cursor, InvoiceDescription, InvoiceId, InvoiceStatusWord, Metadata,
    PageLimit, ProviderId, Time,
};
use crate::timestamp::rfc3339;

/// The longest description, in characters.
pub const DESCRIPTION_LENGTH_MAX: usize = 500;

/// Limits of the metadata, the same as Stripe's.
pub const METADATA_PAIRS_MAX: usize = 50;
/// See [`METADATA_PAIRS_MAX`]; in characters.
pub const METADATA_NAME_LENGTH_MAX: usize = 40;
/// See [`METADATA_PAIRS_MAX`]; in characters.
pub const METADATA_VALUE_LENGTH_MAX: usize = 500;

/// `POST /v1/invoices`.
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateInvoice {
    /// The provider's customer id.
    #[schema(value_type = ProviderId)]
    pub customer_id: String,
    /// Minor units of the currency.
    #[schema(value_type = AmountCents)]
    pub amount_cents: i64,
    /// ISO 4217 code, in either case.
    #[schema(value_type = CurrencyCode)]
    pub currency: String,
    /// The caller's own invoice number; ours when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<InvoiceId>)]
    pub id: Option<String>,
    /// Free text for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<InvoiceDescription>)]
    pub description: Option<String>,
    /// The payment method to charge; the customer's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProviderId>)]
    pub payment_method_id: Option<String>,
    /// The caller's own pairs.
    #[serde(
        default,
        deserialize_with = "pairs",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schema(value_type = Option<Metadata>, required = false)]
    pub metadata: BTreeMap<String, String>,
}

impl CreateInvoice {
    /// Checks every field, and returns the amount. Nothing has been written or reserved by then.
    pub fn check(&mut self) -> Result<Money, Problem> {
        text::provider_id("customerId", &self.customer_id)?;
        let money = Money::new(self.amount_cents, &self.currency).map_err(|error| {
            Problem::new(Code::InvalidRequest, format!("{error}.")).field(error.field())
        })?;
        // One spelling of the currency, so that both have one fingerprint.
        self.currency = money.currency().as_str().to_owned();
        if let Some(id) = &self.id {
            text::invoice_id("id", id)?;
        }
        if let Some(description) = &self.description {
            text::free_text("description", description, 0, DESCRIPTION_LENGTH_MAX)?;
        }
        if let Some(payment_method_id) = &self.payment_method_id {
            text::provider_id("paymentMethodId", payment_method_id)?;
        }
        check_metadata(&self.metadata)?;
        Ok(money)
    }
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), Problem> {
    let wrong = |detail| Err(Problem::new(Code::InvalidRequest, detail).field("metadata"));
    if metadata.len() > METADATA_PAIRS_MAX {
        return wrong(format!(
            "metadata may hold {METADATA_PAIRS_MAX} pairs at most."
        ));
    }
    for (name, value) in metadata {
        // Stripe reads square brackets in a name as nesting.
        if !text::is_free_text(name, 1, METADATA_NAME_LENGTH_MAX) || name.contains(['[', ']']) {
            return wrong(format!(
                "A name in metadata must have 1 to {METADATA_NAME_LENGTH_MAX} characters, no control characters and no square brackets."
            ));
        }
        if !text::is_free_text(value, 0, METADATA_VALUE_LENGTH_MAX) {
            return wrong(format!(
                "A value in metadata must have at most {METADATA_VALUE_LENGTH_MAX} characters and no control characters."
            ));
        }
    }
    Ok(())
}

/// Pairs of text, each name once: of two values under one name, one would be lost without a word.
fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    struct Pairs;

    impl<'de> Visitor<'de> for Pairs {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a map")
        }

        /// Null is no pairs, as it is no description.
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = BTreeMap::new();
            while let Some((name, value)) = map.next_entry()? {
                if pairs.insert(name, value).is_some() {
                    return Err(A::Error::custom("duplicate field `metadata`"));
                }
            }
            Ok(pairs)
        }
    }

    deserializer.deserialize_any(Pairs)
}

/// `PATCH /v1/invoices/{id}`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeInvoice {
    /// The new payment method; null for the customer's default. Must be there.
    #[serde(deserialize_with = "required")]
    #[schema(value_type = Option<ProviderId>, required = true)]
    pub payment_method_id: Option<String>,
}

/// Null is a value, absence is a mistake.
fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

/// `GET /v1/invoices`.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListInvoices {
    /// Only those that stand so.
    #[param(value_type = InvoiceStatusWord, required = false)]
    pub status: Option<String>,
    /// Only this customer's.
    #[param(value_type = ProviderId, required = false)]
    pub customer_id: Option<String>,
    /// How many; 20 when absent.
    #[param(value_type = PageLimit, required = false)]
    pub limit: Option<String>,
    /// The `nextCursor` of the page before.
    #[param(value_type = Cursor, required = false)]
    pub cursor: Option<String>,
}

/// An invoice as callers see it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Invoice)]
pub struct InvoiceBody {
    #[schema(value_type = InvoiceId)]
    id: String,
    #[schema(value_type = ProviderId)]
    customer_id: String,
    #[schema(value_type = AmountCents)]
    amount_cents: i64,
    #[schema(value_type = CurrencyCode)]
    currency: String,
    #[schema(required = true, value_type = Option<InvoiceDescription>)]
    description: Option<String>,
    /// Null: the customer's default.
    #[schema(required = true, value_type = Option<ProviderId>)]
    payment_method_id: Option<String>,
    #[schema(value_type = Metadata)]
    metadata: BTreeMap<String, String>,
    #[schema(value_type = InvoiceStatusWord)]
    status: &'static str,
    #[schema(value_type = Time)]
    created_at: String,
    #[schema(value_type = Time)]
    updated_at: String,
}

impl From<&Invoice> for InvoiceBody {
    fn from(invoice: &Invoice) -> Self {
        Self {
            id: invoice.id.clone(),
            customer_id: invoice.customer_id.clone(),
            amount_cents: invoice.money.amount_minor(),
            currency: invoice.money.currency().as_str().to_owned(),
            description: invoice.description.clone(),
            payment_method_id: invoice.payment_method_id.clone(),
            metadata: invoice.metadata.clone(),
            status: invoice.status.as_str(),
            created_at: rfc3339(invoice.created_at_ms),
            updated_at: rfc3339(invoice.updated_at_ms),
        }
    }
}

/// A page of invoices.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvoiceList {
    /// Newest first.
    pub data: Vec<InvoiceBody>,
    /// Pass it as `cursor` to get the next page; null on the last one.
    #[schema(required = true, value_type = Option<Cursor>)]
    pub next_cursor: Option<String>,
}
