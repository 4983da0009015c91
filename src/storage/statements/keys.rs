//! Reservations: the key's row and its lease.

macro_rules! key_statements {
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

            use super::super::Lent;
            use crate::idempotency::repository::{IdempotencyRepository, NewReservation, Reading};
            use crate::idempotency::reservation::{
                Claim, Ending, Recovery, Reservation, StoredResponse,
            };
            use crate::storage::StorageError;
            use crate::storage::fragments::{Keep, held, now, now_plus};
            use crate::storage::rows::{KeyRow, recovery_word};
            use crate::storage::schema::idempotency_keys;
            use crate::storage::$backend::{Connection, $store};

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
                    let row = look!(self, $transaction, async |conn| {
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
                    claim: Claim,
                ) -> Result<Option<Reading<Reservation>>, StorageError> {
                    let idle_too = match (recovery, claim) {
                        (Recovery::LookUp, Claim::ExpiredOrIdle) => true,
                        (Recovery::LookUp, Claim::Expired) | (Recovery::Resend, _) => false,
                    };
                    let row = unit!(self, $transaction, async |conn| {
                        let is_idle = idempotency_keys::idle
                            .eq(true)
                            .and(idle_too.into_sql::<Bool>());
                        // Within one token's time an owner stops working once: what was read before that is too old to
                        // decide on, for a verdict or a review may stand there now.
                        let target = held(&expired.key, &expired.lease_token)
                            .filter(idempotency_keys::idle.eq(expired.idle))
                            .filter(idempotency_keys::lease_expires_at_ms.le(now()).or(is_idle));
                        let lease = (
                            idempotency_keys::lease_token.eq(lease_token),
                            idempotency_keys::lease_expires_at_ms.eq(now_plus(lease_ms)),
                            idempotency_keys::takeovers.eq(idempotency_keys::takeovers + 1),
                            idempotency_keys::idle.eq(false),
                            idempotency_keys::recover_after_ms.eq(0),
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

            fn reading((row, now_ms): (KeyRow, i64)) -> Result<Reading<Reservation>, StorageError> {
                Ok(Reading {
                    value: row.try_into()?,
                    now_ms,
                })
            }

            pub async fn insert_key(
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
                        idempotency_keys::idle.eq(false),
                        idempotency_keys::recover_after_ms.eq(0),
                        idempotency_keys::unanswered_since_ms.eq(None::<i64>),
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
            pub async fn finish_new_key(
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
                        idempotency_keys::idle.eq(false),
                        idempotency_keys::recover_after_ms.eq(0),
                        idempotency_keys::unanswered_since_ms.eq(None::<i64>),
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
            pub async fn end_key(
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
                    .kept()
                    .execute(conn)
                    .await?)
            }
        }
    };
}

key_statements!(PostgresStore, postgres, transaction);
key_statements!(SqliteStore, sqlite, immediate_transaction);
