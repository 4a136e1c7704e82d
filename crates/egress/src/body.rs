//! Bounded reader of response bodies.

use bytes::{Bytes, BytesMut};

use crate::{
    classify::classify,
    error::{Error, Part},
    fetch::Overflow,
    host::Host,
};

/// Body as read.
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    /// Whether the body was longer than the bound.
    pub(crate) truncated: bool,
}

/// Size bound, and the behaviour when it is exceeded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) most: usize,
    pub(crate) overflow: Overflow,
}

/// Reads chunk by chunk, so that at most one chunk beyond the bound is ever in memory.
pub(crate) async fn read(
    mut response: reqwest::Response,
    host: &Host,
    bound: Bound,
) -> Result<Body, Error> {
    // Refuses an announced excess early; a wrong announcement is caught below.
    let announced = response.content_length().is_some_and(|length| length > bound.most as u64);
    if announced && bound.overflow == Overflow::Refuse {
        return Err(too_large(bound.most));
    }
    let mut bytes = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| classify(error, host))? {
        let room = bound.most - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return overflowed(bytes, bound);
        }
    }
    Ok(Body { bytes: bytes.freeze(), truncated: false })
}

fn overflowed(bytes: BytesMut, bound: Bound) -> Result<Body, Error> {
    match bound.overflow {
        Overflow::Refuse => Err(too_large(bound.most)),
        Overflow::Truncate => Ok(Body { bytes: bytes.freeze(), truncated: true }),
    }
}

fn too_large(most: usize) -> Error {
    Error::TooLarge { part: Part::Body, limit: most.to_string() }
}
