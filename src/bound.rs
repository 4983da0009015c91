//! A bound on how much of something goes on at once. Whoever comes beyond it is refused and never queued: a queue would only
//! move the moment at which memory runs out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Problem;

/// So many places and no more. Clones share them.
#[derive(Debug, Clone)]
pub struct Bound {
    taken: Arc<AtomicUsize>,
    most: usize,
}

impl Bound {
    /// With all its places free.
    pub fn new(most: usize) -> Self {
        Self {
            taken: Arc::default(),
            most,
        }
    }

    /// A place, while there is one.
    pub fn try_take(&self) -> Option<Place> {
        let more = |taken| (taken < self.most).then_some(taken + 1);
        let taken = &self.taken;
        taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()
            .map(|_| self.place())
    }

    /// A place, or what whoever comes beyond the bound is told.
    ///
    /// # Errors
    /// `overloaded`.
    pub fn enter(&self) -> Result<Place, Problem> {
        self.try_take().ok_or_else(Problem::overloaded)
    }

    /// A place, beyond the bound too: for work that has a bound of its own and must not wait for newer work to end.
    pub fn take(&self) -> Place {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.place()
    }

    /// How many places there are.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn place(&self) -> Place {
        Place {
            taken: Arc::clone(&self.taken),
        }
    }
}

/// A place that is taken until it is dropped, however the work ends.
#[derive(Debug)]
pub struct Place {
    taken: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_places_as_were_set_and_a_dropped_one_is_free_again() {
        let bound = Bound::new(2);
        let shared = bound.clone();
        let first = bound.try_take().unwrap();
        let second = shared.try_take().unwrap();
        assert!(bound.try_take().is_none() && shared.try_take().is_none());
        drop(first);
        let again = bound.enter().unwrap();
        let refused = bound.enter().unwrap_err();
        assert_eq!(refused.code(), crate::error::Code::Overloaded);
        drop((second, again));
        assert_eq!(bound.taken(), 0);
    }

    #[test]
    fn work_that_must_go_on_is_counted_and_never_refused() {
        let bound = Bound::new(1);
        let places = [bound.take(), bound.take()];
        assert_eq!(bound.taken(), 2);
        assert!(bound.try_take().is_none());
        drop(places);
        assert!(bound.try_take().is_some());
    }

    #[test]
    fn no_more_are_let_in_than_there_are_places_however_many_come_at_once() {
        let bound = Bound::new(100);
        let places: Vec<Place> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..50).filter_map(|_| bound.try_take()).collect()))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<Place>>| thread.join();
            threads.into_iter().flat_map(|t| join(t).unwrap()).collect()
        });
        assert_eq!((places.len(), bound.taken()), (100, 100));
    }
}
