//! Server-sent events.
//!
//! Nothing is fetched ahead of a slow client, so a client can slow down itself alone. A stream ends
//! after its last event, or when the server stops.

use std::time::Duration;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ringfence_access::{KeyEnd, KnownKey, OpenSlot};
use ringfence_engine::{FactId, Follow, Subject};
use ringfence_types::Fact;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::{Edge, Problem, problem_codes, query::Query};

/// First bytes of a stream: the delay after which a client connects again.
const HELLO: &[u8] = b"retry: 2000\n: hello\n\n";
const HEARTBEAT: &[u8] = b": still here\n\n";

/// The place of one stream among those of its key and of the server, until it is dropped.
#[derive(Debug)]
pub struct StreamSlot {
    _of_all: OwnedSemaphorePermit,
    _of_key: OpenSlot,
    key_end: KeyEnd,
    edge: Edge,
}

impl StreamSlot {
    /// A place for one more stream of this key, if there is one.
    pub fn take(edge: &Edge, known: &KnownKey) -> Result<Self, Problem> {
        let max = edge.config().max_streams_per_key;
        let of_key = known.usage.streams.open(max).ok_or_else(|| {
            let detail = format!("a key may have {max} event streams at one time");
            Problem::new(&problem_codes::TOO_MANY_STREAMS, detail)
                .retry_after(Duration::from_secs(5))
        })?;
        let of_all = edge.0.streams.clone().try_acquire_owned().map_err(|_| {
            Problem::new(&problem_codes::BUSY, "there are too many event streams")
                .retry_after(Duration::from_secs(5))
        })?;
        let key_end = edge.access().end_of(known);
        edge.0.metrics.streams.inc();
        Ok(Self { _of_all: of_all, _of_key: of_key, key_end, edge: edge.clone() })
    }

    /// Waits until its key is revoked or expires: a stream ends with its key.
    pub async fn key_ended(&self) {
        self.key_end.wait().await;
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.edge.0.metrics.streams.dec();
    }
}

/// After which event to begin: `Last-Event-ID`, or the parameter `after` for clients that cannot set
/// headers.
pub fn after(headers: &HeaderMap, query: &mut Query) -> Result<Option<FactId>, Problem> {
    let by_query = query.optional::<FactId>("after");
    let Some(value) = headers.get("last-event-id") else { return Ok(by_query) };
    let id = value.to_str().ok().filter(|text| !text.is_empty());
    let Some(id) = id else { return Ok(by_query) };
    id.parse().map(Some).map_err(|_| {
        Problem::new(
            &problem_codes::HEADER_INVALID,
            "`Last-Event-ID` must be an id of ours, such as 17-0",
        )
    })
}

/// One event as it is written.
#[derive(Serialize)]
struct EventView<'a> {
    id: String,
    #[serde(flatten)]
    fact: &'a Fact,
}

/// Where the events of a stream come from.
pub trait Source: Send + 'static {
    /// The next event as it is written, made by [`event`]; `None` after the last. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// One event as it is written. Without an id a client that comes back begins where it began.
pub fn event(id: Option<&str>, kind: &str, data: &impl Serialize) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(format!("{id}event: {kind}\ndata: {data}\n\n"))
}

struct Reader<S> {
    source: S,
    slot: StreamSlot,
    is_begun: bool,
}

/// An answer that goes on for as long as its source does and the server serves.
pub fn respond(source: impl Source, slot: StreamSlot) -> Response {
    let reader = Reader { source, slot, is_begun: false };
    let pieces = stream::unfold(reader, |mut reader| async move {
        let piece = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), reader))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    let value = HeaderValue::from_static;
    headers.insert(header::CONTENT_TYPE, value("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, value("no-cache"));
    // Without it nginx collects events before it passes them on.
    headers.insert(HeaderName::from_static("x-accel-buffering"), value("no"));
    response
}

impl<S: Source> Reader<S> {
    async fn next(&mut self) -> Option<Bytes> {
        if !self.is_begun {
            self.is_begun = true;
            return Some(Bytes::from_static(HELLO));
        }
        let edge = &self.slot.edge;
        tokio::select! {
            biased;
            () = edge.stopping().cancelled() => None,
            () = self.slot.key_ended() => None,
            next = self.source.next() => next,
            () = tokio::time::sleep(edge.config().heartbeat) => Some(Bytes::from_static(HEARTBEAT)),
        }
    }
}

/// A stream of facts. That of one call ends with the call.
pub fn stream(follow: Follow, slot: StreamSlot, is_of_one_call: bool) -> Response {
    let subject = Subject::look(Clone::clone);
    respond(Facts { follow, is_of_one_call, is_over: false, subject }, slot)
}

struct Facts {
    follow: Follow,
    is_of_one_call: bool,
    is_over: bool,
    /// Subject of the request: a body is read after its handler is done.
    subject: Option<Subject>,
}

impl Source for Facts {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        match self.follow.next().await {
            Ok((id, fact)) => Some(self.piece(id, &fact)),
            Err(error) => {
                self.complain(&error);
                None
            }
        }
    }
}

impl Facts {
    fn complain(&self, error: &(dyn std::error::Error + 'static)) {
        let complain = || tracing::warn!(error, "events cannot be read");
        match self.subject.clone() {
            Some(subject) => subject.say(complain),
            None => complain(),
        }
    }

    fn piece(&mut self, id: FactId, fact: &Fact) -> Bytes {
        self.is_over = self.is_of_one_call && fact.kind.is_final();
        let id = id.to_string();
        event(Some(&id), fact.kind.as_str(), &EventView { id: id.clone(), fact })
    }
}
