//! The history of attempts that did not go straight to their verdict.

macro_rules! evidence_statements {
    ($backend:ident) => {
        pub mod $backend {
            use diesel::prelude::*;
            use diesel_async::RunQueryDsl;

            use crate::charges::repository::Evidence;
            use crate::storage::StorageError;
            use crate::storage::rows::EvidenceRow;
            use crate::storage::schema::charge_evidence;
            use crate::storage::$backend::Connection;

            /// Adds lines, in their order.
            pub async fn add_evidence(
                conn: &mut Connection,
                charge_id: &str,
                lines: &[Evidence],
            ) -> Result<(), StorageError> {
                for line in lines {
                    diesel::insert_into(charge_evidence::table)
                        .values(&EvidenceRow::new(charge_id, line))
                        .execute(conn)
                        .await?;
                }
                Ok(())
            }

            /// All lines of a charge, oldest first.
            pub async fn evidence_of(
                conn: &mut Connection,
                charge_id: &str,
            ) -> Result<Vec<EvidenceRow>, StorageError> {
                Ok(charge_evidence::table
                    .filter(charge_evidence::charge_id.eq(charge_id))
                    .order(charge_evidence::id)
                    .select(EvidenceRow::as_select())
                    .load(conn)
                    .await?)
            }
        }
    };
}

evidence_statements!(postgres);
evidence_statements!(sqlite);
