//! What became of an attempt: the key's row first, while the token holds it, then the invoice's and the charge's.

macro_rules! record_statements {
    ($backend:ident) => {
        pub mod $backend {
            use diesel::prelude::*;
            use diesel_async::RunQueryDsl;

            use super::super::keys::$backend::end_key;
            use super::super::{one_or_guard, one_or_inconsistent};
            use crate::charges::model::Charge;
            use crate::charges::repository::AttemptRecord;
            use crate::idempotency::reservation::{Ending, Recovery};
            use crate::storage::StorageError;
            use crate::storage::fragments::{Keep, held, now, now_plus, open_invoice, undecided};
            use crate::storage::rows::{FailureColumns, recovery_word};
            use crate::storage::schema::{charges, idempotency_keys, invoices};
            use crate::storage::$backend::Connection;

            /// The first step of every record: the key's row, while the token holds it. All that follows is rolled back
            /// when it does not.
            pub async fn take_key(
                conn: &mut Connection,
                charge: &Charge,
                lease_token: &str,
                record: &AttemptRecord,
            ) -> Result<(), StorageError> {
                let key = charge.idempotency_key.as_str();
                if matches!(record, AttemptRecord::Released) {
                    hold_unsent_key(conn, key, lease_token).await?;
                    diesel::delete(undecided(&charge.id)).execute(conn).await?;
                }
                change_key(conn, key, lease_token, record).await
            }

            /// Locks a key that its first owner gives back; one that was taken over may have been sent.
            pub async fn hold_unsent_key(
                conn: &mut Connection,
                key: &str,
                lease_token: &str,
            ) -> Result<(), StorageError> {
                let never_taken_over =
                    held(key, lease_token).filter(idempotency_keys::takeovers.eq(0));
                let rows = diesel::update(never_taken_over)
                    .set(idempotency_keys::updated_at_ms.eq(now()))
                    .execute(conn)
                    .await?;
                one_or_guard(rows)
            }

            /// What a record does to its key. One that is given back goes; no row may refer to it any more.
            pub async fn change_key(
                conn: &mut Connection,
                key: &str,
                lease_token: &str,
                record: &AttemptRecord,
            ) -> Result<(), StorageError> {
                let rows = match record {
                    AttemptRecord::Succeeded { response, .. } => {
                        end_key(conn, key, lease_token, &Ending::Done(response.clone())).await?
                    }
                    AttemptRecord::Failed { response, .. } => {
                        end_key(conn, key, lease_token, &Ending::Failed(response.clone())).await?
                    }
                    // Nobody works on it from now on.
                    AttemptRecord::Unknown {
                        recovery,
                        wait_ms,
                        unanswered_since_ms,
                        ..
                    } => {
                        diesel::update(held(key, lease_token))
                            .set((
                                idempotency_keys::unanswered_since_ms.eq(unanswered_since_ms),
                                idempotency_keys::recovery.eq(recovery_word(*recovery)),
                                idempotency_keys::idle.eq(true),
                                idempotency_keys::recover_after_ms.eq(now_plus(*wait_ms)),
                                idempotency_keys::updated_at_ms.eq(now()),
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::Processing { wait_ms, .. } => {
                        diesel::update(held(key, lease_token))
                            .set((
                                idempotency_keys::unanswered_since_ms.eq(None::<i64>),
                                idempotency_keys::recovery.eq(recovery_word(Recovery::LookUp)),
                                idempotency_keys::idle.eq(true),
                                idempotency_keys::recover_after_ms.eq(now_plus(*wait_ms)),
                                idempotency_keys::updated_at_ms.eq(now()),
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::NeedsReview { .. } => {
                        diesel::update(held(key, lease_token))
                            .set((
                                idempotency_keys::recovery.eq(recovery_word(Recovery::LookUp)),
                                idempotency_keys::idle.eq(true),
                                idempotency_keys::updated_at_ms.eq(now()),
                            ))
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::Released => {
                        diesel::delete(held(key, lease_token)).execute(conn).await?
                    }
                };
                one_or_guard(rows)
            }

            /// The charge's and the invoice's rows, once the key is held.
            pub async fn write_record(
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
                        let rows = diesel::update(open_invoice(&charge.invoice_id))
                            .set((
                                invoices::status.eq("paid"),
                                invoices::updated_at_ms.eq(now()),
                            ))
                            .kept()
                            .execute(conn)
                            .await?;
                        one_or_inconsistent(rows, "the invoice of a succeeded charge")?;
                        diesel::update(target)
                            .set((
                                charges::status.eq("succeeded"),
                                charges::provider_payment_id.eq(payment_id),
                                charges::settled_at_ms.eq(settled_at_ms),
                                touched,
                            ))
                            .kept()
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
                            .kept()
                            .execute(conn)
                            .await?
                    }
                    AttemptRecord::Processing { payment_id, .. } => {
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

record_statements!(postgres);
record_statements!(sqlite);
