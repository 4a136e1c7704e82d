//! Timestamps.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};

/// Microseconds since 1970-01-01T00:00:00Z. Written as RFC 3339 in UTC, always with `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Timestamp(i64);

/// Invalid timestamp: not RFC 3339 between the years 1 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 instant such as 2026-01-31T12:00:00Z")]
pub struct InvalidTimestamp;

impl Timestamp {
    /// Timestamp from microseconds, clamped to the years 1 to 9999.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(-62_135_596_800_000_000, 253_402_207_200_000_000))
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Timestamp later by `duration`.
    #[must_use]
    pub fn after(self, duration: std::time::Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// Timestamp earlier by `duration`.
    #[must_use]
    pub fn before(self, duration: std::time::Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_sub(micros))
    }

    /// Time since `earlier`; zero if this is before it.
    pub fn since(self, earlier: Self) -> std::time::Duration {
        let micros = self.0.saturating_sub(earlier.0);
        std::time::Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// Value of the calendar library.
    pub fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_microsecond(self.0).expect("kept within range by the constructor")
    }
}

/// Length of the text: years have four digits and fractions six.
const LENGTH: usize = "2026-01-31T12:00:00.000000Z".len();

impl Timestamp {
    /// Text on the stack: every call writes a dozen of them.
    fn written<T>(self, read: impl FnOnce(&str) -> T) -> T {
        let days = self.0.div_euclid(DAY);
        let within = self.0.rem_euclid(DAY);
        let (year, month, day) = civil(days);
        let (secs, micros) = (within / 1_000_000, within % 1_000_000);
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        digits(&mut text[0..4], year);
        digits(&mut text[5..7], month);
        digits(&mut text[8..10], day);
        digits(&mut text[11..13], secs / 3_600);
        digits(&mut text[14..16], secs / 60 % 60);
        digits(&mut text[17..19], secs % 60);
        digits(&mut text[20..LENGTH - 1], micros);
        read(str::from_utf8(&text).expect("digits are ASCII"))
    }
}

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Year, month and day of a day counted from 1970. Years begin in March here, so that the leap day is
/// their last (Howard Hinnant, "chrono-compatible low-level date algorithms").
const fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leaps = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + if month <= 2 { 1 } else { 0 }, month, day)
}

/// Writes a number into a fixed field, from its end.
fn digits(place: &mut [u8], mut number: i64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written(|text| f.write_str(text))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written(|text| serializer.serialize_str(text))
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

/// Source of time. Nothing below `cli` reads a clock of its own.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Current time.
    fn now(&self) -> Timestamp;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_instant_is_written_in_utc_with_microseconds() {
        let at = Timestamp::from_micros(1_700_000_000_123_456);
        assert_eq!(at.to_string(), "2023-11-14T22:13:20.123456Z");
        assert_eq!(at.to_string().parse(), Ok(at));
        assert_eq!("2023-11-15T00:13:20.123456+02:00".parse(), Ok(at));
    }

    proptest! {
        #[test]
        fn an_instant_is_written_as_a_calendar_has_it(micros in any::<i64>(), near in 0..4_102_444_800_000_000_i64) {
            for at in [micros, near, -near].map(Timestamp::from_micros) {
                prop_assert_eq!(at.to_string(), format!("{:.6}", at.to_jiff()));
            }
        }
    }

    #[test]
    fn extremes_are_clamped_and_never_panic() {
        for micros in [i64::MIN, i64::MAX] {
            let at = Timestamp::from_micros(micros);
            assert_eq!(at.to_string().parse(), Ok(at));
        }
    }
}
