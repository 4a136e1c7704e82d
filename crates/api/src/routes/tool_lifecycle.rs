//! Lifecycle of tools: what may be called, with which grants, and since when.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
    routing::{get, post, put},
};
use http::Uri;
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, Caller, May, check_operator},
    path::Named,
    problem::{Fault, pointer},
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::{LifecycleError, MAX_WHY_CHARS, ToolApproval, VersionChoice};
use ringfence_types::{Digest, Json, LifecycleEvent, ToolName, ToolPermissions, ToolStatus};
use utoipa::ToSchema;

use super::{
    Routes,
    tool_catalog::{self, CatalogView},
    tool_data, tool_imports, tool_tests,
};
use crate::{
    shared::Shared,
    views::tool_state::{
        ToolDifferenceView, ToolLifecycleView, ToolStateListView, ToolStateView, TransitionView,
    },
};

pub(super) fn routes(router: Routes) -> Routes {
    router
        .route("/v1/tool-catalog", get(list))
        .route("/v1/tool-catalog/{name}", put(tool_catalog::set))
        .route("/v1/tool-imports", post(tool_imports::create))
        .route("/v1/tools/{name}/test", get(tool_tests::read).post(tool_tests::run))
        .route("/v1/tools/{name}/data", get(tool_data::read).delete(tool_data::remove))
        .route("/v1/tools/{name}/lifecycle", get(read))
        .route("/v1/tools/{name}/diff", get(diff))
        .route("/v1/tools/{name}/approve", post(approve))
        .route("/v1/tools/{name}/grant", post(grant))
        .route("/v1/tools/{name}/enable", post(enable))
        .route("/v1/tools/{name}/disable", post(disable))
        .route("/v1/tools/{name}/quarantine", post(quarantine))
        .route("/v1/tools/{name}/revoke", post(revoke))
}

/// Version of the tool, and the reason.
#[derive(ToSchema)]
#[schema(as = ToolChangeRequest)]
#[expect(dead_code, reason = "it documents what `Change::read` reads field by field")]
pub(crate) struct ChangeBody {
    /// Reason, which goes to the ledger.
    why: String,
    /// Only this version.
    version: Option<String>,
    /// Only the version with this digest.
    digest: Option<String>,
    /// Whether running calls are cancelled.
    stop_running: Option<bool>,
    /// `revoke`: whether what the tool keeps between calls is removed, for all tenants, if no version is left.
    delete_data: Option<bool>,
}

/// Approval of a tool version.
#[derive(ToSchema)]
#[schema(as = ToolApprovalRequest)]
#[expect(dead_code, reason = "it documents what `approve` reads field by field")]
pub(crate) struct ApprovalBody {
    /// Reason, which goes to the ledger.
    why: String,
    /// Version that is approved, if several wait.
    version: Option<String>,
    /// Digest of the version that is approved.
    digest: Option<String>,
    /// Permissions that are granted: all that it asks for, or less. Without them, all.
    grants: Option<PermissionsBody>,
    /// Whether it stays switched off until it is enabled.
    stay_off: Option<bool>,
}

/// New grants of an approved version.
#[derive(ToSchema)]
#[schema(as = ToolGrantRequest)]
#[expect(dead_code, reason = "it documents what `grant` reads field by field")]
pub(crate) struct GrantBody {
    /// Reason, which goes to the ledger.
    why: String,
    version: Option<String>,
    digest: Option<String>,
    /// Permissions from now on.
    grants: PermissionsBody,
}

/// Permissions of a tool.
#[derive(ToSchema)]
#[schema(as = ToolPermissions)]
#[expect(dead_code, reason = "it documents `ToolPermissions`")]
pub(crate) struct PermissionsBody {
    /// Hosts: `[METHOD[,METHOD] ]host[:port][/path]`.
    hosts: Option<Vec<String>>,
    /// Bytes kept between calls.
    storage_bytes: Option<u64>,
    /// Names of secrets.
    secrets: Option<Vec<String>>,
    /// Names of other tools.
    tools: Option<Vec<String>>,
    /// Share of processors in thousandths.
    cpu_millis: Option<u32>,
    memory_bytes: Option<u64>,
    processes: Option<u32>,
    wall_ms: Option<u64>,
}

