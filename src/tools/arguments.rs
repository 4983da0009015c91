//! The arguments that a model gives, checked. Pure: a tool and its arguments in, a call or a problem with a way out.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::catalogue::ToolName;
use crate::error::{Code, Problem};
use crate::http::explain::{Explanation, explain};
use crate::http::text;

/// A call of a tool whose arguments are as they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCall {
    /// Charge this invoice.
    ChargeCustomer {
        /// The invoice.
        invoice_id: String,
    },
    /// Read this invoice.
    GetInvoice {
        /// The invoice.
        invoice_id: String,
    },
    /// List the open invoices.
    ListOpenInvoices(ListArguments),
    /// Tell what became of this invoice's charge.
    GetChargeStatus {
        /// The invoice.
        invoice_id: String,
    },
}

/// Which open invoices. `null` is the same as nothing: some models must name every argument.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListArguments {
    /// Only this customer's.
    #[serde(default)]
    pub customer_id: Option<String>,
    /// 1 to 100.
    #[serde(default)]
    pub limit: Option<i64>,
    /// The `nextCursor` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InvoiceArgument {
    invoice_id: String,
}

/// Reads the arguments of a tool.
pub fn read(tool: ToolName, arguments: Map<String, Value>) -> Result<ToolCall, Problem> {
    Ok(match tool {
        ToolName::ChargeCustomer => ToolCall::ChargeCustomer {
            invoice_id: invoice_id(arguments)?,
        },
        ToolName::GetInvoice => ToolCall::GetInvoice {
            invoice_id: invoice_id(arguments)?,
        },
        ToolName::GetChargeStatus => ToolCall::GetChargeStatus {
            invoice_id: invoice_id(arguments)?,
        },
        ToolName::ListOpenInvoices => ToolCall::ListOpenInvoices(parse(arguments)?),
    })
}

fn invoice_id(arguments: Map<String, Value>) -> Result<String, Problem> {
    let InvoiceArgument { invoice_id } = parse(arguments)?;
    text::invoice_id("invoiceId", &invoice_id)?;
    Ok(invoice_id)
}

fn parse<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, Problem> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        let Explanation { field, detail } = explain(&path, &error.into_inner().to_string());
        // A model knows arguments; fields, requests and bodies are HTTP's.
        let detail = detail
            .replace("a field of this request", "an argument of this tool")
            .replace("a field that this request", "an argument that this tool")
            .replace("the only field is", "the only argument is")
            .replace("the fields are", "the arguments are")
            .replace(" to the body", "")
            .replace("The body has", "The call has")
            .replace(", such as 1250", "");
        Problem::new(Code::InvalidRequest, detail).field(field)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(tool: ToolName, arguments: Value) -> String {
        let problem = read(tool, arguments.as_object().unwrap().clone()).unwrap_err();
        assert_eq!(problem.code(), Code::InvalidRequest);
        problem.detail().to_owned()
    }

    #[test]
    fn wrong_arguments_are_told_so_that_a_model_can_correct_them() {
        use ToolName::{ChargeCustomer, GetChargeStatus, GetInvoice, ListOpenInvoices};
        let id_rule = "invoiceId must have 1 to 120 characters: letters, digits and . _ ~ - only, beginning with a letter or digit.";
        #[rustfmt::skip]
        let table = [
            (ChargeCustomer, json!({}), "invoiceId is missing. Add it."),
            (ChargeCustomer, json!({"invoiceId": "a", "amountCents": 5}), "amountCents is not an argument of this tool. Leave it out; the only argument is invoiceId."),
            (ChargeCustomer, json!({"invoiceId": "a", "idempotencyKey": "k"}), "idempotencyKey is not an argument of this tool. Leave it out; the only argument is invoiceId."),
            (ChargeCustomer, json!({"invoiceId": "a", "<b>": 5}), "The call has an argument that this tool does not know. Leave it out; the only argument is invoiceId."),
            (ChargeCustomer, json!({"invoiceId": 7}), "invoiceId must be text in double quotes, not a number."),
            (ChargeCustomer, json!({"invoiceId": null}), "invoiceId must be text in double quotes, not null."),
            (GetInvoice, json!({"invoiceId": "../charges"}), id_rule),
            (GetChargeStatus, json!({"invoiceId": ""}), id_rule),
            (ListOpenInvoices, json!({"status": "paid"}), "status is not an argument of this tool. Leave it out; the arguments are customerId, limit, cursor."),
            (ListOpenInvoices, json!({"limit": "5"}), "limit must be a whole number written without decimal point, exponent or quotes, not text."),
        ];
        for (tool, arguments, detail) in table {
            assert_eq!(told(tool, arguments.clone()), detail, "{arguments}");
        }
    }

    #[test]
    fn what_a_model_may_leave_out_may_also_be_null() {
        for arguments in [
            json!({}),
            json!({"customerId": null, "limit": null, "cursor": null}),
        ] {
            let call = read(
                ToolName::ListOpenInvoices,
                arguments.as_object().unwrap().clone(),
            );
            assert_eq!(
                call.unwrap(),
                ToolCall::ListOpenInvoices(ListArguments::default())
            );
        }
    }
}
