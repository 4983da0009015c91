//! Refunds: a charge with a refund of its, reserving, reading and listing.

macro_rules! refund_statements {
    ($store:ident, $backend:ident, $transaction:ident) => {
        pub mod $backend {
            use async_trait::async_trait;
            use diesel::prelude::*;
            use diesel::sql_types::Bool;
            #[allow(
                unused_imports,
                reason = "`transaction` is a method of the trait, `immediate_transaction` is not"
            )]
            use diesel_async::{AsyncConnection, RunQueryDsl};

            use super::super::evidence::$backend::{add_refund_evidence, evidence_of_refund};
            use super::super::keys::$backend::insert_key;
            use super::super::refund_records::$backend::{
                give_room_back, lock_charge, take_refund_key, write_refund_record,
            };
            use super::super::{Lent, guarded, one_or_guard};
            use crate::charges::crash::{self, Step};
            use crate::charges::repository::{AttemptRecord, Evidence};
            use crate::idempotency::repository::Reading;
            use crate::idempotency::reservation::Reservation;
            use crate::payments::outcome::Failure;
            use crate::refunds::model::{Portion, Refund};
            use crate::refunds::repository::{
                NewRefund, RefundFilter, RefundRepository, RefundResolution, RefundSnapshot,
            };
            use crate::storage::StorageError;
            use crate::storage::fragments::{
                charge_paid, is_without_verdict, now, refund_without_verdict,
            };
            use crate::storage::refund_rows::{RefundFailureColumns, RefundRow};
            use crate::storage::rows::{ChargeRow, KeyRow};
            use crate::storage::schema::{charges, idempotency_keys, refunds};
            use crate::storage::$backend::{Connection, $store};

            /// A charge, the sum of its refunds, one refund with its key, and the time.
            type SnapshotRow = (ChargeRow, i64, Option<RefundRow>, Option<KeyRow>, i64);

            fn snapshot(row: SnapshotRow) -> Result<Reading<RefundSnapshot>, StorageError> {
                let (charge, refunded_minor, refund, key, now_ms) = row;
                let own = refund
                    .zip(key)
                    .map(|(refund, key)| {
                        Ok::<_, StorageError>((refund.try_into()?, key.try_into()?))
                    })
                    .transpose()?;
                let value = RefundSnapshot {
                    charge: charge.try_into()?,
                    refunded_minor,
                    own,
                };
                Ok(Reading { value, now_ms })
            }

            #[async_trait]
            impl RefundRepository for $store {
                async fn refund_snapshot(
                    &self,
                    charge_id: &str,
                    portion: &Portion,
                ) -> Result<Option<Reading<RefundSnapshot>>, StorageError> {
                    // A header key is looked for among all charges' refunds, so that its use for another one is seen.
                    let (header_key, is_part) = match portion {
                        Portion::Rest => (String::new(), false),
                        Portion::Part { header_key } => (header_key.clone(), true),
                    };
                    let of_rest = refunds::charge_id
                        .eq(charges::id)
                        .and(refunds::header_key.is_null())
                        .and((!is_part).into_sql::<Bool>());
                    let of_part = refunds::header_key.assume_not_null().eq(header_key);
                    let row = unit!(self, $transaction, async |conn| {
                        let query = charges::table
                            .left_join(refunds::table.on(of_rest.or(of_part)))
                            .left_join(
                                idempotency_keys::table.on(idempotency_keys::key
                                    .nullable()
                                    .eq(refunds::idempotency_key.nullable())),
                            )
                            .filter(charges::id.eq(charge_id))
                            .order(refunds::attempt.desc())
                            .select((
                                ChargeRow::as_select(),
                                charges::refunded_cents,
                                Option::<RefundRow>::as_select(),
                                Option::<KeyRow>::as_select(),
                                now(),
                            ));
                        Ok::<_, StorageError>(query.first::<SnapshotRow>(conn).await.optional()?)
                    })?;
                    row.map(snapshot).transpose()
                }

                async fn refund_by_id(
                    &self,
                    id: &str,
                ) -> Result<Option<Reading<RefundSnapshot>>, StorageError> {
                    let row = unit!(self, $transaction, async |conn| {
                        let query = charges::table
                            .inner_join(refunds::table)
                            .inner_join(
                                idempotency_keys::table
                                    .on(idempotency_keys::key.eq(refunds::idempotency_key)),
                            )
                            .filter(refunds::id.eq(id))
                            .select((
                                ChargeRow::as_select(),
                                charges::refunded_cents,
                                RefundRow::as_select(),
                                KeyRow::as_select(),
                                now(),
                            ));
                        Ok::<_, StorageError>(
                            query
                                .first::<(ChargeRow, i64, RefundRow, KeyRow, i64)>(conn)
                                .await
                                .optional()?,
                        )
                    })?;
                    row.map(|(charge, refunded, refund, key, now_ms)| {
                        snapshot((charge, refunded, Some(refund), Some(key), now_ms))
                    })
                    .transpose()
                }

                async fn begin_refund(
                    &self,
                    refund: &NewRefund,
                ) -> Result<Option<Reading<Reservation>>, StorageError> {
                    let outcome = unit!(self, $transaction, async |conn| {
                        insert_refund(conn, refund).await
                    });
                    guarded(outcome)
                }

                async fn record_refund(
                    &self,
                    refund: &Refund,
                    lease_token: &str,
                    record: &AttemptRecord,
                    evidence: &[Evidence],
                ) -> Result<bool, StorageError> {
                    let outcome = unit!(self, $transaction, async |conn| {
                        take_refund_key(conn, refund, lease_token, record).await?;
                        crash::point(Step::WithinRecord);
                        write_refund_record(conn, refund, record).await?;
                        add_refund_evidence(conn, &refund.id, evidence).await
                    });
                    Ok(guarded(outcome)?.is_some())
                }

                async fn park_refund(
                    &self,
                    refund: &NewRefund,
                    evidence: &[Evidence],
                ) -> Result<bool, StorageError> {
                    let outcome = unit!(self, $transaction, async |conn| {
                        insert_refund(conn, refund).await?;
                        add_refund_evidence(conn, &refund.refund.id, evidence).await
                    });
                    Ok(guarded(outcome)?.is_some())
                }

                async fn resolve_refund(
                    &self,
                    resolution: &RefundResolution,
                ) -> Result<bool, StorageError> {
                    let refund = &resolution.refund;
                    let outcome = unit!(self, $transaction, async |conn| {
                        let token: String = idempotency_keys::table
                            .find(&refund.idempotency_key)
                            .select(idempotency_keys::lease_token)
                            .first(conn)
                            .await
                            .optional()?
                            .ok_or(StorageError::Guard)?;
                        take_refund_key(conn, refund, &token, &resolution.record).await?;
                        lock_charge(conn, refund).await?;
                        let rows = diesel::update(
                            refunds::table
                                .filter(refunds::id.eq(&refund.id))
                                .filter(refunds::status.eq("needs_review")),
                        )
                        .set(refunds::evidence.eq(&resolution.evidence))
                        .execute(conn)
                        .await?;
                        one_or_guard(rows)?;
                        write_refund_record(conn, refund, &resolution.record).await?;
                        add_refund_evidence(
                            conn,
                            &refund.id,
                            std::slice::from_ref(&resolution.line),
                        )
                        .await
                    });
                    Ok(guarded(outcome)?.is_some())
                }

                async fn return_refund(
                    &self,
                    refund: &Refund,
                    failure: &Failure,
                    line: &Evidence,
                ) -> Result<bool, StorageError> {
                    let outcome = unit!(self, $transaction, async |conn| {
                        lock_charge(conn, refund).await?;
                        let rows = diesel::update(
                            refunds::table
                                .filter(refunds::id.eq(&refund.id))
                                .filter(refunds::status.eq("succeeded")),
                        )
                        .set((
                            refunds::status.eq("returned"),
                            refunds::updated_at_ms.eq(now()),
                            RefundFailureColumns::from(failure),
                        ))
                        .execute(conn)
                        .await?;
                        one_or_guard(rows)?;
                        give_room_back(conn, refund).await?;
                        add_refund_evidence(conn, &refund.id, std::slice::from_ref(line)).await
                    });
                    Ok(guarded(outcome)?.is_some())
                }

                async fn refunds_of_payment(
                    &self,
                    payment_id: &str,
                ) -> Result<Vec<Refund>, StorageError> {
                    let rows = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(
                            refunds::table
                                .inner_join(charges::table)
                                .filter(charges::provider_payment_id.eq(payment_id))
                                .filter(charge_paid())
                                .order(refunds::id.desc())
                                .select(RefundRow::as_select())
                                .load::<RefundRow>(conn)
                                .await?,
                        )
                    })?;
                    rows.into_iter().map(Refund::try_from).collect()
                }

                async fn refunds_given_by(
                    &self,
                    provider_refund_id: &str,
                ) -> Result<Vec<Refund>, StorageError> {
                    let rows = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(
                            refunds::table
                                .filter(refunds::provider_refund_id.eq(provider_refund_id))
                                .order(refunds::id)
                                .select(RefundRow::as_select())
                                .load::<RefundRow>(conn)
                                .await?,
                        )
                    })?;
                    rows.into_iter().map(Refund::try_from).collect()
                }

                async fn find_refund(&self, id: &str) -> Result<Option<Refund>, StorageError> {
                    let row = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(
                            refunds::table
                                .find(id)
                                .select(RefundRow::as_select())
                                .first(conn)
                                .await
                                .optional()?,
                        )
                    })?;
                    row.map(Refund::try_from).transpose()
                }

                async fn list_refunds(
                    &self,
                    filter: &RefundFilter,
                ) -> Result<Vec<Refund>, StorageError> {
                    let mut query = refunds::table.select(RefundRow::as_select()).into_boxed();
                    if let Some(charge_id) = &filter.charge_id {
                        query = query.filter(refunds::charge_id.eq(charge_id));
                    }
                    if let Some(status) = &filter.status {
                        query = query.filter(refunds::status.eq(status));
                        if is_without_verdict(status) {
                            query = query.filter(refund_without_verdict());
                        }
                    }
                    if let Some(after) = &filter.after {
                        query = query.filter(refunds::id.lt(after));
                    }
                    // Ids begin with the time at which they were made, so that their order is that of the refunds.
                    let query = query.order(refunds::id.desc()).limit(filter.limit);
                    let rows = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(query.load::<RefundRow>(conn).await?)
                    })?;
                    rows.into_iter().map(Refund::try_from).collect()
                }

                async fn list_refund_evidence(
                    &self,
                    refund_id: &str,
                ) -> Result<Vec<Evidence>, StorageError> {
                    let rows = unit!(self, $transaction, async |conn| {
                        evidence_of_refund(conn, refund_id).await
                    })?;
                    rows.into_iter().map(Evidence::try_from).collect()
                }
            }

            /// Writes the key's and the refund's row and raises the charge's sum, or does none of it: while the key is free,
            /// and the charge has succeeded with room for the refund. The charge's row is locked by its own update, so that
            /// of refunds side by side each sees the sum that the one before it left.
            async fn insert_refund(
                conn: &mut Connection,
                new: &NewRefund,
            ) -> Result<Reading<Reservation>, StorageError> {
                let row = RefundRow::from(&new.refund);
                let reservation = insert_key(conn, &new.reservation)
                    .await?
                    .ok_or(StorageError::Guard)?;
                let sum = charges::refunded_cents + row.amount_cents;
                let is_part = new.rest_beside_minor.is_none().into_sql::<Bool>();
                let beside_minor = new.rest_beside_minor.unwrap_or_default();
                let has_room = charges::table
                    .filter(charges::id.eq(&row.charge_id))
                    .filter(charges::status.eq("succeeded"))
                    .filter(sum.le(charges::amount_cents))
                    .filter(charges::refunded_cents.eq(beside_minor).or(is_part));
                let rows = diesel::update(has_room)
                    .set(charges::refunded_cents.eq(sum))
                    .execute(conn)
                    .await?;
                one_or_guard(rows)?;
                crash::point(Step::WithinReserve);
                let rows = diesel::insert_into(refunds::table)
                    .values(&row)
                    .on_conflict_do_nothing()
                    .execute(conn)
                    .await?;
                one_or_guard(rows)?;
                Ok(reservation)
            }
        }
    };
}

refund_statements!(PostgresStore, postgres, transaction);
refund_statements!(SqliteStore, sqlite, immediate_transaction);
