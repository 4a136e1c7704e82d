//! Tools.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::{
    Refused,
    data::{Catalogue, ToolEntry},
};
use ringfence_types::{Scope, ToolName, nearest};

use crate::{
    shared::Shared,
    views::tool::{BrokenView, CircuitView, ToolListView, ToolView},
};

/// Lists all tools, the newest version of each, and broken skills; or tools that match words and that
/// policy may let the key call, best first.
#[utoipa::path(
    get, path = "/v1/tools", tag = "tools",
    params(
        ("query" = Option<String>, Query, description = "Words to search names, tags and descriptions for"),
        ("limit" = Option<u64>, Query, description = "Number of tools that a search gives, 1 to 1000; 20 by default"),
    ),
    responses((status = 200, description = "Tools", body = ToolListView<'static>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let words = query.optional::<String>("query");
    let limit = query.optional::<usize>("limit");
    if limit.is_some_and(|limit| !(1..=1_000).contains(&limit)) {
        query.fault("limit", "must be 1 to 1000");
    }
    query.finish()?;
    let catalogue = shared.engine.tools();
    let of = |entry| view(&shared, &caller, &catalogue, entry);
    let found = match &words {
        Some(words) => {
            let (who, limit) = (caller.principal(), limit.unwrap_or(20));
            Some(shared.engine.search_tools(who, words, limit).await)
        }
        None => None,
    };
    let (tools, broken): (Vec<_>, Vec<_>) = match &found {
        Some(found) => (found.iter().map(of).collect(), Vec::new()),
        None => {
            let broken = catalogue.broken().iter().map(BrokenView::of).collect();
            (catalogue.newest().map(of).collect(), broken)
        }
    };
    Ok(reply::ok(&ToolListView { count: tools.len(), tools, broken }))
}

/// Shows a tool: the newest version, or the given one.
#[utoipa::path(
    get, path = "/v1/tools/{name}", tag = "tools",
    params(
        ("name" = String, Path, description = "The tool"),
        ("version" = Option<String>, Query, description = "Version; the newest by default"),
    ),
    responses((status = 200, description = "The tool", body = ToolView<'static>))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
    Named(name): Named<ToolName>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let version = query.optional::<String>("version");
    query.finish()?;
    let catalogue = shared.engine.tools();
    match catalogue.get(name.as_str(), version.as_deref()) {
        Some(entry) => Ok(reply::ok(&view(&shared, &caller, &catalogue, entry))),
        None => Err(unknown(&catalogue, &caller, name.as_str(), version)),
    }
}

/// The problem of an unknown tool or version.
fn unknown(catalogue: &Catalogue, caller: &Caller, name: &str, version: Option<String>) -> Problem {
    let versions = catalogue.versions(name).iter().map(|entry| entry.tool.version.as_str());
    let versions = versions.collect::<Vec<_>>().join(", ");
    match version {
        Some(version) if !versions.is_empty() => {
            let refused = Refused::UnknownVersion { name: name.to_owned(), version };
            let detail = format!("{refused}; there is {versions}");
            Problem::new(&problem_codes::TOOL_VERSION_NOT_FOUND, detail)
        }
        _ => not_found(catalogue, caller, name),
    }
}

/// The problem of an unknown tool. Keys that may list the tools are told the nearest name.
pub(crate) fn not_found(catalogue: &Catalogue, caller: &Caller, name: &str) -> Problem {
    let detail = format!("there is no tool `{name}`");
    let may_list = caller.principal().scopes.allow(Scope::Read);
    let names = catalogue.newest().map(|entry| entry.tool.name.as_str());
    match nearest(name, names).filter(|_| may_list) {
        Some(meant) => {
            let detail = format!("{detail}; did you mean `{meant}`?");
            Problem::new(&problem_codes::TOOL_NOT_FOUND, detail).with("did_you_mean", meant)
        }
        None => Problem::new(&problem_codes::TOOL_NOT_FOUND, detail),
    }
}

fn view<'a>(
    shared: &Shared,
    caller: &Caller,
    catalogue: &'a Catalogue,
    entry: &'a Arc<ToolEntry>,
) -> ToolView<'a> {
    let engine = &shared.engine;
    let circuit = engine.circuit(&caller.principal().tenant, &entry.tool);
    let circuit = circuit.map(|circuit| CircuitView::of(&circuit, engine.clock().now()));
    let versions = catalogue.versions(entry.tool.name.as_str()).iter();
    let versions = versions.map(|entry| entry.tool.version.as_str()).collect();
    ToolView::of(entry, versions, engine.memoises(&entry.tool), circuit)
}
