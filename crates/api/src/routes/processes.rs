//! Server processes on the same database, for the operator.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May, check_operator},
    query::Query,
    reply,
};
use ringfence_types::{Digest, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::shared::Shared;

/// Living server processes on the same database, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = ProcessList)]
pub(crate) struct ProcessListView {
    processes: Vec<ProcessView>,
}

/// A server process.
#[derive(Serialize, ToSchema)]
#[schema(as = Process)]
pub(crate) struct ProcessView {
    /// Its number, which no other process ever has.
    id: u64,
    /// Whether it answers this request.
    is_own: bool,
    /// URL at which other processes reach it.
    address: Option<String>,
    /// `all`, `api` or `worker`.
    role: &'static str,
    version: String,
    /// Digest of the rules in force.
    #[schema(value_type = Option<String>)]
    policy: Option<Digest>,
    #[schema(value_type = String)]
    started_at: Timestamp,
}

/// Lists the server processes on the same database. Only for keys of the operator.
#[utoipa::path(
    get, path = "/v1/processes", tag = "health",
    responses((status = 200, description = "Processes", body = ProcessListView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    Query::of(&uri).finish()?;
    let processes = shared.engine.processes().await?.into_iter().map(|process| ProcessView {
        id: process.id,
        is_own: process.is_own,
        address: process.info.address,
        role: process.info.role.as_str(),
        version: process.info.version,
        policy: process.info.policy,
        started_at: process.started_at,
    });
    Ok(reply::ok(&ProcessListView { processes: processes.collect() }))
}
