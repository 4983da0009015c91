//! Refunds: money given back, never more than was taken.
//!
//! Some turn by themselves, a while after they were made: Stripe's test cards for a refund that is pending first, and
//! for one that comes back. What is due turns at whatever happens next to the mock ([`turn_due`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::charges::{Charge, ChargeState, emit_charge};
use super::errors::ApiError;
use super::events::emit;
use super::form::Params;
use super::ledger::{Books, Context, RefundRow, Row, Twist, new_id, rfc3339, seconds};
use super::paging::{self, LIST_PARAMS};
use super::scenario::RefundCourse;

/// When a refund turns that does so by itself; Stripe says "some time later" (Stripe docs, Testing: refunds).
pub(super) const TURN_AFTER_MS: i64 = 60_000;

/// One refund.
#[derive(Debug, Clone)]
pub(super) struct Refund {
    id: String,
    created_ms: i64,
    amount: i64,
    currency: String,
    charge: String,
    payment_intent: Option<String>,
    reason: Option<String>,
    status: &'static str,
    /// Why it failed, once it has.
    failure_reason: Option<&'static str>,
    metadata: BTreeMap<String, String>,
    /// The `Idempotency-Key` that made it.
    key: Option<Arc<str>>,
}

/// The refunds that will turn by themselves.
#[derive(Debug, Default)]
pub(super) struct Turns {
    due: Vec<Turn>,
    /// True when one was added since somebody last asked for it.
    pub(super) added: bool,
}

/// One refund to come to its end.
#[derive(Debug)]
struct Turn {
    at_ms: i64,
    refund_id: String,
    success: bool,
}

impl Row for Refund {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_ms(&self) -> i64 {
        self.created_ms
    }
}

impl Refund {
    /// The row of the ledger.
    pub(super) fn row(&self) -> RefundRow {
        let payment = self.payment_intent.as_ref().unwrap_or(&self.charge);
        RefundRow {
            id: self.id.clone(),
            idempotency_key: self.key.as_deref().map(str::to_owned),
            charge_id: self.metadata.get("charge_id").cloned(),
            payment_id: payment.clone(),
            amount: self.amount,
            currency: self.currency.clone(),
            status: self.status.to_owned(),
            created_at: rfc3339(self.created_ms),
        }
    }

    /// Stripe's JSON.
    pub(super) fn render(&self) -> Value {
        json!({
            "id": self.id,
            "object": "refund",
            "amount": self.amount,
            "balance_transaction": null,
            "charge": self.charge,
            "created": seconds(self.created_ms),
            "currency": self.currency,
            "destination_details": { "card": { "type": "refund" }, "type": "card" },
            "failure_reason": self.failure_reason,
            "metadata": self.metadata,
            "payment_intent": self.payment_intent,
            "reason": self.reason,
            "receipt_number": null,
            "status": self.status,
        })
    }
}

/// `POST /v1/refunds`
pub(super) fn create(
    books: &mut Books,
    context: &Context,
    params: &Params,
) -> Result<Value, ApiError> {
    const REASONS: &[&str] = &["duplicate", "fraudulent", "requested_by_customer"];
    params.only(&[&[
        "payment_intent",
        "charge",
        "amount",
        "reason",
        "metadata{}",
        "refund_application_fee",
        "reverse_transfer",
        "expand[]",
    ]])?;
    let amount = params.integer("amount")?;
    if amount.is_some_and(|amount| amount < 1) {
        let error = ApiError::invalid("This value must be greater than or equal to 1.");
        return Err(error.code("parameter_invalid_integer").param("amount"));
    }
    let reason = params.one_of("reason", REASONS)?.map(str::to_owned);
    let mut metadata = BTreeMap::new();
    params.merge_metadata(&mut metadata)?;

    let charge = charge_to_refund(books, params)?;
    let rest = charge.amount_captured() - charge.amount_refunded;
    if rest == 0 {
        let error = ApiError::refused(format!("Charge {} has already been refunded.", charge.id));
        return Err(error.code("charge_already_refunded"));
    }
    let mut amount = amount.unwrap_or(rest);
    if amount > rest {
        let message = format!(
            "Refund amount ({amount}) is greater than unrefunded amount on charge ({rest})"
        );
        return Err(ApiError::refused(message).param("amount"));
    }
    if context.twist == Twist::WrongAmount {
        // Never above the rest, whatever the fault.
        amount = (amount - 1).max(1);
    }
    let course = charge.instrument.scenario.refunds;
    let pending = context.twist == Twist::Processing || course == RefundCourse::PendingThenSucceeds;
    let refund = Arc::new(Refund {
        id: new_id("re"),
        created_ms: context.now_ms,
        amount,
        currency: charge.currency.clone(),
        charge: charge.id.clone(),
        payment_intent: charge.payment_intent.clone(),
        reason,
        status: if pending { "pending" } else { "succeeded" },
        failure_reason: None,
        metadata,
        key: context.key.clone(),
    });
    plan_turn(books, context, course, &refund.id);
    emit(books, context, "refund.created", &refund);
    if let Some(charge) = books.charges.get_mut(&refund.charge) {
        charge.amount_refunded += amount;
    }
    emit_charge(books, context, "charge.refunded", &refund.charge);
    let object = refund.render();
    books.refunds.add(refund);
    Ok(object)
}

