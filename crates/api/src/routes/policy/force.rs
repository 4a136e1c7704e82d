//! Rules in force.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    reply,
};
use ringfence_types::{Digest, TenantId};
use serde::Serialize;
use utoipa::ToSchema;

use super::tenant;
use crate::shared::Shared;

/// The rules in force for a tenant.
#[derive(Serialize, ToSchema)]
#[schema(as = PolicyInForce)]
pub(crate) struct ForceView {
    #[schema(value_type = String)]
    tenant: TenantId,
    /// The engine.
    engine: String,
    /// Digest of the rules, as in every decision, receipt and log line.
    #[schema(value_type = String)]
    policy: Digest,
    /// The same digest as hexadecimal digits.
    constitution_hash: String,
    /// The files of the rules, if they are files of this server.
    rules: Vec<RuleFileView>,
}

/// One file of rules.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleFile)]
struct RuleFileView {
    name: String,
    bytes: usize,
    #[schema(value_type = String)]
    digest: Digest,
}

/// Shows the rules in force for a tenant: your own, or any for admins of the operator's tenant.
#[utoipa::path(
    get, path = "/v1/policies/{tenant}", tag = "policy",
    params(("tenant" = String, Path, description = "The tenant")),
    responses((status = 200, description = "The rules in force", body = ForceView))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(asked): Named<TenantId>,
) -> Result<Response, Problem> {
    let tenant = tenant(caller.principal(), Some(asked))?;
    let force = shared.engine.policy_in_force();
    let files = force.bundle.iter().flat_map(|bundle| bundle.files());
    let rules = files.map(|(name, text)| RuleFileView {
        name: name.to_owned(),
        bytes: text.len(),
        digest: Digest::of(text.as_bytes()),
    });
    Ok(reply::ok(&ForceView {
        tenant,
        rules: rules.collect(),
        engine: force.engine,
        policy: force.revision,
        constitution_hash: force.revision.hex(),
    }))
}
