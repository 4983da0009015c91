//! What the provider told by webhook.

/// How many events are forgotten at a time, so that one unit of work stays short after months without any.
const FORGOTTEN_AT_A_TIME: i64 = 500;

/// Outcomes after which a repeated delivery is worth another look: the cause may have been mended meanwhile.
const REOPENED: [&str; 5] = [
    "unknown_payment",
    "unknown_invoice",
    "another_provider",
    "contradiction",
    "not_asked",
];

macro_rules! event_statements {
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
            use super::{FORGOTTEN_AT_A_TIME, REOPENED};
            use crate::storage::StorageError;
            use crate::storage::fragments::{
                claimed_event, moment, now, now_plus, open_event, pending_event,
            };
            use crate::storage::schema::provider_events;
            use crate::storage::$backend::$store;
            use crate::webhooks::model::{ClaimedEvent, ProviderEvent};
            use crate::webhooks::repository::EventRepository;

            #[async_trait]
            impl EventRepository for $store {
                async fn store_event(&self, event: &ProviderEvent) -> Result<bool, StorageError> {
                    let rows = unit!(self, $transaction, async |conn| {
                        Ok::<_, StorageError>(
                            diesel::insert_into(provider_events::table)
                                .values((
                                    provider_events::id.eq(&event.id),
                                    provider_events::kind.eq(&event.kind),
                                    provider_events::payment_id.eq(&event.payment_id),
                                    provider_events::created_at_ms.eq(event.created_at_ms),
                                    provider_events::received_at_ms.eq(now()),
                                    provider_events::status.eq("pending"),
                                    provider_events::tries.eq(0),
                                    provider_events::next_try_at_ms.eq(now()),
                                    provider_events::updated_at_ms.eq(now()),
                                ))
                                .on_conflict(provider_events::id)
                                .do_nothing()
                                .execute(conn)
                                .await?,
                        )
                    })?;
                    Ok(rows == 1)
                }

                async fn claim_event(
                    &self,
                    id: &str,
                    lease_ms: i64,
                ) -> Result<Option<ClaimedEvent>, StorageError> {
                    let row = unit!(self, $transaction, async |conn| {
                        let due =
                            open_event(id).filter(provider_events::next_try_at_ms.le(moment(0)));
                        Ok::<_, StorageError>(
                            diesel::update(due)
                                .set((
                                    provider_events::tries.eq(provider_events::tries + 1),
                                    provider_events::next_try_at_ms.eq(now_plus(lease_ms)),
                                    provider_events::updated_at_ms.eq(now()),
                                ))
                                .returning((
                                    provider_events::kind,
                                    provider_events::payment_id,
                                    provider_events::tries,
                                    now() - provider_events::received_at_ms,
                                ))
                                .get_result::<(String, String, i32, i64)>(conn)
                                .await
                                .optional()?,
                        )
                    })?;
                    Ok(row.map(|(kind, payment_id, tries, age_ms)| ClaimedEvent {
                        id: id.to_owned(),
                        kind,
                        payment_id,
                        tries: tries - 1,
                        age_ms,
                    }))
                }

                async fn due_events(&self, limit: i64) -> Result<Vec<String>, StorageError> {
                    unit!(self, $transaction, async |conn| {
                        Ok(provider_events::table
                            .filter(pending_event())
                            .filter(provider_events::next_try_at_ms.le(moment(0)))
                            .order((provider_events::next_try_at_ms, provider_events::id))
                            .limit(limit)
                            .select(provider_events::id)
                            .load::<String>(conn)
                            .await?)
                    })
                }

                async fn reopen_event(&self, id: &str) -> Result<bool, StorageError> {
                    let rows = unit!(self, $transaction, async |conn| {
                        let came_to_nothing = provider_events::table
                            .filter(provider_events::id.eq(id))
                            .filter(provider_events::outcome.eq_any(REOPENED));
                        Ok::<_, StorageError>(
                            diesel::update(came_to_nothing)
                                .set((
                                    provider_events::status.eq("pending"),
                                    provider_events::outcome.eq(None::<String>),
                                    provider_events::received_at_ms.eq(now()),
                                    provider_events::next_try_at_ms.eq(now()),
                                    provider_events::updated_at_ms.eq(now()),
                                ))
                                .execute(conn)
                                .await?,
                        )
                    })?;
                    Ok(rows == 1)
                }

                async fn end_event(
                    &self,
                    event: &ClaimedEvent,
                    outcome: &str,
                ) -> Result<(), StorageError> {
                    unit!(self, $transaction, async |conn| {
                        diesel::update(claimed_event(&event.id, event.tries + 1))
                            .set((
                                provider_events::status.eq("done"),
                                provider_events::outcome.eq(outcome),
                                provider_events::updated_at_ms.eq(now()),
                            ))
                            .execute(conn)
                            .await?;
                        Ok(())
                    })
                }

                async fn put_off_event(
                    &self,
                    event: &ClaimedEvent,
                    wait_ms: i64,
                ) -> Result<(), StorageError> {
                    unit!(self, $transaction, async |conn| {
                        diesel::update(claimed_event(&event.id, event.tries + 1))
                            .set((
                                provider_events::next_try_at_ms.eq(now_plus(wait_ms)),
                                provider_events::updated_at_ms.eq(now()),
                            ))
                            .execute(conn)
                            .await?;
                        Ok(())
                    })
                }

                async fn forget_events(&self, older_than_ms: i64) -> Result<usize, StorageError> {
                    unit!(self, $transaction, async |conn| {
                        let old: Vec<String> = provider_events::table
                            .filter(provider_events::status.eq("done"))
                            .filter(provider_events::received_at_ms.lt(moment(-older_than_ms)))
                            .order(provider_events::received_at_ms)
                            .limit(FORGOTTEN_AT_A_TIME)
                            .select(provider_events::id)
                            .load(conn)
                            .await?;
                        Ok(diesel::delete(
                            provider_events::table
                                .filter(provider_events::id.eq_any(old))
                                .filter(provider_events::status.eq("done")),
                        )
                        .execute(conn)
                        .await?)
                    })
                }
            }
        }
    };
}

event_statements!(PostgresStore, postgres, transaction);
event_statements!(SqliteStore, sqlite, immediate_transaction);
