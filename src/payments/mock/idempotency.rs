//! Stripe's idempotency layer (Stripe docs, Idempotent requests): one stored answer for each key, kept for 24 hours.
//!
//! ```text
//! POST with key ── unknown or older than 24 h ──> in flight ── executed ──> stored ──> replayed
//!                                                     └─ refused before execution ──> forgotten
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use super::message::MockRequest;

/// How long a key is kept after its first use, in milliseconds. Stripe promises at least this and nothing more.
const RETENTION_MS: i64 = 24 * 60 * 60 * 1000;

/// What a stored answer consists of. The headers that differ from send to send are not part of it.
#[derive(Debug, Clone)]
pub(super) struct StoredAnswer {
    /// The HTTP status.
    pub(super) status: u16,
    /// Headers that belong to the answer itself.
    pub(super) headers: Vec<(&'static str, &'static str)>,
    /// The body, byte for byte.
    pub(super) body: Vec<u8>,
}

/// What is to be done with a keyed POST. `original` is the `Request-Id` of the request that first used the key.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The key is new: it is in flight from now on, until `finish` or `forget`.
    Execute,
    /// The stored answer is to be given again.
    Replay {
        original: Arc<str>,
        answer: StoredAnswer,
    },
    /// The first request still runs.
    InFlight { original: Arc<str> },
    /// The key was used for another request.
    Mismatch { original: Arc<str> },
}

#[derive(Debug)]
struct Entry {
    first_used_ms: i64,
    original: Arc<str>,
    request: Arc<MockRequest>,
    /// `None` while the first request runs.
    answer: Option<StoredAnswer>,
}

/// All keys of the account. One key space spans all endpoints.
#[derive(Debug, Default)]
pub(super) struct KeyStore {
    entries: HashMap<Arc<str>, Entry>,
}

impl KeyStore {
    /// Decides on a keyed POST, and puts a new key in flight.
    pub(super) fn begin(
        &mut self,
        key: &Arc<str>,
        request: Arc<MockRequest>,
        request_id: &Arc<str>,
        now_ms: i64,
    ) -> Verdict {
        self.prune(key, now_ms);
        if let Some(entry) = self.entries.get(key) {
            let original = Arc::clone(&entry.original);
            // A client that reuses a key for something else has a bug, whether or not the first request is finished.
            if !is_same(&entry.request, &request) {
                return Verdict::Mismatch { original };
            }
            return match &entry.answer {
                Some(answer) => Verdict::Replay {
                    original,
                    answer: answer.clone(),
                },
                None => Verdict::InFlight { original },
            };
        }
        let original = Arc::clone(request_id);
        self.entries.insert(
            Arc::clone(key),
            Entry {
                first_used_ms: now_ms,
                original,
                request,
                answer: None,
            },
        );
        Verdict::Execute
    }

    /// Whether the key is in use: in flight, or with an answer that is still kept.
    pub(super) fn knows(&mut self, key: &str, now_ms: i64) -> bool {
        self.prune(key, now_ms);
        self.entries.contains_key(key)
    }

    /// Stores the answer of an execution that has begun, whatever its outcome.
    pub(super) fn finish(&mut self, key: &str, answer: StoredAnswer) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.answer = Some(answer);
        }
    }

    /// Takes a key back whose request was refused before it began to execute.
    pub(super) fn forget(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// A key whose time is over is gone without a trace; a request that still runs keeps its key.
    fn prune(&mut self, key: &str, now_ms: i64) {
        let over =
            |entry: &Entry| entry.answer.is_some() && now_ms - entry.first_used_ms >= RETENTION_MS;
        if self.entries.get(key).is_some_and(over) {
            self.entries.remove(key);
        }
    }
}

/// What the layer compares: the endpoint and the exact parameters. Headers do not count.
fn is_same(first: &MockRequest, other: &MockRequest) -> bool {
    first.path == other.path && first.query == other.query && first.body == other.body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(verdict: Verdict) -> &'static str {
        match verdict {
            Verdict::Execute => "execute",
            Verdict::Replay { .. } => "replay",
            Verdict::InFlight { .. } => "in flight",
            Verdict::Mismatch { .. } => "mismatch",
        }
    }

    #[test]
    fn a_key_goes_through_its_states() {
        let mut keys = KeyStore::default();
        let stored = StoredAnswer {
            status: 500,
            headers: Vec::new(),
            body: b"x".to_vec(),
        };
        let begin = |keys: &mut KeyStore, body: &str, now| {
            let request = MockRequest::unkeyed("POST", "/v1/charges", body);
            word(keys.begin(&"k".into(), request.into(), &"req".into(), now))
        };
        assert_eq!(begin(&mut keys, "a", 0), "execute");
        assert_eq!(begin(&mut keys, "a", RETENTION_MS * 2), "in flight");
        keys.forget("k");
        assert_eq!(begin(&mut keys, "b", 5), "execute");
        keys.finish("k", stored);
        assert_eq!(begin(&mut keys, "a", 6), "mismatch");
        assert_eq!(begin(&mut keys, "b", RETENTION_MS + 4), "replay");
        assert_eq!(begin(&mut keys, "b", RETENTION_MS + 5), "execute");
    }
}
