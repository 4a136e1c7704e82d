//! MCP servers of others as sources of tools, for the operator.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use http::StatusCode;
use ringfence_edge::{
    Problem, body,
    fields::{Fields, invalid},
    identity::{self, May, check_operator},
    problem::Fault,
    problem_codes, reply,
};
use ringfence_engine::{Health, SourceError, SourceState, ToolState};
use ringfence_types::{
    CallId, Digest, HttpServer, Json, Package, ServerName, ServerSpec, ServerTransport,
    StdioServer, Timestamp,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::shared::Shared;

/// MCP server to add: a program (`command`) or a service (`url`).
#[derive(ToSchema)]
#[schema(as = McpServerRequest)]
#[expect(dead_code, reason = "it documents what `read_server` reads field by field")]
pub(crate) struct McpServerBody {
    /// Name of the server, the prefix of its tools.
    name: String,
    /// Program and arguments; it runs in a session sandbox.
    command: Option<Vec<String>>,
    /// Variables of the program.
    env: Option<BTreeMap<String, String>>,
    /// Packages to install before its first start: `pypi:NAME==VERSION`, `npm:NAME@VERSION`.
    packages: Option<Vec<String>>,
    /// Hosts that the program may reach.
    hosts: Option<Vec<String>>,
    /// Bytes of memory of the program.
    memory_bytes: Option<u64>,
    /// Address of a service that speaks streamable HTTP.
    url: Option<String>,
    /// Headers of every request to the service.
    headers: Option<BTreeMap<String, String>>,
    /// Safety flags of its tools; by default `none` without network, else `external_call`.
    safety_flags: Option<Vec<String>>,
    /// Seconds that one call of a tool may take; 60 by default.
    timeout_secs: Option<u32>,
}

/// MCP servers, by name.
#[derive(Serialize, ToSchema)]
#[schema(as = McpServerList)]
pub(crate) struct McpServerListView {
    servers: Vec<McpServerView>,
}

/// An MCP server.
#[derive(Serialize, ToSchema)]
#[schema(as = McpServer)]
pub(crate) struct McpServerView {
    name: String,
    /// `stdio` or `http`.
    transport: &'static str,
    /// Program and arguments.
    command: Option<Vec<String>>,
    /// Address of a service.
    url: Option<String>,
    /// Names of variables and headers; their values are not shown.
    settings: Vec<String>,
    packages: Vec<String>,
    /// Hosts that it may reach.
    hosts: Vec<String>,
    #[schema(value_type = String)]
    added_at: Timestamp,
    health: McpHealthView,
    tools: Vec<McpToolView>,
    /// Tools that cannot be offered.
    broken: Vec<McpBrokenView>,
}

/// State of an MCP server in the process that answers.
#[derive(Serialize, ToSchema)]
#[schema(as = McpHealth)]
pub(crate) struct McpHealthView {
    /// `starting`, `held`, `connected` or `failing`.
    state: &'static str,
    /// The call that a person must decide about.
    #[schema(value_type = Option<String>)]
    call_id: Option<CallId>,
    /// Revision of the protocol.
    revision: Option<String>,
    #[schema(value_type = Option<String>)]
    since: Option<Timestamp>,
    /// Why it failed.
    reason: Option<String>,
    /// Attempts that failed in a row.
    attempts: Option<u32>,
    #[schema(value_type = Option<String>)]
    retry_at: Option<Timestamp>,
}

/// A tool of an MCP server.
#[derive(Serialize, ToSchema)]
#[schema(as = McpTool)]
pub(crate) struct McpToolView {
    /// Name under which agents call it.
    name: String,
    /// Its status, as `GET /v1/tools` has it.
    status: &'static str,
    #[schema(value_type = String)]
    digest: Digest,
    description: String,
    /// Hints for the person who approves it.
    findings: Vec<String>,
}

/// A tool of an MCP server that cannot be offered.
#[derive(Serialize, ToSchema)]
#[schema(as = McpBrokenTool)]
pub(crate) struct McpBrokenView {
    name: String,
    problem: String,
}

impl McpServerView {
    fn of(state: &SourceState) -> Self {
        let server = &state.server;
        let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
        let (transport, command, url, settings, packages, hosts) = match &server.spec.transport {
            ServerTransport::Stdio(StdioServer { command, env, packages, hosts, .. }) => {
                let packages = packages.iter().map(ToString::to_string).collect();
                ("stdio", Some(command.clone()), None, names(env), packages, hosts.clone())
            }
            ServerTransport::Http(HttpServer { url, headers }) => {
                ("http", None, Some(url.clone()), names(headers), Vec::new(), Vec::new())
            }
        };
        let tool = |(state, findings): &(ToolState, Vec<ringfence_engine::Finding>)| McpToolView {
            name: state.tool.name.to_string(),
            status: state.status.name(),
            digest: state.tool.digest,
            description: state
                .definition
                .as_ref()
                .map(|definition| definition.description.clone())
                .unwrap_or_default(),
            findings: findings.iter().map(|finding| finding.detail.clone()).collect(),
        };
        let broken = state.broken.iter().map(|broken| McpBrokenView {
            name: broken.name.clone(),
            problem: broken.problem.clone(),
        });
        Self {
            name: server.name.to_string(),
            transport,
            command,
            url,
            settings,
            packages,
            hosts,
            added_at: server.added_at,
            health: McpHealthView::of(&state.health),
            tools: state.tools.iter().map(tool).collect(),
            broken: broken.collect(),
        }
    }
}

impl McpHealthView {
    fn of(health: &Health) -> Self {
        let mut view = Self {
            state: health.name(),
            call_id: None,
            revision: None,
            since: None,
            reason: None,
            attempts: None,
            retry_at: None,
        };
        match health {
            Health::Starting => {}
            Health::Held { call } => view.call_id = Some(*call),
            Health::Connected { revision, since } => {
                (view.revision, view.since) = (revision.clone(), Some(*since));
            }
            Health::Failing { reason, attempts, retry_at } => {
                view.reason = Some(reason.clone());
                (view.attempts, view.retry_at) = (Some(*attempts), Some(*retry_at));
            }
        }
        view
    }
}

/// Lists the MCP servers whose tools are offered, with their state and tools. Only for keys of the operator.
#[utoipa::path(
    get, path = "/v1/mcp/servers", tag = "mcp",
    responses((status = 200, description = "MCP servers", body = McpServerListView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let servers = shared.engine.mcp_servers().iter().map(McpServerView::of).collect();
    Ok(reply::ok(&McpServerListView { servers }))
}

/// Reads one MCP server. Only for keys of the operator.
#[utoipa::path(
    get, path = "/v1/mcp/servers/{name}", tag = "mcp",
    params(("name" = String, Path, description = "Name of the server")),
    responses(
        (status = 200, description = "The MCP server", body = McpServerView),
        (status = 404, description = "There is none"),
    )
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let state = shared.engine.mcp_server(&named(&name)?).ok_or_else(Problem::not_found)?;
    Ok(reply::ok(&McpServerView::of(&state)))
}

/// Adds an MCP server and starts it. Starting it is a call that policy decides about; its tools are proposed, and
/// a person approves each. Only for keys of the operator.
#[utoipa::path(
    post, path = "/v1/mcp/servers", tag = "mcp", request_body = McpServerBody,
    responses(
        (status = 201, description = "The MCP server", body = McpServerView),
        (status = 409, description = "There is one of this name, or there are too many"),
        (status = 422, description = "The body does not fit"),
    )
)]
pub(crate) async fn add(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let body = body::json(&shared.edge, request).await?;
    let (name, spec) = read_server(&body)?;
    let added = shared.engine.add_mcp_server(caller.principal(), name, spec).await;
    let state = added.map_err(problem)?;
    Ok(reply::json(StatusCode::CREATED, &McpServerView::of(&state)))
}

