//! The state: the store, the provider, requests on their way, workers and callers. Small values, so that it hashes fast.
//!
//! Times are ages and rests relative to now.

use crate::setting::{Said, Setting};

/// A provider's key: the attempt's, and a variant of it that only a broken service would make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub attempt: u8,
    pub variant: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailKind {
    Declined,
    Refused,
    Canceled,
    NeverExecuted,
}

/// A definitive failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fail {
    pub kind: FailKind,
    pub payment: Option<u8>,
    pub open: bool,
}

/// An unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Doubt {
    pub look_up: bool,
    pub payment: Option<u8>,
}

/// The charge's status; the key's state goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    Pending,
    Processing,
    NeedsReview,
    Succeeded,
    Failed(FailKind),
}

impl Status {
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed(_))
    }
}

/// The key's row, as far as it is about the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    pub token: u8,
    /// Minutes until it is over.
    pub left: u16,
    /// Minutes since the first send and since the last.
    pub first_age: u16,
    pub last_age: u16,
    /// `takeovers > 0`: production asks for no more than that.
    pub taken_over: bool,
    /// `recovery` is `LookUp`.
    pub look_up: bool,
    /// Its owner has recorded that there is no verdict, and has stopped.
    pub idle: bool,
}

/// An attempt's rows, in `charges` and in `idempotency_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    pub status: Status,
    pub payment: Option<u8>,
    /// The last attempt's open payment, which the frozen request confirms.
    pub confirms: Option<u8>,
    /// The failure left a payment that another attempt can be made on.
    pub leaves_open: bool,
    pub variant: u8,
    pub lease: Lease,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PaymentState {
    Succeeded,
    Processing,
    RequiresAction,
    RequiresPaymentMethod,
    Canceled,
    Failed,
}

/// A payment object at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Payment {
    /// The key that made it: `metadata[charge_key]`.
    pub made_by: Key,
    /// The key of the last try on it.
    pub tried_by: Key,
    pub state: PaymentState,
}

/// What the provider has stored under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Memory {
    Executing,
    Answer(Heard),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Remembered {
    pub key: Key,
    pub age: u16,
    pub memory: Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    OnTheWay,
    Executing,
    /// Answered with a 500, and carried on by the provider.
    RunsOn,
}

/// A request that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    pub key: Key,
    pub confirms: Option<u8>,
    /// The token of the worker that waits for the answer; 0: nobody does.
    pub owner: u8,
    pub age: u16,
    pub stage: Stage,
}

/// An answer to a send, in the words of `payments::outcome::Outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Heard {
    Succeeded(u8),
    Processing(u8),
    Failed(Fail),
    NotExecuted,
    Unknown(Doubt),
}

/// A verdict, in the words of `charges::settlement::Verdict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Finding {
    Succeeded(u8),
    Failed(Fail),
    Processing(u8),
    NeedsReview(Option<u8>),
    Unknown(Doubt),
    Released,
}

/// Where a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    Sending,
    Waiting,
    /// Has an answer that may be worth a repeat.
    Heard(Heard),
    Looking {
        doubt: Doubt,
        then_send: bool,
    },
    Canceling(u8),
    Recording(Finding),
}

/// A worker on an attempt: what it read when it won the lease, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker {
    pub number: u8,
    pub held: Attempt,
    /// It was told to look up only.
    pub looks_up: bool,
    pub place: Place,
    pub earlier: Option<Doubt>,
    pub repeats: u8,
    pub rounds: u8,
    pub canceled: Option<Fail>,
    /// A webhook gave it the attempt before the last lease was over.
    pub woken_early: bool,
}

/// What somebody decided after a look at the store, and has not done yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum View {
    Start {
        number: u8,
        confirms: Option<u8>,
    },
    /// The attempt as it was read, which may be stale by now.
    TakeOver {
        read: Attempt,
        look_up: bool,
        woken: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Caller {
    Idle,
    Decided(View),
}

/// What callers were told for good, which every later answer must agree with; and what should not have been done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Told {
    pub paid_by: Option<u8>,
    /// A bit for each attempt that was called failed.
    pub failed: u8,
    /// Something was said that was not true at that moment.
    pub lie: bool,
    /// A charge that waits for a person was written by something else.
    pub review_touched: bool,
    /// A payment that stood in the store does not stand there any more.
    pub payment_forgotten: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub attempts: Vec<Attempt>,
    pub payments: Vec<Payment>,
    pub memory: Vec<Remembered>,
    pub requests: Vec<Request>,
    pub workers: Vec<Worker>,
    pub callers: Vec<Caller>,
    /// The reconciler, and the webhook's handler.
    pub background: Option<View>,
    pub told: Told,
    pub short_waits: u8,
}

/// What may happen next. Workers, callers and requests are named by their place in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    CallerLooks(usize),
    CallerActs(usize),
    CallerGoes(usize),
    ReconcilerLooks,
    WebhookLooks,
    BackgroundActs,
    BackgroundGoes,
    Send(usize),
    ConnectionFails(usize),
    AnswerIsLost(usize),
    Repeat(usize),
    GoOn(usize),
    Find(usize),
    FindFails(usize),
    Cancel(usize),
    CancelFails(usize),
    CancelIsUnheard(usize),
    Record(usize),
    Crash(usize),
    Arrives(usize),
    Begins(usize),
    Executes(usize, Said),
    PaymentEnds(usize, bool),
    ShortWait,
    LongWait,
}

impl State {
    pub fn new(setting: &Setting) -> Self {
        Self {
            attempts: Vec::new(),
            payments: Vec::new(),
            memory: Vec::new(),
            requests: Vec::new(),
            workers: Vec::new(),
            callers: vec![Caller::Idle; setting.callers],
            background: None,
            told: Told::default(),
            short_waits: 0,
        }
    }

    /// A token that nobody has.
    pub fn new_token(&mut self) -> u8 {
        let mut highest = 0;
        self.each_token(|token| highest = highest.max(*token));
        highest + 1
    }
}
