//! Customers. Any `cus_...` id exists by being named, so that a test needs no preparation; `cus_missing...` does not.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::errors::ApiError;
use super::form::Params;
use super::ledger::{Books, Context, Row, new_id, seconds};
use super::paging::{self, LIST_PARAMS};
use super::payment_methods;

/// The default payment method of a customer that exists by being named.
const IMPLICIT_METHOD: &str = "pm_card_visa";

const FIELDS: &[&str] = &[
    "name",
    "email",
    "description",
    "phone",
    "metadata{}",
    "invoice_settings[default_payment_method]",
    "source",
    "payment_method",
    "address*",
    "shipping*",
    "preferred_locales[]",
    "expand[]",
];

/// One customer.
#[derive(Debug, Default, Clone)]
pub(super) struct Customer {
    /// `cus_...`
    pub(super) id: String,
    /// The card that legacy charges, and PaymentIntents without a payment method, fall back to.
    pub(super) default_source: Option<String>,
    default_payment_method: Option<String>,
    created_ms: i64,
    deleted: bool,
    /// Name, email, description and phone, as sent.
    texts: BTreeMap<&'static str, String>,
    metadata: BTreeMap<String, String>,
}

impl Row for Customer {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_ms(&self) -> i64 {
        self.created_ms
    }
}

impl Customer {
    /// Stripe's JSON; a deleted customer is a tombstone.
    pub(super) fn render(&self) -> Value {
        if self.deleted {
            return json!({ "id": self.id, "object": "customer", "deleted": true });
        }
        let text = |name| self.texts.get(name);
        json!({
            "id": self.id,
            "object": "customer",
            "address": null,
            "balance": 0,
            "created": seconds(self.created_ms),
            "currency": null,
            "default_source": self.default_source,
            "delinquent": false,
            "description": text("description"),
            "discount": null,
            "email": text("email"),
            "invoice_prefix": null,
            "invoice_settings": {
                "custom_fields": null,
                "default_payment_method": self.default_payment_method,
                "footer": null,
                "rendering_options": null,
            },
            "livemode": false,
            "metadata": self.metadata,
            "name": text("name"),
            "phone": text("phone"),
            "preferred_locales": [],
            "shipping": null,
            "tax_exempt": "none",
            "test_clock": null,
        })
    }

    fn apply(&mut self, params: &Params) -> Result<(), ApiError> {
        params.merge_metadata(&mut self.metadata)?;
        for name in ["name", "email", "description", "phone"] {
            match params.string(name) {
                Some(text) => _ = self.texts.insert(name, text),
                None if params.has(name) => _ = self.texts.remove(name),
                None => {}
            }
        }
        Ok(())
    }
}

/// The customer of that id, deleted or not; one that exists by being named is written down first.
fn find<'a>(books: &'a mut Books, id: &str, now_ms: i64) -> Option<&'a mut Customer> {
    let implicit = id.starts_with("cus_") && !id.starts_with("cus_missing");
    if implicit && books.customers.get(id).is_none() {
        let default_payment_method = Some(IMPLICIT_METHOD.to_owned());
        let named = Customer {
            id: id.to_owned(),
            created_ms: now_ms,
            default_payment_method,
            ..Customer::default()
        };
        books.customers.add(named);
    }
    books.customers.get_mut(id)
}

/// Makes sure that a customer exists under a chosen id, whatever the id.
pub(super) fn ensure(
    books: &mut Books,
    id: &str,
    default_payment_method: Option<String>,
    now_ms: i64,
) -> Value {
    if books.customers.get(id).is_none() {
        books.customers.add(Customer {
            id: id.to_owned(),
            created_ms: now_ms,
            ..Customer::default()
        });
    }
    let Some(customer) = books.customers.get_mut(id) else {
        return Value::Null;
    };
    customer.deleted = false;
    customer.default_payment_method = default_payment_method
        .or(customer.default_payment_method.take())
        .or(Some(IMPLICIT_METHOD.to_owned()));
    customer.render()
}

/// A customer that another object's parameter names.
pub(super) fn named<'a>(
    books: &'a mut Books,
    id: &str,
    now_ms: i64,
) -> Result<&'a Customer, ApiError> {
    let customer = find(books, id, now_ms).filter(|customer| !customer.deleted);
    customer
        .map(|customer| &*customer)
        .ok_or_else(|| ApiError::no_such("customer", id, "customer"))
}

