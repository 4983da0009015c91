//! JSON Schemas (2020-12) of what the tools take and answer. Pure.
//!
//! Bounds are those of the REST API. Lengths stand in the patterns, so that the same schema serves forms that know no
//! `maxLength` (OpenAI's strict mode). Answers may get more members later: their schemas say what is there today and forbid
//! nothing.

use serde_json::{Value, json};

use crate::charges::model::ChargeStatus;
use crate::http::query::PAGE_MAX;
use crate::http::text::{INVOICE_ID_LENGTH_MAX, PROVIDER_ID_LENGTH_MAX};

/// The arguments of a tool about one invoice.
pub fn invoice_argument(description: &str) -> Value {
    let rest = INVOICE_ID_LENGTH_MAX - 1;
    json!({
        "type": "object",
        "properties": {"invoiceId": {
            "type": "string",
            "description": description,
            "pattern": format!("^[A-Za-z0-9][A-Za-z0-9._~-]{{0,{rest}}}$"),
        }},
        "required": ["invoiceId"],
        "additionalProperties": false,
    })
}

/// The arguments of the list.
pub fn list_arguments() -> Value {
    let rest = PROVIDER_ID_LENGTH_MAX - 1;
    json!({
        "type": "object",
        "properties": {
            "customerId": {
                "type": "string",
                "description": "Only this customer's invoices. Leave it out for all customers.",
                "pattern": format!("^[A-Za-z0-9][A-Za-z0-9._-]{{0,{rest}}}$"),
            },
            "limit": {
                "type": "integer",
                "description": "How many invoices at most; 20 when left out.",
                "minimum": 1,
                "maximum": PAGE_MAX,
            },
            "cursor": {
                "type": "string",
                "description": "The nextCursor of the page before. Leave it out for the first page.",
                "pattern": "^[A-Za-z0-9_-]+$",
            },
        },
        "required": [],
        "additionalProperties": false,
    })
}

/// What `charge_customer` answers.
pub fn charge_answer() -> Value {
    answer(
        charge(),
        "The charge, or the problem with it. customerCharged and retry are always there.",
    )
}

/// What `get_invoice` answers.
pub fn invoice_answer() -> Value {
    answer(invoice(), "The invoice, or the problem.")
}

/// What `list_open_invoices` answers.
pub fn list_answer() -> Value {
    let page = json!({
        "type": "object",
        "properties": {
            "data": {"type": "array", "items": invoice(), "description": "Newest first."},
            "nextCursor": described(nullable("string"), "Pass it as cursor for the next page; null on the last one."),
        },
        "required": ["data", "nextCursor"],
    });
    answer(page, "A page of invoices, or the problem.")
}

/// What `get_charge_status` answers.
pub fn status_answer() -> Value {
    let status = json!({
        "type": "object",
        "properties": {
            "invoiceId": {"type": "string"},
            "invoiceStatus": invoice_status(),
            "customerCharged": customer_charged(),
            "retry": described(retry(), "Whether it makes sense to call charge_customer (again)."),
            "retryAfterSeconds": retry_after_seconds(),
            "detail": {"type": "string"},
            "attempts": {"type": "array", "items": charge(), "description": "Newest first."},
        },
        "required": ["invoiceId", "invoiceStatus", "customerCharged", "retry", "detail", "attempts"],
    });
    answer(status, "What is true now, or the problem.")
}

/// MCP wants an object at the top; a tool answers one of two.
fn answer(success: Value, description: &str) -> Value {
    json!({"type": "object", "description": description, "anyOf": [success, problem()]})
}

fn charge() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "invoiceId": {"type": "string"},
            "status": {"type": "string", "enum": ChargeStatus::WORDS},
            "attempt": {"type": "integer", "minimum": 1},
            "amountCents": amount(),
            "currency": {"type": "string"},
            "customerId": {"type": "string"},
            "paymentMethodId": nullable("string"),
            "idempotencyKey": {"type": "string"},
            "provider": {"type": "string"},
            "providerPaymentId": nullable("string"),
            "failure": {"anyOf": [failure(), {"type": "null"}]},
            "customerCharged": customer_charged(),
            "retry": retry(),
            "retryAfterSeconds": retry_after_seconds(),
            "createdAt": time(),
            "settledAt": described(nullable("string"), "RFC 3339, UTC; null while there is no verdict."),
        },
        "required": [
            "id", "invoiceId", "status", "attempt", "amountCents", "currency", "customerId", "paymentMethodId",
            "idempotencyKey", "provider", "providerPaymentId", "failure", "customerCharged", "retry", "createdAt", "settledAt",
        ],
    })
}

fn failure() -> Value {
    json!({
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "declineCode": nullable("string"),
            "adviceCode": nullable("string"),
            "message": nullable("string"),
        },
        "required": ["code", "declineCode", "adviceCode", "message"],
    })
}

fn invoice() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "customerId": {"type": "string"},
            "amountCents": amount(),
            "currency": {"type": "string"},
            "description": nullable("string"),
            "paymentMethodId": nullable("string"),
            "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
            "status": invoice_status(),
            "createdAt": time(),
            "updatedAt": time(),
        },
        "required": [
            "id", "customerId", "amountCents", "currency", "description", "paymentMethodId", "metadata", "status",
            "createdAt", "updatedAt",
        ],
    })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string"},
            "detail": {"type": "string"},
            "customerCharged": customer_charged(),
            "retry": retry(),
            "retryAfterSeconds": retry_after_seconds(),
            "field": {"type": "string"},
            "charge": charge(),
        },
        "required": ["type", "title", "status", "code", "detail", "customerCharged", "retry"],
    })
}

fn customer_charged() -> Value {
    json!({
        "type": "string",
        "enum": ["yes", "no", "unknown"],
        "description": "Was the customer charged? unknown is never no.",
    })
}

fn retry() -> Value {
    json!({
        "type": "string",
        "enum": ["not_needed", "now", "later", "after_change", "never"],
        "description": "Should the same call be made again?",
    })
}

fn retry_after_seconds() -> Value {
    json!({"type": "integer", "minimum": 0, "description": "With retry later: in how many seconds."})
}

fn invoice_status() -> Value {
    json!({"type": "string", "enum": ["open", "paid", "void"]})
}

fn amount() -> Value {
    json!({"type": "integer", "description": "Minor units of the currency: 1250 is USD 12.50 and JPY 1250."})
}

fn time() -> Value {
    json!({"type": "string", "description": "RFC 3339, UTC."})
}

fn nullable(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

fn described(mut schema: Value, description: &str) -> Value {
    schema["description"] = description.into();
    schema
}
