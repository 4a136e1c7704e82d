//! Listing calls.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_store::CallQuery;
use ringfence_types::{Call, CallId, SessionId, State as CallState, ToolName};

use crate::{
    auth::{self, May},
    problem::Problem,
    query::Query,
    refused, reply,
    shared::Shared,
    views::call::{CallListView, CallView},
};

/// Lists calls of the tenant, newest first.
#[utoipa::path(
    get, path = "/v1/calls", tag = "calls",
    params(
        ("state" = Option<String>, Query, description = "Only in this state"),
        ("tool" = Option<String>, Query, description = "Only of this tool"),
        ("session_id" = Option<String>, Query, description = "Only of this session"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of an earlier answer"),
        ("limit" = Option<u64>, Query, description = "At most so many, from 1 to 200; 50 without"),
    ),
    responses((status = 200, description = "Calls", body = CallListView<'static>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<auth::Read>,
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

/// Calls of a state by what else is asked for, and the cursor to go on from.
pub(in crate::routes) async fn page(
    shared: &Shared,
    caller: &auth::Caller,
    query: Query,
    state: Option<String>,
) -> Result<(Vec<Call>, Option<String>), Problem> {
    let query = wanted(caller, query, state)?;
    let limit = query.limit;
    let calls = shared.engine.list(caller.principal(), query).await;
    let calls = calls.map_err(|error| refused::store(&error))?;
    let next = calls.get(limit.wrapping_sub(1)).map(|call| call.asked.id.to_string());
    Ok((calls, next))
}

fn wanted(
    caller: &auth::Caller,
    mut query: Query,
    state: Option<String>,
) -> Result<CallQuery, Problem> {
    let tool = query.optional::<ToolName>("tool");
    let session = query.optional::<SessionId>("session_id");
    let before = query.optional::<CallId>("cursor");
    let limit = query.number("limit", 1, 200).unwrap_or(50) as usize;
    query.finish()?;
    let tenant = caller.principal().tenant.clone();
    Ok(CallQuery { tenant, state, tool: tool.map(|tool| tool.to_string()), session, before, limit })
}
