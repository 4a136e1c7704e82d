//! Sending something large that is whole in memory.
//!
//! A client that takes it slowly, or asks for it many times at once, must not decide how much
//! memory is used: there is room for a few, for fewer of one key, and for a bounded time.

use std::{io, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use ringfence_access::{KnownKey, OpenSlot};
use ringfence_edge::{Problem, problem_codes};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use crate::shared::Shared;

/// Snapshots that one key may be sent at one time: each is whole in memory until its client has it.
const SNAPSHOTS_PER_KEY: usize = 2;

/// Room for one answer, given back when the last of it is handed over.
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
        let of_key = known.usage.snapshots.open(SNAPSHOTS_PER_KEY).ok_or_else(busy)?;
        let of_all = shared.sending.clone().try_acquire_owned().map_err(|_| busy())?;
        Ok(Self { _of_all: of_all, _of_key: of_key })
    }
}

/// Bytes handed over at one time.
const PIECE: usize = 64 << 10;

/// All of the bytes, piece by piece. What is not taken within `limit` is cut off.
pub(super) fn whole(bytes: Vec<u8>, room: Sending, limit: Duration) -> Response {
    let (length, until) = (bytes.len(), Instant::now() + limit);
    let pieces = stream::unfold((bytes, 0, room), move |(bytes, at, room)| async move {
        if at >= bytes.len() {
            return None;
        }
        if Instant::now() >= until {
            return Some((Err(io::ErrorKind::TimedOut.into()), (Vec::new(), 0, room)));
        }
        let end = bytes.len().min(at + PIECE);
        // A copy: a slice would keep the whole alive for as long as its last piece waits.
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
