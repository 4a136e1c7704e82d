//! Base64 of RFC 4648 in the usual alphabet.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Lenient decoder: clients differ about padding, and some do not clear the bits after the last
/// byte.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Encodes with padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    LENIENT.encode(bytes)
}

/// Decodes text with or without padding; `None` for anything else.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    LENIENT.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in vectors {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded).as_deref(), Some(plain.as_bytes()));
            assert_eq!(decode(coded.trim_end_matches('=')).as_deref(), Some(plain.as_bytes()));
        }
        for bad in ["Z", "Zm9v!", "====", "-_8", "Zg===", "Z g="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
