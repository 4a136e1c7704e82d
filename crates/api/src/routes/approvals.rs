//! Approvals: listing and revoking.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    query::Query,
    reply,
};
use ringfence_engine::data::ApprovalQuery;
use ringfence_types::{ApprovalId, ToolName};

use crate::{
    shared::Shared,
    views::approval::{ApprovalListView, ApprovalView},
};

/// Lists approvals of the tenant, newest first.
///
/// A page may have fewer than `limit` approvals, or none, without being the last: continue while
/// there is a `next_cursor`.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "holds",
    params(
        ("tool" = Option<String>, Query, description = "Only for this tool"),
        ("live" = Option<bool>, Query, description = "`true` for approvals that are neither expired nor revoked; some may be used up"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of an earlier answer"),
        ("limit" = Option<u64>, Query, description = "Page size, from 1 to 200; default 50"),
    ),
    responses((status = 200, description = "Approvals", body = ApprovalListView<'static>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let tool = query.optional::<ToolName>("tool");
    let live = query.optional::<bool>("live");
    let before = query.optional::<ApprovalId>("cursor");
    let limit = query.number("limit", 1, 200).unwrap_or(50) as usize;
    query.finish()?;
    let now = shared.engine.clock().now();
    let query = ApprovalQuery {
        tenant: caller.principal().tenant.clone(),
        tool,
        usable_by: None,
        live_at: live.unwrap_or(false).then_some(now),
        before,
        not_by: None,
        limit,
    };
    let page = shared.engine.approvals(caller.principal(), query).await?;
    let next = page.next.map(|id| id.to_string());
    let approvals = page.approvals.iter().map(|found| ApprovalView::of(found, now)).collect();
    Ok(reply::ok(&ApprovalListView { approvals, next_cursor: next }))
}

/// Shows an approval: its bounds, its approvers, its remaining uses.
#[utoipa::path(
    get, path = "/v1/approvals/{id}", tag = "holds",
    params(("id" = String, Path, description = "The approval")),
    responses((status = 200, description = "The approval", body = ApprovalView<'static>))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
    Named(id): Named<ApprovalId>,
) -> Result<Response, Problem> {
    let found =
        shared.engine.approval(caller.principal(), id).await?.ok_or_else(Problem::not_found)?;
    Ok(reply::ok(&ApprovalView::of(&found, shared.engine.clock().now())))
}

/// Revokes an approval: calls that have not started no longer run by it.
#[utoipa::path(
    delete, path = "/v1/approvals/{id}", tag = "holds",
    params(("id" = String, Path, description = "The approval")),
    responses((status = 204, description = "Revoked"))
)]
pub(crate) async fn revoke(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Approve>,
    Named(id): Named<ApprovalId>,
) -> Result<Response, Problem> {
    match shared.engine.revoke_approval(caller.principal(), id).await? {
        true => Ok(reply::nothing()),
        false => Err(Problem::not_found()),
    }
}
