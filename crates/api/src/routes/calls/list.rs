//! Listing calls.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May},
    query::Query,
    reply,
};
use ringfence_engine::data::CallQuery;
use ringfence_types::{Call, CallId, Produced, SessionId, State as CallState, ToolName};

use crate::{
    shared::Shared,
    views::call::{CallListView, CallView, finished},
};

/// Lists calls of the tenant, newest first.
///
/// A page may have fewer than `limit` calls, or none, without being the last: continue while there
/// is a `next_cursor`.
#[utoipa::path(
    get, path = "/v1/calls", tag = "calls",
    params(
        ("state" = Option<String>, Query, description = "Only in this state"),
        ("tool" = Option<String>, Query, description = "Only of this tool"),
        ("session_id" = Option<String>, Query, description = "Only of this session"),
        ("parent" = Option<String>, Query, description = "Only calls that this call made"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of an earlier answer"),
        ("limit" = Option<u64>, Query, description = "Page size, from 1 to 200; default 50"),
    ),
    responses((status = 200, description = "Calls", body = CallListView<'static>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let state = query.optional::<String>("state");
    if state.as_ref().is_some_and(|state| !CallState::NAMES.contains(&state.as_str())) {
        query.fault("state", format!("must be one of {}", CallState::NAMES.join(", ")));
    }
    let (calls, next_cursor) = page(&shared, &caller, query, state).await?;
    let calls = calls.iter().map(CallView::of).collect();
    Ok(reply::ok(&CallListView { calls, next_cursor }))
}

/// Maximum slices of one page.
pub(in crate::routes) const MAX_SLICES: usize = 16;

/// Calls per read.
const CALLS_PER_READ: usize = 4;

/// Bytes of arguments and results after which a page ends: a whole page of large calls would not
/// fit into memory.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// One page of calls in a state, by filters, and the cursor of the next.
pub(in crate::routes) async fn page(
    shared: &Shared,
    caller: &identity::Caller,
    query: Query,
    state: Option<String>,
) -> Result<(Vec<Call>, Option<String>), Problem> {
    let mut query = wanted(caller, query, state)?;
    let limit = query.limit;
    let (mut calls, mut bytes, mut slices) = (Vec::new(), 0, 0);
    loop {
        query.limit = CALLS_PER_READ.min(limit - calls.len());
        let found = shared.engine.list(caller.principal(), query.clone()).await;
        let (found, next) = found?;
        slices += usize::from(found.len() < query.limit);
        bytes += found.iter().map(weight).sum::<usize>();
        calls.extend(found);
        query.before = next;
        let is_enough = calls.len() >= limit || bytes >= MAX_PAGE_BYTES || slices >= MAX_SLICES;
        if next.is_none() || is_enough {
            return Ok((calls, next.map(|id| id.to_string())));
        }
    }
}

/// Bytes of the unbounded parts of a call.
fn weight(call: &Call) -> usize {
    let produced = finished(call).map_or(0, |finished| match &finished.produced {
        Produced::Result(result) => result.as_str().len(),
        Produced::Error(error) => error.details.as_ref().map_or(0, |json| json.as_str().len()),
    });
    let edited = call.edited.as_ref().map_or(0, |edited| edited.args.as_str().len());
    call.asked.args.as_str().len() + call.asked.metadata.as_str().len() + edited + produced
}

fn wanted(
    caller: &identity::Caller,
    mut query: Query,
    state: Option<String>,
) -> Result<CallQuery, Problem> {
    let tool = query.optional::<ToolName>("tool");
    let session = query.optional::<SessionId>("session_id");
    let parent = query.optional::<CallId>("parent");
    let before = query.optional::<CallId>("cursor");
    let limit = query.number("limit", 1, 200).unwrap_or(50) as usize;
    query.finish()?;
    let tenant = caller.principal().tenant.clone();
    let tool = tool.map(|tool| tool.to_string());
    Ok(CallQuery { tenant, state, tool, session, parent, before, limit })
}
