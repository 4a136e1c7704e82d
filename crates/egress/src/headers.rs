//! Bounds on number and total size of response headers.

use http::HeaderMap;

use crate::error::{Error, Part};

/// Number of headers after which the HTTP client stops parsing. Real responses have some dozens.
pub(crate) const MAX_HEADERS: usize = 100;

/// Size of names and values together. The HTTP client by itself would read some hundred KiB.
const MAX_HEADER_BYTES: usize = 64 * 1024;

pub(crate) fn too_many() -> Error {
    let limit = format!("{MAX_HEADERS} lines or {} KiB", MAX_HEADER_BYTES / 1024);
    Error::TooLarge { part: Part::Headers, limit }
}

pub(crate) fn check(headers: &HeaderMap) -> Result<(), Error> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > MAX_HEADER_BYTES { Err(too_many()) } else { Ok(()) }
}
