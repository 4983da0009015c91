//! The first look: two streams of pages, and what of them does not fit together. Pure.
//!
//! It costs memory for what the provider took and our books have not accounted for yet: some 200 bytes a payment of the
//! period at its peak (the provider's pages are read first), less with each of our pages. Whatever does not fit is only
//! suspected here: a payment may be older than the pages, a charge may have been settled between two of them. The second
//! look ([`judge`](super::judge)) reads both sides again, invoice by invoice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::judge::{Live, live};
use super::model::{BookedCharge, Standing};
use crate::payments::outcome::{PaymentStatus, ProviderPayment};

/// What decides whether something is worth a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The provider that can be asked; charges of another one cannot be compared.
    pub provider: String,
    /// How long after its first send an attempt's key may be sent again, in milliseconds.
    pub key_window_ms: i64,
}

/// What was counted on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Our charges that were compared: those of the period, and those without a verdict of any age.
    pub charges: u64,
    /// The provider's payments that carry our mark, in whatever state.
    pub payments: u64,
    /// Attempts that somebody works on, or that are not due yet.
    pub in_flight: u64,
    /// Charges of another provider than the one that can be asked.
    pub skipped_other_provider: u64,
}

/// An invoice, or a payment without one, that needs a second look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// The invoice; `None` for a payment that names none.
    pub invoice_id: Option<String>,
    /// Payments of it that took money and that no charge was seen to account for.
    pub payment_ids: Vec<String>,
}

/// The running comparison. First all of the provider's pages, then all of ours.
pub struct Tally<'a> {
    rules: &'a Rules,
    since_ms: i64,
    begun_ms: i64,
    taken: HashMap<String, Taken>,
    suspects: BTreeSet<String>,
    in_flight: BTreeSet<String>,
    counts: Counts,
}

/// A payment that took money.
struct Taken {
    invoice_id: Option<String>,
    amount_minor: i64,
    currency: String,
}

impl Taken {
    fn pays(&self, charge: &BookedCharge) -> bool {
        self.invoice_id.as_deref() == Some(charge.invoice_id.as_str())
            && self.amount_minor == charge.amount_minor
            && self.currency == charge.currency
    }
}

impl<'a> Tally<'a> {
    /// For the period from `since_ms` to `begun_ms` (Unix milliseconds by the database's clock).
    pub fn new(rules: &'a Rules, since_ms: i64, begun_ms: i64) -> Self {
        Self {
            rules,
            since_ms,
            begun_ms,
            taken: HashMap::new(),
            suspects: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            counts: Counts::default(),
        }
    }

    /// Takes a payment of the provider's pages.
    pub fn add_payment(&mut self, payment: ProviderPayment) {
        self.counts.payments += 1;
        // One that was given back has paid its charge all the same; that it pays nothing else the second look knows.
        if matches!(
            payment.status,
            PaymentStatus::Succeeded | PaymentStatus::Refunded
        ) {
            let taken = Taken {
                invoice_id: payment.invoice_id,
                amount_minor: payment.amount_minor,
                currency: payment.currency,
            };
            self.taken.insert(payment.id, taken);
        }
    }

    /// Takes a charge of our pages.
    ///
    /// One from before the period, or from after the audit began, explains payments and needs none itself: its own payment
    /// may lie outside of the pages.
    pub fn add_charge(&mut self, charge: &BookedCharge, now_ms: i64) {
        let in_period = (self.since_ms..=self.begun_ms).contains(&charge.created_at_ms);
        let is_settled = matches!(charge.standing, Standing::Succeeded | Standing::Failed);
        if in_period || !is_settled {
            self.counts.charges += 1;
            if charge.provider != self.rules.provider {
                self.counts.skipped_other_provider += 1;
            }
        }
        match charge.standing {
            Standing::Failed => {}
            Standing::Succeeded if charge.provider != self.rules.provider => {}
            Standing::Succeeded => self.account_for(charge, in_period),
            Standing::NeedsReview => self.suspect(charge),
            Standing::Pending | Standing::Processing => match live(charge, self.rules, now_ms) {
                Live::InFlight => {
                    self.in_flight.insert(charge.invoice_id.clone());
                }
                Live::Late { .. } => self.suspect(charge),
            },
        }
    }

    /// A payment is taken up by the first charge that it pays; a second one that names it finds it gone, and is looked at.
    fn account_for(&mut self, charge: &BookedCharge, in_period: bool) {
        let named = charge.payment_id.as_deref().unwrap_or_default();
        match self.taken.get(named) {
            Some(taken) if taken.pays(charge) => {
                self.taken.remove(named);
            }
            Some(_) => self.suspect(charge),
            None if in_period => self.suspect(charge),
            None => {}
        }
    }

    fn suspect(&mut self, charge: &BookedCharge) {
        self.suspects.insert(charge.invoice_id.clone());
    }

    /// What was counted, and what needs a second look: in the order of the invoices' ids. Whether an attempt is in flight
    /// is left to the second look where there is one.
    pub fn finish(mut self) -> (Counts, Vec<Suspect>) {
        let mut by_invoice: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut without_invoice = BTreeSet::new();
        for invoice_id in self.suspects {
            by_invoice.entry(invoice_id).or_default();
        }
        for (payment_id, taken) in self.taken {
            match taken.invoice_id {
                Some(invoice_id) => by_invoice.entry(invoice_id).or_default().push(payment_id),
                None => {
                    without_invoice.insert(payment_id);
                }
            }
        }
        let only_here = self
            .in_flight
            .iter()
            .filter(|id| !by_invoice.contains_key(*id));
        self.counts.in_flight = u64::try_from(only_here.count()).unwrap_or(u64::MAX);
        let named = by_invoice.into_iter().map(|(invoice_id, mut payment_ids)| {
            payment_ids.sort_unstable();
            Suspect {
                invoice_id: Some(invoice_id),
                payment_ids,
            }
        });
        let unnamed = without_invoice.into_iter().map(|payment_id| Suspect {
            invoice_id: None,
            payment_ids: vec![payment_id],
        });
        (self.counts, named.chain(unnamed).collect())
    }
}

#[cfg(test)]
mod tests;
