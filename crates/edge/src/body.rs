//! Reading a request's body: of the right type, within bounds of size and time.

use std::sync::Arc;

use axum::{body::Body, extract::Request};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt;
use ringfence_types::Json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Edge,
    problem::{self, Problem},
    problem_codes,
};

/// Bodies up to this size are not counted: as many as there are connections do no harm.
const MAX_UNCOUNTED: usize = 64 << 10;

/// A body that arrived, and its share of the room for large ones.
#[derive(Debug)]
pub struct Taken {
    /// The body.
    pub bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// The JSON of a request.
pub async fn json(edge: &Edge, request: Request) -> Result<Json, Problem> {
    check_type(request.headers(), "application/json")?;
    let taken = take(edge, request, edge.config().max_body).await?;
    problem::parse(&taken.bytes)
}

/// The bytes of a request, at most `max_bytes`.
pub async fn take(edge: &Edge, request: Request, max_bytes: usize) -> Result<Taken, Problem> {
    check_coding(request.headers())?;
    if declared(request.headers()).is_some_and(|length| length > max_bytes as u64) {
        return Err(too_large(max_bytes));
    }
    let taking = collect(&edge.0.bodies, request.into_body(), max_bytes);
    match tokio::time::timeout(edge.config().request_timeout, taking).await {
        Ok(taken) => taken,
        Err(_) => Err(too_slow(edge)),
    }
}

/// The body took longer than a body may.
pub fn too_slow(edge: &Edge) -> Problem {
    let secs = edge.config().request_timeout.as_secs_f64();
    Problem::new(&problem_codes::BODY_TIMEOUT, format!("the body did not arrive within {secs} s"))
}

async fn collect(
    room: &Arc<Semaphore>,
    mut body: Body,
    max_bytes: usize,
) -> Result<Taken, Problem> {
    let mut whole = Bytes::new();
    let mut grown: Option<BytesMut> = None;
    let mut held: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| unreadable())?.into_data() else { continue };
        let length = grown.as_ref().map_or(whole.len(), BytesMut::len) + data.len();
        if length > max_bytes {
            return Err(too_large(max_bytes));
        }
        if length > MAX_UNCOUNTED {
            let more = length - held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let permit =
                room.clone().try_acquire_many_owned(u32::try_from(more).unwrap_or(u32::MAX));
            let permit = permit.map_err(|_| no_room())?;
            match &mut held {
                Some(held) => held.merge(permit),
                None => held = Some(permit),
            }
        }
        // Most bodies are one piece, which is taken as it is.
        if whole.is_empty() && grown.is_none() {
            whole = data;
            continue;
        }
        let grown = grown.get_or_insert_with(|| BytesMut::from(&whole[..]));
        grown.extend_from_slice(&data);
    }
    Ok(Taken { bytes: grown.map_or(whole, BytesMut::freeze), _room: held })
}

fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body of this media type, whatever its parameters.
pub fn check_type(headers: &HeaderMap, expected: &str) -> Result<(), Problem> {
    let found = media_type(headers);
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let detail = format!("the `Content-Type` must be `{expected}`");
    Err(Problem::new(&problem_codes::MEDIA_TYPE_UNSUPPORTED, detail))
}

/// The media type without its parameters; empty if there is none.
pub fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or("").split(';').next().unwrap_or("").trim()
}

/// Whether `Accept` names this media type, whatever its parameters.
pub fn accepts(headers: &HeaderMap, media_type: &HeaderValue) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(','));
    types.any(|accepted| {
        let accepted = accepted.split(';').next().unwrap_or_default().trim();
        accepted.as_bytes().eq_ignore_ascii_case(media_type.as_bytes())
    })
}

/// A compressed body could grow a thousandfold here.
fn check_coding(headers: &HeaderMap) -> Result<(), Problem> {
    let codings = headers.get_all(header::CONTENT_ENCODING);
    if codings.iter().all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let detail = "bodies are taken without `Content-Encoding`";
    Err(Problem::new(&problem_codes::MEDIA_TYPE_UNSUPPORTED, detail))
}

/// The body is larger than a body may be.
pub fn too_large(max_bytes: usize) -> Problem {
    Problem::new(&problem_codes::BODY_TOO_LARGE, format!("the body may have {max_bytes} bytes"))
        .with("max_bytes", max_bytes)
}

fn unreadable() -> Problem {
    Problem::new(&problem_codes::BODY_UNREADABLE, "the body ended early or was framed wrongly")
}

fn no_room() -> Problem {
    Problem::new(&problem_codes::BUSY, "too many large bodies arrive at once")
        .retry_after(std::time::Duration::from_secs(1))
}
