//! Pages of invoices: the filters that callers give, checked, and the cursor from page to page.

use super::dto::{InvoiceBody, InvoiceList, ListInvoices};
use super::model::InvoiceStatus;
use super::repository::InvoiceFilter;
use super::service::InvoicesService;
use crate::error::Problem;
use crate::http::query::{bad_cursor, cut_page, decode_cursor, invalid, page_limit};
use crate::http::text;

/// The page that a query asks for, newest first, or what is wrong with the query.
pub async fn page(service: &InvoicesService, query: ListInvoices) -> Result<InvoiceList, Problem> {
    let status = query
        .status
        .map(|word| {
            InvoiceStatus::parse(&word)
                .ok_or_else(|| invalid("status", "status must be open, paid or void."))
        })
        .transpose()?;
    if query
        .customer_id
        .as_deref()
        .is_some_and(|id| !text::is_provider_id(id))
    {
        return Err(invalid(
            "customerId",
            "customerId must be an id of the payment provider.",
        ));
    }
    let after = query.cursor.as_deref().map(position).transpose()?;
    let limit = page_limit(query.limit.as_deref())?;
    // One more than asked for shows whether there is a next page.
    let filter = InvoiceFilter {
        status,
        customer_id: query.customer_id,
        after,
        limit: limit + 1,
    };
    let mut invoices = service.list(filter).await?;
    let next_cursor = cut_page(&mut invoices, limit, |last| {
        format!("{}.{}", last.created_at_ms, last.id)
    });
    let list = InvoiceList {
        data: invoices.iter().map(InvoiceBody::from).collect(),
        next_cursor,
    };
    Ok(list)
}

fn position(cursor: &str) -> Result<(i64, String), Problem> {
    let text = decode_cursor(cursor)?;
    let (created_at_ms, id) = text.split_once('.').ok_or_else(bad_cursor)?;
    let created_at_ms = created_at_ms.parse().map_err(|_| bad_cursor())?;
    if text::is_invoice_id(id) {
        Ok((created_at_ms, id.to_owned()))
    } else {
        Err(bad_cursor())
    }
}
