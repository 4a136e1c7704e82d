//! Listing and showing skills.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::data::ToolEntry;
use ringfence_types::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::SkillView;
use crate::shared::Shared;

/// Skills.
#[derive(Serialize, ToSchema)]
#[schema(as = SkillList)]
pub(crate) struct SkillListView<'a> {
    skills: Vec<SkillView<'a>>,
    total: usize,
}

/// Schemas of a skill.
#[derive(Serialize, ToSchema)]
#[schema(as = SkillSchema)]
pub(crate) struct SkillSchemaView<'a> {
    skill_name: &'a str,
    version: &'a str,
    #[schema(value_type = Object)]
    input_schema: &'a Json,
    #[schema(value_type = Object)]
    output_schema: &'a Json,
}

/// Lists skills.
#[utoipa::path(
    get, path = "/skills/list", tag = "skills",
    params(
        ("tags" = Option<Vec<String>>, Query, description = "Only with one of these tags"),
        ("safety_flag" = Option<String>, Query, description = "Only with this flag"),
    ),
    responses((status = 200, description = "Skills", body = SkillListView<'static>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    _: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let tags = query.all("tags");
    let flag = query.optional::<String>("safety_flag");
    query.finish()?;
    let fits = |entry: &&Arc<ToolEntry>| {
        let tool = &entry.tool;
        entry.is_skill()
            && (tags.is_empty() || tags.iter().any(|tag| tool.tags.contains(tag)))
            && flag.as_ref().is_none_or(|flag| tool.safety_flags.contains(flag))
    };
    let catalogue = shared.engine.tools();
    let skills: Vec<_> =
        catalogue.newest().filter(fits).map(|entry| SkillView::of(entry)).collect();
    Ok(reply::ok(&SkillListView { total: skills.len(), skills }))
}

/// Shows a skill, or any other tool.
#[utoipa::path(
    get, path = "/skills/{id}", tag = "skills",
    params(("id" = String, Path, description = "The skill's name")),
    responses((status = 200, description = "The skill", body = SkillView<'static>))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    _: May<identity::Read>,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    let entry = find(&shared, &name)?;
    Ok(reply::ok(&SkillView::of(&entry)))
}

/// Shows the input and output schemas of a skill.
#[utoipa::path(
    get, path = "/skills/{id}/schema", tag = "skills",
    params(("id" = String, Path, description = "The skill's name")),
    responses((status = 200, description = "Its schemas", body = SkillSchemaView<'static>))
)]
pub(crate) async fn schema(
    State(shared): State<Arc<Shared>>,
    _: May<identity::Read>,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    let entry = find(&shared, &name)?;
    let tool = &entry.tool;
    Ok(reply::ok(&SkillSchemaView {
        skill_name: tool.name.as_str(),
        version: &tool.version,
        input_schema: &tool.input_schema,
        output_schema: &tool.output_schema,
    }))
}

fn find(shared: &Shared, name: &str) -> Result<Arc<ToolEntry>, Problem> {
    let catalogue = shared.engine.tools();
    catalogue.get(name, None).cloned().ok_or_else(|| {
        let name: String = name.chars().take(128).collect();
        Problem::new(&problem_codes::TOOL_NOT_FOUND, format!("Skill not found: {name}"))
    })
}
