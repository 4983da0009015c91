//! Which thread SQLite works on.
//!
//! SQLite works on the thread that calls it, and may wait there for the disk, so it is called on threads that nothing else waits for. To
//! hand over a statement and to be woken by its end costs more than most statements do. So a unit of work can be handed over
//! as a whole ([`on_one_thread`]): its statements then run at once, on the thread that has the unit already. Any other statement
//! is handed over by itself.

use std::cell::Cell;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use diesel_async::sync_connection_wrapper::SpawnBlocking;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle, block_in_place};
use tracing::Span;

use super::StorageError;

thread_local! {
    /// The end of the time of the unit that has this thread.
    static UNIT: Cell<Option<Instant>> = const { Cell::new(None) };
}

type Failure = Box<dyn Error + Send + Sync>;

/// Runs the statements of a connection: at once within a unit that has its thread, else on a thread of the runtime in which the
/// connection was opened.
pub struct Threads(Handle);

impl SpawnBlocking for Threads {
    fn spawn_blocking<'a, R>(
        &mut self,
        task: impl FnOnce() -> R + Send + 'static,
    ) -> BoxFuture<'a, Result<R, Failure>>
    where
        R: Send + 'static,
    {
        match UNIT.get() {
            // Whoever waited was told that there was no answer. What is yet to come, the commit above all, is not done behind
            // their back.
            Some(end) if Instant::now() >= end => ready(Err("no answer in time".into())).boxed(),
            Some(_) => ready(Ok(task())).boxed(),
            None => {
                let (handle, task) = (self.0.clone(), self.0.spawn_blocking(task));
                Away { handle, task }.map(|ended| Ok(ended?)).boxed()
            }
        }
    }

    fn get_runtime() -> Self {
        Self(Handle::current())
    }
}

/// A statement on another thread. Dropped before its end it waits for it: the connection is not free before.
struct Away<R> {
    handle: Handle,
    task: JoinHandle<R>,
}

impl<R> Future for Away<R> {
    type Output = Result<R, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll_unpin(context)
    }
}

impl<R> Drop for Away<R> {
    fn drop(&mut self) {
        if !self.task.is_finished() {
            // What came of it, nobody asks any more.
            drop(block_in_place(|| self.handle.block_on(&mut self.task)));
        }
    }
}

/// The thread belongs to a unit, until this is dropped: the runtime uses its threads again.
struct Held;

impl Held {
    fn until(end: Instant) -> Self {
        UNIT.set(Some(end));
        Self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        UNIT.set(None);
    }
}

/// Runs a unit of work from its beginning to its end on a thread of its own, and waits for it no longer than until `end`.
///
/// A thread cannot be called back, so the time is kept in two places. Whoever waits is told at `end` that there is no answer. The unit keeps what
/// it owns, its connection, until the statement that it is in has ended; the next one is refused, so that it ends there. A caller
/// that goes away before ends nothing. A panic of the unit is the caller's.
pub async fn on_one_thread<T, F, W>(end: Instant, unit: F) -> Result<T, StorageError>
where
    F: FnOnce() -> W + Send + 'static,
    W: Future<Output = Result<T, StorageError>>,
    T: Send + 'static,
{
    let span = Span::current();
    let work = move || {
        let _held = Held::until(end);
        span.in_scope(|| Handle::current().block_on(unit()))
    };
    let ended = tokio::time::timeout_at(end.into(), tokio::task::spawn_blocking(work)).await;
    match ended {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(StorageError::Unavailable(error.to_string())),
        },
        Err(_) => Err(StorageError::Unavailable("no answer in time".into())),
    }
}

/// Whether the current thread belongs to a unit.
#[cfg(test)]
pub fn is_of_a_unit() -> bool {
    UNIT.get().is_some()
}
