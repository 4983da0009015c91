//! What a provider's answer means for the money, in our own words.
//!
//! Everything here is a value or a pure function. Reading a provider's wire format is its adapter's work;
//! what follows for the charge is decided in `charges::settlement`.

/// What one call of the provider, its automatic retries included, has established about an attempt: to take money
/// (`P` is [`ProviderPayment`]), or to give it back (`P` is a refund).
///
/// Doubt is [`Outcome::Unknown`], never a failure: an attempt may only be called failed when it is certain
/// that it moved no money and never will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<P = ProviderPayment> {
    /// The provider says that the money was moved. Still to be verified against what was asked for.
    Succeeded(P),
    /// The provider has the object and no verdict yet: an asynchronous method, or the customer must act.
    Processing(P),
    /// A definitive failure: this attempt moved no money and its key will never move any.
    Failed(Failure),
    /// Nothing was executed: the request never left, or was refused before execution and nothing was stored
    /// under its key. The attempt is not used up; the same key may be sent again.
    NotExecuted(NotExecuted),
    /// Nobody can tell from here whether the money was moved.
    Unknown(Unknown),
}

/// A payment object at the provider, as far as we look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderPayment {
    /// The provider's id (`pi_…`, `ch_…`). Opaque text of up to 255 characters.
    pub id: String,
    /// Its state in our words.
    pub status: PaymentStatus,
    /// Amount in minor units: what was taken when `status` is `Succeeded`, else what was asked for.
    pub amount_minor: i64,
    /// ISO 4217 code in lower case.
    pub currency: String,
    /// `metadata[invoice_id]`, when the object carries it.
    pub invoice_id: Option<String>,
    /// `metadata[installation_id]`, when the object carries it.
    pub installation_id: Option<String>,
    /// `metadata[charge_key]`, when the object carries it. A payment that a later attempt confirmed again still
    /// carries the key of the attempt that created it.
    pub charge_key: Option<String>,
    /// Why the last try on it failed, when it did.
    pub failure: Option<Failure>,
}

/// The state of a payment at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentStatus {
    /// The money was taken.
    Succeeded,
    /// The money was taken, and all of it was given back.
    Refunded,
    /// In the provider's hands, no verdict yet.
    Processing,
    /// Waits for the customer (3-D Secure and the like); may still succeed.
    RequiresAction,
    /// Nobody has confirmed it yet.
    RequiresConfirmation,
    /// Fresh, or its last try failed; took no money.
    RequiresPaymentMethod,
    /// Funds are held but not captured.
    RequiresCapture,
    /// Closed for ever without taking money.
    Canceled,
    /// A one-shot charge that failed for ever.
    Failed,
    /// A state that we do not know; nothing may be concluded from it.
    Other(String),
}

impl PaymentStatus {
    /// A word for people and for the history of an attempt.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Refunded => "refunded",
            Self::Processing => "processing",
            Self::RequiresAction => "requires_action",
            Self::RequiresConfirmation => "requires_confirmation",
            Self::RequiresPaymentMethod => "requires_payment_method",
            Self::RequiresCapture => "requires_capture",
            Self::Canceled => "canceled",
            Self::Failed => "failed",
            Self::Other(status) => status,
        }
    }
}

/// A definitive failure of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Of which kind it is; decides the answer's code and whether another attempt may follow.
    pub kind: FailureKind,
    /// The provider's code (`card_declined`, `expired_card`, `parameter_missing`), or ours (`never_executed`).
    pub code: String,
    /// The issuer's reason (`insufficient_funds`), when given.
    pub decline_code: Option<String>,
    /// The network's advice (`do_not_try_again`, `try_again_later`, `confirm_card_data`), when given.
    pub advice_code: Option<String>,
    /// One plain sentence, safe to show to the operator.
    pub message: Option<String>,
    /// The payment object that the failed attempt left behind, when there is one; for a refund, the refund.
    pub payment_id: Option<String>,
    /// True when another attempt can be made on that same object.
    pub payment_open: bool,
}

