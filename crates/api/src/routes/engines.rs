//! Policy engines and canary policies. For operators: problems quote rules.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May},
    query::Query,
    reply,
};

use crate::{
    shared::Shared,
    views::engine::{CanaryListView, PolicyStatusView},
};

/// Shows the state and the rules of each policy engine.
#[utoipa::path(
    get, path = "/v1/policy/status", tag = "policy",
    responses((status = 200, description = "Engines", body = PolicyStatusView))
)]
pub(crate) async fn status(
    State(shared): State<Arc<Shared>>,
    _: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::of(&uri).finish()?;
    let policy = shared.engine.policy_status();
    Ok(reply::ok(&PolicyStatusView {
        revision: policy.revision,
        engines: policy.engines.into_iter().map(Into::into).collect(),
        fail_open: policy.fail_open.iter().map(ToString::to_string).collect(),
    }))
}

/// Shows the findings about canary policies, of this process and earlier ones: counts, and the
/// newest differences of each.
#[utoipa::path(
    get, path = "/v1/policy/canary", tag = "policy",
    params(
        ("name" = Option<String>, Query, description = "Only this canary"),
        ("cursor" = Option<u64>, Query, description = "Only differences older than those of an earlier answer: the `next_cursor` of a canary"),
        ("limit" = Option<u64>, Query, description = "Maximum differences of each canary; default 500", minimum = 1, maximum = 1000),
    ),
    responses((status = 200, description = "Canaries", body = CanaryListView))
)]
pub(crate) async fn canary(
    State(shared): State<Arc<Shared>>,
    _: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let name = query.optional::<String>("name");
    let before = query.number("cursor", 0, u64::MAX);
    let limit = query.number("limit", 1, 1_000).unwrap_or(500);
    query.finish()?;
    let canaries = shared.engine.canaries(name.as_deref(), before, limit as usize).await?;
    Ok(reply::ok(&CanaryListView { canaries: canaries.into_iter().map(Into::into).collect() }))
}
