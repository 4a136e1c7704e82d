//! `/v1/tool-catalog` as SomaAgent 01's gateway has it: tools that are on or off, and the switch of each.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May, check_operator},
    path::Named,
    reply,
};
use ringfence_engine::{
    Engine, VersionChoice,
    data::{Catalogue, ToolEntry},
};
use ringfence_types::{Json, LifecycleEvent, ToolName, ToolStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::{tool_lifecycle::problem, tools::not_found};
use crate::{shared::Shared, views::tool_state::ToolStateView};

/// Tools that are on or off, and every version with its status.
#[derive(Serialize, ToSchema)]
#[schema(as = ToolCatalog)]
pub(crate) struct CatalogView<'a> {
    pub(crate) items: Vec<ItemView<'a>>,
    pub(crate) tools: Vec<ToolStateView<'a>>,
    /// Number of `tools`.
    pub(crate) count: usize,
}

/// A tool that is on or off.
#[derive(Serialize, ToSchema)]
#[schema(as = ToolCatalogItem)]
pub(crate) struct ItemView<'a> {
    name: &'a str,
    /// Whether it may be called.
    enabled: bool,
    description: &'a str,
    /// The schema of its arguments.
    #[schema(value_type = Object)]
    params: &'a Json,
}

/// The switch of a tool.
#[derive(ToSchema)]
#[schema(as = ToolCatalogRequest)]
#[expect(dead_code, reason = "it documents what `read_switch` reads field by field")]
pub(crate) struct SwitchBody {
    /// Whether it may be called.
    enabled: bool,
    /// Description as it is: a tool describes itself.
    description: Option<String>,
    /// Parameters as they are: a tool has a schema of its own.
    #[schema(value_type = Option<Object>)]
    params: Option<Json>,
}

/// A switch that was set.
#[derive(Serialize, ToSchema)]
#[schema(as = ToolCatalogChange)]
pub(crate) struct ChangedView<'a> {
    /// Always true.
    ok: bool,
    #[schema(value_type = String)]
    name: &'a ToolName,
    enabled: bool,
}

/// Tools that can be called, and those that are switched off: the newest version of each, by name.
pub(crate) fn items(catalogue: &Catalogue) -> Vec<ItemView<'_>> {
    let off = catalogue.inactive().iter().filter(|one| one.status == ToolStatus::Disabled);
    let off = off.filter_map(|one| one.entry.as_ref());
    let off = off.filter(|entry| catalogue.get(entry.tool.name.as_str(), None).is_none());
    let on = catalogue.newest().map(|entry| item(entry, true));
    let mut items: Vec<_> = on.chain(off.map(|entry| item(entry, false))).collect();
    // The newest version comes last.
    items.reverse();
    items.sort_by_key(|item| item.name);
    items.dedup_by_key(|item| item.name);
    items
}

fn item(entry: &ToolEntry, enabled: bool) -> ItemView<'_> {
    let tool = &entry.tool;
    let (name, description) = (tool.name.as_str(), tool.description.as_str());
    ItemView { name, enabled, description, params: &tool.input_schema }
}

/// Switches all versions of a tool on or off, for all tenants. Only for admin keys of the operator.
#[utoipa::path(
    put, path = "/v1/tool-catalog/{name}", tag = "tools", request_body = SwitchBody,
    params(("name" = String, Path, description = "The tool")),
    responses(
        (status = 200, description = "The tool is on or off, as asked", body = ChangedView<'static>),
        (status = 404, description = "There is no such tool"),
        (status = 409, description = "Its status does not allow it"),
        (status = 422, description = "The body does not fit"),
    )
)]
pub(crate) async fn set(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(name): Named<ToolName>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let body = body::json(&shared.edge, request).await?;
    let catalogue = shared.engine.tools();
    let known = items(&catalogue).into_iter().find(|item| item.name == name.as_str());
    let enabled = read_switch(known.as_ref(), &body)?;
    if shared.engine.states_of_tool(&name).is_empty() {
        return Err(not_found(&catalogue, &caller, name.as_str()));
    }
    let event = if enabled { LifecycleEvent::Enable } else { LifecycleEvent::Disable };
    if !is_done(&shared.engine, &name, event, enabled) {
        let (who, trace, all) = (caller.principal(), caller.trace(), VersionChoice::default());
        let why = format!("switched {} in the tool catalogue", if enabled { "on" } else { "off" });
        let changed = shared.engine.change_tool(who, trace, &name, &all, event, why, false).await;
        changed.map_err(problem)?;
    }
    Ok(reply::ok(&ChangedView { ok: true, name: &name, enabled }))
}

/// Whether nothing is left to switch.
fn is_done(engine: &Engine, name: &ToolName, event: LifecycleEvent, enabled: bool) -> bool {
    let wanted = if enabled { ToolStatus::Active } else { ToolStatus::Disabled };
    let states = engine.states_of_tool(name);
    states.iter().any(|state| state.status == wanted)
        && states.iter().all(|state| state.status.on(event).is_err())
}

fn read_switch(known: Option<&ItemView<'_>>, body: &Json) -> Result<bool, Problem> {
    let mut fields = Fields::of(body)?;
    let enabled: Option<bool> = fields.required("enabled");
    let description: Option<String> = fields.optional("description");
    let params = fields.optional_object("params");
    if let Some(known) = known {
        if description.is_some_and(|text| text != known.description) {
            fields.fault("description", "is part of the tool and cannot be set here");
        }
        if params.is_some_and(|params| params != *known.params) {
            fields.fault("params", "are part of the tool and cannot be set here");
        }
    }
    fields.finish(enabled)
}
