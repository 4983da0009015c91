//! Charges: the single movements of money, made by a PaymentIntent or by the legacy Charges API.
//!
//! A legacy charge has no single-success guarantee: two POSTs without a common key are two charges, as with Stripe.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::amount::amount_and_currency;
use super::customers;
use super::errors::ApiError;
use super::events::emit;
use super::form::Params;
use super::ledger::{Books, Context, Payment, Row, Twist, new_id, rfc3339, seconds};
use super::paging::{self, LIST_PARAMS};
use super::payment_methods::{self, Instrument};
use super::scenario::{AUTHENTICATION_REQUIRED, Decline, Verdict};

const CREATE_PARAMS: &[&str] = &[
    "amount",
    "currency",
    "customer",
    "source",
    "capture",
    "description",
    "metadata{}",
    "expand[]",
    "receipt_email",
    "statement_descriptor",
    "statement_descriptor_suffix",
    "transfer_group",
    "shipping*",
];

/// How a charge stands.
#[derive(Debug, Clone, Copy)]
pub(super) enum ChargeState {
    /// The money was taken, or held if it is not captured.
    Succeeded {
        /// `false`: a hold only.
        captured: bool,
    },
    /// No verdict yet.
    Pending,
    /// The money was refused.
    Failed(Decline),
}

/// One charge.
#[derive(Debug, Clone)]
pub(super) struct Charge {
    /// `ch_...`
    pub(super) id: String,
    /// Milliseconds since the epoch.
    pub(super) created_ms: i64,
    /// In minor units.
    pub(super) amount: i64,
    /// What was captured, if less than all of it; the rest was released.
    pub(super) partial_capture: Option<i64>,
    /// What of it was given back, in minor units.
    pub(super) amount_refunded: i64,
    /// In lower case.
    pub(super) currency: String,
    /// Who pays.
    pub(super) customer: Option<String>,
    /// The PaymentIntent that made it; `None` for a legacy charge.
    pub(super) payment_intent: Option<String>,
    /// What is paid with.
    pub(super) instrument: Instrument,
    /// How it stands.
    pub(super) state: ChargeState,
    /// The caller's notes.
    pub(super) metadata: Arc<BTreeMap<String, String>>,
    /// The caller's words.
    pub(super) description: Option<String>,
    /// The `Idempotency-Key` that made it.
    pub(super) key: Option<Arc<str>>,
}

impl Row for Charge {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_ms(&self) -> i64 {
        self.created_ms
    }
}

impl Charge {
    /// Stripe's word for the state.
    pub(super) fn status(&self) -> &'static str {
        match self.state {
            ChargeState::Succeeded { .. } => "succeeded",
            ChargeState::Pending => "pending",
            ChargeState::Failed(_) => "failed",
        }
    }

    fn captured(&self) -> bool {
        matches!(self.state, ChargeState::Succeeded { captured: true })
    }

    /// The money that was taken, in minor units.
    pub(super) fn amount_captured(&self) -> i64 {
        if self.captured() {
            self.partial_capture.unwrap_or(self.amount)
        } else {
            0
        }
    }

    fn decline(&self) -> Option<Decline> {
        match self.state {
            ChargeState::Failed(decline) => Some(decline),
            ChargeState::Succeeded { .. } | ChargeState::Pending => None,
        }
    }

    /// The row of the ledger. A pending charge is `processing` there, like a pending PaymentIntent.
    pub(super) fn payment(&self) -> Payment {
        let status = match self.state {
            ChargeState::Pending => "processing",
            // A hold has taken no money yet.
            ChargeState::Succeeded { captured: false } => "requires_capture",
            ChargeState::Succeeded { captured: true } | ChargeState::Failed(_) => self.status(),
        };
        Payment {
            id: self.id.clone(),
            idempotency_key: self.key.as_deref().map(str::to_owned),
            invoice_id: self.metadata.get("invoice_id").cloned(),
            amount: self.amount,
            currency: self.currency.clone(),
            status: status.to_owned(),
            created_at: rfc3339(self.created_ms),
        }
    }

    /// Stripe's JSON.
    pub(super) fn render(&self) -> Value {
        let decline = self.decline();
        let paid = matches!(self.state, ChargeState::Succeeded { .. });
        let mut source = payment_methods::card(self.instrument.scenario);
        source["id"] = self.instrument.id.clone().into();
        source["object"] = "card".into();
        source["customer"] = self.customer.clone().into();
        json!({
            "id": self.id,
            "object": "charge",
            "amount": self.amount,
            "amount_captured": self.amount_captured(),
            "amount_refunded": self.amount_refunded,
            "balance_transaction": self.captured().then(|| self.id.replacen("ch_", "txn_", 1)),
            "billing_details": { "address": null, "email": null, "name": null, "phone": null },
            "calculated_statement_descriptor": "MOCK",
            "captured": self.captured(),
            "created": seconds(self.created_ms),
            "currency": self.currency,
            "customer": self.customer,
            "description": self.description,
            "disputed": false,
            "failure_code": decline.map(|decline| decline.code),
            "failure_message": decline.map(|decline| decline.message),
            "fraud_details": {},
            "livemode": false,
            "metadata": *self.metadata,
            "outcome": self.outcome(),
            "paid": paid,
            "payment_intent": self.payment_intent,
            "payment_method": self.instrument.id,
            "payment_method_details": { "card": payment_methods::card(self.instrument.scenario), "type": "card" },
            "receipt_email": null,
            "refunded": self.captured() && self.amount_refunded == self.amount_captured(),
            "source": if self.payment_intent.is_some() { Value::Null } else { source },
            "status": self.status(),
        })
    }

    /// What the network and Radar said.
    fn outcome(&self) -> Value {
        let (advice, network, reason, kind) = match self.state {
            ChargeState::Pending => return Value::Null,
            ChargeState::Succeeded { .. } => (None, "approved_by_network", None, "authorized"),
            ChargeState::Failed(Decline {
                blocked: Some(reason),
                ..
            }) => (None, "not_sent_to_network", Some(reason), "blocked"),
            ChargeState::Failed(decline) => {
                let reason = decline.decline_code.unwrap_or(decline.code);
                (
                    decline.advice_code,
                    "declined_by_network",
                    Some(reason),
                    "issuer_declined",
                )
            }
        };
        json!({
            "advice_code": advice,
            "network_status": network,
            "reason": reason,
            "risk_level": if reason == Some("highest_risk_level") { "highest" } else { "normal" },
            "seller_message": if kind == "authorized" { "Payment complete." } else { "The payment was not completed." },
            "type": kind,
        })
    }
}

