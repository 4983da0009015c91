//! One attempt to pay a PaymentIntent, and the late verdict on one that was left in `processing`.

use std::sync::Arc;

use serde_json::Value;

use super::charges::{Charge, ChargeState, emit_charge, event_name};
use super::errors::ApiError;
use super::events::emit;
use super::form::Params;
use super::intent::Status;
use super::intents;
use super::ledger::{Books, Context, Twist, new_id};
use super::payment_methods::{self, Instrument};
use super::scenario::{
    AUTHENTICATION_NOT_HANDLED, AUTHENTICATION_REQUIRED, Decline, GENERIC, Verdict,
};

/// On what terms the payment is confirmed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// The customer is not there to authenticate.
    off_session: bool,
    /// The caller cannot handle an authentication.
    error_on_requires_action: bool,
}

impl Terms {
    /// Reads the terms of a create or confirm.
    pub(super) fn parse(params: &Params) -> Result<Self, ApiError> {
        let off_session =
            params.one_of("off_session", &["true", "false", "one_off", "recurring"])?;
        Ok(Self {
            off_session: off_session.is_some_and(|word| word != "false"),
            error_on_requires_action: params.flag("error_on_requires_action")?,
        })
    }
}

/// What an attempt comes to.
enum Course {
    Paid,
    Pending,
    Refused(Decline),
    /// Refused before a charge was made.
    RefusedUncharged(Decline),
    ActionRequired,
}

/// Confirms a PaymentIntent whose status allows it.
pub(super) fn run(
    books: &mut Books,
    context: &Context,
    id: &str,
    instrument: Instrument,
    terms: Terms,
) -> Result<Value, ApiError> {
    let course = course(context.twist, instrument.scenario.verdict, terms);
    if let Some(intent) = books.intents.get_mut(id) {
        intent.key = context.key.clone();
        intent.payment_method = Some(instrument.id.clone());
        intent.last_payment_error = None;
        if context.twist == Twist::WrongAmount {
            intent.amount += 1;
        }
    }
    match course {
        Course::Paid => pay(books, context, id, &instrument),
        Course::Pending => {
            charge(books, context, id, &instrument, ChargeState::Pending)?;
            move_to(
                books,
                context,
                id,
                Status::Processing,
                "payment_intent.processing",
            )
        }
        Course::ActionRequired => move_to(
            books,
            context,
            id,
            Status::RequiresAction,
            "payment_intent.requires_action",
        ),
        Course::Refused(decline) => {
            let charge_id = charge(
                books,
                context,
                id,
                &instrument,
                ChargeState::Failed(decline),
            )?;
            let error = ApiError::declined(&decline);
            Err(fail(books, context, id, error, Some(charge_id))?)
        }
        Course::RefusedUncharged(decline) => Err(fail(
            books,
            context,
            id,
            ApiError::declined(&decline),
            None,
        )?),
    }
}

/// Takes the money, or places the hold.
fn pay(
    books: &mut Books,
    context: &Context,
    id: &str,
    instrument: &Instrument,
) -> Result<Value, ApiError> {
    let manual = intents::find(books, id)?.manual_capture;
    let state = ChargeState::Succeeded { captured: !manual };
    charge(books, context, id, instrument, state)?;
    let (status, event) = if manual {
        (
            Status::RequiresCapture,
            "payment_intent.amount_capturable_updated",
        )
    } else {
        (Status::Succeeded, "payment_intent.succeeded")
    };
    move_to(books, context, id, status, event)
}

fn course(twist: Twist, verdict: Verdict, terms: Terms) -> Course {
    if twist == Twist::Processing {
        return Course::Pending;
    }
    match verdict {
        Verdict::Approve => Course::Paid,
        Verdict::Decline(decline) => Course::Refused(decline),
        Verdict::AuthenticateOnSession if terms.off_session => Course::Paid,
        Verdict::Authenticate | Verdict::AuthenticateOnSession => match terms {
            Terms {
                error_on_requires_action: true,
                ..
            } => Course::RefusedUncharged(AUTHENTICATION_NOT_HANDLED),
            Terms {
                off_session: true, ..
            } => Course::Refused(AUTHENTICATION_REQUIRED),
            Terms { .. } => Course::ActionRequired,
        },
    }
}

