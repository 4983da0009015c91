//! The examples in the document. A test holds their members against the service's own answers.

use serde_json::{Value, json};

/// To create an invoice.
pub fn create_invoice() -> Value {
    json!({"id": "2026-0001", "customerId": "cus_1", "amountCents": 1250, "currency": "usd", "description": "Tea", "metadata": {"order": "7"}})
}

/// To give an invoice another payment method.
pub fn change_invoice() -> Value {
    json!({"paymentMethodId": "pm_card_visa"})
}

/// An invoice.
pub fn invoice() -> Value {
    invoice_that_is("open", Value::Null)
}

/// The same after a change.
pub fn changed_invoice() -> Value {
    invoice_that_is("open", "pm_card_visa".into())
}

/// The same, void.
pub fn void_invoice() -> Value {
    invoice_that_is("void", Value::Null)
}

fn invoice_that_is(status: &str, payment_method_id: Value) -> Value {
    json!({
        "id": "2026-0001", "customerId": "cus_1", "amountCents": 1250, "currency": "usd", "description": "Tea",
        "paymentMethodId": payment_method_id, "metadata": {"order": "7"}, "status": status,
        "createdAt": "2026-11-29T23:25:31.849Z", "updatedAt": "2026-11-29T23:25:31.849Z",
    })
}

/// A page of invoices.
pub fn invoices() -> Value {
    json!({"data": [invoice()], "nextCursor": null})
}

/// To charge an invoice.
pub fn charge_request() -> Value {
    json!({"invoiceId": "2026-0001"})
}

/// A charge that took the money.
pub fn charge() -> Value {
    charge_that_is(
        "succeeded",
        "yes",
        "not_needed",
        "2026-11-29T23:25:31.883Z".into(),
    )
}

/// A charge without a verdict.
pub fn undecided_charge() -> Value {
    let mut charge = charge_that_is("pending", "unknown", "later", Value::Null);
    charge["providerPaymentId"] = Value::Null;
    charge["retryAfterSeconds"] = 2.into();
    charge
}

fn charge_that_is(status: &str, customer_charged: &str, retry: &str, settled_at: Value) -> Value {
    json!({
        "id": "chg_01a229a0c56676d7b7931968a3d019e8", "invoiceId": "2026-0001", "status": status, "attempt": 1,
        "amountCents": 1250, "currency": "usd", "customerId": "cus_1", "paymentMethodId": "pm_card_visa",
        "idempotencyKey": "charge:2026-0001", "provider": "mock", "providerPaymentId": "pi_7637801babaf4fa89925d406",
        "failure": null, "customerCharged": customer_charged, "retry": retry,
        "createdAt": "2026-11-29T23:25:31.877Z", "settledAt": settled_at,
    })
}

/// A page of charges.
pub fn charges() -> Value {
    json!({"data": [seen_charge()], "nextCursor": null})
}

/// A charge as an admin sees it.
pub fn seen_charge() -> Value {
    let mut charge = charge();
    charge["askedBy"] =
        json!({"keyName": "support-bot", "requestId": "req_01a229a0c56676d7", "session": "task-7"});
    charge
}

/// To give back what is left of a charge.
pub fn refund_request() -> Value {
    json!({"chargeId": "chg_01a229a0c56676d7b7931968a3d019e8", "reason": "requested_by_customer"})
}

/// A refund that gave the money back.
pub fn refund() -> Value {
    let settled_at = "2026-11-30T10:02:11.402Z".into();
    refund_that_is("succeeded", "yes", "not_needed", settled_at)
}

/// A refund without a verdict.
pub fn undecided_refund() -> Value {
    let mut refund = refund_that_is("pending", "unknown", "later", Value::Null);
    refund["providerRefundId"] = Value::Null;
    refund["retryAfterSeconds"] = 2.into();
    refund
}

/// A refund as it is read.
pub fn seen_refund() -> Value {
    let mut refund = refund();
    refund["askedBy"] = seen_charge()["askedBy"].take();
    refund
}

/// A page of refunds.
pub fn refunds() -> Value {
    json!({"data": [seen_refund()], "nextCursor": null})
}

fn refund_that_is(status: &str, refunded: &str, retry: &str, settled_at: Value) -> Value {
    json!({
        "id": "rfd_01a22cf3a1b07d4b92c4f5d0e6a71b38", "chargeId": "chg_01a229a0c56676d7b7931968a3d019e8", "status": status,
        "attempt": 1, "amountCents": 1250, "currency": "usd", "reason": "requested_by_customer",
        "idempotencyKey": "refund:chg_01a229a0c56676d7b7931968a3d019e8", "provider": "mock",
        "providerRefundId": "re_5b1f0c3ad94e4c0d8a77e912", "failure": null, "refunded": refunded, "retry": retry,
        "createdAt": "2026-11-30T10:02:11.377Z", "settledAt": settled_at,
    })
}

/// An operator's verdict on a refund.
pub fn resolve_refund() -> Value {
    json!({"outcome": "succeeded", "providerRefundId": "re_5b1f0c3ad94e4c0d8a77e912", "note": "Seen in the dashboard, Ann"})
}

/// What is true of an invoice's charge.
pub fn charge_status() -> Value {
    json!({
        "invoiceId": "2026-0001", "invoiceStatus": "paid", "customerCharged": "yes", "retry": "not_needed",
        "detail": "The customer has been charged for this invoice, once. There is nothing left to do.", "attempts": [charge()],
    })
}

/// Tools in the form of MCP.
pub fn tools() -> Value {
    json!({"tools": [{"name": "charge_customer", "inputSchema": {"type": "object"}}]})
}

/// A message of MCP.
pub fn mcp_request() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
}

/// The history of a charge.
pub fn evidence() -> Value {
    json!({"data": [{"at": "2026-11-29T23:25:32.404Z", "what": "look_up", "detail": "nothing found yet"}]})
}

/// An operator's verdict.
pub fn resolve_request() -> Value {
    json!({"outcome": "succeeded", "providerPaymentId": "pi_7637801babaf4fa89925d406", "note": "Seen in the dashboard, Ann"})
}

/// A snapshot event of Stripe's.
pub fn event() -> Value {
    json!({
        "id": "evt_1", "object": "event", "type": "payment_intent.succeeded", "created": 1_796_000_000,
        "data": {"object": {"id": "pi_7637801babaf4fa89925d406", "object": "payment_intent"}},
    })
}

/// The answer to a webhook.
pub fn received() -> Value {
    json!({"received": true})
}

/// The answers of the probes.
pub fn live() -> Value {
    json!({"status": "live"})
}

/// See [`live`].
pub fn ready() -> Value {
    json!({"status": "ready"})
}

/// The first lines of the metrics.
pub fn metrics() -> Value {
    "# HELP chargeonce_charges_in_flight Attempts that this process works on now.\n# TYPE chargeonce_charges_in_flight gauge\nchargeonce_charges_in_flight 0\n".into()
}

/// The beginning of this document.
pub fn document() -> Value {
    json!({"openapi": "3.1.0", "info": {"title": "chargeonce"}, "paths": {}})
}
