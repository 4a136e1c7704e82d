//! Instants, as people read them and as rows keep them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01T00:00:00Z. Written as RFC 3339 in UTC, always with `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(i64);

/// Text that is not an RFC 3339 instant between the years 1 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 instant such as 2026-01-31T12:00:00Z")]
pub struct InvalidTimestamp;

impl Timestamp {
    /// From microseconds; what lies outside the years 1 to 9999 becomes the nearer end.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(-62_135_596_800_000_000, 253_402_207_200_000_000))
    }

    /// To microseconds.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This instant so much later.
    #[must_use]
    pub fn after(self, duration: std::time::Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// How long after `earlier` this is; zero if it is before.
    pub fn since(self, earlier: Self) -> std::time::Duration {
        let micros = self.0.saturating_sub(earlier.0);
        std::time::Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// For calendars and formats.
    pub fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_microsecond(self.0).expect("kept within range by the constructor")
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.to_jiff())
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let parsed: jiff::Timestamp = text.parse().map_err(|_| InvalidTimestamp)?;
        Ok(Self::from_micros(parsed.as_microsecond()))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = InvalidTimestamp;

    fn try_from(text: String) -> Result<Self, InvalidTimestamp> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(timestamp: Timestamp) -> Self {
        timestamp.to_string()
    }
}

/// Where the time comes from. Nothing below `cli` reads a clock of its own.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Timestamp;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_written_in_utc_with_microseconds() {
        let at = Timestamp::from_micros(1_700_000_000_123_456);
        assert_eq!(at.to_string(), "2023-11-14T22:13:20.123456Z");
        assert_eq!(at.to_string().parse(), Ok(at));
        assert_eq!("2023-11-15T00:13:20.123456+02:00".parse(), Ok(at));
    }

    #[test]
    fn extremes_are_clamped_and_never_panic() {
        for micros in [i64::MIN, i64::MAX] {
            let at = Timestamp::from_micros(micros);
            assert_eq!(at.to_string().parse(), Ok(at));
        }
    }
}
