//! Removing a registered skill.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::check_operator,
    identity::{self, May},
    path::Named,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::{RemoveToolError, data::RemoveError};
use ringfence_types::ToolRef;
use serde::Serialize;
use utoipa::ToSchema;

use crate::shared::Shared;

/// Removed versions: `name`, `version` and `digest` of each.
#[derive(Serialize, ToSchema)]
#[schema(as = SkillRemoval)]
pub(crate) struct RemovedView {
    #[schema(value_type = Vec<Object>)]
    removed: Vec<ToolRef>,
}

/// Removes a registered skill: one version, or all of them.
///
/// Calls that ran it keep its name, version and digest, and so do their receipts. Accepted calls go
/// on; new ones are answered with 404. Skill folders and built-in tools are not removed here.
#[utoipa::path(
    delete, path = "/skills/{id}", tag = "skills",
    params(
        ("id" = String, Path, description = "The skill's name"),
        ("version" = Option<String>, Query, description = "Only this version"),
    ),
    responses(
        (status = 200, description = "Removed", body = RemovedView),
        (status = 403, description = "Policy does not allow the action `tool.remove`"),
        (status = 409, description = "It is a skill folder or a built-in tool"),
    )
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(name): Named<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let mut query = Query::of(&uri);
    let version = query.optional::<String>("version");
    query.finish()?;
    let (who, trace) = (caller.principal(), caller.trace());
    let removed = shared.engine.remove_tool(who, trace, &name, version.as_deref()).await;
    Ok(reply::ok(&RemovedView { removed: removed.map_err(why)? }))
}

fn why(error: RemoveToolError) -> Problem {
    let error = match error {
        RemoveToolError::Policy(refused) => return refused.into(),
        RemoveToolError::Registry(error) => error,
        RemoveToolError::Store(error) => return error.into(),
    };
    match &error {
        RemoveError::Unknown => Problem::new(&problem_codes::TOOL_NOT_FOUND, error.to_string()),
        RemoveError::NotUploaded { .. } => {
            Problem::new(&problem_codes::TOOL_NOT_UPLOADED, error.to_string())
        }
        RemoveError::Forget(_) => {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot remove a skill");
            Problem::new(&problem_codes::STORE_UNAVAILABLE, "the skill could not be removed")
        }
    }
}
