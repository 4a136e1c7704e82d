//! Pausing, resuming, snapshotting and forking a sandbox.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_engine::sandbox::session::SessionId;
use serde_json::json;
use utoipa::ToSchema;

use super::{
    SandboxView,
    calls::{HeldView, SandboxCall},
    create::{made_sandbox, span},
    find,
    sending::{self, Sending},
    why,
};
use crate::shared::Shared;
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    path::Named,
    reply,
};

/// Pauses a sandbox: freezes every process until it is resumed.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/pause", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "Paused", body = SandboxView),
        (status = 409, description = "It cannot be paused"),
    )
)]
pub(crate) async fn pause(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    session.pause().await.map_err(|error| why(&error))?;
    Ok(reply::ok(&SandboxView::of(session.info())))
}

/// New timers of a sandbox.
#[derive(ToSchema)]
#[schema(as = SandboxTimes)]
#[expect(dead_code, reason = "it documents what `times` reads field by field")]
pub(crate) struct TimesBody {
    /// Seconds without use after which it ends.
    #[schema(minimum = 1, maximum = 31622400)]
    idle_secs: Option<u64>,
    /// Seconds after its creation at which it ends in any case.
    #[schema(minimum = 1, maximum = 31622400)]
    lifetime_secs: Option<u64>,
}

/// Changes the idle time and the lifetime of a sandbox.
#[utoipa::path(
    patch, path = "/v1/sandboxes/{id}", tag = "sandboxes", request_body = TimesBody,
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "The sandbox", body = SandboxView),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn times(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let (idle, lifetime) = (span(&mut fields, "idle_secs"), span(&mut fields, "lifetime_secs"));
    fields.finish(Some(()))?;
    if let Some(idle) = idle {
        session.set_idle(idle).map_err(|error| why(&error))?;
    }
    if let Some(lifetime) = lifetime {
        session.set_lifetime(lifetime).map_err(|error| why(&error))?;
    }
    Ok(reply::ok(&SandboxView::of(session.info())))
}

/// Resumes a paused sandbox.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/resume", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "It runs", body = SandboxView),
        (status = 409, description = "It cannot be resumed"),
    )
)]
pub(crate) async fn resume(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    session.resume().await.map_err(|error| why(&error))?;
    Ok(reply::ok(&SandboxView::of(session.info())))
}

/// Takes a snapshot of the workspace while the sandbox is frozen. A new sandbox can be made from
/// it.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/snapshot", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "The snapshot", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 409, description = "No snapshot can be taken"),
    )
)]
pub(crate) async fn snapshot(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    let room = Sending::take(&shared, caller.known())?;
    let _room = shared.packing.acquire().await;
    let snapshot = session.snapshot().await.map_err(|error| why(&error))?;
    Ok(sending::whole(snapshot.to_bytes(), room, shared.edge.config().max_wait))
}

/// Makes a new sandbox with a copy of the workspace and no processes.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/fork", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 201, description = "The new sandbox", body = SandboxView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "It cannot be forked"),
    )
)]
pub(crate) async fn fork(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), &id)?;
    let _room = shared.packing.acquire().await;
    let asked = SandboxCall::new(&shared, "sandbox_fork", &json!({"sandbox": id.as_str()}));
    let made = asked.call(&shared, &caller).await?;
    made_sandbox(&shared, &caller, &made)
}