/// Lists tools that are on or off (`items`), and every version of every tool with its status (`tools`).
#[utoipa::path(
    get, path = "/v1/tool-catalog", tag = "tools",
    params(("status" = Option<String>, Query, description = "Only with this status, such as `proposed`")),
    responses((status = 200, description = "Versions", body = CatalogView<'static>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    _caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let status = query.optional::<ToolStatus>("status");
    query.finish()?;
    let mut states = shared.engine.tool_states();
    states.retain(|state| status.is_none_or(|status| state.status == status));
    let tools: Vec<_> = states.iter().map(ToolStateView::of).collect();
    let catalogue = shared.engine.tools();
    let items = tool_catalog::items(&catalogue);
    Ok(reply::ok(&CatalogView { items, count: tools.len(), tools }))
}

/// Shows all versions of a tool: status, request, grants, and every change with who and why.
#[utoipa::path(
    get, path = "/v1/tools/{name}/lifecycle", tag = "tools",
    params(("name" = String, Path, description = "The tool")),
    responses((status = 200, description = "The versions", body = ToolLifecycleView<'static>))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    _caller: May<identity::SeeHolds>,
    Named(name): Named<ToolName>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::of(&uri).finish()?;
    let states = shared.engine.states_of_tool(&name);
    if states.is_empty() {
        let detail = format!("there is no tool `{name}`");
        return Err(Problem::new(&problem_codes::TOOL_NOT_FOUND, detail));
    }
    let history = shared.engine.tool_history(&name).await?;
    let versions = states.iter().map(ToolStateView::of).collect();
    let history = history.iter().map(TransitionView::of).collect();
    Ok(reply::ok(&ToolLifecycleView { name: name.as_str(), versions, history }))
}

/// Shows how a version differs from the one whose place it is to take.
#[utoipa::path(
    get, path = "/v1/tools/{name}/diff", tag = "tools",
    params(
        ("name" = String, Path, description = "The tool"),
        ("version" = Option<String>, Query, description = "Version of either side"),
        ("digest" = Option<String>, Query, description = "Digest of either side"),
    ),
    responses((status = 200, description = "Differences", body = ToolDifferenceView<'static>))
)]
pub(crate) async fn diff(
    State(shared): State<Arc<Shared>>,
    _caller: May<identity::SeeHolds>,
    Named(name): Named<ToolName>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let version = query.optional::<String>("version");
    let digest = query.optional::<Digest>("digest");
    query.finish()?;
    match shared.engine.tool_differences(&name, &VersionChoice { version, digest }) {
        Some(difference) => Ok(reply::ok(&ToolDifferenceView::of(&difference))),
        None => {
            let detail = format!("no version of `{name}` takes the place of another");
            Err(Problem::new(&problem_codes::NOT_FOUND, detail))
        }
    }
}

/// Approves a proposed or quarantined version with its grants. Only for admin keys of the operator.
#[utoipa::path(
    post, path = "/v1/tools/{name}/approve", tag = "tools", request_body = ApprovalBody,
    params(("name" = String, Path, description = "The tool")),
    responses(
        (status = 200, description = "The version as it is now", body = ToolStateView<'static>),
        (status = 409, description = "Its status does not allow it, or several versions wait"),
    )
)]
pub(crate) async fn approve(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(name): Named<ToolName>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let (why, choice) = (why(&mut fields), choice(&mut fields));
    let grants: Option<ToolPermissions> = fields.optional("grants");
    let stays_off = fields.optional("stay_off").unwrap_or(false);
    let why = fields.finish(why)?;
    let approval = ToolApproval { grants, why, stays_off };
    let (who, trace) = (caller.principal(), caller.trace());
    let state = shared.engine.approve_tool(who, trace, &name, &choice, approval).await;
    Ok(reply::ok(&ToolStateView::of(&state.map_err(problem)?)))
}

/// Changes the grants of an approved version. Only for admin keys of the operator.
#[utoipa::path(
    post, path = "/v1/tools/{name}/grant", tag = "tools", request_body = GrantBody,
    params(("name" = String, Path, description = "The tool")),
    responses(
        (status = 200, description = "The version as it is now", body = ToolStateView<'static>),
        (status = 409, description = "Several versions are approved, or none can be granted anything"),
    )
)]
pub(crate) async fn grant(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(name): Named<ToolName>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let (why, choice) = (why(&mut fields), choice(&mut fields));
    let grants: Option<ToolPermissions> = fields.required("grants");
    let (why, grants) = fields.finish(why.zip(grants))?;
    let (who, trace) = (caller.principal(), caller.trace());
    let state = shared.engine.grant_tool(who, trace, &name, &choice, grants, why).await;
    Ok(reply::ok(&ToolStateView::of(&state.map_err(problem)?)))
}

/// Switches disabled or installed versions on. Only for admin keys of the operator.
#[utoipa::path(
    post, path = "/v1/tools/{name}/enable", tag = "tools", request_body = ChangeBody,
    params(("name" = String, Path, description = "The tool")),
    responses(
        (status = 200, description = "The versions as they are now", body = ToolStateListView<'static>),
        (status = 409, description = "Its status does not allow it"),
    )
)]
pub(crate) async fn enable(
    shared: State<Arc<Shared>>,
    caller: May<identity::Admin>,
    name: Named<ToolName>,
    request: Request,
) -> Result<Response, Problem> {
    change(shared, &caller, name, LifecycleEvent::Enable, request).await
}

