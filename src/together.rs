//! Writing together what waits together.
//!
//! A commit costs the database one flush of its log, whether it holds one row or sixty. So what arrives while a write is under
//! way is gathered and goes into the next one. Nothing waits for company: an item that finds nobody writing is written at once.
//! Each item still has an outcome of its own, and a write that the database refused as a whole is made item by item.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};

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
pub struct Together<W: Batched> {
    queue: mpsc::UnboundedSender<Waiting<W>>,
}

impl<W: Batched> Together<W> {
    /// Begins to serve the queue, on the current runtime, until it is dropped.
    pub fn new(write: W) -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        tokio::spawn(serve(Arc::new(write), waiting));
        Self { queue }
    }

    /// Writes an item, together with those that wait at the same time.
    pub async fn run(&self, item: Arc<W::Item>) -> Result1<W> {
        let gone = || StorageError::Unavailable("the write ended without an outcome".into());
        let (outcome, written) = oneshot::channel();
        self.queue
            .send(Waiting { item, outcome })
            .map_err(|_| gone())?;
        written.await.map_err(|_| gone())?
    }
}

async fn serve<W: Batched>(write: Arc<W>, mut queue: mpsc::UnboundedReceiver<Waiting<W>>) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, ITEMS_MAX).await > 0 {
        // In a task of its own: a panic in it ends it and not the queue, and the next one need not wait for its end.
        let writing = tokio::spawn(write_all(Arc::clone(&write), std::mem::take(&mut batch)));
        if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, writing).await {
            tracing::error!(%error, "a write ended without an outcome");
        }
    }
}

async fn write_all<W: Batched>(write: Arc<W>, batch: Vec<Waiting<W>>) {
    let items: Vec<_> = batch.iter().map(|one| Arc::clone(&one.item)).collect();
    match write.run_together(&items).await {
        Ok(outcomes) if outcomes.len() == batch.len() => {
            for (one, outcome) in batch.into_iter().zip(outcomes) {
                tell::<W>(one.outcome, Ok(outcome));
            }
        }
        Ok(outcomes) => {
            let (told, asked) = (outcomes.len(), batch.len());
            let what = format!("{told} outcomes of {asked} items");
            fail(batch, &StorageError::Inconsistent(what));
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
