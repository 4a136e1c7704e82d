//! W3C trace context: taken from whoever asks, made up if there is none.

use std::{fmt, str::FromStr};

use uuid::Uuid;

/// The trace a request is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    /// 32 lower-case hexadecimal digits, not all zero.
    trace_id: String,
    /// 16 lower-case hexadecimal digits, not all zero.
    parent_id: String,
    sampled: bool,
}

/// Not a `traceparent`; the specification asks to ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent")]
pub struct InvalidTraceParent;

impl TraceParent {
    /// The trace's id.
    pub fn trace_id(&self) -> &str {
        &self.trace_id
    }

    /// A new trace.
    pub fn fresh() -> Self {
        let parent_id = Uuid::new_v4().simple().to_string()[..16].to_owned();
        Self { trace_id: Uuid::new_v4().simple().to_string(), parent_id, sampled: true }
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.parent_id, u8::from(self.sampled))
    }
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let parts: Vec<&str> = text.splitn(5, '-').collect();
        let [version, trace_id, parent_id, flags, ..] = parts[..] else {
            return Err(InvalidTraceParent);
        };
        // A later version may append parts; version 00 has none, and ff is no version.
        let parts_fit = parts.len() == 4 || version != "00";
        let fits = parts_fit
            && is_hex(version, 2)
            && version != "ff"
            && is_hex(trace_id, 32)
            && is_hex(parent_id, 16)
            && is_hex(flags, 2);
        let zero = |digits: &str| digits.bytes().all(|digit| digit == b'0');
        if !fits || zero(trace_id) || zero(parent_id) {
            return Err(InvalidTraceParent);
        }
        let sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
        Ok(Self { trace_id: trace_id.to_owned(), parent_id: parent_id.to_owned(), sampled })
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_parent_reads_what_it_writes() {
        let parent: TraceParent = GOOD.parse().unwrap();
        assert_eq!(parent.to_string(), GOOD);
        assert_eq!(parent.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        let fresh = TraceParent::fresh();
        assert_eq!(fresh.to_string().parse(), Ok(fresh));
    }

    #[test]
    fn nonsense_is_not_a_trace() {
        let zero = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let long = format!("{GOOD}-00");
        for bad in ["", "00", zero, &GOOD.to_uppercase(), &GOOD[..54], &long, "ff"] {
            assert_eq!(bad.parse::<TraceParent>(), Err(InvalidTraceParent), "{bad}");
        }
        // A version to come may have more to say.
        assert!(format!("01{}-more", &GOOD[2..]).parse::<TraceParent>().is_ok());
    }
}
