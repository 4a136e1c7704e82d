//! Events for open pages: not the change itself, but that there is one. The page then reads its part
//! again, so a page is made in one place, and a slow browser only skips. The data of an event is one
//! character: without data a browser ignores an event.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use bytes::Bytes;
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    sse::{self, Source, StreamSlot},
};
use ringfence_engine::{Engine, Follow, OutputStream};
use ringfence_types::{CallId, FactKind, Principal};
use tokio::time::Instant;

use crate::Shared;

/// Shortest time between two events: changes in between are one.
const EVENT_INTERVAL: Duration = Duration::from_millis(700);

/// Tells of calls and holds of the tenant: events `calls` and `holds`.
pub(crate) async fn all(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
) -> Result<Response, Problem> {
    let slot = StreamSlot::take(&shared.edge, caller.known())?;
    let newest = shared.engine.newest_fact();
    let follow = shared.engine.follow(caller.principal(), None, Some(newest));
    // The page was made before the stream begins, so the first event comes at once.
    let last = Instant::now().checked_sub(EVENT_INTERVAL).unwrap_or_else(Instant::now);
    Ok(sse::respond(Changes { follow, pending: Some(true), last }, slot))
}

/// Changes of calls, collected for a while.
struct Changes {
    follow: Follow,
    /// Events that wait for their turn: of calls, and whether one is about a hold.
    pending: Option<bool>,
    last: Instant,
}

impl Source for Changes {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let due = self.last + EVENT_INTERVAL;
            tokio::select! {
                fact = self.follow.next() => {
                    let (_, fact) = fact.ok()?;
                    self.pending = Some(self.pending.unwrap_or(false) || is_of_hold(fact.kind));
                }
                () = tokio::time::sleep_until(due), if self.pending.is_some() => {
                    self.last = Instant::now();
                    let is_of_hold = self.pending.take()?;
                    let holds = if is_of_hold { "event: holds\ndata: 1\n\n" } else { "" };
                    return Some(Bytes::from(format!("event: calls\ndata: 1\n\n{holds}")));
                }
            }
        }
    }
}

fn is_of_hold(kind: FactKind) -> bool {
    matches!(
        kind,
        FactKind::Held
            | FactKind::Approval
            | FactKind::Edited
            | FactKind::Resolved
            | FactKind::Denied
            | FactKind::Expired
            | FactKind::Cancelled
            | FactKind::Dispatched
    )
}

/// Tells of one call until it has ended: events `call` and `output`.
pub(crate) async fn call(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    shared.engine.get(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    let slot = StreamSlot::take(&shared.edge, caller.known())?;
    Ok(sse::respond(OneCall::new(&shared, &caller, id), slot))
}

/// Changes of one call.
struct OneCall {
    engine: Engine,
    who: Principal,
    id: CallId,
    follow: Follow,
    /// Offset of the next byte of its output, while it has one.
    offset: Option<u64>,
    pending: Option<&'static str>,
    last: Instant,
    is_over: bool,
}

impl OneCall {
    fn new(shared: &Shared, caller: &Caller, id: CallId) -> Self {
        let (engine, who) = (shared.engine.clone(), caller.principal().clone());
        // The page may have been made before the newest fact, so the first event tells of all.
        let follow = engine.follow(&who, Some(id), None);
        let last = Instant::now();
        Self { engine, who, id, follow, offset: Some(0), pending: None, last, is_over: false }
    }
}

impl Source for OneCall {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over && self.pending.is_none() {
            return None;
        }
        loop {
            let due = self.last + EVENT_INTERVAL;
            let output = async {
                match self.offset {
                    Some(offset) => {
                        self.engine.output(&self.who, self.id, OutputStream::Stdout, offset).await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                fact = self.follow.next(), if !self.is_over => {
                    let (_, fact) = fact.ok()?;
                    self.is_over = fact.kind.is_final();
                    self.pending = Some("call");
                    if self.is_over {
                        self.last = Instant::now().checked_sub(EVENT_INTERVAL)?;
                    }
                }
                piece = output, if !self.is_over => match piece.ok()? {
                    Some(piece) if !piece.is_end => {
                        self.offset = Some(piece.next);
                        self.pending = self.pending.or(Some("output"));
                    }
                    _ => self.offset = None,
                },
                () = tokio::time::sleep_until(due), if self.pending.is_some() => {
                    self.last = Instant::now();
                    let name = self.pending.take()?;
                    // A browser would connect again after the last event if nothing told it not to.
                    let end = if self.is_over { "event: end\ndata: 1\n\n" } else { "" };
                    return Some(Bytes::from(format!("event: {name}\ndata: 1\n\n{end}")));
                }
            }
        }
    }
}