/// A customer that the path names and that can be changed.
fn in_path<'a>(books: &'a mut Books, id: &str, now_ms: i64) -> Result<&'a mut Customer, ApiError> {
    let customer = find(books, id, now_ms).filter(|customer| !customer.deleted);
    customer.ok_or_else(|| ApiError::not_found("customer", id, "id"))
}

/// `POST /v1/customers`
pub(super) fn create(
    books: &mut Books,
    context: &Context,
    params: &Params,
) -> Result<Value, ApiError> {
    params.only(&[FIELDS])?;
    let id = new_id("cus");
    let mut customer = Customer {
        id: id.clone(),
        created_ms: context.now_ms,
        ..Customer::default()
    };
    customer.apply(params)?;
    set_methods(books, context, params, &mut customer)?;
    let rendered = customer.render();
    books.customers.add(customer);
    Ok(rendered)
}

/// `POST /v1/customers/{id}`
pub(super) fn update(
    books: &mut Books,
    context: &Context,
    id: &str,
    params: &Params,
) -> Result<Value, ApiError> {
    params.only(&[FIELDS])?;
    let customer = in_path(books, id, context.now_ms)?;
    let mut changed = Customer {
        id: customer.id.clone(),
        default_source: customer.default_source.clone(),
        default_payment_method: customer.default_payment_method.clone(),
        created_ms: customer.created_ms,
        deleted: false,
        texts: customer.texts.clone(),
        metadata: customer.metadata.clone(),
    };
    changed.apply(params)?;
    set_methods(books, context, params, &mut changed)?;
    let rendered = changed.render();
    if let Some(customer) = books.customers.get_mut(id) {
        *customer = changed;
    }
    Ok(rendered)
}

/// Saves what the request brings to pay with, and notes the defaults.
fn set_methods(
    books: &mut Books,
    context: &Context,
    params: &Params,
    customer: &mut Customer,
) -> Result<(), ApiError> {
    const DEFAULT: &str = "invoice_settings[default_payment_method]";
    if let Some(token) = params.text("source") {
        customer.default_source = Some(payment_methods::save(
            books,
            context,
            token,
            &customer.id,
            "source",
        )?);
    }
    let mut attached = None;
    if let Some(method) = params.text("payment_method") {
        attached = Some(payment_methods::save(
            books,
            context,
            method,
            &customer.id,
            "payment_method",
        )?);
    }
    match params.text(DEFAULT) {
        // The same test card as `payment_method` in the same call means the method that was just made from it.
        Some(default) if attached.is_some() && params.text("payment_method") == Some(default) => {
            customer.default_payment_method = attached;
        }
        Some(default) => {
            payment_methods::instrument(books, default, Some(&customer.id), DEFAULT)?;
            customer.default_payment_method = Some(default.to_owned());
        }
        None if params.has(DEFAULT) => customer.default_payment_method = None,
        None => {}
    }
    Ok(())
}

/// `GET /v1/customers/{id}`
pub(super) fn retrieve(
    books: &mut Books,
    context: &Context,
    id: &str,
    params: &Params,
) -> Result<Value, ApiError> {
    params.only(&[&["expand[]"]])?;
    let customer = find(books, id, context.now_ms);
    customer
        .map(|customer| customer.render())
        .ok_or_else(|| ApiError::not_found("customer", id, "id"))
}

/// `DELETE /v1/customers/{id}`
pub(super) fn delete(books: &mut Books, context: &Context, id: &str) -> Result<Value, ApiError> {
    let customer = in_path(books, id, context.now_ms)?;
    customer.deleted = true;
    Ok(customer.render())
}

/// `GET /v1/customers`
pub(super) fn list(books: &Books, params: &Params) -> Result<Value, ApiError> {
    params.only(&[LIST_PARAMS, &["email"]])?;
    let email = params.text("email");
    let keep = |customer: &Customer| {
        !customer.deleted
            && email.is_none_or(|email| {
                customer
                    .texts
                    .get("email")
                    .is_some_and(|known| known == email)
            })
    };
    paging::list(
        &books.customers,
        params,
        "/v1/customers",
        keep,
        Customer::render,
    )
}
