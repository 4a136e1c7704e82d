//! Held calls.

pub(crate) mod requeue;
pub(crate) mod resolve;

use std::{collections::HashMap, sync::Arc};

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::data::CallQuery;
use ringfence_types::{Call, CallId, KeyId};

use crate::{
    routes::{calls::list::MAX_SLICES, calls::list::page},
    shared::Shared,
    views::hold::{HoldListView, HoldView},
};

/// Lists held calls of the tenant, newest first.
///
/// A page may have fewer than `limit` calls, or none, without being the last: continue while there
/// is a `next_cursor`.
#[utoipa::path(
    get, path = "/v1/holds", tag = "holds",
    params(
        ("tool" = Option<String>, Query, description = "Only of this tool"),
        ("session_id" = Option<String>, Query, description = "Only of this session"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of an earlier answer"),
        ("limit" = Option<u64>, Query, description = "Page size, from 1 to 200; default 50"),
    ),
    responses((status = 200, description = "Holds", body = HoldListView<'static>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
    uri: Uri,
) -> Result<Response, Problem> {
    let held = Some("held".to_owned());
    let (calls, next_cursor) = page(&shared, &caller, Query::of(&uri), held).await?;
    let labels = labels(&shared, &calls).await?;
    let holds = calls.iter().filter_map(|call| HoldView::of(call, &labels)).collect();
    Ok(reply::ok(&HoldListView { holds, next_cursor }))
}

/// Shows a held call with everything that an approver needs.
#[utoipa::path(
    get, path = "/v1/holds/{id}", tag = "holds",
    params(("id" = String, Path, description = "The call")),
    responses(
        (status = 200, description = "The hold", body = HoldView<'static>),
        (status = 409, description = "The call is not held"),
    )
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let call = shared.engine.get(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    let labels = labels(&shared, std::slice::from_ref(&call)).await?;
    let view = HoldView::of(&call, &labels).ok_or_else(|| not_held(call.state.name()))?;
    Ok(reply::ok(&view))
}

/// Labels of the keys that made these calls, each looked up once.
async fn labels(shared: &Shared, calls: &[Call]) -> Result<HashMap<KeyId, String>, Problem> {
    let mut labels = HashMap::new();
    for id in calls.iter().map(|call| call.asked.key) {
        if labels.contains_key(&id) {
            continue;
        }
        let key = shared.edge.access().key(id).await?;
        labels.insert(id, key.map(|key| key.label).unwrap_or_default());
    }
    Ok(labels)
}

/// The problem of a call that is not held.
pub(super) fn not_held(state: &str) -> Problem {
    Problem::new(&problem_codes::NOT_HELD, format!("the call is {state}, not held"))
        .with("state", state)
}

/// The newest holds of the tenant.
async fn newest(shared: &Shared, caller: &Caller) -> Result<Vec<Call>, Problem> {
    let mut query = CallQuery {
        tenant: caller.principal().tenant.clone(),
        state: Some("held".to_owned()),
        tool: None,
        session: None,
        parent: None,
        before: None,
        limit: ringfence_engine::data::PAGE,
    };
    let mut calls = Vec::new();
    for _ in 0..MAX_SLICES {
        let found = shared.engine.list(caller.principal(), query.clone()).await;
        let (found, next) = found?;
        calls.extend(found);
        query.limit = ringfence_engine::data::PAGE - calls.len();
        query.before = next;
        if next.is_none() || query.limit == 0 {
            break;
        }
    }
    Ok(calls)
}
