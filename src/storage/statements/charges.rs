//! Charges: an invoice with its latest attempt, beginning an attempt, reading and listing.

macro_rules! charge_statements {
    ($store:ident, $backend:ident, $transaction:ident) => {
        pub mod $backend {
            use std::sync::Arc;

            use async_trait::async_trait;
            use diesel::prelude::*;
            #[allow(
                unused_imports,
                reason = "`transaction` is a method of the trait, `immediate_transaction` is not"
            )]
            use diesel_async::{AsyncConnection, RunQueryDsl};

            use super::super::evidence::$backend::{add_evidence, evidence_of};
            use super::super::keys::$backend::insert_key;
            use super::super::records::$backend::{take_key, write_record};
            use super::super::spending::$backend::{hold_spending, spent_under};
            use super::super::together::$backend as together;
            use super::super::{Lent, guarded, one_or_guard};
            use crate::charges::crash::{self, Step};
            use crate::charges::model::Charge;
            use crate::charges::repository::{
                AttemptRecord, Capped, ChargeFilter, ChargeRepository, ChargeSnapshot, DayCap,
                Evidence, NewAttempt, Resolution, Settlement,
            };
            use crate::idempotency::repository::Reading;
            use crate::idempotency::reservation::Reservation;
            use crate::storage::StorageError;
            use crate::storage::fragments::{
                charge_not_paid, charge_paid, charge_without_verdict, is_without_verdict, now,
            };
            use crate::storage::rows::{ChargeRow, InvoiceRow, KeyRow, SnapshotRow, snapshot};
            use crate::storage::schema::{charges, idempotency_keys, invoices};
            use crate::storage::$backend::{self as backend, Connection, $store};
            use crate::together::NotTogether;

            #[async_trait]
            impl ChargeRepository for $store {
                async fn charge_snapshot(
                    &self,
                    invoice_id: &str,
                ) -> Result<Option<Reading<ChargeSnapshot>>, StorageError> {
                    look!(self, $transaction, async |conn| {
                        look_at(conn, invoice_id).await
                    })
                }

                async fn charge_snapshots(
                    &self,
                    invoice_ids: &[Arc<String>],
                ) -> Result<Vec<Option<Reading<ChargeSnapshot>>>, NotTogether> {
                    together::charge_snapshots(self, invoice_ids).await
                }

                async fn begin_attempt(
                    &self,
                    attempt: &NewAttempt,
                ) -> Result<Option<Reading<Reservation>>, StorageError> {
                    let outcome = unit!(self, $transaction, async |conn| {
                        insert_attempt(conn, attempt).await
                    });
                    Ok(guarded(outcome)?.flatten())
                }

                async fn begin_attempts(
                    &self,
                    attempts: &[Arc<NewAttempt>],
                ) -> Result<Vec<Option<Reading<Reservation>>>, NotTogether> {
                    together::begin_attempts(self, attempts).await
                }

                async fn begin_capped_attempt(
                    &self,
                    attempt: &NewAttempt,
                    cap: &DayCap,
                ) -> Result<Capped, StorageError> {
                    let outcome = unit!(self, $transaction, async |conn| {
                        hold_spending(conn, &cap.key_name).await?;
                        let spent_minor = spent_under(conn, cap).await?;
                        let amount_minor = attempt.charge.amount_minor;
                        if spent_minor.saturating_add(amount_minor) > cap.limit_minor {
                            return Ok(Capped::Over);
                        }
                        let reserved = insert_attempt(conn, attempt).await?;
                        Ok(reserved.map_or(Capped::Lost, Capped::Reserved))
                    });
                    Ok(guarded(outcome)?.unwrap_or(Capped::Lost))
                }

                async fn spent(&self, cap: &DayCap) -> Result<i64, StorageError> {
                    look!(self, $transaction, async |conn| {
                        spent_under(conn, cap).await
                    })
                }

                async fn record_attempt(
                    &self,
                    charge: &Charge,
                    lease_token: &str,
                    record: &AttemptRecord,
                    evidence: &[Evidence],
                ) -> Result<bool, StorageError> {
                    let outcome = unit!(self, $transaction, async |conn| {
                        take_key(conn, charge, lease_token, record).await?;
                        crash::point(Step::WithinRecord);
                        write_record(conn, charge, record).await?;
                        add_evidence(conn, &charge.id, evidence).await
                    });
                    Ok(guarded(outcome)?.is_some())
                }

                async fn record_verdicts(
                    &self,
                    settlements: &[Arc<Settlement>],
                ) -> Result<Vec<bool>, NotTogether> {
                    together::record_verdicts(self, settlements).await
                }

                async fn park_payment(
                    &self,
                    attempt: &NewAttempt,
                    evidence: &[Evidence],
                ) -> Result<bool, StorageError> {
                    let outcome = unit!(self, $transaction, async |conn| {
                        let reserved = insert_attempt(conn, attempt).await?;
                        reserved.ok_or(StorageError::Guard)?;
                        add_evidence(conn, &attempt.charge.id, evidence).await
                    });
                    Ok(guarded(outcome)?.is_some())
                }

                async fn list_evidence(
                    &self,
                    charge_id: &str,
                ) -> Result<Vec<Evidence>, StorageError> {
                    let rows = look!(self, $transaction, async |conn| {
                        evidence_of(conn, charge_id).await
                    })?;
                    rows.into_iter().map(Evidence::try_from).collect()
                }

                async fn resolve_review(
                    &self,
                    resolution: &Resolution,
                ) -> Result<bool, StorageError> {
                    let charge = &resolution.charge;
                    let outcome = unit!(self, $transaction, async |conn| {
                        let token: String = idempotency_keys::table
                            .find(&charge.idempotency_key)
                            .select(idempotency_keys::lease_token)
                            .first(conn)
                            .await
                            .optional()?
                            .ok_or(StorageError::Guard)?;
                        take_key(conn, charge, &token, &resolution.record).await?;
                        // The charge is changed before the verdict may pay the invoice: that one is locked first.
                        backend::lock_invoice_for_change(conn, &charge.invoice_id).await?;
                        let rows = diesel::update(
                            charges::table
                                .filter(charges::id.eq(&charge.id))
                                .filter(charges::status.eq("needs_review")),
                        )
                        .set(charges::evidence.eq(&resolution.evidence))
                        .execute(conn)
                        .await?;
                        one_or_guard(rows)?;
                        write_record(conn, charge, &resolution.record).await?;
                        add_evidence(conn, &charge.id, std::slice::from_ref(&resolution.line)).await
                    });
                    Ok(guarded(outcome)?.is_some())
                }

                async fn charges_of_payment(
                    &self,
                    payment_id: &str,
                ) -> Result<Vec<Charge>, StorageError> {
                    let mut rows = look!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(
                            charges::table
                                .filter(
                                    charges::provider_payment_id
                                        .eq(payment_id)
                                        .and(charge_paid()),
                                )
                                .or_filter(
                                    charges::provider_payment_id
                                        .eq(payment_id)
                                        .and(charge_not_paid()),
                                )
                                .select(ChargeRow::as_select())
                                .load::<ChargeRow>(conn)
                                .await?,
                        )
                    })?;
                    // Not by the database: where there are few charges it would rather go through all of them in order.
                    rows.sort_by(|one, other| one.id.cmp(&other.id));
                    rows.into_iter().map(Charge::try_from).collect()
                }

                async fn find_charge(&self, id: &str) -> Result<Option<Charge>, StorageError> {
                    let row = look!(self, $transaction, async |conn| {
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
                        if is_without_verdict(status) {
                            query = query.filter(charge_without_verdict());
                        }
                    }
                    if let Some(after) = &filter.after {
                        query = query.filter(charges::id.lt(after));
                    }
                    // Ids begin with the time at which they were made, so that their order is that of the attempts.
                    let query = query.order(charges::id.desc()).limit(filter.limit);
                    let rows = look!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(query.load::<ChargeRow>(conn).await?)
                    })?;
                    rows.into_iter().map(Charge::try_from).collect()
                }
            }

            /// Reads an invoice with its latest attempt.
            pub async fn look_at(
                conn: &mut Connection,
                invoice_id: &str,
            ) -> Result<Option<Reading<ChargeSnapshot>>, StorageError> {
                invoices::table
                    .left_join(charges::table)
                    // Not a join within the join: SQLite would make the inner one of all rows before it looks for any.
                    .left_join(
                        idempotency_keys::table
                            .on(charges::idempotency_key.eq(idempotency_keys::key)),
                    )
                    .filter(invoices::id.eq(invoice_id))
                    .order(charges::attempt.desc())
                    .select((
                        InvoiceRow::as_select(),
                        Option::<ChargeRow>::as_select(),
                        Option::<KeyRow>::as_select(),
                        now(),
                    ))
                    .first::<SnapshotRow>(conn)
                    .await
                    .optional()?
                    .map(snapshot)
                    .transpose()
            }

            /// Writes the key's and the charge's row, while the invoice is open, unchanged and without a live attempt. `None`,
            /// and nothing written, when the key is there already.
            pub async fn insert_attempt(
                conn: &mut Connection,
                attempt: &NewAttempt,
            ) -> Result<Option<Reading<Reservation>>, StorageError> {
                let row = ChargeRow::from(&attempt.charge);
                let Some(reservation) = insert_key(conn, &attempt.reservation).await? else {
                    return Ok(None);
                };
                let invoice = backend::lock_invoice(conn, &row.invoice_id).await?;
                match invoice {
                    Some((status, revision))
                        if status == "open" && revision == row.invoice_revision => {}
                    Some(_) | None => return Err(StorageError::Guard),
                }
                crash::point(Step::WithinReserve);
                let rows = diesel::insert_into(charges::table)
                    .values(&row)
                    .on_conflict_do_nothing()
                    .execute(conn)
                    .await?;
                one_or_guard(rows)?;
                Ok(Some(reservation))
            }
        }
    };
}

charge_statements!(PostgresStore, postgres, transaction);
charge_statements!(SqliteStore, sqlite, immediate_transaction);
