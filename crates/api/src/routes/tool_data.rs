//! Data that tools keep between their calls.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    query::Query,
    reply,
};
use ringfence_engine::data::ToolDataKind;
use ringfence_types::{Timestamp, ToolName};
use serde::Serialize;
use utoipa::ToSchema;

use super::tool_lifecycle;
use crate::shared::Shared;

/// Data that a tool keeps for a tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolData)]
pub(crate) struct ToolDataView {
    /// Values of `state_set`, by key.
    state: Vec<DatumView>,
    /// Files of `/data`, by path.
    files: Vec<DatumView>,
    /// Bytes of all of them.
    bytes: u64,
}

/// One value or file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolDatum)]
pub(crate) struct DatumView {
    name: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    changed_at: Option<Timestamp>,
    /// Content in base64, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

/// Removal of the data of a tool.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolDataRemoval)]
pub(crate) struct RemovalView {
    /// Number of values and files.
    removed: u64,
}

/// Lists the data that a tool keeps for the tenant; with `content` it is a copy of all of it.
#[utoipa::path(
    get, path = "/v1/tools/{name}/data", tag = "tools",
    params(
        ("name" = String, Path, description = "The tool"),
        ("content" = Option<bool>, Query, description = "Whether the contents are in the answer"),
    ),
    responses((status = 200, description = "Values and files", body = ToolDataView))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(name): Named<ToolName>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let has_content = query.optional::<bool>("content").unwrap_or(false);
    query.finish()?;
    let mut found = [Vec::new(), Vec::new()];
    for (kind, found) in [ToolDataKind::State, ToolDataKind::File].into_iter().zip(&mut found) {
        let (engine, who) = (&shared.engine, caller.principal());
        *found = match has_content {
            true => {
                let all = engine.tool_data(who, &name, kind).await?.into_iter();
                let view = all.map(|datum| DatumView {
                    size: datum.bytes.len() as u64,
                    changed_at: None,
                    content: Some(STANDARD.encode(&datum.bytes)),
                    name: datum.name,
                });
                view.collect()
            }
            false => {
                let all = engine.tool_data_names(who, &name, kind).await?.into_iter();
                let view = all.map(|info| DatumView {
                    name: info.name,
                    size: info.size,
                    changed_at: Some(info.changed_at),
                    content: None,
                });
                view.collect()
            }
        };
    }
    let bytes = found.iter().flatten().map(|datum| datum.size).sum();
    let [state, files] = found;
    Ok(reply::ok(&ToolDataView { state, files, bytes }))
}

/// Removes all data that a tool keeps for the tenant.
#[utoipa::path(
    delete, path = "/v1/tools/{name}/data", tag = "tools",
    params(("name" = String, Path, description = "The tool")),
    responses((status = 200, description = "It is removed", body = RemovalView))
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(name): Named<ToolName>,
) -> Result<Response, Problem> {
    let (who, trace) = (caller.principal(), caller.trace());
    let removed = shared.engine.remove_tool_data(who, trace, &name).await;
    let removed = removed.map_err(tool_lifecycle::problem)?;
    Ok(reply::ok(&RemovalView { removed }))
}
