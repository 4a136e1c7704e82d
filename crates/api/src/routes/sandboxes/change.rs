//! Pausing, resuming, packing and copying a sandbox.

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
    calls::{Asked, HeldView},
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

/// Stops every process in a sandbox, memory and all, until it is resumed.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/pause", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "It is paused", body = SandboxView),
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

/// Other times for a sandbox.
#[derive(ToSchema)]
#[schema(as = SandboxTimes)]
#[expect(dead_code, reason = "it documents what `times` reads field by field")]
pub(crate) struct TimesBody {
    /// After how many seconds without use it ends.
    #[schema(minimum = 1, maximum = 31622400)]
    idle_secs: Option<u64>,
    /// After how many seconds it ends in any case, counted from its creation.
    #[schema(minimum = 1, maximum = 31622400)]
    lifetime_secs: Option<u64>,
}

/// Changes when a sandbox ends by itself.
#[utoipa::path(
    patch, path = "/v1/sandboxes/{id}", tag = "sandboxes", request_body = TimesBody,
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "The sandbox", body = SandboxView),
        (status = 422, description = "The body does not fit"),
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

/// Lets a sandbox run again.
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

/// Packs the workspace of a sandbox while nothing in it moves. A new sandbox can be made of it.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/snapshot", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "The snapshot", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 409, description = "It cannot be packed"),
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

/// Makes a new sandbox with a copy of the workspace and nothing running.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/fork", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 201, description = "The new sandbox", body = SandboxView),
        (status = 202, description = "Policy holds it", body = HeldView<'static>),
        (status = 409, description = "It cannot be copied"),
    )
)]
pub(crate) async fn fork(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), &id)?;
    let _room = shared.packing.acquire().await;
    let asked = Asked::new(&shared, "sandbox_fork", &json!({"sandbox": id.as_str()}));
    let made = asked.call(&shared, &caller).await?;
    made_sandbox(&shared, &caller, &made)
}