/// The kinds of definitive failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The customer's bank, the provider's risk rules or its books refused it while the request was executed (a payment
    /// that was given back already, or is disputed). It is what the key itself answers, and will again.
    Declined,
    /// The provider refused the request itself (a parameter, an unknown customer).
    Refused,
    /// The payment, or the refund, was closed before it moved money.
    Canceled,
    /// The provider was asked past the key's window and has no trace of the attempt.
    NeverExecuted,
}

/// Nothing was executed; why, and who has to act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotExecuted {
    /// Why.
    pub reason: NotExecutedReason,
    /// A short text for the log; no secrets, no bodies.
    pub detail: String,
}

/// Why nothing was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotExecutedReason {
    /// Name resolution, connect or TLS failed: not one byte of the request left.
    Unreachable,
    /// The provider's limiter (or ours) turned it away, or the object was locked.
    RateLimited,
    /// The provider does not accept our credentials or they lack a permission: the operator's fault.
    Credentials,
    /// The time for sending was over before the request could leave.
    OutOfTime,
}

/// The outcome is unknown; what is known all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// A short text for the log and the evidence; no secrets, no bodies.
    pub reason: String,
    /// The payment object, when the answer named one; for a refund, the refund.
    pub payment_id: Option<String>,
    /// How the truth can be found.
    pub next: NextStep,
}

/// How an unknown outcome is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Send the same bytes under the same key again, inside the key's window.
    Resend,
    /// The key will only ever repeat what is of no use (a stored 500, a mismatch): look the payment up.
    LookUp,
    /// Look the payment up; if there is none, a person must judge: the key was used for another request.
    LookUpElseReview,
}

impl Unknown {
    /// An unknown outcome that the same key can resolve.
    pub fn resend(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            payment_id: None,
            next: NextStep::Resend,
        }
    }

    /// An unknown outcome that only a look-up can resolve.
    pub fn look_up(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            payment_id: None,
            next: NextStep::LookUp,
        }
    }
}

