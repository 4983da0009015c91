//! The one state: every object that Stripe would keep, and the ledger that is read off it. No rules of payment here.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::charges::Charge;
use super::customers::Customer;
use super::events::Event;
use super::intent::PaymentIntent;
use super::payment_methods::SavedMethod;
use super::refunds::{Refund, Turns};

/// What was taken, as the provider knows it. Serialises to the JSON of `GET /_mock/ledger`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// One row for each PaymentIntent and for each Charge that stands alone, oldest first.
    pub payments: Vec<Payment>,
    /// Every refund, oldest first.
    pub refunds: Vec<RefundRow>,
    /// How many requests were seen, replays and refused ones included.
    pub requests: u64,
}

/// One payment, whether money was taken or not: see [`Payment::status`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payment {
    /// The PaymentIntent's or Charge's id.
    pub id: String,
    /// The `Idempotency-Key` of the request that created it, or of the last confirm.
    pub idempotency_key: Option<String>,
    /// `metadata[invoice_id]`.
    pub invoice_id: Option<String>,
    /// The amount that was charged, or that would be, in minor units.
    pub amount: i64,
    /// The currency in lower case.
    pub currency: String,
    /// The object's status; only `succeeded` means that money was taken.
    pub status: String,
    /// The time of creation by the mock's clock, RFC 3339.
    pub created_at: String,
}

/// One refund, whether it gave money back or not: see [`RefundRow::status`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefundRow {
    /// The Refund's id.
    pub id: String,
    /// The `Idempotency-Key` of the request that made it.
    pub idempotency_key: Option<String>,
    /// `metadata[charge_id]`.
    pub charge_id: Option<String>,
    /// The PaymentIntent or, for one that stands alone, the Charge whose money it is: the `id` of a [`Payment`].
    pub payment_id: String,
    /// The amount in minor units.
    pub amount: i64,
    /// The currency in lower case.
    pub currency: String,
    /// The object's status; money is given back, or reserved for that, by `succeeded` and `pending`.
    pub status: String,
    /// The time of creation by the mock's clock, RFC 3339.
    pub created_at: String,
}

impl Ledger {
    /// The refunds of a charge that gave money back. More than one of the whole amount cannot be.
    pub fn given_back(&self, charge_id: &str) -> Vec<&RefundRow> {
        self.refunds
            .iter()
            .filter(|refund| refund.charge_id.as_deref() == Some(charge_id))
            .filter(|refund| refund.status == "succeeded")
            .collect()
    }

    /// The successful payments of an invoice. More than one means that it was charged twice.
    pub fn succeeded(&self, invoice_id: &str) -> Vec<&Payment> {
        let wanted = |payment: &&Payment| payment.invoice_id.as_deref() == Some(invoice_id);
        self.payments
            .iter()
            .filter(wanted)
            .filter(|payment| payment.status == "succeeded")
            .collect()
    }
}

/// An object with an id that is kept on a [`Shelf`].
pub(super) trait Row {
    /// The object's id.
    fn id(&self) -> &str;
    /// When it was created, in milliseconds since the epoch.
    fn created_ms(&self) -> i64;
}

/// Objects in the order of their creation, found by id. Nothing is ever taken off. Whoever shares one keeps it as it was: a change
/// makes another of it.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    rows: Vec<Arc<T>>,
    places: HashMap<String, usize>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl<T: Row + Clone> Shelf<T> {
    /// Puts a new object on the shelf.
    pub(super) fn add(&mut self, row: impl Into<Arc<T>>) {
        let row = row.into();
        self.places.insert(row.id().to_owned(), self.rows.len());
        self.rows.push(row);
    }

    /// The object of that id.
    pub(super) fn get(&self, id: &str) -> Option<&T> {
        self.shared(id).map(Arc::as_ref)
    }

    /// The object of that id as it is now, to be kept.
    pub(super) fn shared(&self, id: &str) -> Option<&Arc<T>> {
        self.rows.get(*self.places.get(id)?)
    }

    /// The object of that id, to be changed.
    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.rows.get_mut(*self.places.get(id)?).map(Arc::make_mut)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// All objects, oldest first.
    pub(super) fn oldest_first(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.newer_than(0)
    }

    /// All but the first so many of them, oldest first.
    pub(super) fn newer_than(&self, first: usize) -> impl DoubleEndedIterator<Item = &T> {
        let newer = self.rows.get(first..).unwrap_or_default();
        newer.iter().map(Arc::as_ref)
    }
}