/// Switches active versions off. Only for admin keys of the operator.
#[utoipa::path(
    post, path = "/v1/tools/{name}/disable", tag = "tools", request_body = ChangeBody,
    params(("name" = String, Path, description = "The tool")),
    responses(
        (status = 200, description = "The versions as they are now", body = ToolStateListView<'static>),
        (status = 409, description = "Its status does not allow it"),
    )
)]
pub(crate) async fn disable(
    shared: State<Arc<Shared>>,
    caller: May<identity::Admin>,
    name: Named<ToolName>,
    request: Request,
) -> Result<Response, Problem> {
    change(shared, &caller, name, LifecycleEvent::Disable, request).await
}

/// Quarantines versions until they are approved again. Only for admin keys of the operator.
#[utoipa::path(
    post, path = "/v1/tools/{name}/quarantine", tag = "tools", request_body = ChangeBody,
    params(("name" = String, Path, description = "The tool")),
    responses(
        (status = 200, description = "The versions as they are now", body = ToolStateListView<'static>),
        (status = 409, description = "Its status does not allow it"),
    )
)]
pub(crate) async fn quarantine(
    shared: State<Arc<Shared>>,
    caller: May<identity::Admin>,
    name: Named<ToolName>,
    request: Request,
) -> Result<Response, Problem> {
    change(shared, &caller, name, LifecycleEvent::Quarantine, request).await
}

/// Withdraws versions, or rejects proposed ones. Only for admin keys of the operator.
#[utoipa::path(
    post, path = "/v1/tools/{name}/revoke", tag = "tools", request_body = ChangeBody,
    params(("name" = String, Path, description = "The tool")),
    responses(
        (status = 200, description = "The versions as they are now", body = ToolStateListView<'static>),
        (status = 409, description = "Its status does not allow it"),
    )
)]
pub(crate) async fn revoke(
    shared: State<Arc<Shared>>,
    caller: May<identity::Admin>,
    name: Named<ToolName>,
    request: Request,
) -> Result<Response, Problem> {
    change(shared, &caller, name, LifecycleEvent::Revoke, request).await
}

async fn change(
    State(shared): State<Arc<Shared>>,
    caller: &Caller,
    Named(name): Named<ToolName>,
    event: LifecycleEvent,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(caller)?;
    let body: Json = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let (why, choice) = (why(&mut fields), choice(&mut fields));
    let stops_running = fields.optional("stop_running").unwrap_or(false);
    let deletes_data = fields.optional("delete_data").unwrap_or(false);
    if deletes_data && event != LifecycleEvent::Revoke {
        fields.fault("delete_data", "goes with `revoke` alone");
    }
    let why = fields.finish(why)?;
    let (who, trace) = (caller.principal(), caller.trace());
    let changed = shared
        .engine
        .change_tool(who, trace, &name, &choice, event, why, stops_running)
        .await
        .map_err(problem)?;
    if deletes_data {
        shared.engine.remove_withdrawn_data(&name).await?;
    }
    let tools: Vec<_> = changed.iter().map(ToolStateView::of).collect();
    Ok(reply::ok(&ToolStateListView { count: tools.len(), tools }))
}

pub(super) fn why(fields: &mut Fields<'_>) -> Option<String> {
    let why: Option<String> = fields.required("why");
    if let Some(text) = &why
        && (text.trim().is_empty() || text.chars().count() > MAX_WHY_CHARS)
    {
        fields.fault("why", format!("must have 1 to {MAX_WHY_CHARS} characters"));
    }
    why
}

fn choice(fields: &mut Fields<'_>) -> VersionChoice {
    VersionChoice { version: fields.optional("version"), digest: fields.optional("digest") }
}

/// The problem of a change that was refused.
pub(crate) fn problem(error: LifecycleError) -> Problem {
    let detail = error.to_string();
    match error {
        LifecycleError::Policy(refused) => refused.into(),
        LifecycleError::Unknown { .. } => Problem::new(&problem_codes::TOOL_NOT_FOUND, detail),
        LifecycleError::Illegal(_) | LifecycleError::NotGranted { .. } | LifecycleError::Full => {
            Problem::new(&problem_codes::CONFLICT, detail)
        }
        LifecycleError::Ambiguous { versions, .. } => {
            Problem::new(&problem_codes::CONFLICT, detail).with("versions", versions)
        }
        LifecycleError::Taken { .. } => Problem::new(&problem_codes::TOOL_TAKEN, detail),
        LifecycleError::Beyond { parts } => {
            let faults = faults("/grants", parts);
            Problem::new(&problem_codes::GRANT_INVALID, detail).faults(faults)
        }
        LifecycleError::Broken { problems, .. } => {
            Problem::new(&problem_codes::TOOL_INVALID, detail).faults(faults("", problems))
        }
        LifecycleError::LongReason => {
            let fault = Fault { pointer: pointer("", "why"), detail: detail.clone() };
            Problem::new(&problem_codes::TOOL_INVALID, detail).faults(vec![fault])
        }
        LifecycleError::Store(error) => error.into(),
    }
}

fn faults(at: &str, texts: Vec<String>) -> Vec<Fault> {
    texts.into_iter().map(|detail| Fault { pointer: at.to_owned(), detail }).collect()
}
