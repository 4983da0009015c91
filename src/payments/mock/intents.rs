//! PaymentIntents: created, confirmed, canceled, and paid at most once for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::amount::amount_and_currency;
use super::attempt;
use super::customers;
use super::errors::ApiError;
use super::events::emit;
use super::form::Params;
use super::intent::{PaymentIntent, Status};
use super::ledger::{Books, Context, new_id};
use super::paging::{self, LIST_PARAMS};
use super::payment_methods::{self, Instrument};

const CREATE_PARAMS: &[&str] = &[
    "amount",
    "currency",
    "customer",
    "capture_method",
    "payment_method_types[]",
    "automatic_payment_methods[enabled]",
    "automatic_payment_methods[allow_redirects]",
    "confirm",
    "metadata{}",
    "description",
    "statement_descriptor",
    "statement_descriptor_suffix",
    "receipt_email",
    "setup_future_usage",
    "confirmation_method",
    "transfer_group",
    "shipping*",
    "payment_method_options*",
    "mandate",
    "mandate_data*",
];

const CONFIRM_PARAMS: &[&str] = &[
    "payment_method",
    "off_session",
    "error_on_requires_action",
    "return_url",
    "use_stripe_sdk",
    "expand[]",
];

/// `POST /v1/payment_intents`
pub(super) fn create(
    books: &mut Books,
    context: &Context,
    params: &Params,
) -> Result<Value, ApiError> {
    params.only(&[CREATE_PARAMS, CONFIRM_PARAMS])?;
    let (amount, currency) = amount_and_currency(params)?;
    let confirm = params.flag("confirm")?;
    let terms = attempt::Terms::parse(params)?;
    if !confirm && (params.has("off_session") || params.has("error_on_requires_action")) {
        let message =
            "`off_session` and `error_on_requires_action` can only be set when `confirm` is true.";
        return Err(ApiError::invalid(message));
    }
    let capture_method = params.one_of(
        "capture_method",
        &["automatic", "automatic_async", "manual"],
    )?;
    let capture_method = capture_method.unwrap_or("automatic_async").to_owned();
    let payment_method_types = payment_method_types(params)?;
    let mut metadata = BTreeMap::new();
    params.merge_metadata(&mut metadata)?;
    let instrument = instrument(books, context, params)?;
    if confirm && instrument.is_none() {
        return Err(ApiError::missing("payment_method").with("message", MISSING_METHOD.into()));
    }

    let status = if instrument.is_some() {
        Status::RequiresConfirmation
    } else {
        Status::RequiresPaymentMethod
    };
    let id = new_id("pi");
    let intent = Arc::new(PaymentIntent {
        id: id.clone(),
        created_ms: context.now_ms,
        amount,
        currency,
        customer: params.string("customer"),
        payment_method: instrument.as_ref().map(|instrument| instrument.id.clone()),
        status,
        latest_charge: None,
        last_payment_error: None,
        metadata: Arc::new(metadata),
        description: params.string("description"),
        partial_capture: None,
        manual_capture: capture_method == "manual",
        key: context.key.clone(),
        capture_method,
        payment_method_types,
        statement_descriptor_suffix: params.string("statement_descriptor_suffix"),
        receipt_email: params.string("receipt_email"),
        canceled_at_ms: None,
        cancellation_reason: None,
    });
    emit(books, context, "payment_intent.created", &intent);
    books.intents.add(intent);
    match instrument {
        Some(instrument) if confirm => attempt::run(books, context, &id, instrument, terms),
        Some(_) | None => rendered(books, &id),
    }
}

/// The types that were sent; cards if none were.
fn payment_method_types(params: &Params) -> Result<Vec<String>, ApiError> {
    let sent = params.list("payment_method_types");
    if sent.is_empty() {
        return Ok(vec!["card".to_owned()]);
    }
    if params.has("automatic_payment_methods[enabled]") {
        return Err(ApiError::invalid(
            "You may only specify one of these parameters: automatic_payment_methods, payment_method_types.",
        ));
    }
    Ok(sent.into_iter().map(str::to_owned).collect())
}

const MISSING_METHOD: &str = "You cannot confirm this PaymentIntent because it's missing a payment method. You can \
                              either update the PaymentIntent with a payment method and then confirm it again, or \
                              confirm it again directly with a payment method.";

/// What a new PaymentIntent is paid with: the method that was sent, or the customer's default source. The default
/// payment method of the customer's invoice settings is for Stripe's own invoices and is not used.
fn instrument(
    books: &mut Books,
    context: &Context,
    params: &Params,
) -> Result<Option<Instrument>, ApiError> {
    let customer = params.text("customer");
    let mut fallback = None;
    if let Some(id) = customer {
        fallback = customers::named(books, id, context.now_ms)?
            .default_source
            .clone();
    }
    let method = params.string("payment_method").or(fallback);
    method
        .map(|method| payment_methods::instrument(books, &method, customer, "payment_method"))
        .transpose()
}

