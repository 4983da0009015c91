//! The trace that a caller's request belongs to: the headers `traceparent` and `tracestate` of W3C Trace Context, Level 1.
//! What is not well formed is no trace, as the standard asks; it is never an error.

/// `version-trace_id-parent_id-flags`, each in lower case hex digits.
const LENGTH: usize = 55;

/// The longest state that is kept: what the standard asks of everybody.
const STATE_LENGTH_MAX: usize = 512;

/// Where a caller's request stands in its trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerTrace {
    /// Never 0.
    pub trace_id: u128,
    /// The caller's span; never 0.
    pub parent_id: u64,
    /// The caller records this trace.
    pub is_sampled: bool,
    /// What others in the trace have to say to each other, as it came.
    pub state: String,
}

impl CallerTrace {
    /// Reads the values of both headers. A state without a parent means nothing.
    pub fn read(parent: &str, state: &str) -> Option<Self> {
        let version: u8 = hex(parent, 0, 2)?.try_into().ok()?;
        let trace_id = hex(parent, 3, 35)?;
        let parent_id: u64 = hex(parent, 36, 52)?.try_into().ok()?;
        let flags: u8 = hex(parent, 53, LENGTH)?.try_into().ok()?;
        let dashes = [2, 35, 52].map(|at| parent.as_bytes().get(at) == Some(&b'-'));
        // Versions to come may say more at the end. This one may not.
        let more = parent.get(LENGTH..)?;
        let is_whole = more.is_empty() || (version > 0 && more.starts_with('-'));
        let is_valid = version != u8::MAX && trace_id != 0 && parent_id != 0;
        let state = if state.len() <= STATE_LENGTH_MAX {
            state
        } else {
            ""
        };
        (is_valid && is_whole && dashes == [true; 3]).then(|| Self {
            trace_id,
            parent_id,
            is_sampled: flags & 1 == 1,
            state: state.to_owned(),
        })
    }
}

fn hex(text: &str, from: usize, to: usize) -> Option<u128> {
    let digits = text.get(from..to)?;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits
        .bytes()
        .all(is_hex)
        .then(|| u128::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_well_formed_parent_is_read() {
        let read = |text: &str| {
            let trace = CallerTrace::read(text, "a=1").unwrap();
            (
                trace.trace_id,
                trace.parent_id,
                trace.is_sampled,
                trace.state,
            )
        };
        let (trace_id, parent_id) = (
            0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            0x00f0_67aa_0ba9_02b7,
        );
        #[rustfmt::skip]
        let table = [
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", false),
            // Flags that this version does not know.
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", true),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe", false),
            // A version to come, with and without more to say.
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-will-be-like", true),
        ];
        for (text, is_sampled) in table {
            let expected = (trace_id, parent_id, is_sampled, "a=1".to_owned());
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_well_formed_is_no_trace() {
        #[rustfmt::skip]
        let table = [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473ü-00f067aa0ba902b7-0",
        ];
        for text in table {
            assert_eq!(CallerTrace::read(text, ""), None, "{text}");
        }
    }

    #[test]
    fn a_state_that_is_too_long_is_left_out_and_the_trace_goes_on() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let state = |length| {
            CallerTrace::read(parent, &"a".repeat(length))
                .unwrap()
                .state
        };
        assert_eq!(state(512).len(), 512);
        assert_eq!(state(513), "");
    }
}
