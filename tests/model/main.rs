//! The whole charge flow as a model, explored to the last reachable state.
//!
//! An invoice; callers that call again and again; workers, one of which may be an old slow one; the reconciler; the provider,
//! which forgets keys and executes late; its webhooks. Anybody may crash at any step, answers get lost, requests arrive
//! after their worker is gone, leases run out before and after the key's window. After each step the promises must hold:
//! one successful payment at most, no answer that lies, no payment unrecorded for ever, no invoice stuck for ever.
//!
//! What is decided is decided by production's own functions, on production's own values: `next_step`, `decide`, `first_move`,
//! `settles_before_sending`, `after_send`, `after_look_up`, `after_cancel`, `after_unknown`, `all_sends_are_old`, `recovery_of`,
//! `outlook`, `HeldLease`. What the model has of its own is what these functions are told and what is done with their word: the
//! storage's guarded updates (`store`), the order of a worker's steps (`worker`), the provider (`provider`), `time`.
//!
//! Read in this order: `setting` (what is assumed and bounded), `state`, `flow` (the steps), `properties`, `fair` (how a promise
//! about the future is checked), `scenes` (they hold), `mutations` (and do not without each of the protections).
//!
//! Not in the model: void invoices and changed payment methods, an operator's verdict, keys that were used for another request,
//! answers about other amounts, a store that is away. Tests against the real stores have these.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and speaks on the terminal"
)]

mod caller;
mod checks;
mod fair;
mod flow;
mod mutations;
mod normal;
mod properties;
mod provider;
mod real;
mod scenes;
mod setting;
mod state;
mod store;
mod time;
mod worker;
