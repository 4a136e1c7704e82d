//! Recorded decisions with their documents.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    reply,
};
use ringfence_engine::data::KeptDecision;
use ringfence_types::{CallId, Decision, Digest, Json, TenantId, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::shared::Shared;

/// A recorded decision.
#[derive(Serialize, ToSchema)]
#[schema(as = KeptDecision)]
pub(crate) struct KeptView {
    id: u64,
    /// The call of the decision.
    #[schema(value_type = String)]
    call: CallId,
    #[schema(value_type = String)]
    tenant: TenantId,
    tool: String,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// `verdict`, `reasons`, `obligations`, `engine`, `policy` and `input`, a digest.
    #[schema(value_type = Object)]
    decision: Decision,
    /// The document that was evaluated.
    #[schema(value_type = Object)]
    input: Json,
    /// Whether parts of the document are masked; the digest is that of the unmasked document.
    redacted: bool,
}

/// All decisions about a call.
#[derive(Serialize, ToSchema)]
#[schema(as = KeptDecisionList)]
pub(crate) struct KeptListView {
    decisions: Vec<KeptView>,
}

impl KeptView {
    fn of(kept: KeptDecision) -> Self {
        let digest = Digest::of(kept.kept.input.as_bytes());
        let input = Json::parse(kept.kept.input.as_bytes());
        Self {
            id: kept.id,
            call: kept.call,
            tenant: kept.tenant,
            tool: kept.tool,
            at: kept.kept.at,
            redacted: digest != kept.kept.decision.input,
            decision: kept.kept.decision,
            input: input.unwrap_or_else(|_| Json::null()),
        }
    }
}

/// Shows a decision with the document that was evaluated.
#[utoipa::path(
    get, path = "/v1/decisions/{id}", tag = "policy",
    params(("id" = u64, Path, description = "The decision")),
    responses((status = 200, description = "The decision", body = KeptView))
)]
pub(crate) async fn one(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<u64>,
) -> Result<Response, Problem> {
    let found =
        shared.engine.decision(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    Ok(reply::ok(&KeptView::of(found)))
}

/// Lists the decisions about a call, oldest first.
#[utoipa::path(
    get, path = "/v1/calls/{id}/decisions", tag = "policy",
    params(("id" = String, Path, description = "The call")),
    responses((status = 200, description = "The decisions", body = KeptListView))
)]
pub(crate) async fn of_call(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<CallId>,
) -> Result<Response, Problem> {
    let found = shared.engine.decisions_of(caller.principal(), id).await?;
    if found.is_empty() {
        return Err(Problem::not_found());
    }
    let decisions = found.into_iter().map(KeptView::of).collect();
    Ok(reply::ok(&KeptListView { decisions }))
}
