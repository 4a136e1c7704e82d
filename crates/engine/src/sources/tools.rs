//! Tools of a server: proposed as they are listed. What becomes of each is `lifecycle`'s: a new one waits
//! for a person, and one whose definition changed is quarantined.

use std::{collections::BTreeMap, sync::Arc};

use ringfence_mcp_client::RemoteTool;
use ringfence_registry::{Definition, McpTool, Recipe};
use ringfence_types::{
    Json, LifecycleEvent, Limits, McpServer, Origin, Principal, STRUCTURED_CONTENT, ServerName,
    ServerTransport, TOOL_SEPARATOR, ToolPermissions, ToolStatus, TraceContext, move_references,
};
use serde_json::json;

use super::{
    BrokenTool, Source,
    inspection::{self, Finding},
    start,
};
use crate::{Engine, LifecycleError, ToolState, VersionChoice, engine::Inner};

/// Version of every tool: servers name none, and the digest tells versions apart.
const VERSION: &str = "1.0.0";
/// Longest name of a tool at its server.
const MAX_NAME: usize = 90;
/// Seconds that a call may take where the server says nothing else.
const TIMEOUT_SECS: u32 = 60;

/// Name of a server as the source of tools.
pub(super) fn source_name(name: &ServerName) -> String {
    format!("mcp:{name}")
}

/// Proposes what a server lists. A tool that cannot be offered is left out and keeps none of the others.
pub(super) async fn update(
    inner: &Arc<Inner>,
    source: &Source,
    listed: Vec<RemoteTool>,
) -> Result<(), LifecycleError> {
    let engine = Engine { inner: inner.clone() };
    let (mut definitions, mut broken) = (Vec::new(), Vec::new());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    listed.iter().for_each(|tool| *counts.entry(&tool.name).or_default() += 1);
    for tool in &listed {
        let named = match counts.get(tool.name.as_str()) {
            Some(1) => definition(&source.server, tool),
            _ => Err("its server lists two tools of this name".to_owned()),
        };
        let checked = named.and_then(|definition| match definition.problems() {
            problems if problems.is_empty() => Ok(definition),
            problems => Err(problems.join("; ")),
        });
        match checked {
            Ok(definition) => definitions.push(definition),
            Err(problem) => {
                let name = inspection::visible(&tool.name).chars().take(100).collect();
                broken.push(BrokenTool { name, problem });
            }
        }
    }
    let name = source_name(&source.server.name);
    for definition in definitions {
        match engine.propose_tools(None, &name, std::slice::from_ref(&definition)).await {
            Ok(_) => {}
            Err(LifecycleError::Store(error)) => return Err(LifecycleError::Store(error)),
            Err(problem) => {
                let name = definition.name.to_string();
                broken.push(BrokenTool { name, problem: problem.to_string() });
            }
        }
    }
    source.known().broken = broken;
    Ok(())
}

/// The definition of a tool; everything that a reader or a model gets to see is part of it.
fn definition(server: &McpServer, tool: &RemoteTool) -> Result<Definition, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let (length, is_valid) = (tool.name.len(), tool.name.chars().all(is_plain));
    if length == 0 || length > MAX_NAME || !is_valid {
        return Err(format!("its name is not 1 to {MAX_NAME} of A-Z a-z 0-9 _ . -"));
    }
    let name = format!("{}{TOOL_SEPARATOR}{}", server.name, tool.name);
    let description = match tool.description.trim() {
        "" => tool.title.clone().unwrap_or_else(|| tool.name.clone()),
        text => text.to_owned(),
    };
    let hosts = match &server.spec.transport {
        ServerTransport::Http(http) => vec![start::host_of(&http.url)?],
        ServerTransport::Stdio(_) => Vec::new(),
    };
    let seconds = server.spec.timeout_secs.unwrap_or(TIMEOUT_SECS);
    Ok(Definition {
        name: name.parse().map_err(|_| "its name is too long".to_owned())?,
        version: VERSION.to_owned(),
        description: inspection::visible(&description),
        origin: Origin::Mcp,
        input_schema: tool.input_schema.clone(),
        output_schema: output_schema(tool.output_schema.as_ref()),
        safety_flags: server.spec.flags(),
        requires_approval: false,
        tags: vec!["mcp".to_owned(), server.name.to_string()],
        limits: Limits {
            wall: std::time::Duration::from_secs(seconds.into()),
            ..Limits::default()
        },
        asks: ToolPermissions { hosts, ..ToolPermissions::default() },
        examples: Vec::new(),
        runs: Recipe::Mcp(McpTool {
            server: server.name.clone(),
            tool: tool.name.clone(),
            title: tool.title.as_deref().map(inspection::visible),
            annotations: tool.annotations.clone(),
            spec: server.spec.digest(),
        }),
    })
}

/// Schema of results: blocks of content, and the structured result beside them.
fn output_schema(structured: Option<&Json>) -> Json {
    let mut properties = json!({"content": {"type": "array"}});
    if let Some(structured) = structured {
        let mut structured = structured.to_value();
        if let Some(fields) = structured.as_object_mut() {
            fields.remove("$id");
        }
        move_references(&mut structured, "#", STRUCTURED_CONTENT);
        properties["structuredContent"] = structured;
    }
    let schema = json!({"type": "object", "required": ["content"], "properties": properties});
    Json::from_value(&schema).unwrap_or_else(Json::empty_object)
}

/// The tools of a server as they stand, with what a reader should look at.
pub(super) fn states(engine: &Engine, server: &ServerName) -> Vec<(ToolState, Vec<Finding>)> {
    let source = source_name(server);
    let all = engine.tool_states();
    let names: Vec<String> = all.iter().map(|state| state.tool.name.to_string()).collect();
    let own = all.into_iter().filter(|state| {
        state.row.as_ref().is_some_and(|row| row.about.source == source)
            && state.status != ToolStatus::Revoked
    });
    own.map(|state| {
        let findings = match &state.definition {
            Some(definition) => inspection::findings(definition, names.iter().map(String::as_str)),
            None => Vec::new(),
        };
        (state, findings)
    })
    .collect()
}

/// Withdraws all tools of a server that was removed.
pub(super) async fn withdraw(
    engine: &Engine,
    who: &Principal,
    trace: &TraceContext,
    server: &ServerName,
) {
    for (state, _) in states(engine, server) {
        let choice = VersionChoice { version: None, digest: Some(state.tool.digest) };
        let (event, why) = (LifecycleEvent::Revoke, format!("MCP server `{server}` was removed"));
        let name = &state.tool.name;
        let changed = engine.change_tool(who, trace, name, &choice, event, why, true).await;
        if let Err(error) = changed {
            tracing::warn!(tool = %name, %error, "a tool of a removed MCP server is not withdrawn");
        }
    }
}
