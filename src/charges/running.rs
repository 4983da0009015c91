//! The charges that this process is working on, so that whoever asks for one of them can wait for it without a query.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::service::ChargeResult;

type Slot = watch::Receiver<Option<ChargeResult>>;

/// The running charges by invoice. Cheap to clone.
#[derive(Clone, Default)]
pub struct Running {
    slots: Arc<Mutex<HashMap<String, Slot>>>,
}

/// One running charge. While it lives, others find it; its result goes to all who wait.
pub struct Entry {
    running: Running,
    invoice_id: String,
    sender: watch::Sender<Option<ChargeResult>>,
}

impl Running {
    /// Enters a charge that this process has just reserved or taken over.
    pub fn enter(&self, invoice_id: &str) -> (Entry, Waiting) {
        let (sender, receiver) = watch::channel(None);
        self.lock().insert(invoice_id.to_owned(), receiver.clone());
        let entry = Entry {
            running: self.clone(),
            invoice_id: invoice_id.to_owned(),
            sender,
        };
        (entry, Waiting(receiver))
    }

    /// The running charge of an invoice, if this process has one.
    pub fn find(&self, invoice_id: &str) -> Option<Waiting> {
        self.lock().get(invoice_id).cloned().map(Waiting)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// The map stays sound whatever a panicking thread did: every change is one call.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Ends it: first nobody new finds it, then everybody who waits gets the result.
    pub fn finish(self, result: ChargeResult) {
        let sender = self.sender.clone();
        drop(self);
        sender.send_replace(Some(result));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut slots = self.running.lock();
        // A takeover may have put another one in its place.
        if slots
            .get(&self.invoice_id)
            .is_some_and(|slot| slot.same_channel(&self.sender.subscribe()))
        {
            slots.remove(&self.invoice_id);
        }
    }
}

/// The right to wait for a running charge.
pub struct Waiting(Slot);

impl Waiting {
    /// Its result; `None` when the work ended without one.
    pub async fn result(mut self) -> Option<ChargeResult> {
        self.0
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|result| result.clone())
    }
}
