//! Looking at sandboxes, and ending them.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use ringfence_sandbox::session::SessionId;
use serde::Serialize;
use utoipa::ToSchema;

use super::{SandboxView, find, is_own};
use crate::{
    auth::{self, May},
    path::Named,
    problem::Problem,
    reply,
    shared::Shared,
};

/// Sandboxes, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = SandboxList)]
pub(crate) struct SandboxListView {
    sandboxes: Vec<SandboxView>,
    count: usize,
}

/// Lists the tenant's sandboxes.
#[utoipa::path(
    get, path = "/v1/sandboxes", tag = "sandboxes",
    responses((status = 200, description = "Sandboxes", body = SandboxListView))
)]
pub(crate) async fn list(State(shared): State<Arc<Shared>>, caller: May<auth::Read>) -> Response {
    let all = shared.engine.sandbox().sessions().into_iter();
    let own = all.filter(|info| is_own(info, caller.principal()));
    let sandboxes: Vec<_> = own.map(SandboxView::of).collect();
    reply::ok(&SandboxListView { count: sandboxes.len(), sandboxes })
}

/// Shows a sandbox.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox")),
    responses((status = 200, description = "The sandbox", body = SandboxView))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<auth::Read>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?;
    Ok(reply::ok(&SandboxView::of(session.info())))
}

/// Ends a sandbox with everything in it.
#[utoipa::path(
    delete, path = "/v1/sandboxes/{id}", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox")),
    responses((status = 204, description = "Its last process is dead"))
)]
pub(crate) async fn stop(
    State(shared): State<Arc<Shared>>,
    caller: May<auth::Call>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), &id)?.stop().await;
    Ok(reply::nothing())
}
