//! What the background worker reads.

macro_rules! recovery_statements {
    ($store:ident, $backend:ident, $transaction:ident) => {
        pub mod $backend {
            use async_trait::async_trait;
            use diesel::dsl::{count_star, min, sql};
            use diesel::prelude::*;
            use diesel::sql_types::Bool;
            #[allow(
                unused_imports,
                reason = "`transaction` is a method of the trait, `immediate_transaction` is not"
            )]
            use diesel_async::{AsyncConnection, RunQueryDsl};

            use super::super::Lent;
            use crate::idempotency::repository::Reading;
            use crate::reconciler::repository::{
                Backlog, DueAttempt, RecoveryRepository, RefundBacklog, Work,
            };
            use crate::storage::StorageError;
            use crate::storage::fragments::{
                charge_under_way, charge_without_verdict, held, key_in_progress, moment, now,
                now_plus, pending_event, refund_under_way, refund_without_verdict,
            };
            use crate::storage::schema::{charges, idempotency_keys, provider_events, refunds};
            use crate::storage::$backend::$store;

            /// What is worked on, its key, its token, and how often it was taken over.
            type DueRow = (String, String, String, i32);

            fn due(work: fn(String) -> Work, row: DueRow) -> DueAttempt {
                let (id, key, lease_token, takeovers) = row;
                DueAttempt {
                    work: work(id),
                    key,
                    lease_token,
                    takeovers,
                }
            }

            #[async_trait]
            impl RecoveryRepository for $store {
                async fn due_attempts(&self, limit: i64) -> Result<Vec<DueAttempt>, StorageError> {
                    let rows = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(
                            idempotency_keys::table
                                .inner_join(charges::table)
                                .filter(key_in_progress())
                                .filter(idempotency_keys::lease_expires_at_ms.le(moment(0)))
                                .filter(idempotency_keys::recover_after_ms.le(moment(0)))
                                .filter(charge_under_way())
                                .order((
                                    idempotency_keys::lease_expires_at_ms,
                                    idempotency_keys::key,
                                ))
                                .limit(limit)
                                .select((
                                    charges::invoice_id,
                                    idempotency_keys::key,
                                    idempotency_keys::lease_token,
                                    idempotency_keys::takeovers,
                                ))
                                .load::<DueRow>(conn)
                                .await?,
                        )
                    })?;
                    Ok(rows.into_iter().map(|row| due(Work::Charge, row)).collect())
                }

                async fn due_refunds(&self, limit: i64) -> Result<Vec<DueAttempt>, StorageError> {
                    let rows = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(
                            idempotency_keys::table
                                .inner_join(refunds::table)
                                .filter(key_in_progress())
                                .filter(idempotency_keys::lease_expires_at_ms.le(moment(0)))
                                .filter(idempotency_keys::recover_after_ms.le(moment(0)))
                                .filter(refund_under_way())
                                .order((
                                    idempotency_keys::lease_expires_at_ms,
                                    idempotency_keys::key,
                                ))
                                .limit(limit)
                                .select((
                                    refunds::id,
                                    idempotency_keys::key,
                                    idempotency_keys::lease_token,
                                    idempotency_keys::takeovers,
                                ))
                                .load::<DueRow>(conn)
                                .await?,
                        )
                    })?;
                    Ok(rows.into_iter().map(|row| due(Work::Refund, row)).collect())
                }

                async fn put_off(
                    &self,
                    attempt: &DueAttempt,
                    wait_ms: i64,
                ) -> Result<(), StorageError> {
                    unit!(self, $transaction, async |conn| {
                        diesel::update(held(&attempt.key, &attempt.lease_token))
                            .set(idempotency_keys::recover_after_ms.eq(now_plus(wait_ms)))
                            .execute(conn)
                            .await?;
                        Ok(())
                    })
                }

                async fn forget_header_keys(
                    &self,
                    older_than_ms: i64,
                    limit: i64,
                ) -> Result<usize, StorageError> {
                    unit!(self, $transaction, async |conn| {
                        // In the words of the index `keys_from_headers`, without parameters, so that it serves.
                        let finished = || {
                            sql::<Bool>(
                                "key >= 'header:' AND key < 'header;' AND status <> 'in_progress'",
                            )
                        };
                        let old: Vec<String> = idempotency_keys::table
                            .filter(finished())
                            .filter(idempotency_keys::updated_at_ms.lt(moment(-older_than_ms)))
                            .order(idempotency_keys::updated_at_ms)
                            .limit(limit)
                            .select(idempotency_keys::key)
                            .load(conn)
                            .await?;
                        let rows = idempotency_keys::table
                            .filter(finished())
                            .filter(idempotency_keys::key.eq_any(old));
                        Ok(diesel::delete(rows).execute(conn).await?)
                    })
                }

                async fn backlog(&self) -> Result<Reading<Backlog>, StorageError> {
                    unit!(self, $transaction, async |conn| {
                        let (unsettled, oldest_unsettled_ms) = charges::table
                            .filter(charge_without_verdict())
                            .filter(charges::status.ne("needs_review"))
                            .select((count_star(), min(charges::created_at_ms)))
                            .first::<(i64, Option<i64>)>(conn)
                            .await?;
                        let (reviews, oldest_review_ms) = charges::table
                            .filter(charge_without_verdict())
                            .filter(charges::status.eq("needs_review"))
                            .select((count_star(), min(charges::created_at_ms)))
                            .first::<(i64, Option<i64>)>(conn)
                            .await?;
                        let (unsettled_refunds, oldest_unsettled_refund_ms) = refunds::table
                            .filter(refund_without_verdict())
                            .filter(refunds::status.ne("needs_review"))
                            .select((count_star(), min(refunds::created_at_ms)))
                            .first::<(i64, Option<i64>)>(conn)
                            .await?;
                        let (refund_reviews, oldest_refund_review_ms) = refunds::table
                            .filter(refund_without_verdict())
                            .filter(refunds::status.eq("needs_review"))
                            .select((count_star(), min(refunds::created_at_ms)))
                            .first::<(i64, Option<i64>)>(conn)
                            .await?;
                        let events = provider_events::table
                            .filter(pending_event())
                            .count()
                            .get_result::<i64>(conn)
                            .await?;
                        let now_ms = diesel::select(now()).get_result::<i64>(conn).await?;
                        Ok(Reading {
                            value: Backlog {
                                unsettled,
                                oldest_unsettled_ms,
                                reviews,
                                oldest_review_ms,
                                refunds: RefundBacklog {
                                    unsettled: unsettled_refunds,
                                    oldest_unsettled_ms: oldest_unsettled_refund_ms,
                                    reviews: refund_reviews,
                                    oldest_review_ms: oldest_refund_review_ms,
                                },
                                events,
                            },
                            now_ms,
                        })
                    })
                }
            }
        }
    };
}

recovery_statements!(PostgresStore, postgres, transaction);
recovery_statements!(SqliteStore, sqlite, immediate_transaction);