/// What an endpoint knows of the request that it serves.
#[derive(Debug, Clone)]
pub(super) struct Context {
    /// Milliseconds since the epoch by the mock's clock.
    pub(super) now_ms: i64,
    /// The `Request-Id`; `None` for what happens by itself, such as a late settlement.
    pub(super) request_id: Option<Arc<str>>,
    /// The `Idempotency-Key`, if the request has one that counts.
    pub(super) key: Option<Arc<str>>,
    /// What a fault does to the payment itself.
    pub(super) twist: Twist,
}

/// A fault that changes what is executed, not how it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Twist {
    /// The payment is made as asked.
    Straight,
    /// One minor unit too much is charged, or too little given back.
    WrongAmount,
    /// The payment or refund has no verdict yet.
    Processing,
}

/// Everything that the account holds.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// PaymentIntents.
    pub(super) intents: Shelf<PaymentIntent>,
    /// Charges, of PaymentIntents and alone.
    pub(super) charges: Shelf<Charge>,
    /// Refunds.
    pub(super) refunds: Shelf<Refund>,
    /// What becomes of some of them by itself.
    pub(super) turns: Turns,
    /// Customers, with those that exist by being named.
    pub(super) customers: Shelf<Customer>,
    /// PaymentMethods and cards that were saved.
    pub(super) methods: Shelf<SavedMethod>,
    /// Events.
    pub(super) events: Shelf<Event>,
}

impl Books {
    /// Every payment, oldest first.
    pub(super) fn payments(&self) -> Vec<Payment> {
        let intents = self
            .intents
            .oldest_first()
            .map(|intent| (intent.created_ms, intent.payment()));
        let alone = self
            .charges
            .oldest_first()
            .filter(|charge| charge.payment_intent.is_none());
        let mut rows: Vec<_> = intents
            .chain(alone.map(|charge| (charge.created_ms, charge.payment())))
            .collect();
        // A stable sort keeps the order of arrival within a millisecond.
        rows.sort_by_key(|(created_ms, _)| *created_ms);
        rows.into_iter().map(|(_, payment)| payment).collect()
    }

    /// Replaces the ids that `expand[]` names with the objects behind them (Stripe docs, Expanding responses).
    pub(super) fn expand(&self, object: &mut Value, paths: &[&str]) {
        for path in paths {
            let steps: Vec<&str> = path.split('.').collect();
            self.expand_path(object, &steps);
        }
    }

    fn expand_path(&self, value: &mut Value, steps: &[&str]) {
        if let Value::Array(elements) = value {
            for element in elements {
                self.expand_path(element, steps);
            }
            return;
        }
        let [step, rest @ ..] = steps else { return };
        let Some(child) = value.get_mut(*step) else {
            return;
        };
        if let Some(object) = child.as_str().and_then(|id| self.render(id)) {
            *child = object;
        }
        self.expand_path(child, rest);
    }

    /// Any object by its id alone.
    fn render(&self, id: &str) -> Option<Value> {
        let intent = || self.intents.get(id).map(PaymentIntent::render);
        let charge = || self.charges.get(id).map(Charge::render);
        let refund = || self.refunds.get(id).map(Refund::render);
        let customer = || self.customers.get(id).map(Customer::render);
        let method = || super::payment_methods::render(self, id);
        intent()
            .or_else(charge)
            .or_else(refund)
            .or_else(customer)
            .or_else(method)
    }
}

/// A new id in Stripe's manner.
pub(super) fn new_id(prefix: &str) -> String {
    let mut random = Uuid::new_v4().simple().to_string();
    random.truncate(24);
    format!("{prefix}_{random}")
}

/// Unix seconds, as Stripe stamps its objects.
pub(super) fn seconds(ms: i64) -> i64 {
    ms.div_euclid(1000)
}

/// RFC 3339, as the ledger stamps its rows.
pub(super) fn rfc3339(ms: i64) -> String {
    DateTime::<Utc>::from_timestamp_millis(ms)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}
