//! Capture: a hold becomes money, all of it or a part; the rest is released (Stripe docs, Place a hold on a payment
//! method).

use std::sync::Arc;

use serde_json::Value;

use super::charges::{ChargeState, emit_charge};
use super::errors::ApiError;
use super::form::Params;
use super::intent::Status;
use super::intents;
use super::ledger::{Books, Context};

/// `POST /v1/payment_intents/{id}/capture`
pub(super) fn capture(
    books: &mut Books,
    context: &Context,
    id: &str,
    params: &Params,
) -> Result<Value, ApiError> {
    params.only(&[&[
        "amount_to_capture",
        "final_capture",
        "metadata{}",
        "statement_descriptor",
        "statement_descriptor_suffix",
        "expand[]",
    ]])?;
    let asked = params.integer("amount_to_capture")?;
    let intent = intents::find(books, id)?;
    if intent.status != Status::RequiresCapture {
        let message = format!(
            "This PaymentIntent could not be captured because it has a status of {}. Only a PaymentIntent with one of \
             the following statuses may be captured: requires_capture.",
            intent.status.word()
        );
        return Err(intent
            .unexpected_state("capture")
            .with("message", message.into()));
    }
    let held = intent.amount;
    let amount = asked.unwrap_or(held);
    if amount < 1 {
        let error = ApiError::invalid("This value must be greater than or equal to 1.");
        return Err(error
            .code("parameter_invalid_integer")
            .param("amount_to_capture"));
    }
    if amount > held {
        let message = format!(
            "The requested amount to capture ({amount}) is greater than the amount you can capture for this \
             PaymentIntent ({held})."
        );
        return Err(ApiError::refused(message)
            .code("amount_too_large")
            .param("amount_to_capture"));
    }
    let mut metadata = Arc::clone(&intent.metadata);
    params.merge_metadata(Arc::make_mut(&mut metadata))?;
    take(
        books,
        context,
        id,
        Some(amount).filter(|amount| *amount < held),
    );
    if let Some(intent) = books.intents.get_mut(id) {
        intent.metadata = metadata;
    }
    intents::emit_intent(books, context, "payment_intent.succeeded", id)
}

/// Moves the PaymentIntent and its charge. `part` is less than what is held.
fn take(books: &mut Books, context: &Context, id: &str, part: Option<i64>) {
    let Some(intent) = books.intents.get_mut(id) else {
        return;
    };
    intent.status = Status::Succeeded;
    intent.partial_capture = part;
    let Some(charge_id) = intent.latest_charge.clone() else {
        return;
    };
    if let Some(charge) = books.charges.get_mut(&charge_id) {
        charge.state = ChargeState::Succeeded { captured: true };
        charge.partial_capture = part;
    }
    emit_charge(books, context, "charge.captured", &charge_id);
}
