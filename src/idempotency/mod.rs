//! Idempotency: an operation with a side effect runs once for its key, however often it is asked for.
//!
//! The words are those of the IETF draft "The Idempotency-Key HTTP Header Field": an *idempotency key* names the
//! operation, a *fingerprint* is a hash of what it was asked to do. Ours are added: a *reservation* is the key's row,
//! a *lease* is the right to work on it for a while, and its *lease token* fences off whoever held it before.
//!
//! ```text
//!             reserve                       settle (guarded by the lease token)
//!   (no row) ---------> in_progress -------------------------------------------> done | failed
//!                        |      ^
//!                        |      |  take over: only once the lease is past, by one guarded update that
//!                        +------+  gives it a new token; the old owner's writes then change no row
//! ```
//!
//! `done` and `failed` are final and carry the answer: for ever under a natural key, until IDEMPOTENCY_KEY_RETENTION is over under one
//! from a header. *Expired* is never stored: it is `in_progress` with a lease
//! in the past, by the database's clock.
//!
//! Start with [`decision`]: what a reservation that is already there means for a caller, as a pure function.
pub mod decision;
pub mod fingerprint;
pub mod key;
pub mod repository;
pub mod reservation;
pub mod running;
pub mod service;