/// Joins the outcome of a send with what earlier sends of the same attempt left open.
///
/// An answer settles only the send that it answers. After an earlier send whose outcome is unknown, an answer that
/// shows no more than "this send executed nothing" (401, 403, 429, a validation 400, a connect failure) says nothing
/// about the earlier one. What the key itself answers (a success, a decline, a stored verdict) does settle it.
pub fn after_unknown<P>(earlier: &Unknown, latest: Outcome<P>) -> Outcome<P> {
    match latest {
        Outcome::Succeeded(_) | Outcome::Processing(_) => latest,
        // A 500 that was not stored after all: this answer is of a second execution, and the first may still charge.
        Outcome::Failed(ref failure)
            if failure.kind == FailureKind::Declined && earlier.next != NextStep::Resend =>
        {
            Outcome::Unknown(Unknown {
                reason: format!(
                    "{}; a later send was declined: {}",
                    earlier.reason, failure.code
                ),
                payment_id: None,
                next: earlier.next,
            })
        }
        Outcome::Failed(ref failure) => match failure.kind {
            FailureKind::Declined | FailureKind::Canceled | FailureKind::NeverExecuted => latest,
            FailureKind::Refused => Outcome::Unknown(Unknown {
                reason: format!(
                    "{}; a later send was refused: {}",
                    earlier.reason, failure.code
                ),
                ..earlier.clone()
            }),
        },
        Outcome::NotExecuted(later) => Outcome::Unknown(Unknown {
            reason: format!(
                "{}; a later send was not executed: {}",
                earlier.reason, later.detail
            ),
            ..earlier.clone()
        }),
        Outcome::Unknown(later) => Outcome::Unknown(Unknown {
            reason: later.reason,
            payment_id: later.payment_id.or_else(|| earlier.payment_id.clone()),
            next: match (earlier.next, later.next) {
                (NextStep::LookUpElseReview, _) | (_, NextStep::LookUpElseReview) => {
                    NextStep::LookUpElseReview
                }
                (NextStep::LookUp, _) | (_, NextStep::LookUp) => NextStep::LookUp,
                (NextStep::Resend, NextStep::Resend) => NextStep::Resend,
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: FailureKind) -> Outcome {
        Outcome::Failed(Failure {
            kind,
            code: "code".into(),
            decline_code: None,
            advice_code: None,
            message: None,
            payment_id: None,
            payment_open: false,
        })
    }

    fn paid() -> ProviderPayment {
        ProviderPayment {
            id: "pi_1".into(),
            status: PaymentStatus::Succeeded,
            amount_minor: 1,
            currency: "usd".into(),
            invoice_id: None,
            installation_id: None,
            charge_key: None,
            failure: None,
        }
    }

    fn unknown(next: NextStep, payment_id: Option<&str>) -> Unknown {
        Unknown {
            reason: "x".into(),
            payment_id: payment_id.map(str::to_owned),
            next,
        }
    }

    #[test]
    fn what_the_key_itself_answers_settles_an_earlier_send() {
        let earlier = Unknown::resend("lost");
        for said in [
            Outcome::Succeeded(paid()),
            Outcome::Processing(paid()),
            failed(FailureKind::Declined),
            failed(FailureKind::Canceled),
            failed(FailureKind::NeverExecuted),
        ] {
            assert_eq!(after_unknown(&earlier, said.clone()), said);
        }
    }

    #[test]
    fn what_only_this_send_ran_into_settles_nothing_and_keeps_what_was_known() {
        let not_executed = [
            NotExecutedReason::Unreachable,
            NotExecutedReason::RateLimited,
            NotExecutedReason::Credentials,
            NotExecutedReason::OutOfTime,
        ]
        .map(|reason| {
            Outcome::NotExecuted(NotExecuted {
                reason,
                detail: "later".into(),
            })
        });
        for next in [
            NextStep::Resend,
            NextStep::LookUp,
            NextStep::LookUpElseReview,
        ] {
            let earlier = unknown(next, Some("pi_1"));
            for said in not_executed
                .iter()
                .cloned()
                .chain([failed(FailureKind::Refused)])
            {
                let joined = after_unknown(&earlier, said.clone());
                let Outcome::Unknown(joined) = joined else {
                    panic!("{said:?} became {joined:?}");
                };
                let kept = (joined.next, joined.payment_id.as_deref());
                assert_eq!(kept, (next, Some("pi_1")), "{said:?}");
                assert!(joined.reason.starts_with("x; "), "{}", joined.reason);
            }
        }
    }

    #[test]
    fn of_two_doubts_the_graver_stands_and_no_payment_is_forgotten() {
        use NextStep::{LookUp, LookUpElseReview, Resend};
        #[rustfmt::skip]
        let table = [
            (Resend, Resend, Resend),
            (Resend, LookUp, LookUp),
            (LookUp, Resend, LookUp),
            (LookUp, LookUp, LookUp),
            (Resend, LookUpElseReview, LookUpElseReview),
            (LookUpElseReview, Resend, LookUpElseReview),
            (LookUp, LookUpElseReview, LookUpElseReview),
            (LookUpElseReview, LookUp, LookUpElseReview),
        ];
        for (earlier, later, next) in table {
            for (before, now, kept) in [
                (None, None, None),
                (Some("pi_1"), None, Some("pi_1")),
                (None, Some("pi_2"), Some("pi_2")),
                (Some("pi_1"), Some("pi_2"), Some("pi_2")),
            ] {
                let joined = after_unknown(
                    &unknown(earlier, before),
                    Outcome::<ProviderPayment>::Unknown(unknown(later, now)),
                );
                assert_eq!(
                    joined,
                    Outcome::Unknown(unknown(next, kept)),
                    "{earlier:?}, {later:?}"
                );
            }
        }
    }
}
