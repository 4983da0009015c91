//! Work that outlives its caller.
//!
//! actix-web drops a handler when its client resets the connection, and with it every future that the handler awaits.
//! So that nothing is ever cut off half way, all storage and provider work runs in tasks of its own on the runtime that
//! lives as long as the process; a handler only waits for the result. At the end the process waits for what still runs.
//!
//! A bound on requests must then bound such tasks, too, or callers who ask and hang up at once would begin work without end:
//! what a request waits for holds the request's place until it has ended, whoever still waits ([`holding`]).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::bound::Place;

tokio::task_local! {
    /// The place of the request that is served here. Like the span it goes along by itself: whoever adds a call to a handler
    /// cannot forget it.
    static HELD: Option<Arc<Place>>;
}

/// Serves a request that has a place: what it waits for by [`Tasks::run`] holds the place as well.
pub fn holding<F: Future>(
    place: Option<Arc<Place>>,
    serving: F,
) -> impl Future<Output = F::Output> {
    HELD.scope(place, serving)
}

/// The place of the request that is served here; for whoever serves the rest of it in a task that this module did not start.
pub fn held() -> Option<Arc<Place>> {
    HELD.try_with(Option::clone).ok().flatten()
}

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

    /// Starts a task in the current span. It holds no place of a request: it has a bound of its own.
    pub fn spawn<F>(&self, work: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn_on(work.in_current_span(), &self.runtime)
    }

    /// Starts work in a task; the returned future waits for it. Dropping that leaves the task alone, and with it the place of
    /// the request that it works for.
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
        let task = self.spawn(holding(held(), work));
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

/// So many tasks at once and no more, for callers who are answered whatever else goes on and so have no place among the
/// requests. Cheap to clone.
#[derive(Clone)]
pub struct FewTasks {
    tasks: Tasks,
    room: Arc<Semaphore>,
}

impl FewTasks {
    /// With all its room free.
    pub fn new(tasks: Tasks, most: usize) -> Self {
        Self {
            tasks,
            room: Arc::new(Semaphore::new(most)),
        }
    }

    /// As [`Tasks::run`], once there is room. Whoever hangs up before that has begun nothing: only connections can wait here, and
    /// those have a bound.
    ///
    /// # Errors
    /// As there.
    pub async fn run<F>(&self, work: F) -> Result<F::Output, TaskLost>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // Nobody ever closes it.
        let permit = Arc::clone(&self.room)
            .acquire_owned()
            .await
            .map_err(|_| TaskLost)?;
        let work = async move {
            let result = work.await;
            drop(permit);
            result
        };
        self.tasks.run(work).await
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;
    use crate::bound::Bound;

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

    #[tokio::test]
    async fn what_a_request_waits_for_holds_its_place_when_its_caller_is_gone() {
        let (requests, tasks) = (Bound::new(1), Tasks::new());
        let end = Arc::new(Notify::new());
        let place = requests.try_take().map(Arc::new);
        let (inner, told) = (tasks.clone(), Arc::clone(&end));
        let serving = holding(place, async {
            // A task within a task, as a look within a decision is.
            let work = async move {
                inner
                    .run(async move { told.notified().await })
                    .await
                    .is_ok()
            };
            tasks.run(work).await
        });
        let mut serving = Box::pin(serving);
        assert!(futures_util::poll!(&mut serving).is_pending());

        drop(serving);
        tokio::task::yield_now().await;

        assert!(requests.try_take().is_none());
        end.notify_one();
        assert_eq!(tasks.drain(Duration::from_secs(5)).await, 0);
        assert_eq!(requests.taken(), 0);
    }

    #[tokio::test]
    async fn what_has_a_bound_of_its_own_holds_no_place_and_neither_does_what_nobody_asked_for() {
        let (requests, tasks) = (Bound::new(1), Tasks::new());
        let end = Arc::new(Notify::new());
        let told = Arc::clone(&end);
        let place = requests.try_take().map(Arc::new);
        holding(place, async {
            let own = async move { told.notified().await };
            tasks.run(async { held().is_some() }).await.ok();
            drop(tasks.spawn(own));
        })
        .await;

        assert_eq!(requests.taken(), 0);
        assert!(held().is_none() && tasks.run(async { held().is_none() }).await.is_ok());
        end.notify_one();
        assert_eq!(tasks.drain(Duration::from_secs(5)).await, 0);
    }

    #[tokio::test]
    async fn few_tasks_are_few_however_many_ask_and_hang_up() {
        let tasks = Tasks::new();
        let few = FewTasks::new(tasks.clone(), 2);
        let end = Arc::new(Semaphore::new(0));
        for _ in 0..10 {
            let end = Arc::clone(&end);
            let mut asked = Box::pin(few.run(async move { end.acquire().await.is_ok() }));
            assert!(futures_util::poll!(&mut asked).is_pending());
        }
        assert_eq!(tasks.tracker.len(), 2);

        end.add_permits(2);

        assert_eq!(few.run(async { 7 }).await.ok(), Some(7));
        assert_eq!(tasks.drain(Duration::from_secs(5)).await, 0);
    }
}