/// Records the charge of an attempt. A PaymentIntent has at most one successful charge, whatever happens.
fn charge(
    books: &mut Books,
    context: &Context,
    intent_id: &str,
    instrument: &Instrument,
    state: ChargeState,
) -> Result<String, ApiError> {
    let intent = intents::find(books, intent_id)?;
    debug_assert!(!matches!(
        intent.status,
        Status::Succeeded | Status::Canceled | Status::RequiresCapture
    ));
    let charge = Arc::new(Charge {
        id: new_id("ch"),
        created_ms: context.now_ms,
        amount: intent.amount,
        partial_capture: None,
        amount_refunded: 0,
        currency: intent.currency.clone(),
        customer: intent.customer.clone(),
        payment_intent: Some(intent_id.to_owned()),
        instrument: instrument.clone(),
        state,
        metadata: Arc::clone(&intent.metadata),
        description: intent.description.clone(),
        key: context.key.clone(),
    });
    let id = charge.id.clone();
    emit(books, context, event_name(state), &charge);
    books.charges.add(charge);
    if !matches!(state, ChargeState::Failed(_)) {
        payment_methods::use_up(books, &instrument.id);
    }
    if let Some(intent) = books.intents.get_mut(intent_id) {
        intent.latest_charge = Some(id.clone());
    }
    Ok(id)
}

fn move_to(
    books: &mut Books,
    context: &Context,
    id: &str,
    status: Status,
    event: &'static str,
) -> Result<Value, ApiError> {
    if let Some(intent) = books.intents.get_mut(id) {
        intent.status = status;
    }
    intents::emit_intent(books, context, event, id)
}

/// Opens the PaymentIntent for another attempt, and gives the 402 that tells of it.
fn fail(
    books: &mut Books,
    context: &Context,
    id: &str,
    mut error: ApiError,
    charge_id: Option<String>,
) -> Result<ApiError, ApiError> {
    if let Some(charge_id) = charge_id {
        error = error.with("charge", charge_id.into());
    }
    let method = intents::find(books, id)?.payment_method.clone();
    if let Some(object) = method.and_then(|method| payment_methods::render(books, &method)) {
        error = error.with("payment_method", object);
    }
    if let Some(intent) = books.intents.get_mut(id) {
        intent.last_payment_error = Some(Arc::new(error.object()));
        // Stripe takes the refused method off, so that the next confirm must name one.
        intent.payment_method = None;
    }
    let intent = move_to(
        books,
        context,
        id,
        Status::RequiresPaymentMethod,
        "payment_intent.payment_failed",
    )?;
    Ok(error.with("payment_intent", intent))
}

/// The late verdict on a payment in `processing`; `false` if there is none of that id.
pub(super) fn settle(
    books: &mut Books,
    context: &Context,
    payment_id: &str,
    success: bool,
) -> bool {
    let intent = books
        .intents
        .get(payment_id)
        .filter(|intent| intent.status == Status::Processing);
    let charge_id = intent.map_or(Some(payment_id.to_owned()), |intent| {
        intent.latest_charge.clone()
    });
    let is_intent = intent.is_some();
    let charge = charge_id.and_then(|id| books.charges.get_mut(&id));
    let Some(charge) = charge.filter(|charge| matches!(charge.state, ChargeState::Pending)) else {
        return false;
    };
    charge.state = if success {
        ChargeState::Succeeded { captured: true }
    } else {
        ChargeState::Failed(GENERIC)
    };
    let (id, event) = (charge.id.clone(), event_name(charge.state));
    emit_charge(books, context, event, &id);
    if !is_intent {
        return true;
    }
    let moved = if success {
        move_to(
            books,
            context,
            payment_id,
            Status::Succeeded,
            "payment_intent.succeeded",
        )
        .is_ok()
    } else {
        let error = ApiError::declined(&GENERIC);
        fail(books, context, payment_id, error, Some(id)).is_ok()
    };
    debug_assert!(moved);
    true
}

/// The customer's answer to an authentication; `false` if none was asked for.
pub(super) fn authenticate(books: &mut Books, context: &Context, id: &str, success: bool) -> bool {
    let intent = books.intents.get(id);
    let Some(intent) = intent.filter(|intent| intent.status == Status::RequiresAction) else {
        return false;
    };
    let Some(instrument) = payment_methods::of_intent(books, intent) else {
        return false;
    };
    if success {
        return pay(books, context, id, &instrument).is_ok();
    }
    let message = "The provided PaymentMethod has failed authentication. You can provide payment_method_data or a new \
                   PaymentMethod to attempt to fulfill this PaymentIntent again.";
    let error = ApiError::refused(message).code("payment_intent_authentication_failure");
    fail(books, context, id, error, None).is_ok()
}
