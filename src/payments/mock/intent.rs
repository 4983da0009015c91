//! A PaymentIntent: its states and its JSON. What moves it stands in `intents` and `attempt`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::errors::ApiError;
use super::ledger::{Payment, Row, rfc3339, seconds};

/// Stripe's states of a PaymentIntent (Stripe docs, PaymentIntents lifecycle).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Fresh, or the last attempt failed.
    RequiresPaymentMethod,
    /// Nobody has confirmed it.
    RequiresConfirmation,
    /// The customer must authenticate.
    RequiresAction,
    /// No verdict yet.
    Processing,
    /// A hold was placed.
    RequiresCapture,
    /// Paid; final.
    Succeeded,
    /// Closed; final.
    Canceled,
}

impl Status {
    /// Stripe's word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::RequiresPaymentMethod => "requires_payment_method",
            Self::RequiresConfirmation => "requires_confirmation",
            Self::RequiresAction => "requires_action",
            Self::Processing => "processing",
            Self::RequiresCapture => "requires_capture",
            Self::Succeeded => "succeeded",
            Self::Canceled => "canceled",
        }
    }

    /// Whether an attempt may start.
    pub(super) fn can_confirm(self) -> bool {
        match self {
            Self::RequiresPaymentMethod | Self::RequiresConfirmation | Self::RequiresAction => true,
            Self::Processing | Self::RequiresCapture | Self::Succeeded | Self::Canceled => false,
        }
    }

    /// Whether it may be closed.
    pub(super) fn can_cancel(self) -> bool {
        self.can_confirm() || self == Self::RequiresCapture
    }
}

/// One PaymentIntent.
#[derive(Debug, Clone)]
pub(super) struct PaymentIntent {
    /// `pi_...`
    pub(super) id: String,
    /// Milliseconds since the epoch.
    pub(super) created_ms: i64,
    /// In minor units.
    pub(super) amount: i64,
    /// In lower case.
    pub(super) currency: String,
    /// Who pays.
    pub(super) customer: Option<String>,
    /// What it will be, or was, paid with; emptied by a failure.
    pub(super) payment_method: Option<String>,
    /// How it stands.
    pub(super) status: Status,
    /// The newest charge, failed or not.
    pub(super) latest_charge: Option<String>,
    /// The newest failure; any later update clears it.
    pub(super) last_payment_error: Option<Arc<Value>>,
    /// The caller's notes.
    pub(super) metadata: Arc<BTreeMap<String, String>>,
    /// The caller's words.
    pub(super) description: Option<String>,
    /// What was captured, if less than all of it.
    pub(super) partial_capture: Option<i64>,
    /// Whether success places a hold instead of taking the money.
    pub(super) manual_capture: bool,
    /// The `Idempotency-Key` that created it or last confirmed it.
    pub(super) key: Option<Arc<str>>,
    /// As sent, or Stripe's default.
    pub(super) capture_method: String,
    /// As sent, or cards.
    pub(super) payment_method_types: Vec<String>,
    /// As sent.
    pub(super) statement_descriptor_suffix: Option<String>,
    /// As sent; no mail leaves the mock.
    pub(super) receipt_email: Option<String>,
    /// When it was closed.
    pub(super) canceled_at_ms: Option<i64>,
    /// Why it was closed.
    pub(super) cancellation_reason: Option<String>,
}

impl Row for PaymentIntent {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_ms(&self) -> i64 {
        self.created_ms
    }
}

impl PaymentIntent {
    /// The row of the ledger.
    pub(super) fn payment(&self) -> Payment {
        Payment {
            id: self.id.clone(),
            idempotency_key: self.key.as_deref().map(str::to_owned),
            invoice_id: self.metadata.get("invoice_id").cloned(),
            amount: self.partial_capture.unwrap_or(self.amount),
            currency: self.currency.clone(),
            status: self.status.word().to_owned(),
            created_at: rfc3339(self.created_ms),
        }
    }

    /// Stripe's JSON.
    pub(super) fn render(&self) -> Value {
        let held = if self.status == Status::RequiresCapture {
            self.amount
        } else {
            0
        };
        let received = if self.status == Status::Succeeded {
            self.partial_capture.unwrap_or(self.amount)
        } else {
            0
        };
        let action = (self.status == Status::RequiresAction)
            .then(|| json!({ "type": "use_stripe_sdk", "use_stripe_sdk": { "type": "three_d_secure_redirect" } }));
        json!({
            "id": self.id,
            "object": "payment_intent",
            "amount": self.amount,
            "amount_capturable": held,
            "amount_details": { "tip": {} },
            "amount_received": received,
            "application": null,
            "automatic_payment_methods": null,
            "canceled_at": self.canceled_at_ms.map(seconds),
            "cancellation_reason": self.cancellation_reason,
            "capture_method": self.capture_method,
            "client_secret": format!("{}_secret_mock", self.id),
            "confirmation_method": "automatic",
            "created": seconds(self.created_ms),
            "currency": self.currency,
            "customer": self.customer,
            "description": self.description,
            "last_payment_error": self.last_payment_error.as_deref(),
            "latest_charge": self.latest_charge,
            "livemode": false,
            "metadata": *self.metadata,
            "next_action": action,
            "payment_method": self.payment_method,
            "payment_method_options": {},
            "payment_method_types": self.payment_method_types,
            "processing": null,
            "receipt_email": self.receipt_email,
            "setup_future_usage": null,
            "shipping": null,
            "statement_descriptor": null,
            "statement_descriptor_suffix": self.statement_descriptor_suffix,
            "status": self.status.word(),
            "transfer_group": null,
        })
    }

    /// The refusal of a step that the present status does not allow, with the whole object in it.
    pub(super) fn unexpected_state(&self, step: &str) -> ApiError {
        let message = format!(
            "You cannot {step} this PaymentIntent because it has a status of {}.",
            self.status.word()
        );
        ApiError::refused(message)
            .code("payment_intent_unexpected_state")
            .with("payment_intent", self.render())
    }
}
