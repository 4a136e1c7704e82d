//! Reviews: tools that wait for a decision, beside what they ask for and what changed, and discoveries.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, May, check_operator},
    problem_codes,
    query::Query,
};
use ringfence_engine::{
    Discovery, LifecycleError, RejectError, ToolApproval, ToolState, VersionChoice,
    data::DefinitionChange,
};
use ringfence_types::{
    CallId, Digest, DiscoveryStatus, LifecycleEvent, ToolName, ToolPermissions, ToolStatus,
};

use crate::{
    Shared, form,
    html::{self, Html},
    shell::{self, Shell},
};

/// Tools that the page shows.
const MAX_WAITING: usize = 100;

/// Discoveries that the page shows.
const MAX_DISCOVERIES: usize = 20;

/// A version that waits for a decision.
#[derive(Debug)]
struct WaitingRow {
    name: String,
    version: String,
    digest: String,
    status: Html,
    source: String,
    description: String,
    /// Meaning of what it asks for, in words.
    risks: Vec<String>,
    /// The request in its own form.
    asks: String,
    /// Permissions of the version whose place it is to take.
    granted: Option<String>,
    changes: Vec<DefinitionChange>,
}

/// A discovery.
#[derive(Debug)]
struct DiscoveryRow {
    id: String,
    status: Html,
    capability: String,
    at: Html,
    can_be_rejected: bool,
}

#[derive(Debug, Template)]
#[template(path = "reviews.html")]
struct ReviewsPage {
    shell: Shell,
    waiting: Vec<WaitingRow>,
    more: usize,
    discoveries: Vec<DiscoveryRow>,
}

/// Shows the page.
pub(crate) async fn page(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let mut query = Query::of(&uri);
    let done = query.optional::<String>("done");
    query.finish()?;
    let mut shell = Shell::new(&shared, &caller, "Tools").await?.done(done.as_deref());
    shell.title = "Tools to review".to_owned();
    let mut states = shared.engine.tool_states();
    states.retain(|state| matches!(state.status, ToolStatus::Proposed | ToolStatus::Quarantined));
    let more = states.len().saturating_sub(MAX_WAITING);
    states.truncate(MAX_WAITING);
    let waiting = states.iter().map(|state| row(&shared, state)).collect();
    let who = caller.principal();
    let (found, _) = shared.engine.discoveries(who, None, MAX_DISCOVERIES).await?;
    let discoveries = found.iter().map(|one| discovery(one, &shell)).collect();
    Ok(shell::render(StatusCode::OK, &ReviewsPage { shell, waiting, more, discoveries }))
}

fn row(shared: &Shared, state: &ToolState) -> WaitingRow {
    let about = state.row.as_ref().map(|row| &row.about);
    let choice = VersionChoice { version: None, digest: Some(state.tool.digest) };
    let difference = shared.engine.tool_differences(&state.tool.name, &choice);
    let asks = about.map(|about| about.asks.clone()).unwrap_or_default();
    let replaced = about.and_then(|about| about.replaces);
    let before = shared.engine.states_of_tool(&state.tool.name).into_iter();
    let mut before = before.filter(|one| Some(one.tool.digest) == replaced);
    let granted = before.next().and_then(|one| one.row.as_ref()?.about.grants.clone());
    WaitingRow {
        name: state.tool.name.to_string(),
        version: state.tool.version.clone(),
        digest: state.tool.digest.to_string(),
        status: match state.status {
            ToolStatus::Quarantined => html::pill("bad", "quarantined"),
            other => html::pill("wait", other.name()),
        },
        source: about.map(|about| about.source.clone()).unwrap_or_default(),
        description: state
            .definition
            .as_ref()
            .map(|definition| definition.description.clone())
            .unwrap_or_default(),
        risks: asks.in_words(),
        asks: form_of(&asks),
        granted: granted.as_ref().map(form_of),
        changes: difference.map(|difference| difference.changes).unwrap_or_default(),
    }
}

fn form_of(permissions: &ToolPermissions) -> String {
    serde_json::to_string_pretty(permissions).unwrap_or_default()
}

fn discovery(one: &Discovery, shell: &Shell) -> DiscoveryRow {
    let tone = match one.status {
        DiscoveryStatus::Found => "good",
        DiscoveryStatus::Failed | DiscoveryStatus::Rejected => "bad",
        DiscoveryStatus::Pending | DiscoveryStatus::Searching => "wait",
    };
    let args = one.call.asked.args.to_value();
    DiscoveryRow {
        id: one.call.asked.id.to_string(),
        status: html::pill(tone, one.status.name()),
        capability: args["capability"].as_str().unwrap_or_default().chars().take(200).collect(),
        at: shell.time(&one.call.asked.accepted_at),
        can_be_rejected: !matches!(one.status, DiscoveryStatus::Failed | DiscoveryStatus::Rejected),
    }
}

/// Approves a tool with everything that it asks for, or rejects it.
pub(crate) async fn decide(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let mut text = |name| fields.all(name).pop().unwrap_or_default();
    let name: ToolName = name.parse().map_err(|_| Problem::not_found())?;
    let digest: Digest = text("digest").parse().map_err(|_| Problem::not_found())?;
    let choice = VersionChoice { version: None, digest: Some(digest) };
    let why = reason(text("why"))?;
    let (who, trace, engine) = (caller.principal(), caller.trace(), &shared.engine);
    let done = match text("action").as_str() {
        "approve" => {
            let approval = ToolApproval { grants: None, why, stays_off: false };
            engine.approve_tool(who, trace, &name, &choice, approval).await.map_err(problem)?;
            "tool-approved"
        }
        "reject" => {
            let event = LifecycleEvent::Revoke;
            let changed = engine.change_tool(who, trace, &name, &choice, event, why, false).await;
            changed.map_err(problem)?;
            "tool-rejected"
        }
        _ => return Err(Problem::not_found()),
    };
    Ok(shell::redirect(&format!("/console/reviews?done={done}")))
}

/// Rejects a discovery.
pub(crate) async fn reject(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let why = reason(fields.all("why").pop().unwrap_or_default())?;
    let id: CallId = id.parse().map_err(|_| Problem::not_found())?;
    let (who, trace) = (caller.principal(), caller.trace());
    match shared.engine.reject_discovery(who, trace, id, &why).await {
        Ok(_) => Ok(shell::redirect("/console/reviews?done=tool-rejected")),
        Err(RejectError::Unknown) => Err(Problem::not_found()),
        Err(RejectError::Lifecycle(error)) => Err(problem(error)),
        Err(RejectError::Store(error)) => Err(error.into()),
        Err(over) => Err(Problem::new(&problem_codes::CONFLICT, over.to_string())),
    }
}

fn reason(text: String) -> Result<String, Problem> {
    match text.trim().is_empty() {
        true => Err(Problem::new(&problem_codes::TOOL_INVALID, "a reason is required")),
        false => Ok(text),
    }
}

fn problem(error: LifecycleError) -> Problem {
    let detail = error.to_string();
    match error {
        LifecycleError::Policy(refused) => refused.into(),
        LifecycleError::Unknown { .. } => Problem::new(&problem_codes::TOOL_NOT_FOUND, detail),
        LifecycleError::Store(error) => error.into(),
        _ => Problem::new(&problem_codes::CONFLICT, detail),
    }
}
