//! Doing together what waits together: looks as well as writes, though this file speaks of writes.
//!
//! A commit costs the database one flush of its log, whether it holds one row or sixty. So what arrives while a write is under
//! way is gathered and goes into the next one. Nothing waits for company: an item that finds nobody writing is written at once.
//! Each item still has an outcome of its own, and a write that the database refused as a whole is made item by item.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::storage::StorageError;

/// Items in one write at most: what a transaction holds locks on, and what is made one by one where it was refused.
const ITEMS_MAX: usize = 64;

/// A write that takes longer than this, behind a lock or a stuck disk, no longer holds up those behind it.
const PATIENCE: Duration = Duration::from_millis(25);

/// Why several items were not written together.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotTogether {
    /// The store refused the write as a whole and took all of it back: each item alone may do better.
    #[error("refused as a whole: {0}")]
    Refused(StorageError),
    /// The store failed. Whether the write took place is not known.
    #[error(transparent)]
    Failed(StorageError),
}

/// How one kind of item is written.
#[async_trait]
pub trait Batched: Send + Sync + 'static {
    /// What is written.
    type Item: Send + Sync + 'static;
    /// What comes of it.
    type Outcome: Send + 'static;

    /// Writes all of them in one transaction; the outcomes in the order of the items.
    async fn run_together(
        &self,
        items: &[Arc<Self::Item>],
    ) -> Result<Vec<Self::Outcome>, NotTogether>;

    /// Writes one in a transaction of its own.
    async fn run_alone(&self, item: &Self::Item) -> Result<Self::Outcome, StorageError>;
}

type Result1<W> = Result<<W as Batched>::Outcome, StorageError>;

struct Waiting<W: Batched> {
    item: Arc<W::Item>,
    outcome: oneshot::Sender<Result1<W>>,
}

/// The queue before one kind of write.
///
/// An item that finds nobody writing is written by its caller's own task: no other has to be woken for it. What came meanwhile is
/// then written by a task of the queue's.
pub struct Together<W: Batched>(Arc<Shared<W>>);

struct Shared<W: Batched> {
    write: W,
    queue: Mutex<Queue<W>>,
    runtime: Handle,
}

struct Queue<W: Batched> {
    /// True while somebody writes who will look at the queue afterwards.
    busy: bool,
    waiting: VecDeque<Waiting<W>>,
}

impl<W: Batched> Together<W> {
    /// Without anything to write yet. To be made on the runtime that lives as long as the process.
    pub fn new(write: W) -> Self {
        Self(Arc::new(Shared {
            write,
            queue: Mutex::new(Queue {
                busy: false,
                waiting: VecDeque::new(),
            }),
            runtime: Handle::current(),
        }))
    }

    /// Writes an item, together with those that wait at the same time.
    pub async fn run(&self, item: Arc<W::Item>) -> Result1<W> {
        let written = {
            let mut queue = self.0.queue();
            if queue.busy {
                let (outcome, written) = oneshot::channel();
                let item = Arc::clone(&item);
                queue.waiting.push_back(Waiting { item, outcome });
                Some(written)
            } else {
                queue.busy = true;
                None
            }
        };
        match written {
            Some(written) => written.await.map_err(|_| gone())?,
            None => self.write_first(item).await,
        }
    }

    async fn write_first(&self, item: Arc<W::Item>) -> Result1<W> {
        let turn = Turn(Arc::clone(&self.0));
        let write = AssertUnwindSafe(write_one(&self.0.write, &item)).catch_unwind();
        let mut write = pin!(write);
        let outcome = tokio::time::timeout(PATIENCE, &mut write).await;
        drop(turn);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(_) => write.await,
        };
        outcome.unwrap_or_else(|_panic| Err(gone()))
    }
}

fn gone() -> StorageError {
    StorageError::Unavailable("the write ended without an outcome".into())
}

/// The turn of a caller that writes its own item. However it ends, by a panic or because nobody waits for it any more, what waits
/// behind it goes on.
struct Turn<W: Batched>(Arc<Shared<W>>);

impl<W: Batched> Drop for Turn<W> {
    fn drop(&mut self) {
        if let Some(batch) = self.0.next() {
            self.0.runtime.spawn(serve(Arc::clone(&self.0), batch));
        }
    }
}

impl<W: Batched> Shared<W> {
    fn queue(&self) -> MutexGuard<'_, Queue<W>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be written next; with `None` the next caller writes its own.
    fn next(&self) -> Option<Vec<Waiting<W>>> {
        let mut queue = self.queue();
        let items = queue.waiting.len().min(ITEMS_MAX);
        queue.busy = items > 0;
        queue.busy.then(|| queue.waiting.drain(..items).collect())
    }
}

async fn serve<W: Batched>(shared: Arc<Shared<W>>, first: Vec<Waiting<W>>) {
    let mut next = Some(first);
    while let Some(batch) = next {
        // In a task of its own: a panic in it ends it and not the queue, and the next one need not wait for its end.
        let writing = tokio::spawn(write_all(Arc::clone(&shared), batch));
        if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, writing).await {
            tracing::error!(%error, "a write ended without an outcome");
        }
        next = shared.next();
    }
}

async fn write_one<W: Batched>(write: &W, item: &Arc<W::Item>) -> Result1<W> {
    match write.run_together(std::slice::from_ref(item)).await {
        Ok(mut outcomes) if outcomes.len() == 1 => outcomes.pop().ok_or_else(gone),
        Ok(outcomes) => Err(unmatched(outcomes.len(), 1)),
        Err(NotTogether::Refused(_)) => write.run_alone(item).await,
        Err(NotTogether::Failed(error)) => Err(error),
    }
}

fn unmatched(told: usize, asked: usize) -> StorageError {
    StorageError::Inconsistent(format!("{told} outcomes of {asked} items"))
}

async fn write_all<W: Batched>(shared: Arc<Shared<W>>, batch: Vec<Waiting<W>>) {
    let write = &shared.write;
    let items: Vec<_> = batch.iter().map(|one| Arc::clone(&one.item)).collect();
    match write.run_together(&items).await {
        Ok(outcomes) if outcomes.len() == batch.len() => {
            for (one, outcome) in batch.into_iter().zip(outcomes) {
                tell::<W>(one.outcome, Ok(outcome));
            }
        }
        Ok(outcomes) => {
            let error = unmatched(outcomes.len(), batch.len());
            fail(batch, &error);
        }
        Err(NotTogether::Refused(why)) => {
            tracing::debug!(%why, items = batch.len(), "written one by one");
            let alone = |one: Waiting<W>| async {
                let Waiting { item, outcome } = one;
                tell::<W>(outcome, write.run_alone(&item).await);
            };
            join_all(batch.into_iter().map(alone)).await;
        }
        Err(NotTogether::Failed(error)) => fail(batch, &error),
    }
}

fn fail<W: Batched>(batch: Vec<Waiting<W>>, error: &StorageError) {
    for one in batch {
        tell::<W>(one.outcome, Err(error.clone()));
    }
}

/// Whoever waits no more does not miss it: what was written is in the store.
fn tell<W: Batched>(to: oneshot::Sender<Result1<W>>, outcome: Result1<W>) {
    drop(to.send(outcome));
}

#[cfg(test)]
mod tests;
