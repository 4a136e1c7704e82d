//! Events of all calls of a tenant, live.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderMap, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    query::Query,
    sse::{self, StreamSlot},
};

use crate::shared::Shared;

/// Streams events of the tenant's calls from now on, or after `Last-Event-ID`.
#[utoipa::path(
    get, path = "/v1/events", tag = "events",
    params(
        ("after" = Option<String>, Query, description = "As `Last-Event-ID`; `0-0` is the beginning"),
        ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event received"),
    ),
    responses((status = 200, description = "Events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let after = sse::after(&headers, &mut query);
    query.finish()?;
    let after = after?.unwrap_or_else(|| shared.engine.newest_fact());
    let place = StreamSlot::take(&shared.edge, caller.known())?;
    let follow = shared.engine.follow(caller.principal(), None, Some(after));
    Ok(sse::stream(follow, place, false))
}
