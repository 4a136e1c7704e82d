//! Server-sent events.
//!
//! A stream is read by whoever takes it: nothing is fetched ahead of a slow client, so a client
//! can slow down itself alone. It ends after its last event, or when the server stops.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ringfence_engine::{FactId, Follow, Subject};
use ringfence_store::Logged;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    auth::{End, Known},
    kinds,
    problem::Problem,
    query::Query,
    shared::Shared,
};

/// What a client is told to wait before it connects again.
const HELLO: &[u8] = b"retry: 2000\n: hello\n\n";
const HEARTBEAT: &[u8] = b": still here\n\n";

/// Room for one stream, given back when it ends.
#[derive(Debug)]
pub(crate) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_key: OwnedSemaphorePermit,
    /// Of the key that it was given to.
    end: End,
    shared: Arc<Shared>,
}

impl Place {
    pub(crate) fn take(shared: &Arc<Shared>, known: &Known) -> Result<Self, Problem> {
        let most = shared.config.max_streams_per_key;
        let of_key = known.usage.streams.clone().try_acquire_owned().map_err(|_| {
            let detail = format!("a key may have {most} event streams at one time");
            Problem::new(&kinds::TOO_MANY_STREAMS, detail).retry_after(Duration::from_secs(5))
        })?;
        let of_all = shared.streams.clone().try_acquire_owned().map_err(|_| {
            Problem::new(&kinds::BUSY, "there are too many event streams")
                .retry_after(Duration::from_secs(5))
        })?;
        let end = shared.keys.end(known, shared.engine.clock().now());
        shared.metrics.streams.inc();
        Ok(Self { _of_all: of_all, _of_key: of_key, end, shared: shared.clone() })
    }

    /// Waits until its key may do nothing any more: what was opened with it ends with it.
    pub(crate) async fn over(&self) {
        self.end.come().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.metrics.streams.dec();
    }
}

/// After which event to begin: `Last-Event-ID`, or the parameter `after` for those who cannot set
/// headers.
pub(crate) fn after(headers: &HeaderMap, query: &mut Query) -> Result<Option<FactId>, Problem> {
    let by_query = query.optional::<FactId>("after");
    let Some(value) = headers.get("last-event-id") else { return Ok(by_query) };
    let id = value.to_str().ok().filter(|text| !text.is_empty());
    let Some(id) = id else { return Ok(by_query) };
    id.parse().map(Some).map_err(|_| {
        Problem::new(&kinds::HEADER_INVALID, "`Last-Event-ID` must be an id of ours, such as 17-0")
    })
}

/// One event as it is written.
#[derive(Serialize)]
struct EventView<'a> {
    id: String,
    #[serde(flatten)]
    fact: &'a ringfence_types::Fact,
}

/// Where the events of a stream come from.
pub(crate) trait Source: Send + 'static {
    /// The next event as it is written, made by [`event`]; `None` after the last. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// One event as it is written. Without an id a client that comes back begins where it began.
pub(crate) fn event(id: Option<&str>, kind: &str, data: &impl Serialize) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(format!("{id}event: {kind}\ndata: {data}\n\n"))
}

struct Reader<S> {
    source: S,
    place: Place,
    is_begun: bool,
}

/// An answer that goes on for as long as its source does and the server serves.
pub(crate) fn respond(source: impl Source, place: Place) -> Response {
    let reader = Reader { source, place, is_begun: false };
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
        let shared = &self.place.shared;
        tokio::select! {
            biased;
            () = shared.stopping.cancelled() => None,
            () = self.place.over() => None,
            next = self.source.next() => next,
            () = tokio::time::sleep(shared.config.heartbeat) => Some(Bytes::from_static(HEARTBEAT)),
        }
    }
}

/// A stream of facts. That of one call ends with the call.
pub(crate) fn stream(follow: Follow, place: Place, is_of_one_call: bool) -> Response {
    let subject = Subject::look(Clone::clone);
    respond(Facts { follow, is_of_one_call, is_over: false, subject }, place)
}

struct Facts {
    follow: Follow,
    is_of_one_call: bool,
    is_over: bool,
    /// Whose request it is: a body is read after its handler is done.
    subject: Option<Subject>,
}

impl Source for Facts {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        match self.follow.next().await {
            Ok((id, logged)) => Some(self.piece(id, &logged)),
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

    fn piece(&mut self, id: FactId, logged: &Logged) -> Bytes {
        let kind = logged.fact.kind;
        self.is_over = self.is_of_one_call && kind.is_final();
        let id = id.to_string();
        event(Some(&id), kind.as_str(), &EventView { id: id.clone(), fact: &logged.fact })
    }
}
