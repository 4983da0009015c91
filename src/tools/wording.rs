//! The sentence with each answer, for clients that show a model text and no structure. Pure: a tool and its answer in.

use serde_json::Value;

use super::backend::ToolReply;
use super::catalogue::ToolName;
use crate::money::words;

/// How many invoices of a list are named.
const NAMED_MAX: usize = 20;

/// What an answer says, in one to three plain sentences.
pub fn sentence(tool: ToolName, reply: &ToolReply) -> String {
    let body = &reply.body;
    if reply.status >= 400 {
        return problem(body);
    }
    match tool {
        ToolName::ChargeCustomer if reply.status == 202 => format!(
            "The charge of invoice {} is in progress and its outcome is not known yet. Call charge_customer again with the same invoiceId in {} seconds to get the result; do not charge the customer in any other way.",
            text(body, "invoiceId"),
            body["retryAfterSeconds"].as_i64().unwrap_or(1),
        ),
        ToolName::ChargeCustomer => charged(body, reply.replayed),
        ToolName::GetInvoice => format!("{}.", invoice(body)),
        ToolName::ListOpenInvoices => list(body),
        ToolName::GetChargeStatus => text(body, "detail").to_owned(),
    }
}

fn charged(body: &Value, replayed: bool) -> String {
    let (invoice, charge, amount) = (text(body, "invoiceId"), text(body, "id"), money(body));
    if replayed {
        format!(
            "Invoice {invoice} had been charged before (charge {charge} over {amount}); the customer was charged once and this call charged nothing. Nothing is left to do."
        )
    } else {
        format!(
            "Invoice {invoice} is paid: the customer was charged {amount} once (charge {charge}). Nothing is left to do."
        )
    }
}

/// The problem's own sentences, and the bank's reason where there is one.
fn problem(body: &Value) -> String {
    let detail = text(body, "detail");
    let failure = &body["charge"]["failure"];
    let code = [text(failure, "declineCode"), text(failure, "code")]
        .into_iter()
        .find(|code| !code.is_empty());
    match (code, text(failure, "message")) {
        (Some(code), "") => format!("{detail} The reason: {code}."),
        (Some(code), message) => format!("{detail} The reason: {code} ({message})"),
        (None, _) => detail.to_owned(),
    }
}

fn list(body: &Value) -> String {
    let invoices = body["data"].as_array().map_or(&[][..], Vec::as_slice);
    if invoices.is_empty() {
        return "There is no open invoice on this page.".into();
    }
    let named: Vec<String> = invoices.iter().take(NAMED_MAX).map(owed).collect();
    let more = match (invoices.len() > NAMED_MAX, body["nextCursor"].as_str()) {
        (_, Some(cursor)) => {
            format!(" There are more: call list_open_invoices again with cursor {cursor}.")
        }
        (true, None) => " The rest are in the structured answer.".to_owned(),
        (false, None) => String::new(),
    };
    let count = match invoices.len() {
        1 => "1 open invoice".to_owned(),
        count => format!("{count} open invoices"),
    };
    format!("{count} on this page: {}.{more}", named.join("; "))
}

fn owed(invoice: &Value) -> String {
    format!(
        "{} over {} of customer {}",
        text(invoice, "id"),
        money(invoice),
        text(invoice, "customerId")
    )
}

fn invoice(body: &Value) -> String {
    format!("Invoice {} is {}", owed(body), text(body, "status"))
}

/// `USD 12.50`.
fn money(body: &Value) -> String {
    words(
        body["amountCents"].as_i64().unwrap_or_default(),
        text(body, "currency"),
    )
}

fn text<'a>(body: &'a Value, member: &str) -> &'a str {
    body[member].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_answer_has_a_sentence_that_says_what_is_true_and_what_to_do() {
        use ToolName::{ChargeCustomer, GetChargeStatus, GetInvoice, ListOpenInvoices};
        let charge =
            json!({"id": "chg_1", "invoiceId": "inv_1", "amountCents": 1250, "currency": "usd"});
        let pending = json!({"id": "chg_1", "invoiceId": "inv_1", "retryAfterSeconds": 2});
        let declined = json!({"detail": "It was declined.",
            "charge": {"failure": {"code": "card_declined", "declineCode": "insufficient_funds", "message": "No funds."}}});
        let bare = json!({"detail": "It was declined.", "charge": {"failure": {"code": "card_declined", "declineCode": null, "message": null}}});
        let invoice = json!({"id": "inv_1", "customerId": "cus_1", "amountCents": 500, "currency": "jpy", "status": "open"});
        let replay = ToolReply::new(201, charge.clone()).replayed(true, None);
        #[rustfmt::skip]
        let table = [
            (ChargeCustomer, ToolReply::new(201, charge), "Invoice inv_1 is paid: the customer was charged USD 12.50 once (charge chg_1). Nothing is left to do."),
            (ChargeCustomer, replay, "Invoice inv_1 had been charged before (charge chg_1 over USD 12.50); the customer was charged once and this call charged nothing. Nothing is left to do."),
            (ChargeCustomer, ToolReply::new(202, pending), "The charge of invoice inv_1 is in progress and its outcome is not known yet. Call charge_customer again with the same invoiceId in 2 seconds to get the result; do not charge the customer in any other way."),
            (ChargeCustomer, ToolReply::new(402, declined), "It was declined. The reason: insufficient_funds (No funds.)"),
            (ChargeCustomer, ToolReply::new(402, bare), "It was declined. The reason: card_declined."),
            (GetInvoice, ToolReply::new(200, invoice.clone()), "Invoice inv_1 over JPY 500 of customer cus_1 is open."),
            (ListOpenInvoices, ToolReply::new(200, json!({"data": [], "nextCursor": null})), "There is no open invoice on this page."),
            (ListOpenInvoices, ToolReply::new(200, json!({"data": [invoice], "nextCursor": "abc"})), "1 open invoice on this page: inv_1 over JPY 500 of customer cus_1. There are more: call list_open_invoices again with cursor abc."),
            (GetChargeStatus, ToolReply::new(200, json!({"detail": "It is so."})), "It is so."),
        ];
        for (tool, reply, right) in table {
            assert_eq!(sentence(tool, &reply), right);
        }
    }
}
