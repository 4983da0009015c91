//! PaymentMethods: Stripe's test cards, which exist by name, and the ones that were saved to a customer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::customers;
use super::errors::ApiError;
use super::form::Params;
use super::intent::PaymentIntent;
use super::ledger::{Books, Context, Row, new_id, seconds};
use super::paging::{self, LIST_PARAMS};
use super::scenario::{self, Scenario, Verdict};

/// A payment method that was made from a test card, or a card that was made from a token.
#[derive(Debug, Clone)]
pub(super) struct SavedMethod {
    id: String,
    created_ms: i64,
    scenario: &'static Scenario,
    owner: Owner,
    metadata: BTreeMap<String, String>,
}

/// Who may pay with a method.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    /// Whoever is first: it pays once, or is attached to a customer.
    Unclaimed,
    /// The customer it is attached to.
    Customer(String),
    /// Nobody, for ever: it was used without a customer, or detached.
    Nobody,
}

impl SavedMethod {
    fn customer(&self) -> Option<&str> {
        match &self.owner {
            Owner::Customer(id) => Some(id),
            Owner::Unclaimed | Owner::Nobody => None,
        }
    }

    /// Stripe's JSON.
    fn render(&self) -> Value {
        let mut object = object(&self.id, self.scenario, self.customer(), self.created_ms);
        object["metadata"] = json!(self.metadata);
        object
    }
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
    let found = || Instrument {
        id: id.to_owned(),
        scenario,
    };
    match (&saved.owner, customer) {
        (Owner::Unclaimed, _) => Ok(found()),
        (Owner::Nobody, _) => Err(ApiError::refused(
            "The provided PaymentMethod was previously used with a PaymentIntent without Customer attachment, shared \
             with a connected account without Customer attachment, or was detached from a Customer. It may not be \
             used again.",
        )
        .param(param)),
        (Owner::Customer(owner), Some(customer)) if owner == customer => Ok(found()),
        (Owner::Customer(_), Some(_)) => Err(ApiError::refused(
            "The customer does not have a payment method with the provided ID. The payment method belongs to another \
             customer.",
        )
        .param(param)),
        (Owner::Customer(_), None) => Err(ApiError::refused(
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
    // What is not a test card was made before, and must be nobody's yet or this customer's.
    let Instrument { scenario, .. } = instrument(books, id, Some(customer), param)?;
    if let (false, Verdict::Decline(decline)) = (scenario.attachable, scenario.verdict) {
        return Err(ApiError::declined(&decline));
    }
    if let Some(saved) = books.methods.get_mut(id) {
        saved.owner = Owner::Customer(customer.to_owned());
        return Ok(id.to_owned());
    }
    let saved_id = new_id(if id.starts_with("tok_") { "card" } else { "pm" });
    books.methods.add(SavedMethod {
        id: saved_id.clone(),
        created_ms: context.now_ms,
        scenario,
        owner: Owner::Customer(customer.to_owned()),
        metadata: BTreeMap::new(),
    });
    Ok(saved_id)
}

/// A method without a customer has paid: it pays no second time.
pub(super) fn use_up(books: &mut Books, id: &str) {
    if let Some(saved) = books.methods.get_mut(id)
        && saved.owner == Owner::Unclaimed
    {
        saved.owner = Owner::Nobody;
    }
}

/// What a PaymentIntent that is under way is paid with.
pub(super) fn of_intent(books: &Books, intent: &PaymentIntent) -> Option<Instrument> {
    let id = intent.payment_method.clone()?;
    let saved = books.methods.get(&id).map(|saved| saved.scenario);
    let scenario = saved.or_else(|| scenario::by_name(&id))?;
    Some(Instrument { id, scenario })
}

/// Stripe's JSON of a test card or a saved one.
pub(super) fn render(books: &Books, id: &str) -> Option<Value> {
    if let Some(saved) = books.methods.get(id) {
        return Some(saved.render());
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

/// `POST /v1/payment_methods`: a card from one of Stripe's tokens.
pub(super) fn create(
    books: &mut Books,
    context: &Context,
    params: &Params,
) -> Result<Value, ApiError> {
    if params.has("card[number]") {
        return Err(ApiError::raw_card_number());
    }
    params.only(&[&[
        "type",
        "card[token]",
        "billing_details*",
        "allow_redisplay",
        "metadata{}",
        "expand[]",
    ]])?;
    params.required("type")?;
    params.one_of("type", &["card"])?;
    let token = params.required("card[token]")?;
    let scenario = scenario::by_name(token).filter(|_| token.starts_with("tok_"));
    let scenario = scenario.ok_or_else(|| ApiError::no_such("token", token, "card[token]"))?;
    let mut metadata = BTreeMap::new();
    params.merge_metadata(&mut metadata)?;
    let method = SavedMethod {
        id: new_id("pm"),
        created_ms: context.now_ms,
        scenario,
        owner: Owner::Unclaimed,
        metadata,
    };
    let object = method.render();
    books.methods.add(method);
    Ok(object)
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
        if saved.customer().is_some() {
            saved.owner = Owner::Nobody;
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
            && saved.customer() == customer
    };
    paging::list(
        &books.methods,
        params,
        "/v1/payment_methods",
        keep,
        SavedMethod::render,
    )
}
