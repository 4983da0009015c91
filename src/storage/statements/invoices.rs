//! Invoices, and what the store says of itself.

/// Reads a page of a query for invoices, newest first: in the order of an index of these two columns.
macro_rules! page {
    ($store:expr, $transaction:ident, $query:expr, $filter:expr, $created_at_ms:expr, $id:expr) => {{
        let mut query = $query;
        if let Some((created_at_ms, id)) = &$filter.after {
            // The first condition follows from the second, and is the one that an index can be entered by.
            query = query.filter($created_at_ms.le(created_at_ms)).filter(
                $created_at_ms
                    .lt(created_at_ms)
                    .or($created_at_ms.eq(created_at_ms).and($id.lt(id))),
            );
        }
        let query = query
            .order(($created_at_ms.desc(), $id.desc()))
            .limit($filter.limit);
        unit!($store, $transaction, async |conn| {
            Ok::<_, StorageError>(query.load::<InvoiceRow>(conn).await?)
        })
    }};
}

macro_rules! invoice_statements {
    ($store:ident, $backend:ident, $transaction:ident) => {
        pub mod $backend {
            use async_trait::async_trait;
            use diesel::dsl::max;
            use diesel::prelude::*;
            #[allow(
                unused_imports,
                reason = "`transaction` is a method of the trait, `immediate_transaction` is not"
            )]
            use diesel_async::{AsyncConnection, RunQueryDsl};

            use super::super::keys::$backend::{end_key, finish_new_key};
            use super::super::{Lent, guarded, one_or_guard, one_or_inconsistent};
            use crate::idempotency::repository::IdempotencyRepository;
            use crate::idempotency::reservation::Ending;
            use crate::invoices::model::{Invoice, InvoiceStatus};
            use crate::invoices::repository::{
                Changed, Inserted, InvoiceFilter, InvoiceInsert, InvoiceRepository,
            };
            use crate::storage::connect::{newest_version, pool_state};
            use crate::storage::fragments::__diesel_schema_migrations;
            use crate::storage::fragments::{live_charge, now, open_invoice};
            use crate::storage::rows::{InvoiceRow, KeyRow};
            use crate::storage::schema::{
                idempotency_keys, installation, invoices, unpaid_invoices,
            };
            use crate::storage::$backend::{self as backend, Connection, $store};
            use crate::storage::{PoolState, StorageError, StoreCondition, StoreInfo};

            #[async_trait]
            impl StoreInfo for $store {
                async fn installation_id(&self) -> Result<String, StorageError> {
                    let id = format!("ins_{}", uuid::Uuid::new_v4().simple());
                    unit!(self, $transaction, async |conn| {
                        diesel::insert_into(installation::table)
                            .values((installation::singleton.eq(1), installation::id.eq(&id)))
                            .on_conflict(installation::singleton)
                            .do_nothing()
                            .execute(conn)
                            .await?;
                        Ok(installation::table
                            .select(installation::id)
                            .first(conn)
                            .await?)
                    })
                }

                async fn condition(&self) -> Result<StoreCondition, StorageError> {
                    let (now_ms, schema) = unit!(self, $transaction, async |conn| {
                        let now_ms = diesel::select(now()).get_result(conn).await?;
                        let newest = __diesel_schema_migrations::table
                            .select(max(__diesel_schema_migrations::version))
                            .first::<Option<String>>(conn)
                            .await?;
                        Ok::<(i64, String), StorageError>((now_ms, newest.unwrap_or_default()))
                    })?;
                    Ok(StoreCondition {
                        now_ms,
                        schema,
                        schema_needed: newest_version::<backend::Backend>(backend::MIGRATIONS)?,
                    })
                }

                fn pool(&self) -> PoolState {
                    pool_state(&self.pool)
                }
            }

            #[async_trait]
            impl InvoiceRepository for $store {
                async fn now_ms(&self) -> Result<i64, StorageError> {
                    unit!(self, $transaction, async |conn| {
                        Ok(diesel::select(now()).get_result(conn).await?)
                    })
                }

                async fn insert_invoice(
                    &self,
                    insert: &InvoiceInsert,
                ) -> Result<Inserted, StorageError> {
                    let row = InvoiceRow::try_from(&insert.invoice)?;
                    let outcome = unit!(self, $transaction, async |conn| {
                        if let Some((key, fingerprint)) = &insert.natural_key {
                            if !finish_new_key(conn, key, fingerprint, &insert.response).await? {
                                let existing: KeyRow = idempotency_keys::table
                                    .find(key)
                                    .select(KeyRow::as_select())
                                    .first(conn)
                                    .await?;
                                return Ok(Inserted::Exists(existing.try_into()?));
                            }
                        }
                        diesel::insert_into(invoices::table)
                            .values(&row)
                            .execute(conn)
                            .await?;
                        if let Some(held_key) = &insert.held_key {
                            let ending = Ending::Done(insert.response.clone());
                            let rows = end_key(conn, &held_key.key, &held_key.lease_token, &ending)
                                .await?;
                            one_or_guard(rows)?;
                        }
                        Ok(Inserted::Yes)
                    });
                    match (outcome, &insert.natural_key) {
                        // An invoice whose id the service chose is there without a key of its own.
                        (Err(StorageError::Inconsistent(_)), Some((key, _)))
                            if self.find_reservation(key).await?.is_none()
                                && self.find_invoice(&row.id).await?.is_some() =>
                        {
                            Ok(Inserted::IdTaken)
                        }
                        (outcome, _) => Ok(guarded(outcome)?.unwrap_or(Inserted::LeaseLost)),
                    }
                }

                async fn find_invoice(&self, id: &str) -> Result<Option<Invoice>, StorageError> {
                    unit!(self, $transaction, async |conn| {
                        read_invoice(conn, id).await
                    })
                }

                async fn list_invoices(
                    &self,
                    filter: &InvoiceFilter,
                ) -> Result<Vec<Invoice>, StorageError> {
                    let rows = match filter.status {
                        // A customer's invoices are few, and found by the customer.
                        Some(status @ (InvoiceStatus::Open | InvoiceStatus::Void))
                            if filter.customer_id.is_none() =>
                        {
                            // The invoice itself has the last word on what it is.
                            let query = unpaid_invoices::table
                                .inner_join(invoices::table)
                                .filter(unpaid_invoices::status.eq(status.as_str()))
                                .filter(invoices::status.eq(status.as_str()))
                                .filter(invoices::created_at_ms.eq(unpaid_invoices::created_at_ms))
                                .select(InvoiceRow::as_select())
                                .into_boxed();
                            page!(
                                self,
                                $transaction,
                                query,
                                filter,
                                unpaid_invoices::created_at_ms,
                                unpaid_invoices::invoice_id
                            )
                        }
                        Some(InvoiceStatus::Open | InvoiceStatus::Void | InvoiceStatus::Paid)
                        | None => {
                            let mut query =
                                invoices::table.select(InvoiceRow::as_select()).into_boxed();
                            if let Some(status) = filter.status {
                                query = query.filter(invoices::status.eq(status.as_str()));
                            }
                            if let Some(customer_id) = &filter.customer_id {
                                query = query.filter(invoices::customer_id.eq(customer_id));
                            }
                            page!(
                                self,
                                $transaction,
                                query,
                                filter,
                                invoices::created_at_ms,
                                invoices::id
                            )
                        }
                    }?;
                    rows.into_iter().map(Invoice::try_from).collect()
                }

                async fn set_payment_method(
                    &self,
                    id: &str,
                    payment_method_id: Option<&str>,
                ) -> Result<Changed, StorageError> {
                    unit!(self, $transaction, async |conn| {
                        let invoice = match changeable(conn, id).await? {
                            Ok(invoice) => invoice,
                            Err(refusal) => return Ok(refusal),
                        };
                        if invoice.payment_method_id.as_deref() == payment_method_id {
                            return Ok(Changed::Yes(invoice));
                        }
                        let rows = diesel::update(open_invoice(id))
                            .set((
                                invoices::payment_method_id.eq(payment_method_id),
                                invoices::revision.eq(invoices::revision + 1),
                                invoices::updated_at_ms.eq(now()),
                            ))
                            .execute(conn)
                            .await?;
                        one_or_inconsistent(rows, "an invoice under its lock")?;
                        Ok(read_invoice(conn, id)
                            .await?
                            .map_or(Changed::NotFound, Changed::Yes))
                    })
                }

                async fn void_invoice(&self, id: &str) -> Result<Changed, StorageError> {
                    unit!(self, $transaction, async |conn| {
                        match changeable(conn, id).await? {
                            Ok(_) => {}
                            Err(Changed::Refused {
                                status: InvoiceStatus::Void,
                                ..
                            }) => {
                                return Ok(read_invoice(conn, id)
                                    .await?
                                    .map_or(Changed::NotFound, Changed::Yes));
                            }
                            Err(refusal) => return Ok(refusal),
                        }
                        let rows = diesel::update(open_invoice(id))
                            .set((
                                invoices::status.eq("void"),
                                invoices::updated_at_ms.eq(now()),
                            ))
                            .execute(conn)
                            .await?;
                        one_or_inconsistent(rows, "an invoice under its lock")?;
                        Ok(read_invoice(conn, id)
                            .await?
                            .map_or(Changed::NotFound, Changed::Yes))
                    })
                }
            }

            async fn read_invoice(
                conn: &mut Connection,
                id: &str,
            ) -> Result<Option<Invoice>, StorageError> {
                let row = invoices::table
                    .find(id)
                    .select(InvoiceRow::as_select())
                    .first(conn)
                    .await
                    .optional()?;
                row.map(Invoice::try_from).transpose()
            }

            /// Locks the invoice and returns it when it may be changed. The lock and the look for a live charge are two
            /// statements on purpose: the second one sees what was committed while the first one waited.
            async fn changeable(
                conn: &mut Connection,
                id: &str,
            ) -> Result<Result<Invoice, Changed>, StorageError> {
                backend::lock_invoice_for_change(conn, id).await?;
                let Some(invoice) = read_invoice(conn, id).await? else {
                    return Ok(Err(Changed::NotFound));
                };
                let live: i64 = live_charge(id).count().get_result(conn).await?;
                Ok(match invoice.status {
                    InvoiceStatus::Open if live == 0 => Ok(invoice),
                    status @ (InvoiceStatus::Open | InvoiceStatus::Paid | InvoiceStatus::Void) => {
                        Err(Changed::Refused {
                            status,
                            charge_running: status == InvoiceStatus::Open,
                        })
                    }
                })
            }
        }
    };
}

invoice_statements!(PostgresStore, postgres, transaction);
invoice_statements!(SqliteStore, sqlite, immediate_transaction);