/// `POST /v1/charges`
pub(super) fn create(
    books: &mut Books,
    context: &Context,
    params: &Params,
) -> Result<Value, ApiError> {
    params.only(&[CREATE_PARAMS])?;
    let (mut amount, currency) = amount_and_currency(params)?;
    let captured = !params.has("capture") || params.flag("capture")?;
    let mut metadata = BTreeMap::new();
    params.merge_metadata(&mut metadata)?;
    let instrument = source(books, context, params)?;
    if context.twist == Twist::WrongAmount {
        amount += 1;
    }
    let state = match (context.twist, instrument.scenario.verdict) {
        (Twist::Processing, _) => ChargeState::Pending,
        (_, Verdict::Approve) => ChargeState::Succeeded { captured },
        (_, Verdict::Decline(decline)) => ChargeState::Failed(decline),
        // The legacy API knows no authentication: the issuer refuses.
        (_, Verdict::Authenticate | Verdict::AuthenticateOnSession) => {
            ChargeState::Failed(AUTHENTICATION_REQUIRED)
        }
    };
    let charge = Arc::new(Charge {
        id: new_id("ch"),
        created_ms: context.now_ms,
        amount,
        partial_capture: None,
        amount_refunded: 0,
        currency,
        customer: params.string("customer"),
        payment_intent: None,
        instrument,
        state,
        metadata: Arc::new(metadata),
        description: params.string("description"),
        key: context.key.clone(),
    });
    let (id, rendered, decline) = (charge.id.clone(), charge.render(), charge.decline());
    emit(books, context, event_name(state), &charge);
    books.charges.add(charge);
    decline.map_or(Ok(rendered), |decline| {
        Err(ApiError::declined(&decline).with("charge", id.into()))
    })
}

/// Records what has just happened to a charge that is in the books.
pub(super) fn emit_charge(books: &mut Books, context: &Context, kind: &'static str, id: &str) {
    if let Some(charge) = books.charges.shared(id).cloned() {
        emit(books, context, kind, &charge);
    }
}

/// The event that tells of a charge in this state.
pub(super) fn event_name(state: ChargeState) -> &'static str {
    match state {
        ChargeState::Succeeded { .. } => "charge.succeeded",
        ChargeState::Pending => "charge.pending",
        ChargeState::Failed(_) => "charge.failed",
    }
}

/// What a legacy charge is paid with: its source, else the customer's default source.
///
/// PaymentMethod ids are taken as sources too, although Stripe refuses most of them.
fn source(books: &mut Books, context: &Context, params: &Params) -> Result<Instrument, ApiError> {
    let customer = params.text("customer");
    let mut default = None;
    if let Some(id) = customer {
        default = customers::named(books, id, context.now_ms)?
            .default_source
            .clone();
    }
    match (params.string("source").or(default), customer) {
        (Some(source), _)
            if source.starts_with("tok_") && super::scenario::by_name(&source).is_none() =>
        {
            Err(ApiError::no_such("token", &source, "source"))
        }
        (Some(source), customer) => payment_methods::instrument(books, &source, customer, "source"),
        (None, None) => {
            Err(ApiError::missing("source")
                .with("message", "Must provide source or customer.".into()))
        }
        (None, Some(_)) => Err(ApiError::no_active_card()),
    }
}

/// `GET /v1/charges/{id}`
pub(super) fn retrieve(books: &Books, id: &str, params: &Params) -> Result<Value, ApiError> {
    params.only(&[&["expand[]"]])?;
    books
        .charges
        .get(id)
        .map(Charge::render)
        .ok_or_else(|| ApiError::not_found("charge", id, "id"))
}

/// `GET /v1/charges`
pub(super) fn list(books: &Books, params: &Params) -> Result<Value, ApiError> {
    params.only(&[LIST_PARAMS, &["customer", "payment_intent"]])?;
    let (customer, intent) = (params.text("customer"), params.text("payment_intent"));
    let keep = |charge: &Charge| {
        customer.is_none_or(|wanted| charge.customer.as_deref() == Some(wanted))
            && intent.is_none_or(|wanted| charge.payment_intent.as_deref() == Some(wanted))
    };
    paging::list(&books.charges, params, "/v1/charges", keep, Charge::render)
}
