//! From the model's small values to production's, and back: its decisions run on these.

use chargeonce::charges::model::{Charge, ChargeStatus};
use chargeonce::charges::repository::ChargeSnapshot;
use chargeonce::charges::settlement::{Plan, Verdict};
use chargeonce::idempotency::key::charge_key;
use chargeonce::idempotency::reservation::{
    Recovery, Reservation, ReservationState, StoredResponse,
};
use chargeonce::invoices::model::{Invoice, InvoiceStatus};
use chargeonce::money::Money;
use chargeonce::payments::outcome::{
    Failure, FailureKind, NextStep, NotExecuted, NotExecutedReason, Outcome, PaymentStatus,
    ProviderPayment, Unknown,
};
use chargeonce::payments::provider::FrozenRequest;

use crate::setting::MINUTE_MS;
use crate::state::{
    Attempt, Doubt, Fail, FailKind, Finding, Heard, Key, Payment, PaymentState, State, Status,
};

/// The moment at which every decision of the model is made; ages and rests are counted from it.
pub const NOW_MS: i64 = 100_000_000_000;

/// The natural key's fingerprint is the same for every call.
pub const FINGERPRINT: &str = "same";

pub const INSTALLATION: &str = "ins_1";

const AMOUNT: i64 = 1250;
const CURRENCY: &str = "usd";
const INVOICE: &str = "inv_1";

fn key_text(key: Key) -> String {
    let natural = charge_key(INVOICE, i32::from(key.attempt));
    match key.variant {
        0 => natural,
        variant => format!("{natural}+{variant}"),
    }
}

fn payment_id(index: u8) -> String {
    format!("pi_{index}")
}

fn payment_index(id: &str) -> u8 {
    id.strip_prefix("pi_").unwrap().parse().unwrap()
}

pub fn open_payment(id: Option<&str>) -> Option<u8> {
    id.map(payment_index)
}

pub fn recovery(look_up: bool) -> Recovery {
    if look_up {
        Recovery::LookUp
    } else {
        Recovery::Resend
    }
}

/// A stored answer that names what it was about, so that a replay can be told from another.
fn answer(status: u16, number: u8, attempt: &Attempt) -> StoredResponse {
    StoredResponse {
        status,
        location: None,
        body: format!("{number} {:?}", attempt.payment),
    }
}

pub fn reservation(number: u8, attempt: &Attempt) -> Reservation {
    let ago = |minutes: u16| NOW_MS - i64::from(minutes) * MINUTE_MS;
    Reservation {
        key: key_text(Key {
            attempt: number,
            variant: attempt.variant,
        }),
        operation: "charge".into(),
        state: match attempt.status {
            Status::Succeeded => ReservationState::Done(answer(201, number, attempt)),
            Status::Failed(_) => ReservationState::Failed(answer(402, number, attempt)),
            Status::Pending | Status::Processing | Status::NeedsReview => {
                ReservationState::InProgress
            }
        },
        attempt: i32::from(number),
        fingerprint: FINGERPRINT.into(),
        lease_token: format!("token {}", attempt.lease.token),
        lease_expires_at_ms: NOW_MS + i64::from(attempt.lease.left) * MINUTE_MS,
        recovery: recovery(attempt.lease.look_up),
        first_sent_at_ms: ago(attempt.lease.first_age),
        last_sent_at_ms: ago(attempt.lease.last_age),
        takeovers: i32::from(attempt.lease.taken_over),
        idle: attempt.lease.idle,
        unanswered_since_ms: None,
    }
}

pub fn charge(number: u8, attempt: &Attempt) -> Charge {
    Charge {
        id: format!("chg_{number}"),
        invoice_id: INVOICE.into(),
        attempt: i32::from(number),
        idempotency_key: key_text(Key {
            attempt: number,
            variant: attempt.variant,
        }),
        status: match attempt.status {
            Status::Pending => ChargeStatus::Pending,
            Status::Processing => ChargeStatus::Processing,
            Status::NeedsReview => ChargeStatus::NeedsReview,
            Status::Succeeded => ChargeStatus::Succeeded,
            Status::Failed(kind) => ChargeStatus::Failed(failure(Fail {
                kind,
                payment: attempt.payment,
                open: attempt.leaves_open,
            })),
        },
        amount_minor: AMOUNT,
        currency: CURRENCY.into(),
        customer_id: "cus_1".into(),
        payment_method_id: None,
        invoice_revision: 1,
        provider: "mock".into(),
        request: FrozenRequest {
            path: String::new(),
            body: String::new(),
        },
        provider_payment_id: attempt.payment.map(payment_id),
        evidence: None,
        created_at_ms: NOW_MS,
        settled_at_ms: attempt.status.is_settled().then_some(NOW_MS),
        asked_by: None,
    }
}

pub fn snapshot(state: &State) -> ChargeSnapshot {
    let is_paid = state.attempts.iter().any(|a| a.status == Status::Succeeded);
    let latest = state.latest();
    ChargeSnapshot {
        invoice: Invoice {
            id: INVOICE.into(),
            customer_id: "cus_1".into(),
            money: Money::new(AMOUNT, CURRENCY).unwrap(),
            description: None,
            payment_method_id: None,
            metadata: Default::default(),
            status: if is_paid {
                InvoiceStatus::Paid
            } else {
                InvoiceStatus::Open
            },
            revision: 1,
            created_at_ms: 0,
            updated_at_ms: 0,
        },
        latest: latest.map(|(number, row)| (charge(number, row), reservation(number, row))),
    }
}

