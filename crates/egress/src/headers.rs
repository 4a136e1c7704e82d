//! How many headers a response may have, and how large they may be together.

use http::HeaderMap;

use crate::error::{Error, Part};

/// The HTTP client stops parsing here. Real responses have some dozens.
pub(crate) const MOST_HEADERS: usize = 100;

/// Names and values together. The HTTP client reads some hundred KiB before it gives up by itself.
const LARGEST_HEADERS: usize = 64 * 1024;

pub(crate) fn too_many() -> Error {
    let limit = format!("{MOST_HEADERS} lines or {} KiB", LARGEST_HEADERS / 1024);
    Error::TooLarge { part: Part::Headers, limit }
}

pub(crate) fn check(headers: &HeaderMap) -> Result<(), Error> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > LARGEST_HEADERS { Err(too_many()) } else { Ok(()) }
}
