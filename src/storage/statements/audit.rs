//! What the audit reads of our books.

macro_rules! audit_statements {
    ($store:ident, $backend:ident, $transaction:ident) => {
        pub mod $backend {
            use async_trait::async_trait;
            use diesel::prelude::*;
            #[allow(
                unused_imports,
                reason = "`transaction` is a method of the trait, `immediate_transaction` is not"
            )]
            use diesel_async::{AsyncConnection, RunQueryDsl};

            use super::super::Lent;
            use crate::audit::model::{BookedCharge, BookedInvoice};
            use crate::audit::repository::{AuditPart, AuditRepository, Place};
            use crate::idempotency::repository::Reading;
            use crate::invoices::model::InvoiceStatus;
            use crate::storage::StorageError;
            use crate::storage::fragments::{charge_without_verdict, now};
            use crate::storage::rows::{AuditChargeRow, AuditKeyRow};
            use crate::storage::schema::{charges, idempotency_keys, invoices};
            use crate::storage::$backend::$store;

            #[async_trait]
            impl AuditRepository for $store {
                async fn audit_page(
                    &self,
                    part: AuditPart,
                    after: Option<&Place>,
                    limit: i64,
                ) -> Result<Reading<Vec<BookedCharge>>, StorageError> {
                    let mut query = charges::table
                        .inner_join(idempotency_keys::table)
                        .select((AuditChargeRow::as_select(), AuditKeyRow::as_select()))
                        .into_boxed();
                    query = match part {
                        AuditPart::MadeSince(since_ms) => {
                            query.filter(charges::created_at_ms.ge(since_ms))
                        }
                        AuditPart::UnsettledBefore(before_ms) => query
                            .filter(charge_without_verdict())
                            .filter(charges::created_at_ms.lt(before_ms)),
                    };
                    if let Some((created_at_ms, id)) = after {
                        // The first condition follows from the second, and is the one that an index can be entered by.
                        query = query
                            .filter(charges::created_at_ms.ge(created_at_ms))
                            .filter(
                                charges::created_at_ms
                                    .gt(created_at_ms)
                                    .or(charges::id.gt(id)),
                            );
                    }
                    let query = match part {
                        AuditPart::MadeSince(_) => {
                            query.order((charges::created_at_ms, charges::id))
                        }
                        // Few are open: they are found by their own index and sorted. By the bare column all charges would be
                        // read in its order, to find them among those.
                        AuditPart::UnsettledBefore(_) => {
                            query.order((charges::created_at_ms + 0_i64, charges::id))
                        }
                    };
                    let query = query.limit(limit);
                    let (rows, now_ms) = unit!(self, $transaction, async |conn| {
                        let rows = query.load::<(AuditChargeRow, AuditKeyRow)>(conn).await?;
                        let now_ms = diesel::select(now()).get_result::<i64>(conn).await?;
                        Ok::<_, StorageError>((rows, now_ms))
                    })?;
                    let charges: Result<Vec<BookedCharge>, StorageError> =
                        rows.into_iter().map(BookedCharge::try_from).collect();
                    Ok(Reading {
                        value: charges?,
                        now_ms,
                    })
                }

                async fn audit_invoice(
                    &self,
                    invoice_id: &str,
                ) -> Result<Reading<BookedInvoice>, StorageError> {
                    let (rows, now_ms) = unit!(self, $transaction, async |conn| {
                        let rows = invoices::table
                            .left_join(charges::table)
                            // Not a join within the join: SQLite would make the inner one of all rows before it looks for any.
                            .left_join(
                                idempotency_keys::table
                                    .on(charges::idempotency_key.eq(idempotency_keys::key)),
                            )
                            .filter(invoices::id.eq(invoice_id))
                            .order(charges::attempt)
                            .select((
                                invoices::status,
                                Option::<AuditChargeRow>::as_select(),
                                Option::<AuditKeyRow>::as_select(),
                            ))
                            .load::<(String, Option<AuditChargeRow>, Option<AuditKeyRow>)>(conn)
                            .await?;
                        let now_ms = diesel::select(now()).get_result::<i64>(conn).await?;
                        Ok::<_, StorageError>((rows, now_ms))
                    })?;
                    let status = match rows.as_slice().first() {
                        Some((word, _, _)) => {
                            Some(InvoiceStatus::parse(word).ok_or_else(|| {
                                StorageError::Inconsistent(format!(
                                    "invoices row {invoice_id}: status"
                                ))
                            })?)
                        }
                        None => None,
                    };
                    let charges: Result<Vec<BookedCharge>, StorageError> = rows
                        .into_iter()
                        .filter_map(|(_, charge, key)| charge.zip(key))
                        .map(BookedCharge::try_from)
                        .collect();
                    Ok(Reading {
                        value: BookedInvoice {
                            status,
                            charges: charges?,
                        },
                        now_ms,
                    })
                }
            }
        }
    };
}

audit_statements!(PostgresStore, postgres, transaction);
audit_statements!(SqliteStore, sqlite, immediate_transaction);
