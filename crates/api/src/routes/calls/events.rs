//! Events of one call, live.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderMap, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    query::Query,
    reply,
    sse::{self, StreamSlot},
};
use ringfence_engine::FactId;
use ringfence_types::CallId;

use crate::shared::Shared;

/// Streams the events of a call from its beginning, or after `Last-Event-ID`.
///
/// The stream ends after the last event. If no event can follow, the answer is 204, which tells a
/// browser not to reconnect.
#[utoipa::path(
    get, path = "/v1/calls/{id}/events", tag = "calls",
    params(
        ("id" = String, Path, description = "The call"),
        ("after" = Option<String>, Query, description = "As `Last-Event-ID`"),
        ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event received"),
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "No more events"),
    )
)]
pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let after = sse::after(&headers, &mut query);
    query.finish()?;
    let after = after?;
    let call = shared.engine.get(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    if call.state.is_final() && is_over(&shared, &caller, id, after).await? {
        return Ok(reply::nothing());
    }
    let place = StreamSlot::take(&shared.edge, caller.known())?;
    let follow = shared.engine.follow(caller.principal(), Some(id), after);
    Ok(sse::stream(follow, place, true))
}

/// Whether a client that received `after` has all events of an ended call.
async fn is_over(
    shared: &Shared,
    caller: &Caller,
    id: CallId,
    after: Option<FactId>,
) -> Result<bool, Problem> {
    let Some(after) = after else { return Ok(false) };
    Ok(!shared.engine.has_facts_after(caller.principal(), id, after).await?)
}
