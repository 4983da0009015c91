//! PaymentMethods: Stripe's test cards, which exist by name, and the ones that were saved to a customer.

use serde_json::{Value, json};

use super::customers;
use super::errors::ApiError;
use super::form::Params;
use super::ledger::{Books, Context, Row, new_id, seconds};
use super::paging::{self, LIST_PARAMS};
use super::scenario::{self, Scenario, Verdict};

/// A payment method that was made from a test card, or a card that was made from a token.
#[derive(Debug)]
pub(super) struct SavedMethod {
    id: String,
    created_ms: i64,
    scenario: &'static Scenario,
    /// `None` once it was detached: it can then never be used again.
    customer: Option<String>,
}

impl Row for SavedMethod {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_ms(&self) -> i64 {
        self.created_ms
    }
}

/// Something to pay with, found and allowed.
#[derive(Debug, Clone)]
pub(super) struct Instrument {
    /// The id under which it was named.
    pub(super) id: String,
    /// How it behaves.
    pub(super) scenario: &'static Scenario,
}

/// Finds what a parameter names to pay with, for a customer or for none.
pub(super) fn instrument(
    books: &Books,
    id: &str,
    customer: Option<&str>,
    param: &str,
) -> Result<Instrument, ApiError> {
    if let Some(scenario) = scenario::by_name(id) {
        return Ok(Instrument {
            id: id.to_owned(),
            scenario,
        });
    }
    let Some(saved) = books.methods.get(id) else {
        return Err(ApiError::no_such("PaymentMethod", id, param));
    };
    let scenario = saved.scenario;
    match (saved.customer.as_deref(), customer) {
        (None, _) => Err(ApiError::refused(
            "The provided PaymentMethod was previously used with a PaymentIntent without Customer attachment, shared \
             with a connected account without Customer attachment, or was detached from a Customer. It may not be \
             used again.",
        )
        .param(param)),
        (Some(owner), Some(customer)) if owner == customer => Ok(Instrument { id: id.to_owned(), scenario }),
        (Some(_), Some(_)) => Err(ApiError::refused(
            "The customer does not have a payment method with the provided ID. The payment method belongs to another \
             customer.",
        )
        .param(param)),
        (Some(_), None) => Err(ApiError::refused(
            "The provided PaymentMethod belongs to a Customer. Please include the Customer in the `customer` \
             parameter.",
        )
        .param(param)),
    }
}

/// Saves a test card or token to a customer; a new id is made that behaves alike.
pub(super) fn save(
    books: &mut Books,
    context: &Context,
    id: &str,
    customer: &str,
    param: &str,
) -> Result<String, ApiError> {
    let Some(scenario) = scenario::by_name(id) else {
        // Not a test card: it was saved before, and must be this customer's.
        return instrument(books, id, Some(customer), param).map(|instrument| instrument.id);
    };
    if let (false, Verdict::Decline(decline)) = (scenario.attachable, scenario.verdict) {
        return Err(ApiError::declined(&decline));
    }
    let saved_id = new_id(if id.starts_with("tok_") { "card" } else { "pm" });
    let customer = Some(customer.to_owned());
    books.methods.add(SavedMethod {
        id: saved_id.clone(),
        created_ms: context.now_ms,
        scenario,
        customer,
    });
    Ok(saved_id)
}

/// Stripe's JSON of a test card or a saved one.
pub(super) fn render(books: &Books, id: &str) -> Option<Value> {
    if let Some(saved) = books.methods.get(id) {
        return Some(object(
            id,
            saved.scenario,
            saved.customer.as_deref(),
            saved.created_ms,
        ));
    }
    let scenario = scenario::by_name(id).filter(|_| id.starts_with("pm_"))?;
    Some(object(id, scenario, None, 0))
}

fn object(id: &str, scenario: &Scenario, customer: Option<&str>, created_ms: i64) -> Value {
    json!({
        "id": id,
        "object": "payment_method",
        "allow_redisplay": "unspecified",
        "billing_details": { "address": null, "email": null, "name": null, "phone": null },
        "card": card(scenario),
        "created": seconds(created_ms),
        "customer": customer,
        "livemode": false,
        "metadata": {},
        "type": "card",
    })
}

/// The card itself, as payment methods, charges and sources show it.
pub(super) fn card(scenario: &Scenario) -> Value {
    json!({
        "brand": scenario.brand,
        "country": "US",
        "exp_month": 12,
        "exp_year": 2034,
        "fingerprint": format!("mock{}{}", scenario.brand, scenario.last4),
        "funding": "credit",
        "last4": scenario.last4,
    })
}

/// `GET /v1/payment_methods/{id}`
pub(super) fn retrieve(books: &Books, id: &str, params: &Params) -> Result<Value, ApiError> {
    params.only(&[&["expand[]"]])?;
    render(books, id).ok_or_else(|| ApiError::not_found("PaymentMethod", id, "payment_method"))
}

/// `POST /v1/payment_methods/{id}/attach`
pub(super) fn attach(
    books: &mut Books,
    context: &Context,
    id: &str,
    params: &Params,
) -> Result<Value, ApiError> {
    params.only(&[&["customer", "expand[]"]])?;
    let customer = params.required("customer")?;
    if render(books, id).is_none() {
        return Err(ApiError::not_found("PaymentMethod", id, "payment_method"));
    }
    customers::named(books, customer, context.now_ms)?;
    let saved = save(books, context, id, customer, "payment_method")?;
    retrieve(books, &saved, &Params::default())
}

/// `POST /v1/payment_methods/{id}/detach`
pub(super) fn detach(books: &mut Books, id: &str, params: &Params) -> Result<Value, ApiError> {
    params.only(&[&["expand[]"]])?;
    let missing = || ApiError::not_found("PaymentMethod", id, "payment_method");
    if scenario::by_name(id).is_none() {
        let saved = books.methods.get_mut(id).ok_or_else(missing)?;
        if saved.customer.take().is_some() {
            return render(books, id).ok_or_else(missing);
        }
    }
    Err(ApiError::refused(
        "The payment method you provided is not attached to a customer so detachment is impossible.",
    ))
}

/// `GET /v1/payment_methods` and `GET /v1/customers/{id}/payment_methods`
pub(super) fn list(
    books: &Books,
    customer: Option<&str>,
    params: &Params,
) -> Result<Value, ApiError> {
    params.only(&[LIST_PARAMS, &["customer", "type"]])?;
    let customer = customer.or(params.text("customer"));
    let cards_only = params.text("type").is_none_or(|kind| kind == "card");
    let keep = |saved: &SavedMethod| {
        // Cards made from tokens are sources, not PaymentMethods of this list.
        cards_only
            && saved.id.starts_with("pm_")
            && customer.is_some()
            && saved.customer.as_deref() == customer
    };
    let render = |saved: &SavedMethod| {
        object(
            &saved.id,
            saved.scenario,
            saved.customer.as_deref(),
            saved.created_ms,
        )
    };
    paging::list(&books.methods, params, "/v1/payment_methods", keep, render)
}
