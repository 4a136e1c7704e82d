//! Responses that are whole in memory.
//!
//! A slow client, or many requests at once, must not decide how much memory is used: the number is
//! bounded, overall and per key, and so is the time.

use std::{io, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use ringfence_access::{KnownKey, OpenSlot};
use ringfence_edge::{Problem, problem_codes};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use crate::shared::Shared;

/// Snapshots being sent per key: each is whole in memory until its client has it.
const MAX_SNAPSHOTS_PER_KEY: usize = 2;

/// Permit for one response, returned when its last byte is handed over.
#[derive(Debug)]
pub(super) struct Sending {
    _of_all: OwnedSemaphorePermit,
    _of_key: OpenSlot,
}

impl Sending {
    pub(super) fn take(shared: &Shared, known: &KnownKey) -> Result<Self, Problem> {
        let busy = || {
            Problem::new(&problem_codes::BUSY, "too many snapshots are being sent")
                .retry_after(Duration::from_secs(1))
        };
        let of_key = known.usage.snapshots.open(MAX_SNAPSHOTS_PER_KEY).ok_or_else(busy)?;
        let of_all = shared.sending.clone().try_acquire_owned().map_err(|_| busy())?;
        Ok(Self { _of_all: of_all, _of_key: of_key })
    }
}

/// Bytes per chunk.
const CHUNK_BYTES: usize = 64 << 10;

/// All bytes, chunk by chunk, cut off after `limit`.
pub(super) fn whole(bytes: Vec<u8>, room: Sending, limit: Duration) -> Response {
    let (length, until) = (bytes.len(), Instant::now() + limit);
    let pieces = stream::unfold((bytes, 0, room), move |(bytes, at, room)| async move {
        if at >= bytes.len() {
            return None;
        }
        if Instant::now() >= until {
            return Some((Err(io::ErrorKind::TimedOut.into()), (Vec::new(), 0, room)));
        }
        let end = bytes.len().min(at + CHUNK_BYTES);
        // A copy: a slice would keep the whole alive while its last chunk waits.
        let piece = Bytes::copy_from_slice(&bytes[at..end]);
        Some((Ok::<_, io::Error>(piece), (bytes, end, room)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_LENGTH, length.into());
    response
}
