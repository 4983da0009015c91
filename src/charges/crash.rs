//! Points at which a test can kill or hold the process, so that recovery from each of them is seen and not believed.
//!
//! In a debug build, `CHARGEONCE_CRASH_AT=name` aborts the process at that point: no destructor runs, nothing is flushed,
//! every connection is cut, as with `kill -9`. `CHARGEONCE_HOLD_AT=name=file` waits there instead, as long as the file
//! exists, so that a test can do something to the process at that very point. A release build has none of this.

/// A step of the charge flow after which the process may die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Decided to charge; nothing written yet.
    BeforeReserve,
    /// The reservation is committed; the provider has not been called.
    AfterReserve,
    /// An expired reservation was taken over.
    AfterTakeOver,
    /// The provider has answered; nothing of it is recorded.
    AfterSend,
    /// The provider was asked what became of the attempt.
    AfterLookUp,
    /// The provider was told to close a payment.
    AfterCancel,
    /// The verdict is recorded; the caller has no answer yet.
    AfterRecord,
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 7] = [
        Self::BeforeReserve,
        Self::AfterReserve,
        Self::AfterTakeOver,
        Self::AfterSend,
        Self::AfterLookUp,
        Self::AfterCancel,
        Self::AfterRecord,
    ];

    /// Its name in `CHARGEONCE_CRASH_AT`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeReserve => "before_reserve",
            Self::AfterReserve => "after_reserve",
            Self::AfterTakeOver => "after_take_over",
            Self::AfterSend => "after_send",
            Self::AfterLookUp => "after_look_up",
            Self::AfterCancel => "after_cancel",
            Self::AfterRecord => "after_record",
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