/// `POST /v1/payment_intents/{id}/confirm`
pub(super) fn confirm(
    books: &mut Books,
    context: &Context,
    id: &str,
    params: &Params,
) -> Result<Value, ApiError> {
    params.only(&[CONFIRM_PARAMS])?;
    let terms = attempt::Terms::parse(params)?;
    let intent = find(books, id)?;
    if !intent.status.can_confirm() {
        return Err(intent.unexpected_state("confirm"));
    }
    let Some(method) = params
        .string("payment_method")
        .or(intent.payment_method.clone())
    else {
        let error = intent.unexpected_state("confirm");
        return Err(error.with("message", MISSING_METHOD.into()));
    };
    let instrument =
        payment_methods::instrument(books, &method, intent.customer.as_deref(), "payment_method")?;
    attempt::run(books, context, id, instrument, terms)
}

/// `POST /v1/payment_intents/{id}/cancel`
pub(super) fn cancel(
    books: &mut Books,
    context: &Context,
    id: &str,
    params: &Params,
) -> Result<Value, ApiError> {
    const REASONS: &[&str] = &[
        "duplicate",
        "fraudulent",
        "requested_by_customer",
        "abandoned",
    ];
    params.only(&[&["cancellation_reason", "expand[]"]])?;
    let reason = params
        .one_of("cancellation_reason", REASONS)?
        .map(str::to_owned);
    let intent = books.intents.get_mut(id).ok_or_else(|| not_found(id))?;
    if !intent.status.can_cancel() {
        return Err(intent.unexpected_state("cancel"));
    }
    let hold = intent
        .latest_charge
        .clone()
        .filter(|_| intent.status == Status::RequiresCapture);
    intent.status = Status::Canceled;
    intent.canceled_at_ms = Some(context.now_ms);
    intent.cancellation_reason = reason;
    if let Some(charge) = hold.and_then(|id| books.charges.get_mut(&id)) {
        charge.amount_refunded = charge.amount;
    }
    emit_intent(books, context, "payment_intent.canceled", id)
}

/// `POST /v1/payment_intents/{id}`
pub(super) fn update(books: &mut Books, id: &str, params: &Params) -> Result<Value, ApiError> {
    params.only(&[&[
        "metadata{}",
        "description",
        "receipt_email",
        "statement_descriptor_suffix",
        "expand[]",
    ]])?;
    let intent = books.intents.get_mut(id).ok_or_else(|| not_found(id))?;
    params.merge_metadata(Arc::make_mut(&mut intent.metadata))?;
    for (name, field) in [
        ("description", &mut intent.description),
        ("receipt_email", &mut intent.receipt_email),
        (
            "statement_descriptor_suffix",
            &mut intent.statement_descriptor_suffix,
        ),
    ] {
        if params.has(name) {
            *field = params.string(name);
        }
    }
    intent.last_payment_error = None;
    Ok(intent.render())
}

/// `GET /v1/payment_intents/{id}`
pub(super) fn retrieve(books: &Books, id: &str, params: &Params) -> Result<Value, ApiError> {
    params.only(&[&["client_secret", "expand[]"]])?;
    rendered(books, id)
}

/// `GET /v1/payment_intents`
pub(super) fn list(books: &Books, params: &Params) -> Result<Value, ApiError> {
    params.only(&[LIST_PARAMS, &["customer"]])?;
    let customer = params.text("customer");
    let keep = |intent: &PaymentIntent| {
        customer.is_none_or(|wanted| intent.customer.as_deref() == Some(wanted))
    };
    paging::list(
        &books.intents,
        params,
        "/v1/payment_intents",
        keep,
        PaymentIntent::render,
    )
}

/// The PaymentIntent as it stands.
pub(super) fn rendered(books: &Books, id: &str) -> Result<Value, ApiError> {
    find(books, id).map(PaymentIntent::render)
}

/// Records what has just happened to a PaymentIntent that is in the books, and gives it as it stands.
pub(super) fn emit_intent(
    books: &mut Books,
    context: &Context,
    kind: &'static str,
    id: &str,
) -> Result<Value, ApiError> {
    let intent = Arc::clone(books.intents.shared(id).ok_or_else(|| not_found(id))?);
    emit(books, context, kind, &intent);
    Ok(intent.render())
}

/// The PaymentIntent that the path names.
pub(super) fn find<'a>(books: &'a Books, id: &str) -> Result<&'a PaymentIntent, ApiError> {
    books.intents.get(id).ok_or_else(|| not_found(id))
}

fn not_found(id: &str) -> ApiError {
    ApiError::not_found("payment_intent", id, "intent")
}
