//! Several attempts in one transaction: the only statements that differ between the two databases. What an attempt's outcome
//! means is said by the port's methods for one attempt; here it is reached with the least that the database needs.

pub mod postgres;
mod postgres_rows;
pub mod sqlite;

use diesel::result::{DatabaseErrorKind, Error as DieselError};

use crate::storage::StorageError;
use crate::together::NotTogether;

impl From<StorageError> for NotTogether {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Guard | StorageError::Inconsistent(_) => Self::Refused(error),
            StorageError::Unavailable(_) => Self::Failed(error),
        }
    }
}

impl From<DieselError> for NotTogether {
    /// What the server itself says was rolled back: a deadlock, a wait for a lock that took too long, a constraint. All else
    /// leaves open whether it was committed. Should a pooler say so of a commit that took place, nothing is lost either: alone, the
    /// attempt then finds its key taken, and the verdict its lease ended.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the enum is not ours and may grow; whatever is new fails closed"
    )]
    fn from(error: DieselError) -> Self {
        match &error {
            DieselError::DatabaseError(
                DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand,
                _,
            ) => Self::Failed(error.into()),
            DieselError::DatabaseError(_, _) => Self::Refused(error.into()),
            _ => StorageError::from(error).into(),
        }
    }
}
