//! The operations that this process is working on, so that whoever asks for one of them can wait for it without a query.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::RngExt;
use tokio::sync::watch;

/// How whoever waits for another process's work asks the store: first after this long, then after longer, up to the longest.
const POLL_FIRST: Duration = Duration::from_millis(100);
const POLL_LONGEST: Duration = Duration::from_secs(1);

/// How long a caller waits for a result.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// The caller's own wish (`Prefer: wait=N`). With it, a call that meets a running operation waits for its result.
    pub preferred: Option<Duration>,
}

impl Wait {
    /// How long the caller is kept at most, where nobody is kept longer than `most`.
    pub fn patience(self, most: Duration) -> Duration {
        self.preferred.map_or(most, |preferred| preferred.min(most))
    }
}

type Slot<R> = watch::Receiver<Option<R>>;

/// The running operations by name: charges by invoice, refunds by what they give back. `R` is what who waits is told. Cheap
/// to clone.
pub struct Running<R> {
    slots: Arc<Mutex<HashMap<String, Slot<R>>>>,
}

impl<R> Default for Running<R> {
    fn default() -> Self {
        Self {
            slots: Arc::default(),
        }
    }
}

/// One running operation. While it lives, others find it; its result goes to all who wait.
pub struct Entry<R> {
    running: Running<R>,
    name: String,
    sender: watch::Sender<Option<R>>,
}

impl<R> Running<R> {
    /// Enters an operation that this process has just reserved or taken over.
    pub fn enter(&self, name: &str) -> (Entry<R>, Waiting<R>) {
        let (sender, receiver) = watch::channel(None);
        self.lock().insert(name.to_owned(), receiver.clone());
        let entry = Entry {
            running: Self {
                slots: Arc::clone(&self.slots),
            },
            name: name.to_owned(),
            sender,
        };
        (entry, Waiting(receiver))
    }

    /// The running operation of that name, if this process has one.
    pub fn find(&self, name: &str) -> Option<Waiting<R>> {
        self.lock().get(name).cloned().map(Waiting)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// The map stays sound whatever a panicking thread did: every change is one call.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Slot<R>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Entry<R> {
    /// Ends it: first nobody new finds it, then everybody who waits gets the result.
    pub fn finish(self, result: R) {
        let sender = self.sender.clone();
        drop(self);
        sender.send_replace(Some(result));
    }
}

impl<R> Drop for Entry<R> {
    fn drop(&mut self) {
        let mut slots = self.running.lock();
        // A takeover may have put another one in its place.
        if slots
            .get(&self.name)
            .is_some_and(|slot| slot.same_channel(&self.sender.subscribe()))
        {
            slots.remove(&self.name);
        }
    }
}

/// The right to wait for a running operation.
pub struct Waiting<R>(Slot<R>);

impl<R: Clone> Waiting<R> {
    /// Its result; `None` when the work ended without one.
    pub async fn result(mut self) -> Option<R> {
        self.0
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|result| result.clone())
    }
}

/// What a future comes to, unless the deadline comes first.
pub async fn within<F: Future>(deadline: Instant, future: F) -> Option<F::Output> {
    tokio::time::timeout_at(deadline.into(), future).await.ok()
}

/// Asks again and again until there is an answer, or the deadline is too near for another question.
pub async fn ask_until<T, E, A, F>(deadline: Instant, mut ask: A) -> Result<Option<T>, E>
where
    A: FnMut() -> F,
    F: Future<Output = Result<Option<T>, E>>,
{
    let mut pause = POLL_FIRST;
    while Instant::now() + pause < deadline {
        // Not all at the same moment: a crowd may be waiting.
        let share = rand::rng().random_range(0.5..1.0);
        tokio::time::sleep(pause.mul_f64(share)).await;
        pause = (pause * 2).min(POLL_LONGEST);
        if let Some(answer) = ask().await? {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}
