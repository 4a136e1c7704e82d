//! Bounds on number and total size of headers.

use http::{HeaderMap, HeaderName, header};

use crate::error::{Error, Part};

/// Number of headers after which the HTTP client stops parsing. Real responses have some dozens.
pub(crate) const MAX_HEADERS: usize = 100;

/// Size of names and values together. The HTTP client by itself would read some hundred KiB.
const MAX_HEADER_BYTES: usize = 64 * 1024;

pub(crate) fn too_many() -> Error {
    let limit = format!("{MAX_HEADERS} lines or {} KiB", MAX_HEADER_BYTES / 1024);
    Error::TooLarge { part: Part::Headers, limit }
}

/// Headers that the client sets itself, or that are about the connection.
const RESERVED: [HeaderName; 8] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
];

/// Refuses headers of a caller that would change how the request is framed or whom it addresses.
pub(crate) fn check_own(headers: &HeaderMap) -> Result<(), Error> {
    match RESERVED.iter().find(|name| headers.contains_key(*name)) {
        Some(name) => Err(Error::HeaderRefused { name: name.clone() }),
        None if headers.len() > MAX_HEADERS => Err(too_many()),
        None => check(headers),
    }
}

pub(crate) fn check(headers: &HeaderMap) -> Result<(), Error> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > MAX_HEADER_BYTES { Err(too_many()) } else { Ok(()) }
}
