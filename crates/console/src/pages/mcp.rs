//! MCP: servers whose tools are offered, clients that were seen, and the tools as an agent sees them.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use http::StatusCode;
use ringfence_edge::{
    Problem,
    identity::{self, May, check_operator},
    query::Query,
};
use ringfence_engine::{Health, SourceError, SourceState};
use ringfence_types::{ServerName, ServerTransport, ToolStatus};

use crate::{
    Shared, form,
    html::{self, Html},
    shell::{self, Shell},
};

/// A server in the list.
#[derive(Debug)]
struct ServerRow {
    name: String,
    runs: String,
    grants: Vec<String>,
    state: Html,
    /// Words about the state.
    about: String,
    /// The held call that starts it.
    held: Option<String>,
    tools: Vec<ToolRow>,
    broken: Vec<(String, String)>,
}

#[derive(Debug)]
struct ToolRow {
    name: String,
    status: Html,
    description: String,
    findings: Vec<String>,
}

/// A client that was seen.
#[derive(Debug)]
struct ClientRow {
    name: String,
    key: String,
    revision: String,
    requests: u64,
    seen: Html,
}

/// A tool as agents see it.
#[derive(Debug)]
struct OfferedRow {
    name: String,
    description: String,
}

#[derive(Debug, Template)]
#[template(path = "mcp.html")]
struct McpPage {
    shell: Shell,
    servers: Vec<ServerRow>,
    clients: Vec<ClientRow>,
    offered: Vec<OfferedRow>,
}

/// Shows the page.
pub(crate) async fn page(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: http::Uri,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let done = Query::of(&uri).optional::<String>("done");
    let shell = Shell::new(&shared, &caller, "MCP").await?.done(done.as_deref());
    let servers = shared.engine.mcp_servers().iter().map(server).collect();
    let clients = shared.engine.mcp_clients(caller.principal());
    let clients = clients
        .iter()
        .map(|client| ClientRow {
            name: match client.version.as_str() {
                "" => client.name.clone(),
                version => format!("{} {version}", client.name),
            },
            key: client.label.clone(),
            revision: client.revision.clone(),
            requests: client.requests,
            seen: shell.time(&client.seen_at),
        })
        .collect();
    let catalogue = shared.engine.tools();
    let offered = shared.engine.callable_tools(caller.principal(), &catalogue).await;
    let offered = offered.iter().map(|entry| OfferedRow {
        name: entry.tool.name.to_string(),
        description: entry.tool.description.clone(),
    });
    let offered = offered.collect();
    Ok(shell::render(StatusCode::OK, &McpPage { shell, servers, clients, offered }))
}

fn server(state: &SourceState) -> ServerRow {
    let (runs, grants) = match &state.server.spec.transport {
        ServerTransport::Stdio(stdio) => {
            let packages = stdio.packages.iter().map(ToString::to_string);
            (stdio.command.join(" "), packages.chain(stdio.hosts.iter().cloned()).collect())
        }
        ServerTransport::Http(http) => (http.url.clone(), Vec::new()),
    };
    let (kind, about, held) = match &state.health {
        Health::Starting => ("calm", String::new(), None),
        Health::Held { call } => ("warn", String::new(), Some(call.to_string())),
        Health::Connected { revision, .. } => ("good", revision.clone().unwrap_or_default(), None),
        Health::Failing { reason, attempts, .. } => {
            ("bad", format!("{reason} (attempt {attempts})"), None)
        }
    };
    let tools = state.tools.iter().map(|(tool, findings)| ToolRow {
        name: tool.tool.name.to_string(),
        status: match tool.status {
            ToolStatus::Active => html::pill("good", "active"),
            ToolStatus::Quarantined => html::pill("bad", "quarantined"),
            other => html::pill("warn", other.name()),
        },
        description: tool
            .definition
            .as_ref()
            .map(|definition| definition.description.clone())
            .unwrap_or_default(),
        findings: findings.iter().map(|finding| finding.detail.clone()).collect(),
    });
    ServerRow {
        name: state.server.name.to_string(),
        runs: runs.chars().take(200).collect(),
        grants,
        state: html::pill(kind, state.health.name()),
        about,
        held,
        tools: tools.collect(),
        broken: state.broken.iter().map(|one| (one.name.clone(), one.problem.clone())).collect(),
    }
}

/// Starts a server anew.
pub(crate) async fn restart(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    form::read(&shared.edge, &caller, request).await?;
    let name: ServerName = name.parse().map_err(|_| Problem::not_found())?;
    match shared.engine.restart_mcp_server(&name) {
        Err(SourceError::Unknown(_)) => Err(Problem::not_found()),
        _ => Ok(shell::redirect("/console/mcp?done=restarted")),
    }
}