/// Removes an MCP server, ends it and withdraws its tools. Only for keys of the operator.
#[utoipa::path(
    delete, path = "/v1/mcp/servers/{name}", tag = "mcp",
    params(("name" = String, Path, description = "Name of the server")),
    responses(
        (status = 204, description = "It is removed"),
        (status = 404, description = "There is none"),
    )
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let name = named(&name)?;
    let (who, trace) = (caller.principal(), caller.trace());
    shared.engine.remove_mcp_server(who, trace, &name).await.map_err(problem)?;
    Ok(reply::nothing())
}

/// Starts an MCP server anew. Only for keys of the operator.
#[utoipa::path(
    post, path = "/v1/mcp/servers/{name}/restart", tag = "mcp",
    params(("name" = String, Path, description = "Name of the server")),
    responses(
        (status = 204, description = "It is started anew"),
        (status = 404, description = "There is none"),
    )
)]
pub(crate) async fn restart(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    shared.engine.restart_mcp_server(&named(&name)?).map_err(problem)?;
    Ok(reply::nothing())
}

fn named(name: &str) -> Result<ServerName, Problem> {
    name.parse().map_err(|_| Problem::not_found())
}

fn read_server(body: &Json) -> Result<(ServerName, ServerSpec), Problem> {
    let mut fields = Fields::of(body)?;
    let name: Option<String> = fields.required("name");
    let parsed = name.as_ref().and_then(|name| match name.parse::<ServerName>() {
        Ok(name) => Some(name),
        Err(error) => {
            fields.fault("name", error.to_string());
            None
        }
    });
    let command: Option<Vec<String>> = fields.optional("command");
    let url: Option<String> = fields.optional("url");
    let env: Option<BTreeMap<String, String>> = fields.optional("env");
    let named: Vec<String> = fields.optional("packages").unwrap_or_default();
    let mut packages = Vec::new();
    for text in &named {
        match text.parse::<Package>() {
            Ok(package) => packages.push(package),
            Err(error) => fields.fault("packages", error.to_string()),
        }
    }
    let hosts: Option<Vec<String>> = fields.optional("hosts");
    let memory_bytes = fields.whole("memory_bytes");
    if memory_bytes.is_some_and(|bytes| !(MIN_MEMORY..=MAX_MEMORY).contains(&bytes)) {
        fields.fault("memory_bytes", "must be from 8388608 to 8589934592");
    }
    let headers: Option<BTreeMap<String, String>> = fields.optional("headers");
    let safety_flags: Option<Vec<String>> = fields.optional("safety_flags");
    let timeout_secs: Option<u32> = fields.optional("timeout_secs");
    if timeout_secs.is_some_and(|secs| !(1..=3_600).contains(&secs)) {
        fields.fault("timeout_secs", "must be from 1 to 3600");
    }
    let transport = match (command, url) {
        (Some(command), None) => {
            if headers.is_some() {
                fields.fault("headers", "are for a server with a `url`");
            }
            let (env, hosts) = (env.unwrap_or_default(), hosts.unwrap_or_default());
            let server = StdioServer { command, env, packages, hosts, memory_bytes };
            Some(ServerTransport::Stdio(server))
        }
        (None, Some(url)) => {
            if env.is_some() || hosts.is_some() || !named.is_empty() || memory_bytes.is_some() {
                fields.fault("url", "excludes `env`, `packages`, `hosts` and `memory_bytes`");
            }
            let headers = headers.unwrap_or_default();
            Some(ServerTransport::Http(HttpServer { url, headers }))
        }
        _ => {
            fields.fault("command", "either `command` or `url` is required");
            None
        }
    };
    let spec = transport.map(|transport| ServerSpec { transport, safety_flags, timeout_secs });
    fields.finish(parsed.zip(spec))
}

const MIN_MEMORY: u64 = 8 << 20;
const MAX_MEMORY: u64 = 8 << 30;

fn problem(error: SourceError) -> Problem {
    match error {
        SourceError::Unknown(_) => Problem::not_found(),
        SourceError::Exists(_) | SourceError::TooMany => {
            Problem::new(&problem_codes::CONFLICT, error.to_string())
        }
        SourceError::Invalid(problems) => {
            let fault = |detail: String| Fault { pointer: String::new(), detail };
            invalid(problems.into_iter().map(fault).collect())
        }
        SourceError::Store(error) => error.into(),
    }
}
