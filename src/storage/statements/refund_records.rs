//! What became of a refund: the key's row first, while the token holds it, then the charge's sum, then the refund's.

macro_rules! refund_record_statements {
    ($backend:ident) => {
        pub mod $backend {
            use diesel::prelude::*;
            use diesel_async::RunQueryDsl;

            use super::super::one_or_inconsistent;
            use super::super::records::$backend::{change_key, hold_unsent_key};
            use crate::charges::repository::AttemptRecord;
            use crate::refunds::model::Refund;
            use crate::storage::StorageError;
            use crate::storage::fragments::{now, undecided_refund};
            use crate::storage::refund_rows::RefundFailureColumns;
            use crate::storage::schema::{charges, refunds};
            use crate::storage::$backend::Connection;

            /// The first step of every record. All that follows is rolled back when the token does not hold the key.
            pub async fn take_refund_key(
                conn: &mut Connection,
                refund: &Refund,
                lease_token: &str,
                record: &AttemptRecord,
            ) -> Result<(), StorageError> {
                let key = refund.idempotency_key.as_str();
                if matches!(record, AttemptRecord::Released) {
                    hold_unsent_key(conn, key, lease_token).await?;
                    give_room_back(conn, refund).await?;
                    diesel::delete(undecided_refund(&refund.id))
                        .execute(conn)
                        .await?;
                }
                change_key(conn, key, lease_token, record).await
            }

            /// Locks the charge for the rest of the transaction: it comes before its refunds.
            pub async fn lock_charge(
                conn: &mut Connection,
                refund: &Refund,
            ) -> Result<(), StorageError> {
                let rows = diesel::update(charges::table.find(&refund.charge_id))
                    .set(charges::refunded_cents.eq(charges::refunded_cents))
                    .execute(conn)
                    .await?;
                one_or_inconsistent(rows, "the charge of a refund")
            }

            /// Lowers the sum of the charge's refunds by this one, which has come to nothing.
            pub async fn give_room_back(
                conn: &mut Connection,
                refund: &Refund,
            ) -> Result<(), StorageError> {
                let rows = diesel::update(charges::table.find(&refund.charge_id))
                    .set(charges::refunded_cents.eq(charges::refunded_cents - refund.amount_minor))
                    .execute(conn)
                    .await?;
                one_or_inconsistent(rows, "the charge of a refund")
            }

            /// The charge's and the refund's rows, once the key is held.
            pub async fn write_refund_record(
                conn: &mut Connection,
                refund: &Refund,
                record: &AttemptRecord,
            ) -> Result<(), StorageError> {
                let target = undecided_refund(&refund.id);
                let touched = refunds::updated_at_ms.eq(now());
                let or_known =
                    |id: &Option<String>| id.clone().or_else(|| refund.provider_refund_id.clone());
                let rows = match record {
                    AttemptRecord::Succeeded {
                        payment_id,
                        settled_at_ms,
                        ..
                    } => {
                        diesel::update(target)
                            .set((
                                refunds::status.eq("succeeded"),
                                refunds::provider_refund_id.eq(payment_id),
                                refunds::settled_at_ms.eq(settled_at_ms),
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
                        give_room_back(conn, refund).await?;
                        diesel::update(target)
                            .set((
                                refunds::status.eq("failed"),
                                refunds::provider_refund_id.eq(or_known(&failure.payment_id)),
                                refunds::settled_at_ms.eq(settled_at_ms),
                                RefundFailureColumns::from(failure),
                                touched,
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::Processing { payment_id, .. } => {
                        diesel::update(target)
                            .set((
                                refunds::status.eq("processing"),
                                refunds::provider_refund_id.eq(payment_id),
                                touched,
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::NeedsReview {
                        payment_id,
                        evidence,
                    } => {
                        diesel::update(target)
                            .set((
                                refunds::status.eq("needs_review"),
                                refunds::provider_refund_id.eq(or_known(payment_id)),
                                refunds::evidence.eq(evidence),
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
                        diesel::update(target)
                            .set((
                                refunds::provider_refund_id.eq(or_known(payment_id)),
                                refunds::evidence.eq(evidence),
                                touched,
                            ))
                            .execute(conn)
                            .await?
                    }
                    // Its row went with the key's.
                    AttemptRecord::Released => return Ok(()),
                };
                one_or_inconsistent(rows, "the refund of a held key")
            }
        }
    };
}

refund_record_statements!(postgres);
refund_record_statements!(sqlite);
