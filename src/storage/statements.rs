//! The one body of each port method, expanded for both adapters by `repository!`.
//!
//! `$store` has `connection()` (a pooled connection within a bounded wait) and `limit()` (how long one unit of work may
//! take); `$backend` is the adapter's module with its connection and row locks, `$transaction` its way to begin one.
//!
//! Every unit of work is a transaction of its own, single statements too: behind a pooler in transaction mode a
//! statement and its preparation then reach the same server. A unit that exceeds its time, or whose caller is gone, takes
//! its connection with it, so that nothing half done ever returns to the pool.
//!
//! **Rows are locked in one order: the invoice, the key, the charge.** Whatever needs several of them takes them so,
//! inserts and deletions included; two units that went opposite ways would wait for each other until the database ended
//! one of them, and that could be the one that records money.

use super::StorageError;
use super::lent::Lent;

/// Runs a body in a transaction on a connection from the pool, within the store's time limit. After a unit that was cut
/// off it is not known whether its write took place: a commit on its way is not called back, anything before it is rolled
/// back by the database once the connection is closed.
macro_rules! unit {
    ($store:expr, $transaction:ident, async |$conn:ident| $body:block) => {{
        let mut lent = Lent::new($store.connection().await?);
        let work = lent.connection().$transaction(async |$conn| $body);
        let outcome = tokio::time::timeout($store.limit(), work).await;
        match outcome {
            Ok(outcome) => {
                lent.give_back();
                outcome
            }
            Err(_) => Err(StorageError::Unavailable("no answer in time".into())),
        }
    }};
}

/// Turns a failed guard into the port's "somebody else was first".
pub fn guarded<T>(outcome: Result<T, StorageError>) -> Result<Option<T>, StorageError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(StorageError::Guard) => Ok(None),
        Err(error @ (StorageError::Unavailable(_) | StorageError::Inconsistent(_))) => Err(error),
    }
}

/// One row or the transaction is rolled back as "somebody else was first".
pub fn one_or_guard(rows: usize) -> Result<(), StorageError> {
    if rows == 1 {
        Ok(())
    } else {
        Err(StorageError::Guard)
    }
}

/// One row, or the tables contradict each other.
pub fn one_or_inconsistent(rows: usize, what: &str) -> Result<(), StorageError> {
    if rows == 1 {
        Ok(())
    } else {
        Err(StorageError::Inconsistent(format!(
            "{what}: {rows} rows instead of one"
        )))
    }
}

