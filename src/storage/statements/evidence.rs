//! The history of attempts that did not go straight to their verdict.

macro_rules! evidence_statements {
    ($backend:ident) => {
        pub mod $backend {
            use diesel::prelude::*;
            use diesel_async::RunQueryDsl;

            use crate::charges::repository::Evidence;
            use crate::storage::StorageError;
            use crate::storage::evidence_rows::{EvidenceRow, RefundEvidenceRow};
            use crate::storage::schema::{charge_evidence, refund_evidence};
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

            /// The same for a refund.
            pub async fn add_refund_evidence(
                conn: &mut Connection,
                refund_id: &str,
                lines: &[Evidence],
            ) -> Result<(), StorageError> {
                for line in lines {
                    diesel::insert_into(refund_evidence::table)
                        .values(&RefundEvidenceRow::new(refund_id, line))
                        .execute(conn)
                        .await?;
                }
                Ok(())
            }

            /// All lines of a refund, oldest first.
            pub async fn evidence_of_refund(
                conn: &mut Connection,
                refund_id: &str,
            ) -> Result<Vec<RefundEvidenceRow>, StorageError> {
                Ok(refund_evidence::table
                    .filter(refund_evidence::refund_id.eq(refund_id))
                    .order(refund_evidence::id)
                    .select(RefundEvidenceRow::as_select())
                    .load(conn)
                    .await?)
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
