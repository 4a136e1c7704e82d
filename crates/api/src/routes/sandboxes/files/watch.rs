//! File events of a sandbox, live.

use std::{collections::VecDeque, pin::Pin, sync::Arc};

use axum::{extract::State, response::Response};
use bytes::Bytes;
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    query::Query,
    sse::{self, Source, StreamSlot},
};
use ringfence_engine::sandbox::{
    files::{Event, EventKind},
    session::{Error, SessionId, Watcher},
};
use serde_json::json;

use super::path;
use crate::{
    routes::sandboxes::{find, why},
    shared::Shared,
};

/// Streams file events below a directory, until the sandbox ends.
///
/// Events are `created`, `modified`, `removed`, `overflow` (some were lost: list the directory),
/// `unwatched` (too many directories) and last `ended`. They carry `path` and `directory`, come at
/// least once, and cannot be resumed: list the directory after a reconnect. Watching does not count
/// as use of the sandbox.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/files/events", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("path" = Option<String>, Query, description = "Directory of the workspace; its top by default"),
        ("recursive" = Option<bool>, Query, description = "Whether directories below are watched as well"),
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 409, description = "It cannot be watched"),
    )
)]
pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    let mut query = Query::of(&uri);
    let path = path(&mut query);
    let recursive = query.optional::<bool>("recursive").unwrap_or(false);
    query.finish()?;
    let place = StreamSlot::take(&shared.edge, caller.known())?;
    let watcher = session.files().watch(&path, recursive).await.map_err(|error| why(&error))?;
    Ok(sse::respond(Watching { waiting: VecDeque::new(), next: Some(read(watcher)) }, place))
}

struct Watching {
    /// Events of the last read that are not sent yet.
    waiting: VecDeque<Event>,
    /// Kept between polls: dropping it would lose events that it took from the kernel.
    next: Option<NextEvents>,
}

type NextEvents =
    Pin<Box<dyn Future<Output = (Watcher, Result<Option<Vec<Event>>, Error>)> + Send>>;

fn read(mut watcher: Watcher) -> NextEvents {
    Box::pin(async move {
        let events = watcher.next().await;
        (watcher, events)
    })
}

impl Source for Watching {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(told(&event));
            }
            let (watcher, events) = self.next.as_mut()?.await;
            self.next = None;
            match events {
                Ok(Some(events)) => {
                    self.waiting.extend(events);
                    self.next = Some(read(watcher));
                }
                Ok(None) => return Some(ended("session_ended")),
                Err(error) => return Some(ended(error.code())),
            }
        }
    }
}

fn ended(reason: &str) -> Bytes {
    sse::event(None, "ended", &json!({"reason": reason}))
}

fn told(event: &Event) -> Bytes {
    let kind = match event.kind {
        EventKind::Created => "created",
        EventKind::Modified => "modified",
        EventKind::Removed => "removed",
        EventKind::Overflow => "overflow",
        EventKind::Unwatched => "unwatched",
    };
    let data = json!({"path": event.path.to_string(), "directory": event.is_dir});
    sse::event(None, kind, &data)
}
