//! Tool versions: three numbers separated by dots.

use std::str::FromStr;

/// Version, ordered by number, not by text: 1.10.0 is newer than 1.9.0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    numbers: [u32; 3],
    /// Text as written; `01.0.0` and `1.0.0` stay two versions with a fixed order.
    text: String,
}

/// Invalid version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be three numbers with dots, such as 1.0.0")]
pub(crate) struct InvalidVersion;

impl Version {
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let numbers: Vec<u32> = text.split('.').map(number).collect::<Result<_, _>>()?;
        let numbers = numbers.try_into().map_err(|_| InvalidVersion)?;
        Ok(Self { numbers, text: text.to_owned() })
    }
}

/// Number of at most nine digits, which suffice for a date.
fn number(text: &str) -> Result<u32, InvalidVersion> {
    let fits = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().map_err(|_| InvalidVersion) } else { Err(InvalidVersion) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_number() {
        let order = ["0.9.12", "1.2.9", "1.2.10", "1.10.0", "20260131.0.0"];
        let parsed: Vec<Version> = order.iter().map(|text| text.parse().unwrap()).collect();
        assert!(parsed.is_sorted());
    }

    #[test]
    fn only_three_plain_numbers_are_a_version() {
        for bad in ["", "1", "1.0", "1.0.0.0", "1..0", "v1.0.0", "1.0.0-beta", "+1.0.0", "1.0.０"]
        {
            assert_eq!(bad.parse::<Version>(), Err(InvalidVersion), "{bad}");
        }
        assert!("1.0.9999999999".parse::<Version>().is_err());
    }
}
