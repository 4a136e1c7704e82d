//! Requeue endpoints of *SomaAgent 01*, with their shapes. There they were open to all and had no
//! effect; here they need scope `approve` and decide about the call.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    reply,
};
use ringfence_engine::{Action, Resolution, Resolved, TermsRequest};
use ringfence_types::{
    Call, CallId, Json, PersonaId, SessionId, State as CallState, TenantId, ToolName,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{newest, resolve as resolving};
use crate::shared::Shared;

/// A held call in the form of *SomaAgent 01*: the request, and the time of the hold.
#[derive(Serialize, ToSchema)]
#[schema(as = RequeueEntry)]
pub(crate) struct RequeueEntryView<'a> {
    #[schema(value_type = Object)]
    args: &'a Json,
    #[schema(value_type = String)]
    event_id: CallId,
    #[schema(value_type = Object)]
    metadata: &'a Json,
    #[schema(value_type = Option<String>)]
    persona_id: Option<&'a PersonaId>,
    /// The first reason of the rules.
    reason: Option<&'a str>,
    #[schema(value_type = String)]
    requeue_id: CallId,
    #[schema(value_type = Option<String>)]
    session_id: Option<&'a SessionId>,
    #[schema(value_type = String)]
    tenant: &'a TenantId,
    /// Seconds since 1970.
    timestamp: f64,
    #[schema(value_type = String)]
    tool_name: &'a ToolName,
}

impl<'a> RequeueEntryView<'a> {
    fn of(call: &'a Call) -> Option<Self> {
        let (asked, hold) = (&call.asked, call.hold()?);
        Some(Self {
            args: call.args(),
            event_id: asked.id,
            metadata: &asked.metadata,
            persona_id: asked.persona.as_ref(),
            reason: hold.reasons.first().map(|reason| reason.message.as_str()),
            requeue_id: asked.id,
            session_id: asked.session.as_ref(),
            tenant: &asked.tenant,
            timestamp: hold.since.as_micros() as f64 / 1e6,
            tool_name: &asked.tool.name,
        })
    }
}

/// Result of a resolution.
#[derive(Serialize, ToSchema)]
#[schema(as = RequeueStatus)]
pub(crate) struct StatusView {
    /// `requeued`, `pending`, `discarded`, `denied` or `deleted`.
    status: &'static str,
}

/// Lists held calls, newest first, in the form of *SomaAgent 01*: at most 1000.
#[utoipa::path(
    get, path = "/v1/requeue", tag = "holds",
    responses((status = 200, description = "Held calls", body = Vec<RequeueEntryView<'static>>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
) -> Result<Response, Problem> {
    let calls = newest(&shared, &caller).await?;
    Ok(reply::ok(&calls.iter().filter_map(RequeueEntryView::of).collect::<Vec<_>>()))
}

/// Decides about a held call in the form of *SomaAgent 01*: an empty body means `{"allow": true}`.
#[utoipa::path(
    post, path = "/v1/requeue/{id}/resolve", tag = "holds",
    request_body = resolving::ResolutionBody,
    params(("id" = String, Path, description = "The call")),
    responses(
        (status = 200, description = "The result", body = StatusView),
        (status = 409, description = "The call is not held"),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn resolve(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Approve>,
    Named(id): Named<CallId>,
    request: Request,
) -> Result<Response, Problem> {
    let approve = Action::Approve { terms: TermsRequest::default(), edited: None };
    let resolution = resolving::asked(&shared, &caller, id, request, Some(approve)).await?;
    status(&shared, &caller, id, resolution, "discarded").await
}

/// Discards a held call.
#[utoipa::path(
    delete, path = "/v1/requeue/{id}", tag = "holds",
    params(("id" = String, Path, description = "The call")),
    responses(
        (status = 200, description = "Discarded", body = StatusView),
        (status = 409, description = "The call is not held"),
    )
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Approve>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let resolution = Resolution { action: Action::Discard, ..Resolution::default() };
    status(&shared, &caller, id, resolution, "deleted").await
}

async fn status(
    shared: &Shared,
    caller: &Caller,
    id: CallId,
    resolution: Resolution,
    discarded: &'static str,
) -> Result<Response, Problem> {
    let is_denied = |call: &Call| matches!(call.state, CallState::Denied { .. });
    let status = match resolving::carry_out(shared, caller, id, resolution).await? {
        Resolved::Runs(_) => "requeued",
        Resolved::Waits(_) => "pending",
        Resolved::Ended(call) if is_denied(&call) => "denied",
        Resolved::Ended(_) => discarded,
    };
    Ok(reply::ok(&StatusView { status }))
}
