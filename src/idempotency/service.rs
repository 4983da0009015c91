//! Runs an operation once for a key that a caller sent: reserve, on conflict read, decide, act, settle.
//!
//! Operations with a natural key of their own (a charge) bring their own reservation, because rows of theirs are
//! written in the same transaction; they share everything else of this module.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::decision::{Decision, decide};
use super::repository::{IdempotencyRepository, NewReservation, Reading};
use super::reservation::{
    Claim, Ending, Recovery, Reservation, StoredResponse, millis, new_lease_token,
};
use crate::storage::StorageError;

/// How often a lost race is looked at again before the caller is told that the key is in use.
const ROUNDS_MAX: usize = 4;

/// The lease of an action that lives in our own database; far longer than such an action takes.
const LEASE: Duration = Duration::from_secs(60);

/// What to run under a key, and what it is asked to do.
#[derive(Debug, Clone)]
pub struct KeyedRequest {
    /// The row's key; see [`HeaderKey::scoped`](super::key::HeaderKey::scoped).
    pub key: String,
    /// The operation's name.
    pub operation: &'static str,
    /// Hash of the content.
    pub fingerprint: String,
}

/// The right to act under a key, handed to the action.
#[derive(Debug, Clone)]
pub struct HeldKey {
    /// The row's key.
    pub key: String,
    /// The token that every write of the action must be guarded by.
    pub lease_token: String,
}

/// What an action has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acted {
    /// It settled the key in the same transaction as its own rows. The best way: nothing can come between.
    Settled(StoredResponse),
    /// It was done before under another key, with this answer; the service settles this key with the same.
    DoneBefore(StoredResponse),
    /// It changed nothing that could be done twice; the service settles the key with this.
    Ended(Ending),
    /// It found that the lease is not its own any more, and changed nothing.
    LeaseLost,
}

/// An action that runs under a key. It may run again after a crash, so all that it does must be guarded by the key's
/// lease token or be safe to repeat.
#[async_trait]
pub trait KeyedAction: Send + Sync {
    /// Acts once.
    async fn act(&self, held: &HeldKey) -> Result<Acted, StorageError>;
}

/// An answer, and whether it is a repetition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The answer.
    pub response: StoredResponse,
    /// True when it was given before.
    pub replayed: bool,
}

/// Why a keyed request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum KeyedError {
    /// The key was used with other content.
    #[error("the key was used for another request")]
    Reused,
    /// The first request with the key still runs.
    #[error("a request with this key is still running")]
    InUse {
        /// Milliseconds after which it is worth asking again.
        retry_after_ms: i64,
    },
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// The general part: any operation, one run for a key.
#[derive(Clone)]
pub struct IdempotencyService {
    repository: Arc<dyn IdempotencyRepository>,
}

impl IdempotencyService {
    /// Over a repository.
    pub fn new(repository: Arc<dyn IdempotencyRepository>) -> Self {
        Self { repository }
    }

    /// Runs `action` under the request's key, or repeats the answer that the key already has.
    pub async fn run(
        &self,
        request: &KeyedRequest,
        action: &dyn KeyedAction,
    ) -> Result<Answered, KeyedError> {
        let mut lease_left_ms = millis(LEASE);
        for _ in 0..ROUNDS_MAX {
            let existing = self.repository.find_reservation(&request.key).await?;
            let now_ms = existing.as_ref().map_or(0, |reading| reading.now_ms);
            let existing = existing.map(|reading| reading.value);
            let held = match decide(existing.as_ref(), &request.fingerprint, now_ms, None) {
                Decision::Mismatch => return Err(KeyedError::Reused),
                Decision::Replay(response) | Decision::Failed(response) => {
                    return Ok(Answered {
                        response: response.clone(),
                        replayed: true,
                    });
                }
                Decision::InProgress {
                    lease_left_ms: left,
                } => {
                    lease_left_ms = left;
                    break;
                }
                Decision::Reserve => self.reserve(request).await?,
                Decision::TakeOver(recovery) => self.take_over(existing.as_ref(), recovery).await?,
            };
            let Some(held) = held else { continue };
            let (ending, replayed) = match action.act(&held).await? {
                Acted::Settled(response) => {
                    return Ok(Answered {
                        response,
                        replayed: false,
                    });
                }
                Acted::DoneBefore(response) => (Ending::Done(response), true),
                Acted::Ended(ending) => (ending, false),
                Acted::LeaseLost => continue,
            };
            let settled = self
                .repository
                .settle(&held.key, &held.lease_token, &ending)
                .await?;
            if settled {
                return Ok(Answered {
                    response: ending.response().clone(),
                    replayed,
                });
            }
        }
        Err(KeyedError::InUse {
            retry_after_ms: lease_left_ms.clamp(1, 1_000),
        })
    }

    async fn reserve(&self, request: &KeyedRequest) -> Result<Option<HeldKey>, StorageError> {
        let won = self
            .repository
            .reserve(&NewReservation {
                key: request.key.clone(),
                operation: request.operation,
                attempt: 1,
                fingerprint: request.fingerprint.clone(),
                lease_token: new_lease_token(),
                lease_ms: millis(LEASE),
            })
            .await?;
        Ok(won.map(held))
    }

    async fn take_over(
        &self,
        expired: Option<&Reservation>,
        recovery: Recovery,
    ) -> Result<Option<HeldKey>, StorageError> {
        let Some(expired) = expired else {
            return Ok(None);
        };
        let won = self
            .repository
            .take_over(
                expired,
                &new_lease_token(),
                millis(LEASE),
                recovery,
                Claim::Expired,
            )
            .await?;
        Ok(won.map(held))
    }
}

fn held(reading: Reading<Reservation>) -> HeldKey {
    HeldKey {
        key: reading.value.key,
        lease_token: reading.value.lease_token,
    }
}
