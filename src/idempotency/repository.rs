//! The port under the reservations. Every method is one statement or one short transaction, guarded by its own
//! preconditions; what it could not do because somebody else was first it says by its result, not by an error.

use async_trait::async_trait;

use super::reservation::{Claim, Ending, Recovery, Reservation};
use crate::storage::StorageError;

/// A reservation with the database's time at which it was read (Unix milliseconds).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading<T> {
    /// What was read or written.
    pub value: T,
    /// The database's time at that moment.
    pub now_ms: i64,
}

/// A key to be reserved. The database adds the times.
#[derive(Debug, Clone)]
pub struct NewReservation {
    /// The key.
    pub key: String,
    /// The operation's name.
    pub operation: &'static str,
    /// The attempt's number, from 1.
    pub attempt: i32,
    /// Hash of what is asked for.
    pub fingerprint: String,
    /// The new owner's token.
    pub lease_token: String,
    /// How long the lease runs, in milliseconds.
    pub lease_ms: i64,
}

/// Storage of reservations.
#[async_trait]
pub trait IdempotencyRepository: Send + Sync {
    /// Reserves a key; `None` when it is there already.
    async fn reserve(
        &self,
        new: &NewReservation,
    ) -> Result<Option<Reading<Reservation>>, StorageError>;

    /// The reservation of a key, if there is one.
    async fn find_reservation(
        &self,
        key: &str,
    ) -> Result<Option<Reading<Reservation>>, StorageError>;

    /// Gives a reservation to a new owner: only if it is still in progress, still has the token that was read, its owner has
    /// not stopped since (`idle` is what was read), and the claim holds by the database's clock. `None` when one of these no
    /// longer does.
    ///
    /// With [`Recovery::Resend`] the time of the last send moves to now, before the send; the claim is then
    /// [`Claim::Expired`] whatever is given.
    async fn take_over(
        &self,
        expired: &Reservation,
        lease_token: &str,
        lease_ms: i64,
        recovery: Recovery,
        claim: Claim,
    ) -> Result<Option<Reading<Reservation>>, StorageError>;

    /// Ends a reservation that has no rows of its own beside it. False when the token no longer holds it.
    async fn settle(
        &self,
        key: &str,
        lease_token: &str,
        ending: &Ending,
    ) -> Result<bool, StorageError>;
}