/// Notes when a new refund will turn by itself. One that a fault has left pending waits for its verdict.
fn plan_turn(books: &mut Books, context: &Context, course: RefundCourse, refund_id: &str) {
    if context.twist == Twist::Processing {
        return;
    }
    let success = match course {
        RefundCourse::Succeeds => return,
        RefundCourse::PendingThenSucceeds => true,
        RefundCourse::SucceedsThenFails => false,
    };
    books.turns.added = true;
    books.turns.due.push(Turn {
        at_ms: context.now_ms + TURN_AFTER_MS,
        refund_id: refund_id.to_owned(),
        success,
    });
}

/// Turns the refunds whose time has come. One that was settled by hand meanwhile stays as it is.
pub(super) fn turn_due(books: &mut Books, context: &Context) {
    let due: Vec<Turn> = books
        .turns
        .due
        .extract_if(.., |turn| turn.at_ms <= context.now_ms)
        .collect();
    for turn in due {
        settle(books, context, &turn.refund_id, turn.success);
    }
}

/// The charge that the request means, if there is money on it to give back.
fn charge_to_refund<'a>(books: &'a Books, params: &Params) -> Result<&'a Charge, ApiError> {
    let charge = match (params.text("payment_intent"), params.text("charge")) {
        (Some(id), _) => {
            let missing = || ApiError::no_such("payment_intent", id, "payment_intent");
            let intent = books.intents.get(id).ok_or_else(missing)?;
            let latest = intent
                .latest_charge
                .as_deref()
                .and_then(|id| books.charges.get(id));
            let unpaid = || {
                format!("This PaymentIntent ({id}) does not have a successful charge to refund.")
            };
            latest.ok_or_else(|| ApiError::refused(unpaid()))?
        }
        (None, Some(id)) => books
            .charges
            .get(id)
            .ok_or_else(|| ApiError::no_such("charge", id, "charge"))?,
        (None, None) => return Err(ApiError::missing("charge")),
    };
    match charge.state {
        ChargeState::Succeeded { captured: true } => Ok(charge),
        ChargeState::Succeeded { captured: false } => Err(ApiError::refused(
            "This payment has not been captured. Cancel it to release the hold instead of refunding it.",
        )),
        ChargeState::Pending | ChargeState::Failed(_) => Err(ApiError::refused(format!(
            "Charge {} does not have a successful payment to refund.",
            charge.id
        ))),
    }
}

/// The late verdict on a refund (Stripe docs, Refunds): a pending one succeeds or fails, and one that had succeeded can
/// still come back from the bank. `false` if there is none of that id to be settled so.
pub(super) fn settle(books: &mut Books, context: &Context, id: &str, success: bool) -> bool {
    let Some(refund) = books.refunds.get_mut(id) else {
        return false;
    };
    let (status, event) = match (refund.status, success) {
        ("pending", true) => ("succeeded", "refund.updated"),
        ("pending" | "succeeded", false) => ("failed", "refund.failed"),
        _ => return false,
    };
    refund.status = status;
    refund.failure_reason = (!success).then_some("unknown");
    let (amount, charge) = (refund.amount, refund.charge.clone());
    if let Some(refund) = books.refunds.shared(id).cloned() {
        emit(books, context, event, &refund);
        emit(books, context, "charge.refund.updated", &refund);
    }
    if !success && let Some(charge) = books.charges.get_mut(&charge) {
        charge.amount_refunded -= amount;
    }
    true
}

/// `GET /v1/refunds/{id}`
pub(super) fn retrieve(books: &Books, id: &str, params: &Params) -> Result<Value, ApiError> {
    params.only(&[&["expand[]"]])?;
    books
        .refunds
        .get(id)
        .map(Refund::render)
        .ok_or_else(|| ApiError::not_found("refund", id, "id"))
}

/// `GET /v1/refunds`
pub(super) fn list(books: &Books, params: &Params) -> Result<Value, ApiError> {
    params.only(&[LIST_PARAMS, &["charge", "payment_intent"]])?;
    let (charge, intent) = (params.text("charge"), params.text("payment_intent"));
    let keep = |refund: &Refund| {
        charge.is_none_or(|wanted| refund.charge == wanted)
            && intent.is_none_or(|wanted| refund.payment_intent.as_deref() == Some(wanted))
    };
    paging::list(&books.refunds, params, "/v1/refunds", keep, Refund::render)
}
