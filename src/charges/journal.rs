//! What happened in one turn at an attempt, in words, for whoever has to judge it later. Pure.
//!
//! An attempt that goes straight to its verdict keeps no journal: its charge says it all, and the common case costs no write.

use super::repository::{AttemptRecord, Evidence, EvidenceKind};
use crate::idempotency::reservation::Recovery;
use crate::payments::outcome::{Outcome, ProviderPayment};

/// The lines of one turn.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    lines: Vec<Evidence>,
    /// How the last look-up of the turn went, when there was one after the last send.
    pub looked: Looked,
}

/// How a look-up went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Looked {
    /// There was none.
    #[default]
    Not,
    /// It was answered to the end. If the outcome is still not known, nothing is gained by asking again soon.
    Answered,
    /// The provider could not be asked.
    Unanswered,
}

impl Journal {
    /// Begins a turn; a takeover is its first line.
    pub fn begin(takeovers: i32, recovery: Recovery, now_ms: i64) -> Self {
        let mut journal = Self::default();
        if takeovers > 0 {
            let how = match recovery {
                Recovery::Resend => "to send the same request under the same key again",
                Recovery::LookUp => "to look it up",
            };
            let detail = format!("takeover {takeovers}, {how}");
            journal.add(EvidenceKind::TakenOver, detail, now_ms);
        }
        journal
    }

    /// Adds a line.
    pub fn add(&mut self, what: EvidenceKind, detail: String, at_ms: i64) {
        self.lines.push(Evidence {
            at_ms,
            what,
            detail,
        });
    }

    /// The lines to keep with a record: none where the first send was answered with the verdict, and none where the
    /// attempt's own row goes.
    pub fn lines_to_keep(&self, record: &AttemptRecord, takeovers: i32) -> &[Evidence] {
        let is_plain = takeovers == 0 && self.lines.len() <= 2;
        match record {
            AttemptRecord::Released => &[],
            AttemptRecord::Succeeded { .. } | AttemptRecord::Failed { .. } if is_plain => &[],
            AttemptRecord::Succeeded { .. }
            | AttemptRecord::Failed { .. }
            | AttemptRecord::Processing { .. }
            | AttemptRecord::NeedsReview { .. }
            | AttemptRecord::Unknown { .. } => &self.lines,
        }
    }
}

/// The outcome of a send; `in_words` tells of the object that it names.
pub fn sent<P>(outcome: &Outcome<P>, in_words: impl Fn(&P) -> String) -> String {
    match outcome {
        Outcome::Succeeded(object) | Outcome::Processing(object) => in_words(object),
        Outcome::Failed(failure) => format!("failed: {}", failure.code),
        Outcome::NotExecuted(reason) => format!("not executed: {}", reason.detail),
        Outcome::Unknown(unknown) => format!("unknown: {}", unknown.reason),
    }
}

/// What a look-up found.
pub fn found(payments: &[ProviderPayment]) -> String {
    if payments.is_empty() {
        return "the provider has no payment of this invoice".to_owned();
    }
    let each: Vec<String> = payments.iter().map(found_one).collect();
    each.join("; ")
}

/// A payment as the provider shows it.
pub fn found_one(payment: &ProviderPayment) -> String {
    format!(
        "{} {}, {} {}",
        payment.id,
        payment.status.as_str(),
        payment.amount_minor,
        payment.currency
    )
}
