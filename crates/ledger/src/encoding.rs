//! Bytes as text, with one spelling each: padded base64 without stray bits, lower-case hexadecimal.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ringfence_types::Digest;
use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Appends base64 to a text.
pub(crate) fn push_base64(bytes: &[u8], to: &mut String) {
    STANDARD.encode_string(bytes, to);
}

pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(text).ok()?;
    // Re-encoded and compared: a lenient decoder would accept a second spelling.
    (base64(&bytes) == text).then_some(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    (hex(&bytes) == text).then_some(bytes)
}

/// A digest as bare digits, as in key ids and subjects.
pub(crate) fn bare_digest(text: &str) -> Option<Digest> {
    from_hex(text).map(Digest::from_bytes)
}

/// For `serde(with)`: a hash as base64.
pub(crate) mod hashes {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(hashes: &[Digest], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(hashes.iter().map(|hash| base64(hash.as_bytes())))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Digest>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        let read = |text: String| {
            let bytes: Option<[u8; 32]> = from_base64(&text).and_then(|b| b.try_into().ok());
            bytes.map(Digest::from_bytes).ok_or_else(|| D::Error::custom("not a hash in base64"))
        };
        texts.into_iter().map(read).collect()
    }
}

/// For `serde(with)`: bytes as base64.
pub(crate) mod bytes {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&base64(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        from_base64(&text).ok_or_else(|| D::Error::custom("not base64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_spelling() {
        assert_eq!(from_base64("Zg==").as_deref(), Some(&b"f"[..]));
        for bad in ["Zg", "Zg=", "Zh==", "Zg==\n", "Z===", "Zm9v "] {
            assert_eq!(from_base64(bad), None, "{bad:?}");
        }
        assert_eq!(from_hex("00ff"), Some([0, 255]));
        for bad in ["00FF", "0ff", "+0ff", "00fg", "00ff0", "é0f"] {
            assert_eq!(from_hex::<2>(bad), None, "{bad:?}");
        }
    }
}
