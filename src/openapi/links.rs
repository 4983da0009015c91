//! What can be called next with what an answer tells: every id that the caller may not have had, and the next page. One table
//! for the whole document.

use serde_json::json;
use utoipa::openapi::link::Link;
use utoipa::openapi::{OpenApi, RefOr};

use super::operations;

/// What an answer tells.
#[derive(Clone, Copy)]
enum Told {
    Invoice,
    Charge,
    Refund,
    Cursor,
}

/// Where it is taken.
#[derive(Clone, Copy)]
enum Taken {
    /// In a parameter of this name.
    Parameter(&'static str),
    /// In a member of the body, the only one.
    Member(&'static str),
}

/// The operation, the status of its answer, what that tells, and where it stands there.
type Row = (&'static str, &'static str, Told, &'static str);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("createInvoice", "201", Told::Invoice, "/id"),
    ("listInvoices", "200", Told::Invoice, "/data/0/id"),
    ("listInvoices", "200", Told::Cursor, "/nextCursor"),
    ("getCharge", "200", Told::Invoice, "/invoiceId"),
    ("listCharges", "200", Told::Invoice, "/data/0/invoiceId"),
    ("listCharges", "200", Told::Charge, "/data/0/id"),
    ("listCharges", "200", Told::Cursor, "/nextCursor"),
    ("chargeInvoice", "201", Told::Charge, "/id"),
    ("chargeInvoice", "202", Told::Charge, "/id"),
    ("chargeInvoice", "402", Told::Charge, "/charge/id"),
    ("getChargeStatus", "200", Told::Charge, "/attempts/0/id"),
    ("createRefund", "201", Told::Refund, "/id"),
    ("createRefund", "202", Told::Refund, "/id"),
    ("createRefund", "402", Told::Refund, "/refund/id"),
    ("getRefund", "200", Told::Charge, "/chargeId"),
    ("listRefunds", "200", Told::Refund, "/data/0/id"),
    ("listRefunds", "200", Told::Cursor, "/nextCursor"),
];

impl Told {
    /// The operations that can be called with it; none: the same again.
    fn takers(self) -> &'static [(&'static str, Taken)] {
        match self {
            Self::Invoice => &[
                ("getInvoice", Taken::Parameter("id")),
                ("changeInvoice", Taken::Parameter("id")),
                ("voidInvoice", Taken::Parameter("id")),
                ("chargeInvoice", Taken::Member("invoiceId")),
                ("getChargeStatus", Taken::Parameter("id")),
                ("listCharges", Taken::Parameter("invoiceId")),
            ],
            Self::Charge => &[
                ("getCharge", Taken::Parameter("id")),
                ("getChargeEvidence", Taken::Parameter("id")),
                ("resolveCharge", Taken::Parameter("id")),
                ("createRefund", Taken::Member("chargeId")),
                ("listRefunds", Taken::Parameter("chargeId")),
            ],
            Self::Refund => &[
                ("getRefund", Taken::Parameter("id")),
                ("getRefundEvidence", Taken::Parameter("id")),
                ("resolveRefund", Taken::Parameter("id")),
            ],
            Self::Cursor => &[],
        }
    }
}

/// Adds the links of the table.
pub fn everywhere(document: &mut OpenApi) {
    for operation in operations(document) {
        let id = operation.operation_id.clone().unwrap_or_default();
        for (_, status, told, place) in TABLE.iter().filter(|(from, ..)| *from == id) {
            let Some(RefOr::T(response)) = operation.responses.responses.get_mut(*status) else {
                continue;
            };
            let expression = format!("$response.body#{place}");
            for (taker, taken) in told.takers() {
                let link = link(taker, *taken, &expression);
                response.links.insert(name(taker), link.into());
            }
            if matches!(told, Told::Cursor) {
                let link = link(&id, Taken::Parameter("cursor"), &expression);
                response.links.insert("NextPage".into(), link.into());
            }
        }
    }
}

fn link(taker: &str, taken: Taken, expression: &str) -> Link {
    let builder = Link::builder().operation_id(taker);
    match taken {
        Taken::Parameter(name) => builder.parameter(name, expression),
        Taken::Member(name) => builder.request_body(Some(json!({name: expression}))),
    }
    .build()
}

/// The link's name: the operation's id, with a capital.
fn name(operation_id: &str) -> String {
    let mut letters = operation_id.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_row_of_the_table_is_in_the_document() {
        let document: Value = serde_json::from_str(crate::openapi::document(false)).unwrap();
        let operations = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|item| item.as_object().unwrap().values());
        for (from, status, told, place) in TABLE {
            let operation = operations
                .clone()
                .find(|operation| operation["operationId"] == *from)
                .unwrap();
            let links = operation["responses"][status]["links"].as_object().unwrap();
            let expression = format!("$response.body#{place}");
            let number = links
                .values()
                .filter(|link| link.to_string().contains(&expression))
                .count();
            assert_eq!(
                number,
                told.takers().len().max(1),
                "{from} {status} {place}: {links:?}"
            );
        }
    }
}
