//! SHA-256 digests, written `sha256:<hex>`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::Json;

/// SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest([u8; 32]);

/// Invalid digest: not `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected `sha256:` and 64 lower-case hexadecimal digits")]
pub struct InvalidDigest;

impl Digest {
    /// Digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Digest of a JSON value: equal values have equal digests, however they were spaced or ordered.
    pub fn of_json(json: &Json) -> Self {
        json.digest()
    }

    /// Digest from its 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 digits without the algorithm's name.
    pub fn hex(&self) -> String {
        self.written(|text| text[NAME.len()..].to_owned())
    }

    /// Text on the stack: every call writes a dozen of them.
    fn written<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; LENGTH];
        let (name, digits) = text.split_at_mut(NAME.len());
        name.copy_from_slice(NAME.as_bytes());
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        read(str::from_utf8(&text).expect("digits are ASCII"))
    }
}

/// Prefix with the algorithm's name.
const NAME: &str = "sha256:";

/// Length of the text.
const LENGTH: usize = NAME.len() + 64;

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written(|text| serializer.serialize_str(text))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written(|text| f.write_str(text))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let hex = text.strip_prefix(NAME).ok_or(InvalidDigest)?;
        let lower = hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if hex.len() != 64 || !lower {
            return Err(InvalidDigest);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
        }
        Ok(Self(bytes))
    }
}

fn nibble(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_what_it_writes_and_nothing_else() {
        let digest = Digest::of(b"abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        for bad in [&text[7..], &text.to_uppercase(), &text[..70], "sha256:", ""] {
            assert_eq!(bad.parse::<Digest>(), Err(InvalidDigest), "{bad}");
        }
    }

    #[test]
    fn equal_values_have_equal_digests() {
        let one = Json::parse(br#"{"b": 1.0, "a": "\u0041"}"#).unwrap();
        let other = Json::parse(br#"{"a":"A","b":1}"#).unwrap();
        assert_eq!(Digest::of_json(&one), Digest::of_json(&other));
    }
}
