//! W3C trace context: trace id and span id of an operation.
//!
//! Parsed strictly: a header that deviates from the specification is ignored, and the reader begins
//! a new trace.

mod state;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

pub use self::state::TraceState;
use crate::CallId;

/// Trace id: sixteen bytes, not all zero. Written as 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(
    /// Kept by the constructor: not zero.
    u128,
);

impl TraceId {
    /// Trace id from random bits. Zero, which is invalid, becomes one.
    pub const fn from_random(random: u128) -> Self {
        Self(if random == 0 { 1 } else { random })
    }

    /// Bytes, as on binary wires.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Position from 0 to 1, evenly spread, for sampling a share of all traces.
    pub fn position(self) -> f64 {
        // The specification asks for randomness in the last seven bytes; a double holds most of it.
        let random = self.0 & 0x00ff_ffff_ffff_ffff;
        random as f64 / (1_u64 << 56) as f64
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Span id: eight bytes, not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(
    /// Kept by the constructor: not zero.
    u64,
);

impl SpanId {
    /// Span id from random bits. Zero, which is invalid, becomes one.
    pub const fn from_random(random: u64) -> Self {
        Self(if random == 0 { 1 } else { random })
    }

    /// Span of a call: the last eight bytes of the call's id, so that each leads to the other and
    /// nothing more need be stored.
    pub fn of_call(call: CallId) -> Self {
        Self::from_random(call.0.as_u64_pair().1)
    }

    /// Bytes, as on binary wires.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Trace id, span id and flags of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent {
    /// Id of the trace.
    pub trace: TraceId,
    /// Id of the span.
    pub span: SpanId,
    /// Defined flags only.
    flags: u8,
}

/// Invalid `traceparent`; the specification asks to ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent")]
pub struct InvalidTraceParent;

/// Flag: an earlier service records this trace.
const SAMPLED: u8 = 1;
/// Flag: the last seven bytes of the trace id are random.
const RANDOM: u8 = 2;

impl TraceParent {
    /// Root of a trace.
    pub const fn begin(trace: TraceId, span: SpanId, is_sampled: bool) -> Self {
        Self { trace, span, flags: RANDOM | if is_sampled { SAMPLED } else { 0 } }
    }

    /// Another span of the same trace.
    #[must_use]
    pub const fn with_span(self, span: SpanId) -> Self {
        Self { span, ..self }
    }

    /// Whether the trace is recorded.
    pub const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let parts: Vec<&str> = text.splitn(5, '-').collect();
        let [version, trace, span, flags, ..] = parts[..] else {
            return Err(InvalidTraceParent);
        };
        // A later version may append parts; version 00 has none, and ff is invalid.
        if version == "ff" || (version == "00" && parts.len() != 4) {
            return Err(InvalidTraceParent);
        }
        hexadecimal(version, 2)?;
        let trace = hexadecimal(trace, 32)?;
        let span = hexadecimal(span, 16)? as u64;
        let flags = hexadecimal(flags, 2)? as u8 & (SAMPLED | RANDOM);
        match (trace, span) {
            (0, _) | (_, 0) => Err(InvalidTraceParent),
            _ => Ok(Self { trace: TraceId(trace), span: SpanId(span), flags }),
        }
    }
}

/// Number of exactly `length` lower-case hexadecimal digits.
fn hexadecimal(text: &str, length: usize) -> Result<u128, InvalidTraceParent> {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match text.len() == length && text.bytes().all(is_digit) {
        true => u128::from_str_radix(text, 16).map_err(|_| InvalidTraceParent),
        false => Err(InvalidTraceParent),
    }
}

impl TryFrom<String> for TraceParent {
    type Error = InvalidTraceParent;

    fn try_from(text: String) -> Result<Self, InvalidTraceParent> {
        text.parse()
    }
}

impl From<TraceParent> for String {
    fn from(parent: TraceParent) -> Self {
        parent.to_string()
    }
}

/// Trace context of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// Trace id and span id of the request.
    pub parent: TraceParent,
    /// State passed on by other tracing systems.
    pub state: Option<TraceState>,
}

impl From<TraceParent> for TraceContext {
    fn from(parent: TraceParent) -> Self {
        Self { parent, state: None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_parent_reads_what_it_writes() {
        let parent: TraceParent = GOOD.parse().unwrap();
        assert_eq!(parent.to_string(), GOOD);
        assert_eq!(parent.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert!(parent.is_sampled());
        let fresh = TraceParent::begin(TraceId::from_random(7), SpanId::from_random(0), false);
        assert_eq!(fresh.to_string(), format!("00-{:032x}-{:016x}-02", 7, 1));
        assert_eq!(fresh.to_string().parse(), Ok(fresh));
    }

    #[test]
    fn nonsense_is_not_a_trace() {
        let zero = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let no_span = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        let long = format!("{GOOD}-00");
        let spaced = format!(" {GOOD}");
        let no_version = format!("ff{}", &GOOD[2..]);
        let signed = GOOD.replace("-b7", "-+7");
        for bad in [
            "",
            "00",
            zero,
            no_span,
            &GOOD.to_uppercase(),
            &GOOD[..54],
            &long,
            &spaced,
            &no_version,
            &signed,
            "ff",
        ] {
            assert_eq!(bad.parse::<TraceParent>(), Err(InvalidTraceParent), "{bad}");
        }
    }

    #[test]
    fn a_version_to_come_may_say_more_and_is_answered_in_ours() {
        for later in [format!("01{}-more", &GOOD[2..]), format!("cc{}", &GOOD[2..])] {
            assert_eq!(later.parse::<TraceParent>().unwrap().to_string(), GOOD, "{later}");
        }
        // Unknown flags are not passed on.
        let flags = format!("{}ff", &GOOD[..53]);
        assert!(flags.parse::<TraceParent>().unwrap().to_string().ends_with("-03"));
    }

    #[test]
    fn a_share_of_traces_is_chosen_by_their_random_part() {
        assert_eq!(TraceId::from_random(1 << 60).position(), 0.0);
        let last = TraceId::from_random(u128::MAX).position();
        assert!((0.999..=1.0).contains(&last), "{last}");
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_is_written_the_same(text in "(00|01|ff)?-?[0-9a-f-]{0,60}") {
            if let Ok(parent) = text.parse::<TraceParent>() {
                prop_assert_eq!(parent.to_string().parse(), Ok(parent));
            }
        }
    }
}
