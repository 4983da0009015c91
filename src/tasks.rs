//! Work that outlives its caller.
//!
//! actix-web drops a handler when its client resets the connection, and with it every future that the handler awaits.
//! So that nothing is ever cut off half way, all storage and provider work runs in tasks of its own on the runtime that
//! lives as long as the process; a handler only waits for the result. At the end the process waits for what still runs.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// The tracker of all such tasks. Cheap to clone.
#[derive(Clone)]
pub struct Tasks {
    runtime: Handle,
    tracker: TaskTracker,
    stopping: CancellationToken,
}

/// A task ended without a result: it panicked, or the process is ending.
#[derive(Debug, thiserror::Error)]
#[error("a task ended without a result")]
pub struct TaskLost;

impl Tasks {
    /// On the current runtime, which must outlive the HTTP server.
    pub fn new() -> Self {
        Self {
            runtime: Handle::current(),
            tracker: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }
    }

    /// Cancelled once the process is told to stop: whoever works by itself begins nothing new then.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Tells whoever works by itself that the process stops.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Starts a task in the current span.
    pub fn spawn<F>(&self, work: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn_on(work.in_current_span(), &self.runtime)
    }

    /// Starts work in a task; the returned future waits for it. Dropping that leaves the task alone.
    ///
    /// Not an `async fn`: whoever waits would then hold room for the work besides the task that does it, and thousands wait.
    pub fn run<F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<F::Output, TaskLost>> + Send + use<F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = self.spawn(work);
        async move {
            task.await.map_err(|error| {
                tracing::error!(%error, "a task ended without a result");
                TaskLost
            })
        }
    }

    /// Waits until all tasks have ended, but not longer than `grace`. The number of those that still run.
    pub async fn drain(&self, grace: Duration) -> usize {
        self.stop();
        self.tracker.close();
        match tokio::time::timeout(grace, self.tracker.wait()).await {
            Ok(()) => 0,
            Err(_) => self.tracker.len(),
        }
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_for_a_task_holds_no_room_for_its_work() {
        let work = async {
            let large = [1_u8; 100_000];
            tokio::task::yield_now().await;
            large.iter().map(|byte| u32::from(*byte)).sum::<u32>()
        };
        assert!(size_of_val(&work) >= 100_000);
        let waiting = Tasks::new().run(work);
        assert!(size_of_val(&waiting) < 200);
        assert_eq!(waiting.await.ok(), Some(100_000));
    }
}
