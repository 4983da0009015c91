//! What an agent's key spends in a day, under a lock that has parallel calls of one key wait for each other.

macro_rules! spending_statements {
    ($backend:ident) => {
        pub mod $backend {
            use diesel::dsl::sql;
            use diesel::prelude::*;
            use diesel::sql_types::BigInt;
            use diesel_async::RunQueryDsl;

            use crate::charges::repository::DayCap;
            use crate::storage::StorageError;
            use crate::storage::fragments::now;
            use crate::storage::schema::{agent_spending, charges};
            use crate::storage::$backend::Connection;

            /// Locks the key's row for the rest of the transaction. It is the first lock of its transaction, and no other kind
            /// of transaction takes it.
            pub async fn hold_spending(
                conn: &mut Connection,
                key_name: &str,
            ) -> Result<(), StorageError> {
                diesel::insert_into(agent_spending::table)
                    .values((
                        agent_spending::key_name.eq(key_name),
                        agent_spending::updated_at_ms.eq(now()),
                    ))
                    .on_conflict(agent_spending::key_name)
                    .do_update()
                    .set(agent_spending::updated_at_ms.eq(now()))
                    .execute(conn)
                    .await?;
                Ok(())
            }

            /// The sum of the attempts that the key began on the day and that have not failed. After [`hold_spending`] it
            /// sees all that was committed before: each statement has a snapshot of its own.
            pub async fn spent_under(
                conn: &mut Connection,
                cap: &DayCap,
            ) -> Result<i64, StorageError> {
                // PostgreSQL sums BIGINT up to NUMERIC.
                let sum = sql::<BigInt>("CAST(COALESCE(SUM(amount_cents), 0) AS BIGINT)");
                Ok(charges::table
                    .filter(charges::asked_key.eq(&cap.key_name))
                    .filter(charges::currency.eq(&cap.currency))
                    .filter(charges::created_at_ms.ge(cap.day.from_ms))
                    .filter(charges::created_at_ms.lt(cap.day.until_ms))
                    .filter(charges::status.ne("failed"))
                    .select(sum)
                    .get_result(conn)
                    .await?)
            }
        }
    };
}

spending_statements!(postgres);
spending_statements!(sqlite);
