//! Points at which a test can kill or hold the process, so that recovery from each of them is seen and not believed.
//!
//! In a debug build, `CHARGEONCE_CRASH_AT=name` aborts the process at that point: no destructor runs, nothing is flushed,
//! every connection is cut, as with `kill -9`. `CHARGEONCE_HOLD_AT=name=file` waits there instead, as long as the file
//! exists, so that a test can do something to the process at that very point. A release build has none of this.

/// A step between the arrival of a call, a webhook or a round of the background worker and its end, after which the process
/// may die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A call for a charge has arrived; nothing was looked at.
    Arrival,
    /// Decided to charge; nothing written yet.
    BeforeReserve,
    /// The key's row is written and the charge's is not; neither is committed.
    WithinReserve,
    /// The reservation is committed; the provider has not been called.
    AfterReserve,
    /// The provider has answered; nothing of it is recorded.
    AfterSend,
    /// The provider was asked what became of the attempt.
    AfterLookUp,
    /// The provider was told to close a payment.
    AfterCancel,
    /// The verdict is there; nothing of it is written.
    BeforeRecord,
    /// The key's row has the verdict and the charge's has not; neither is committed.
    WithinRecord,
    /// The verdict is recorded; who works on the attempt has not heard of it.
    AfterRecord,
    /// The answer is there; the caller has nothing of it.
    BeforeAnswer,
    /// The background worker knows what is due; nothing was taken over.
    RoundBegun,
    /// An expired reservation was taken over.
    AfterTakeOver,
    /// A webhook is stored; the provider has no answer to its delivery, and nobody has dealt with it.
    EventStored,
    /// A webhook belongs to this process; nothing was done about it.
    EventClaimed,
    /// What a webhook told is recorded; the webhook itself still waits for its end.
    EventDealtWith,
}

impl Step {
    /// Every step, in the order of the flow; its number is its place here.
    pub const ALL: [Self; 16] = [
        Self::Arrival,
        Self::BeforeReserve,
        Self::WithinReserve,
        Self::AfterReserve,
        Self::AfterSend,
        Self::AfterLookUp,
        Self::AfterCancel,
        Self::BeforeRecord,
        Self::WithinRecord,
        Self::AfterRecord,
        Self::BeforeAnswer,
        Self::RoundBegun,
        Self::AfterTakeOver,
        Self::EventStored,
        Self::EventClaimed,
        Self::EventDealtWith,
    ];

    /// Its name in `CHARGEONCE_CRASH_AT`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::BeforeReserve => "before_reserve",
            Self::WithinReserve => "within_reserve",
            Self::AfterReserve => "after_reserve",
            Self::AfterSend => "after_send",
            Self::AfterLookUp => "after_look_up",
            Self::AfterCancel => "after_cancel",
            Self::BeforeRecord => "before_record",
            Self::WithinRecord => "within_record",
            Self::AfterRecord => "after_record",
            Self::BeforeAnswer => "before_answer",
            Self::RoundBegun => "round_begun",
            Self::AfterTakeOver => "after_take_over",
            Self::EventStored => "event_stored",
            Self::EventClaimed => "event_claimed",
            Self::EventDealtWith => "event_dealt_with",
        }
    }
}

/// Dies or waits here when a test asked for it.
#[cfg(debug_assertions)]
pub fn point(step: Step) {
    use std::sync::OnceLock;
    static CRASH_AT: OnceLock<Option<String>> = OnceLock::new();
    static HOLD_AT: OnceLock<Option<String>> = OnceLock::new();
    let crash_at = CRASH_AT.get_or_init(|| std::env::var("CHARGEONCE_CRASH_AT").ok());
    if crash_at.as_deref() == Some(step.as_str()) {
        std::process::abort();
    }
    let hold_at = HOLD_AT.get_or_init(|| std::env::var("CHARGEONCE_HOLD_AT").ok());
    if let Some((name, file)) = hold_at.as_deref().and_then(|text| text.split_once('='))
        && name == step.as_str()
    {
        hold(std::path::Path::new(file));
    }
}

/// Waits until the file is gone, and says beside it that somebody waits. Blocks its thread, as a paused process would.
#[cfg(debug_assertions)]
fn hold(file: &std::path::Path) {
    while file.exists() {
        if let Err(error) = std::fs::write(file.with_extension("reached"), "") {
            tracing::warn!(%error, "nobody can be told that a step is held");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Nothing in a release build.
#[cfg(not(debug_assertions))]
pub fn point(_step: Step) {}