macro_rules! repository {
    ($store:ident, $backend:ident, $transaction:ident) => {
        mod $backend {
            use async_trait::async_trait;
            use diesel::prelude::*;
            #[allow(
                unused_imports,
                reason = "`transaction` is a method of the trait, `immediate_transaction` is not"
            )]
            use diesel_async::{AsyncConnection, RunQueryDsl};

            use super::super::fragments::{
                held, live_charge, now, now_plus, open_invoice, undecided,
            };
            use super::super::rows::{
                ChargeRow, FailureColumns, InvoiceRow, KeyRow, recovery_word,
            };
            use super::super::schema::{charges, idempotency_keys, installation, invoices};
            use super::super::$backend::{self as backend, Connection, $store};
            use super::super::{StorageError, StoreInfo};
            use super::{Lent, guarded, one_or_guard, one_or_inconsistent};
            use crate::charges::model::Charge;
            use crate::charges::repository::{
                AttemptRecord, ChargeFilter, ChargeRepository, ChargeSnapshot, NewAttempt,
                Resolution,
            };
            use crate::idempotency::repository::{IdempotencyRepository, NewReservation, Reading};
            use crate::idempotency::reservation::{Ending, Recovery, Reservation, StoredResponse};
            use crate::invoices::model::{Invoice, InvoiceStatus};
            use crate::invoices::repository::{
                Changed, Inserted, InvoiceFilter, InvoiceInsert, InvoiceRepository,
            };

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

                async fn ping(&self) -> Result<(), StorageError> {
                    self.now_ms().await.map(|_| ())
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
                    Ok(guarded(outcome)?.unwrap_or(Inserted::LeaseLost))
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
                    let mut query = invoices::table.select(InvoiceRow::as_select()).into_boxed();
                    if let Some(status) = filter.status {
                        query = query.filter(invoices::status.eq(status.as_str()));
                    }
                    if let Some(customer_id) = &filter.customer_id {
                        query = query.filter(invoices::customer_id.eq(customer_id));
                    }
                    if let Some((created_at_ms, id)) = &filter.after {
                        query = query.filter(
                            invoices::created_at_ms
                                .lt(created_at_ms)
                                .or(invoices::created_at_ms
                                    .eq(created_at_ms)
                                    .and(invoices::id.lt(id))),
                        );
                    }
                    let query = query
                        .order((invoices::created_at_ms.desc(), invoices::id.desc()))
                        .limit(filter.limit);
                    let rows = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(query.load::<InvoiceRow>(conn).await?)
                    })?;
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

            #[async_trait]
            impl IdempotencyRepository for $store {
                async fn reserve(
                    &self,
                    new: &NewReservation,
                ) -> Result<Option<Reading<Reservation>>, StorageError> {
                    unit!(self, $transaction, async |conn| {
                        insert_key(conn, new).await
                    })
                }

                async fn find_reservation(
                    &self,
                    key: &str,
                ) -> Result<Option<Reading<Reservation>>, StorageError> {
                    let row = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(
                            idempotency_keys::table
                                .find(key)
                                .select((KeyRow::as_select(), now()))
                                .first::<(KeyRow, i64)>(conn)
                                .await
                                .optional()?,
                        )
                    })?;
                    row.map(reading).transpose()
                }

                async fn take_over(
                    &self,
                    expired: &Reservation,
                    lease_token: &str,
                    lease_ms: i64,
                    recovery: Recovery,
                ) -> Result<Option<Reading<Reservation>>, StorageError> {
                    let row = unit!(self, $transaction, async |conn| {
                        let target = held(&expired.key, &expired.lease_token)
                            .filter(idempotency_keys::lease_expires_at_ms.le(now()));
                        let lease = (
                            idempotency_keys::lease_token.eq(lease_token),
                            idempotency_keys::lease_expires_at_ms.eq(now_plus(lease_ms)),
                            idempotency_keys::takeovers.eq(idempotency_keys::takeovers + 1),
                            idempotency_keys::updated_at_ms.eq(now()),
                        );
                        let returned = (KeyRow::as_returning(), now());
                        let row = match recovery {
                            Recovery::Resend => {
                                diesel::update(target)
                                    .set((lease, idempotency_keys::last_sent_at_ms.eq(now())))
                                    .returning(returned)
                                    .get_result::<(KeyRow, i64)>(conn)
                                    .await
                            }
                            Recovery::LookUp => {
                                diesel::update(target)
                                    .set(lease)
                                    .returning(returned)
                                    .get_result::<(KeyRow, i64)>(conn)
                                    .await
                            }
                        };
                        Ok::<_, StorageError>(row.optional()?)
                    })?;
                    row.map(reading).transpose()
                }

                async fn settle(
                    &self,
                    key: &str,
                    lease_token: &str,
                    ending: &Ending,
                ) -> Result<bool, StorageError> {
                    unit!(self, $transaction, async |conn| {
                        Ok(end_key(conn, key, lease_token, ending).await? == 1)
                    })
                }
            }

            #[async_trait]
            impl ChargeRepository for $store {
                async fn charge_snapshot(
                    &self,
                    invoice_id: &str,
                ) -> Result<Option<Reading<ChargeSnapshot>>, StorageError> {
                    let row = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(
                            invoices::table
                                .left_join(charges::table.inner_join(idempotency_keys::table))
                                .filter(invoices::id.eq(invoice_id))
                                .order(charges::attempt.desc())
                                .select((
                                    InvoiceRow::as_select(),
                                    Option::<ChargeRow>::as_select(),
                                    Option::<KeyRow>::as_select(),
                                    now(),
                                ))
                                .first::<(InvoiceRow, Option<ChargeRow>, Option<KeyRow>, i64)>(conn)
                                .await
                                .optional()?,
                        )
                    })?;
                    let Some((invoice, charge, key, now_ms)) = row else {
                        return Ok(None);
                    };
                    let latest = charge
                        .zip(key)
                        .map(|(charge, key)| {
                            Ok::<_, StorageError>((charge.try_into()?, key.try_into()?))
                        })
                        .transpose()?;
                    let value = ChargeSnapshot {
                        invoice: invoice.try_into()?,
                        latest,
                    };
                    Ok(Some(Reading { value, now_ms }))
                }

                async fn begin_attempt(
                    &self,
                    attempt: &NewAttempt,
                ) -> Result<Option<Reading<Reservation>>, StorageError> {
                    let row = ChargeRow::from(&attempt.charge);
                    let outcome = unit!(self, $transaction, async |conn| {
                        let invoice = backend::lock_invoice(conn, &row.invoice_id).await?;
                        match invoice {
                            Some((status, revision))
                                if status == "open" && revision == row.invoice_revision => {}
                            Some(_) | None => return Err(StorageError::Guard),
                        }
                        let reservation = insert_key(conn, &attempt.reservation)
                            .await?
                            .ok_or(StorageError::Guard)?;
                        let rows = diesel::insert_into(charges::table)
                            .values(&row)
                            .on_conflict_do_nothing()
                            .execute(conn)
                            .await?;
                        one_or_guard(rows)?;
                        Ok(reservation)
                    });
                    guarded(outcome)
                }

                async fn record_attempt(
                    &self,
                    charge: &Charge,
                    lease_token: &str,
                    record: &AttemptRecord,
                ) -> Result<bool, StorageError> {
                    let outcome = unit!(self, $transaction, async |conn| {
                        let paid = pay_invoice(conn, charge, record).await?;
                        take_key(conn, charge, lease_token, record).await?;
                        one_or_inconsistent(paid, "the invoice of a succeeded charge")?;
                        write_record(conn, charge, record).await
                    });
                    Ok(guarded(outcome)?.is_some())
                }

                async fn resolve_review(
                    &self,
                    resolution: &Resolution,
                ) -> Result<bool, StorageError> {
                    let charge = &resolution.charge;
                    let outcome = unit!(self, $transaction, async |conn| {
                        let paid = pay_invoice(conn, charge, &resolution.record).await?;
                        let token: String = idempotency_keys::table
                            .find(&charge.idempotency_key)
                            .select(idempotency_keys::lease_token)
                            .first(conn)
                            .await
                            .optional()?
                            .ok_or(StorageError::Guard)?;
                        take_key(conn, charge, &token, &resolution.record).await?;
                        let rows = diesel::update(
                            charges::table
                                .filter(charges::id.eq(&charge.id))
                                .filter(charges::status.eq("needs_review")),
                        )
                        .set(charges::evidence.eq(&resolution.evidence))
                        .execute(conn)
                        .await?;
                        one_or_guard(rows)?;
                        one_or_inconsistent(paid, "the invoice of a succeeded charge")?;
                        write_record(conn, charge, &resolution.record).await
                    });
                    Ok(guarded(outcome)?.is_some())
                }

                async fn find_charge(&self, id: &str) -> Result<Option<Charge>, StorageError> {
                    let row = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(
                            charges::table
                                .find(id)
                                .select(ChargeRow::as_select())
                                .first(conn)
                                .await
                                .optional()?,
                        )
                    })?;
                    row.map(Charge::try_from).transpose()
                }

                async fn list_charges(
                    &self,
                    filter: &ChargeFilter,
                ) -> Result<Vec<Charge>, StorageError> {
                    let mut query = charges::table.select(ChargeRow::as_select()).into_boxed();
                    if let Some(invoice_id) = &filter.invoice_id {
                        query = query.filter(charges::invoice_id.eq(invoice_id));
                    }
                    if let Some(status) = &filter.status {
                        query = query.filter(charges::status.eq(status));
                    }
                    if let Some(after) = &filter.after {
                        query = query.filter(charges::id.lt(after));
                    }
                    // Ids begin with the time at which they were made, so that their order is that of the attempts.
                    let query = query.order(charges::id.desc()).limit(filter.limit);
                    let rows = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(query.load::<ChargeRow>(conn).await?)
                    })?;
                    rows.into_iter().map(Charge::try_from).collect()
                }
            }

            fn reading((row, now_ms): (KeyRow, i64)) -> Result<Reading<Reservation>, StorageError> {
                Ok(Reading {
                    value: row.try_into()?,
                    now_ms,
                })
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

            async fn insert_key(
                conn: &mut Connection,
                new: &NewReservation,
            ) -> Result<Option<Reading<Reservation>>, StorageError> {
                diesel::insert_into(idempotency_keys::table)
                    .values((
                        idempotency_keys::key.eq(&new.key),
                        idempotency_keys::operation.eq(new.operation),
                        idempotency_keys::status.eq("in_progress"),
                        idempotency_keys::attempt.eq(new.attempt),
                        idempotency_keys::fingerprint.eq(&new.fingerprint),
                        idempotency_keys::lease_token.eq(&new.lease_token),
                        idempotency_keys::lease_expires_at_ms.eq(now_plus(new.lease_ms)),
                        idempotency_keys::recovery.eq(recovery_word(Recovery::Resend)),
                        idempotency_keys::first_sent_at_ms.eq(now()),
                        idempotency_keys::last_sent_at_ms.eq(now()),
                        idempotency_keys::takeovers.eq(0),
                        idempotency_keys::created_at_ms.eq(now()),
                        idempotency_keys::updated_at_ms.eq(now()),
                    ))
                    .on_conflict(idempotency_keys::key)
                    .do_nothing()
                    .returning((KeyRow::as_returning(), now()))
                    .get_result::<(KeyRow, i64)>(conn)
                    .await
                    .optional()?
                    .map(reading)
                    .transpose()
            }

            /// Writes a key that is done from the start; false when it is there already.
            async fn finish_new_key(
                conn: &mut Connection,
                key: &str,
                fingerprint: &str,
                response: &StoredResponse,
            ) -> Result<bool, StorageError> {
                let rows = diesel::insert_into(idempotency_keys::table)
                    .values((
                        idempotency_keys::key.eq(key),
                        idempotency_keys::operation.eq("create_invoice"),
                        idempotency_keys::status.eq("done"),
                        idempotency_keys::attempt.eq(1),
                        idempotency_keys::fingerprint.eq(fingerprint),
                        idempotency_keys::lease_token.eq(""),
                        idempotency_keys::lease_expires_at_ms.eq(now()),
                        idempotency_keys::recovery.eq(recovery_word(Recovery::Resend)),
                        idempotency_keys::first_sent_at_ms.eq(now()),
                        idempotency_keys::last_sent_at_ms.eq(now()),
                        idempotency_keys::takeovers.eq(0),
                        idempotency_keys::created_at_ms.eq(now()),
                        idempotency_keys::updated_at_ms.eq(now()),
                        idempotency_keys::response_status.eq(i32::from(response.status)),
                        idempotency_keys::response_location.eq(&response.location),
                        idempotency_keys::response_body.eq(&response.body),
                    ))
                    .on_conflict(idempotency_keys::key)
                    .do_nothing()
                    .execute(conn)
                    .await?;
                Ok(rows == 1)
            }

            /// Ends a key while the token holds it; the number of rows changed.
            async fn end_key(
                conn: &mut Connection,
                key: &str,
                lease_token: &str,
                ending: &Ending,
            ) -> Result<usize, StorageError> {
                let status = match ending {
                    Ending::Done(_) => "done",
                    Ending::Failed(_) => "failed",
                };
                let response = ending.response();
                Ok(diesel::update(held(key, lease_token))
                    .set((
                        idempotency_keys::status.eq(status),
                        idempotency_keys::response_status.eq(i32::from(response.status)),
                        idempotency_keys::response_location.eq(&response.location),
                        idempotency_keys::response_body.eq(&response.body),
                        idempotency_keys::updated_at_ms.eq(now()),
                    ))
                    .execute(conn)
                    .await?)
            }

            /// The first step of every record: a success pays its invoice. One when that is as it should be; to be judged
            /// once the key is held, as a stale owner may well find the invoice paid.
            async fn pay_invoice(
                conn: &mut Connection,
                charge: &Charge,
                record: &AttemptRecord,
            ) -> Result<usize, StorageError> {
                match record {
                    AttemptRecord::Succeeded { .. } => {
                        Ok(diesel::update(open_invoice(&charge.invoice_id))
                            .set((
                                invoices::status.eq("paid"),
                                invoices::updated_at_ms.eq(now()),
                            ))
                            .execute(conn)
                            .await?)
                    }
                    AttemptRecord::Failed { .. }
                    | AttemptRecord::Processing { .. }
                    | AttemptRecord::NeedsReview { .. }
                    | AttemptRecord::Unknown { .. }
                    | AttemptRecord::Released => Ok(1),
                }
            }

            /// The second step: the key's row, while the token holds it. Everything is rolled back when it does not.
            async fn take_key(
                conn: &mut Connection,
                charge: &Charge,
                lease_token: &str,
                record: &AttemptRecord,
            ) -> Result<(), StorageError> {
                let key = charge.idempotency_key.as_str();
                let rows = match record {
                    AttemptRecord::Succeeded { response, .. } => {
                        end_key(conn, key, lease_token, &Ending::Done(response.clone())).await?
                    }
                    AttemptRecord::Failed { response, .. } => {
                        end_key(conn, key, lease_token, &Ending::Failed(response.clone())).await?
                    }
                    AttemptRecord::Unknown { recovery, .. } => {
                        diesel::update(held(key, lease_token))
                            .set((
                                idempotency_keys::recovery.eq(recovery_word(*recovery)),
                                idempotency_keys::updated_at_ms.eq(now()),
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::Processing { .. } | AttemptRecord::NeedsReview { .. } => {
                        diesel::update(held(key, lease_token))
                            .set((
                                idempotency_keys::recovery.eq(recovery_word(Recovery::LookUp)),
                                idempotency_keys::updated_at_ms.eq(now()),
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::Released => {
                        // The charge refers to the key and goes first, so the key is locked by a change before.
                        let unsent =
                            held(key, lease_token).filter(idempotency_keys::takeovers.eq(0));
                        let rows = diesel::update(unsent.clone())
                            .set(idempotency_keys::updated_at_ms.eq(now()))
                            .execute(conn)
                            .await?;
                        one_or_guard(rows)?;
                        diesel::delete(undecided(&charge.id)).execute(conn).await?;
                        diesel::delete(unsent).execute(conn).await?
                    }
                };
                one_or_guard(rows)
            }

            /// The last step: the charge's row, once the key is held.
            async fn write_record(
                conn: &mut Connection,
                charge: &Charge,
                record: &AttemptRecord,
            ) -> Result<(), StorageError> {
                let target = undecided(&charge.id);
                let touched = charges::updated_at_ms.eq(now());
                let rows = match record {
                    AttemptRecord::Succeeded {
                        payment_id,
                        settled_at_ms,
                        ..
                    } => {
                        diesel::update(target)
                            .set((
                                charges::status.eq("succeeded"),
                                charges::provider_payment_id.eq(payment_id),
                                charges::settled_at_ms.eq(settled_at_ms),
                                touched,
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::Failed {
                        failure,
                        settled_at_ms,
                        ..
                    } => {
                        let payment_id = failure
                            .payment_id
                            .as_ref()
                            .or(charge.provider_payment_id.as_ref());
                        diesel::update(target)
                            .set((
                                charges::status.eq("failed"),
                                charges::provider_payment_id.eq(payment_id),
                                charges::settled_at_ms.eq(settled_at_ms),
                                FailureColumns::from(failure),
                                touched,
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::Processing { payment_id } => {
                        diesel::update(target)
                            .set((
                                charges::status.eq("processing"),
                                charges::provider_payment_id.eq(payment_id),
                                touched,
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::NeedsReview {
                        payment_id,
                        evidence,
                    } => {
                        let payment_id =
                            payment_id.as_ref().or(charge.provider_payment_id.as_ref());
                        diesel::update(target)
                            .set((
                                charges::status.eq("needs_review"),
                                charges::provider_payment_id.eq(payment_id),
                                charges::evidence.eq(evidence),
                                touched,
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::Unknown {
                        payment_id,
                        evidence,
                        ..
                    } => {
                        let payment_id =
                            payment_id.as_ref().or(charge.provider_payment_id.as_ref());
                        diesel::update(target)
                            .set((
                                charges::provider_payment_id.eq(payment_id),
                                charges::evidence.eq(evidence),
                                touched,
                            ))
                            .execute(conn)
                            .await?
                    }
                    // Its row went with the key's.
                    AttemptRecord::Released => return Ok(()),
                };
                one_or_inconsistent(rows, "the charge of a held key")
            }
        }
    };
}

repository!(PostgresStore, postgres, transaction);
repository!(SqliteStore, sqlite, immediate_transaction);
