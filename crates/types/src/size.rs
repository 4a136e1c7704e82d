//! Quantities as people write them: `64M`, `1.5G`, `500ms`, `5s`.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// Number of bytes; suffixes are powers of 1024.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) if self.0.is_multiple_of(*unit) => {
                write!(f, "{} {name}", self.0 / unit)
            }
            Some((unit, name)) => write!(f, "{:.1} {name}", self.0 as f64 / *unit as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// Invalid quantity: not a number, negative, an unknown unit, or out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct InvalidQuantity {
    /// Text that was given.
    pub text: String,
    /// Expected form, with an example.
    pub expected: &'static str,
}

impl FromStr for Bytes {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let scale = |unit: &str| match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => Some(1.0),
            "k" | "kb" | "kib" => Some(1024.0),
            "m" | "mb" | "mib" => Some(1024.0 * 1024.0),
            "g" | "gb" | "gib" => Some(1024.0 * 1024.0 * 1024.0),
            "t" | "tb" | "tib" => Some(1024.0 * 1024.0 * 1024.0 * 1024.0),
            _ => None,
        };
        quantity(text, scale)
            .filter(|bytes| *bytes <= (1_u64 << 50) as f64)
            .map(|bytes| Bytes(bytes as u64))
            .ok_or(InvalidQuantity { text: text.into(), expected: "a size such as 64M or 1.5G" })
    }
}

/// Parses `250ms`, `5s`, `2m`, `1h`; a bare number is seconds. At most a year.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidQuantity> {
    let scale = |unit: &str| match unit.trim() {
        "us" => Some(1e-6),
        "ms" => Some(1e-3),
        "" | "s" => Some(1.0),
        "m" | "min" => Some(60.0),
        "h" => Some(3600.0),
        "d" => Some(86400.0),
        _ => None,
    };
    quantity(text, scale)
        .filter(|secs| *secs <= 366.0 * 86400.0)
        .map(Duration::from_secs_f64)
        .ok_or(InvalidQuantity { text: text.into(), expected: "a duration such as 500ms or 5s" })
}

/// Number of a text `number unit` with a table of units; `None` for anything else.
fn quantity(text: &str, scale: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    Some(number * scale(unit)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, bytes: u64) {
        assert_eq!(text.parse::<Bytes>().map(|b| b.0), Ok(bytes), "{text}");
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        check("64M", 64 << 20);
        check("64 MiB", 64 << 20);
        check("1.5G", 3 << 29);
        check("512", 512);
        check("0", 0);
    }

    #[test]
    fn nonsense_sizes_are_refused_with_an_example() {
        for text in ["", "M", "-1M", "1e9", "12Q", "9999999T", "nan", "inf", "1..2", "٣M"] {
            let error = text.parse::<Bytes>().expect_err(text);
            assert_eq!(error.to_string(), format!("`{text}` is not a size such as 64M or 1.5G"));
        }
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert!(parse_duration("5 parsecs").is_err());
        assert!(parse_duration("99999999999h").is_err());
    }

    #[test]
    fn sizes_print_in_the_largest_fitting_unit() {
        assert_eq!(Bytes::mib(64).to_string(), "64 MiB");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes(12).to_string(), "12 B");
    }

    proptest! {
        #[test]
        fn no_input_panics(text in ".{0,40}") {
            let _ = text.parse::<Bytes>();
            let _ = parse_duration(&text);
        }
    }
}
