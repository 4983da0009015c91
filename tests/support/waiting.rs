//! Waiting for what happens elsewhere.

use std::time::{Duration, Instant};

/// A bound on hanging, not on speed: only a fault exceeds it, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Asks again and again until there is an answer, within [`PATIENCE`].
pub async fn eventually<T>(what: &str, probe: impl AsyncFnMut() -> Option<T>) -> T {
    let answer = in_patience(probe).await;
    answer.unwrap_or_else(|| panic!("it did not happen: {what}"))
}

/// The same, for whoever has more to say when there is none.
pub async fn in_patience<T>(mut probe: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let answer = probe().await;
        if answer.is_some() || begun.elapsed() >= PATIENCE {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
