//! What the holder of an attempt's lease does first. Pure.

use super::settlement::{Plan, Verdict};
use crate::idempotency::decision::is_older_than;
use crate::idempotency::reservation::{Recovery, Reservation};
use crate::payments::outcome::Unknown;

/// From this age of the first send on, a takeover looks before it sends again, in milliseconds.
const LOOK_FIRST_AFTER_MS: i64 = 3_600_000;

/// What the holder of an attempt's lease does first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstMove {
    /// Send the frozen request.
    Send,
    /// Ask for the payment, and send only where [`settles_before_sending`] finds nothing to settle on.
    LookThenSend,
    /// Ask for the payment; nothing may be sent any more.
    LookUp,
}

/// What to do first. A late takeover asks before it sends: a resend relies on two clocks that nobody compares, the
/// database's and the provider's; what is found needs neither.
pub fn first_move(reservation: &Reservation, recovery: Recovery, now_ms: i64) -> FirstMove {
    let is_late = reservation.takeovers > 0
        && is_older_than(reservation.first_sent_at_ms, LOOK_FIRST_AFTER_MS, now_ms);
    match recovery {
        Recovery::Resend if is_late => FirstMove::LookThenSend,
        Recovery::Resend => FirstMove::Send,
        Recovery::LookUp => FirstMove::LookUp,
    }
}

/// After a look that comes before a send: the plan when it found a payment that took money or still may; nothing where
/// the request is to be sent, because there is no payment or nobody can tell.
pub fn settles_before_sending(plan: Plan) -> Option<Plan> {
    match plan {
        Plan::Record(
            Verdict::Succeeded(_) | Verdict::Processing(_) | Verdict::NeedsReview { .. },
        ) => Some(plan),
        Plan::Record(Verdict::Failed(_) | Verdict::Unknown(_) | Verdict::Released(_))
        | Plan::LookUp(_)
        | Plan::Cancel { .. } => None,
    }
}

/// What is not known at the start of a takeover, and how the next one would find out. A look-up that was only brought
/// forward by a notice takes nobody's right to send again.
pub fn earlier_send(recovery: Recovery) -> Unknown {
    let reason = "the outcome of an earlier send is not known";
    match recovery {
        Recovery::Resend => Unknown::resend(reason),
        Recovery::LookUp => Unknown::look_up(reason),
    }
}
