//! Bytes that are not text, in JSON.

use ::base64::{Engine as _, prelude::BASE64_STANDARD};

/// In the usual alphabet, with padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// The bytes of a text that the server wrote.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}
