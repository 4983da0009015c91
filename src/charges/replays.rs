//! Answers of succeeded charges, kept in memory: they never change, so that a repeated call need not ask the database.
//!
//! Only successes are kept. What follows a failure is decided anew each time, and what has no verdict has no answer yet. A
//! process that forgets an answer, or never had it, reads it from the store.

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::service::{ChargeAnswer, ChargeResult};
use crate::idempotency::reservation::StoredResponse;

/// What an entry takes besides its texts, in bytes, roughly: the table's slot and three texts' heads.
const ENTRY_BYTES: usize = 200;

/// Answers by invoice.
pub(super) struct Replays(Option<Cache<String, StoredResponse, Bytes>>);

#[derive(Clone)]
struct Bytes;

impl Weighter<String, StoredResponse> for Bytes {
    fn weight(&self, invoice_id: &String, response: &StoredResponse) -> u64 {
        let location = response.location.as_ref().map_or(0, String::len);
        let bytes = ENTRY_BYTES + invoice_id.len() + response.body.len() + location;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl Replays {
    /// Keeps up to so many bytes of answers; with 0 none.
    pub fn new(bytes_max: u64) -> Self {
        // Only a first guess of the table's size; it is the bytes that bound it.
        let answers = usize::try_from(bytes_max / 1_000).unwrap_or(usize::MAX);
        Self((bytes_max > 0).then(|| Cache::with_weighter(answers, bytes_max, Bytes)))
    }

    /// The answer to a repeated call, if it is here.
    pub fn find(&self, invoice_id: &str) -> Option<ChargeAnswer> {
        let response = self.0.as_ref()?.get(invoice_id)?;
        Some(ChargeAnswer::Stored {
            response,
            replayed: true,
            retry_after_seconds: None,
        })
    }

    /// Keeps the answer where it is final.
    pub fn keep(&self, invoice_id: &str, result: &ChargeResult) {
        if let Some(cache) = &self.0
            && let Ok(ChargeAnswer::Stored { response, .. }) = result
            && (200..300).contains(&response.status)
            && cache.peek(invoice_id).is_none()
        {
            cache.insert(invoice_id.to_owned(), response.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Problem;

    fn answer(status: u16, body: &str) -> ChargeResult {
        Ok(ChargeAnswer::Stored {
            response: StoredResponse {
                status,
                location: None,
                body: body.to_owned(),
            },
            replayed: false,
            retry_after_seconds: None,
        })
    }

    fn found(replays: &Replays, invoice_id: &str) -> Option<String> {
        let found = replays.find(invoice_id)?;
        let ChargeAnswer::Stored {
            response,
            replayed: true,
            retry_after_seconds: None,
        } = found
        else {
            panic!("{found:?}");
        };
        Some(response.body)
    }

    #[test]
    fn only_a_success_is_kept() {
        let replays = Replays::new(1_000_000);
        for (invoice_id, result, kept) in [
            ("inv_paid", answer(201, "paid"), Some("paid")),
            ("inv_declined", answer(402, "declined"), None),
            ("inv_refused", answer(500, "?"), None),
            ("inv_unknown", Err(Problem::internal()), None),
        ] {
            replays.keep(invoice_id, &result);
            assert_eq!(found(&replays, invoice_id).as_deref(), kept, "{invoice_id}");
        }
    }

    #[test]
    fn the_first_answer_stays() {
        let replays = Replays::new(1_000_000);
        replays.keep("inv_1", &answer(201, "first"));
        replays.keep("inv_1", &answer(201, "second"));
        assert_eq!(found(&replays, "inv_1").as_deref(), Some("first"));
    }

    #[test]
    fn what_is_kept_stays_below_its_bound() {
        let body = "x".repeat(800);
        let replays = Replays::new(100_000);
        for number in 0..10_000 {
            replays.keep(&format!("inv_{number}"), &answer(201, &body));
        }
        let weight = replays.0.as_ref().map_or(0, Cache::weight);
        assert!((50_000..=100_000).contains(&weight), "{weight}");
    }

    #[test]
    fn it_can_be_switched_off() {
        let replays = Replays::new(0);
        replays.keep("inv_1", &answer(201, "paid"));
        assert_eq!(found(&replays, "inv_1"), None);
    }
}
