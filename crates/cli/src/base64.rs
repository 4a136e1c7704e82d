//! Base64 for binary data in JSON.

use ::base64::{Engine as _, prelude::BASE64_STANDARD};

/// Encodes with the standard alphabet and padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Decodes base64 of the server.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}
