//! Who decides, how they are, and what is tried beside them. For operators: problems quote rules.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;

use crate::{
    auth::{self, May},
    problem::Problem,
    query::Query,
    reply,
    shared::Shared,
    views::engine::{CanaryListView, PolicyStatusView},
};

/// Shows each policy engine, how it is and which rules it has.
#[utoipa::path(
    get, path = "/v1/policy/status", tag = "policy",
    responses((status = 200, description = "Engines", body = PolicyStatusView))
)]
pub(crate) async fn status(
    State(shared): State<Arc<Shared>>,
    _: May<auth::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::of(&uri).finish()?;
    let policy = shared.engine.policy();
    Ok(reply::ok(&PolicyStatusView {
        revision: policy.revision(),
        engines: policy.status().into_iter().map(Into::into).collect(),
        fail_open: policy.fail_open().iter().map(ToString::to_string).collect(),
    }))
}

/// Shows what was found about policies that are tried beside the one in force.
#[utoipa::path(
    get, path = "/v1/policy/canary", tag = "policy",
    responses((status = 200, description = "Canaries", body = CanaryListView))
)]
pub(crate) async fn canary(
    State(shared): State<Arc<Shared>>,
    _: May<auth::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::of(&uri).finish()?;
    let canaries = shared.engine.policy().canaries();
    Ok(reply::ok(&CanaryListView { canaries: canaries.into_iter().map(Into::into).collect() }))
}
