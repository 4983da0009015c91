//! A connection at work.

use deadpool::managed::{Manager, Object};

/// A pooled connection that returns to the pool only when its unit of work has ended. Dropped before (the time is up, or
/// the caller is gone) it leaves the pool and is closed: its transaction may still be open, and neither the driver's
/// book-keeping nor the next check-out can be trusted to notice in time.
pub struct Lent<M: Manager>(Option<Object<M>>);

impl<M: Manager> Lent<M> {
    /// Lends it out.
    pub fn new(connection: Object<M>) -> Self {
        Self(Some(connection))
    }

    /// The connection, to work on.
    pub fn connection(&mut self) -> &mut M::Type {
        self.0
            .as_mut()
            .expect("only giving it back takes it, and that ends the loan")
    }

    /// The unit has ended, in whatever way: its transaction is closed.
    pub fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl<M: Manager> Drop for Lent<M> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(Object::take(connection));
        }
    }
}
