//! What can go wrong with the store. A missing row is never an error here, and an error is never a missing row.

use diesel::result::{DatabaseErrorKind, Error as DieselError};

/// A storage call failed. Whether its write took place is not known unless the method says so.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StorageError {
    /// The store cannot be reached, did not answer in time, is full or read-only. Worth trying again later.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The store holds or was given something that must not be: a defect, not a circumstance.
    #[error("the store is inconsistent: {0}")]
    Inconsistent(String),
    /// A guard inside a transaction did not hold, and the transaction was rolled back. Never leaves the adapters.
    #[error("a guard did not hold")]
    Guard,
}

impl From<DieselError> for StorageError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the enum is not ours and may grow; whatever is new fails closed"
    )]
    fn from(error: DieselError) -> Self {
        match &error {
            DieselError::DatabaseError(
                DatabaseErrorKind::UniqueViolation
                | DatabaseErrorKind::ForeignKeyViolation
                | DatabaseErrorKind::NotNullViolation
                | DatabaseErrorKind::CheckViolation
                | DatabaseErrorKind::RestrictViolation
                | DatabaseErrorKind::ExclusionViolation,
                _,
            )
            | DieselError::NotFound
            | DieselError::DeserializationError(_)
            | DieselError::SerializationError(_)
            | DieselError::QueryBuilderError(_) => Self::Inconsistent(error.to_string()),
            // All else fails closed: a full disk, a read-only replica, a timeout, a cut connection.
            _ => Self::Unavailable(error.to_string()),
        }
    }
}