/// A payment with the metadata that every request of this invoice carries.
pub fn payment(index: u8, payment: &Payment) -> ProviderPayment {
    let is_open = payment.state == PaymentState::RequiresPaymentMethod;
    let declined = is_open || payment.state == PaymentState::Failed;
    ProviderPayment {
        id: payment_id(index),
        status: match payment.state {
            PaymentState::Succeeded => PaymentStatus::Succeeded,
            PaymentState::Processing => PaymentStatus::Processing,
            PaymentState::RequiresAction => PaymentStatus::RequiresAction,
            PaymentState::RequiresPaymentMethod => PaymentStatus::RequiresPaymentMethod,
            PaymentState::Canceled => PaymentStatus::Canceled,
            PaymentState::Failed => PaymentStatus::Failed,
        },
        amount_minor: AMOUNT,
        currency: CURRENCY.into(),
        invoice_id: Some(INVOICE.into()),
        installation_id: Some(INSTALLATION.into()),
        charge_key: Some(key_text(payment.made_by)),
        failure: declined.then(|| {
            failure(Fail {
                kind: FailKind::Declined,
                payment: Some(index),
                open: is_open,
            })
        }),
    }
}

fn failure(fail: Fail) -> Failure {
    let (kind, code) = match fail.kind {
        FailKind::Declined => (FailureKind::Declined, "card_declined"),
        FailKind::Refused => (FailureKind::Refused, "parameter_missing"),
        FailKind::Canceled => (FailureKind::Canceled, "canceled_unfinished"),
        FailKind::NeverExecuted => (FailureKind::NeverExecuted, "never_executed"),
    };
    Failure {
        kind,
        code: code.into(),
        decline_code: None,
        advice_code: None,
        message: None,
        payment_id: fail.payment.map(payment_id),
        payment_open: fail.open,
    }
}

fn fail(failure: &Failure) -> Fail {
    Fail {
        kind: match failure.kind {
            FailureKind::Declined => FailKind::Declined,
            FailureKind::Refused => FailKind::Refused,
            FailureKind::Canceled => FailKind::Canceled,
            FailureKind::NeverExecuted => FailKind::NeverExecuted,
        },
        payment: open_payment(failure.payment_id.as_deref()),
        open: failure.payment_open,
    }
}

pub fn unknown(doubt: Doubt) -> Unknown {
    let unknown = if doubt.look_up {
        Unknown::look_up("x")
    } else {
        Unknown::resend("x")
    };
    Unknown {
        payment_id: doubt.payment.map(payment_id),
        ..unknown
    }
}

pub fn doubt(unknown: &Unknown) -> Doubt {
    Doubt {
        look_up: match unknown.next {
            NextStep::Resend => false,
            NextStep::LookUp => true,
            NextStep::LookUpElseReview => unreachable!("no request is ever sent under a used key"),
        },
        payment: open_payment(unknown.payment_id.as_deref()),
    }
}

/// What the adapter makes of an answer.
pub fn outcome(heard: Heard, payments: &[Payment]) -> Outcome {
    let found = |index: u8| payment(index, &payments[usize::from(index)]);
    match heard {
        // The answer is of the moment of execution, whatever became of the payment since.
        Heard::Succeeded(index) => Outcome::Succeeded(ProviderPayment {
            status: PaymentStatus::Succeeded,
            ..found(index)
        }),
        Heard::Processing(index) => Outcome::Processing(ProviderPayment {
            status: PaymentStatus::Processing,
            ..found(index)
        }),
        Heard::Failed(fail) => Outcome::Failed(failure(fail)),
        Heard::NotExecuted => Outcome::NotExecuted(NotExecuted {
            reason: NotExecutedReason::Unreachable,
            detail: String::new(),
        }),
        Heard::Unknown(doubt) => Outcome::Unknown(unknown(doubt)),
    }
}

pub fn heard(outcome: &Outcome) -> Heard {
    match outcome {
        Outcome::Succeeded(payment) => Heard::Succeeded(payment_index(&payment.id)),
        Outcome::Processing(payment) => Heard::Processing(payment_index(&payment.id)),
        Outcome::Failed(failure) => Heard::Failed(fail(failure)),
        Outcome::NotExecuted(_) => Heard::NotExecuted,
        Outcome::Unknown(unknown) => Heard::Unknown(doubt(unknown)),
    }
}

/// What a worker does next, in the model's words.
pub enum Course {
    Record(Finding),
    LookUp(Doubt),
    Cancel(u8),
}

pub fn course(plan: &Plan) -> Course {
    match plan {
        Plan::Record(verdict) => Course::Record(finding(verdict)),
        Plan::LookUp(unknown) => Course::LookUp(doubt(unknown)),
        Plan::Cancel { payment_id } => Course::Cancel(payment_index(payment_id)),
    }
}

pub fn finding(verdict: &Verdict) -> Finding {
    match verdict {
        Verdict::Succeeded(payment) => Finding::Succeeded(payment_index(&payment.id)),
        Verdict::Failed(failure) => Finding::Failed(fail(failure)),
        Verdict::Processing(payment) => Finding::Processing(payment_index(&payment.id)),
        Verdict::NeedsReview { payment_id, .. } => {
            Finding::NeedsReview(open_payment(payment_id.as_deref()))
        }
        Verdict::Unknown(unknown) => Finding::Unknown(doubt(unknown)),
        Verdict::Released(_) => Finding::Released,
    }
}
