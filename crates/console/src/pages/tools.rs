//! Tools: the catalogue, one tool, and trying it.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    query::Query,
};
use ringfence_engine::{
    CallRequest, OutputStream, Refused,
    data::{CallQuery, ToolEntry},
};
use ringfence_types::{Call, Json, Produced, Scope, ToolName};

use super::calls::{self, CallRow};
use crate::{
    Shared, form,
    html::{self, Html},
    json_view::{self, Node},
    schema_form::{self, Values},
    shell::{self, Shell},
};

/// A tool in the catalogue.
#[derive(Debug)]
struct ToolRow {
    name: String,
    version: String,
    description: String,
    origin: String,
    flags: Vec<Html>,
}

#[derive(Debug, Template)]
#[template(path = "tools.html")]
struct ListPage {
    shell: Shell,
    rows: Vec<ToolRow>,
    broken: Vec<(String, Vec<String>)>,
    search: String,
    total: usize,
}

/// Lists tools, the newest version of each, and those that are broken.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let search = query.optional::<String>("q").unwrap_or_default();
    query.finish()?;
    let catalogue = shared.engine.tools();
    let all: Vec<_> = catalogue.newest().collect();
    let words: Vec<_> = search.split_whitespace().map(str::to_lowercase).collect();
    let found = all.iter().filter(|entry| fits(entry, &words));
    let rows = found.map(|entry| row(entry)).collect();
    let broken = catalogue.broken().iter();
    let broken = broken.map(|broken| (broken.name.clone(), broken.problems.clone())).collect();
    let shell = Shell::new(&shared, &caller, "Tools").await?;
    let page = ListPage { shell, rows, broken, search, total: all.len() };
    Ok(shell::render(StatusCode::OK, &page))
}

/// Whether every word is in the name, the description, a tag or a flag.
fn fits(entry: &ToolEntry, words: &[String]) -> bool {
    let tool = &entry.tool;
    let mut text = format!("{} {} ", tool.name, tool.description);
    tool.tags.iter().chain(&tool.safety_flags).for_each(|part| {
        text.push_str(part);
        text.push(' ');
    });
    let text = text.to_lowercase();
    words.iter().all(|word| text.contains(word))
}

fn row(entry: &ToolEntry) -> ToolRow {
    let tool = &entry.tool;
    ToolRow {
        name: tool.name.to_string(),
        version: tool.version.clone(),
        description: tool.description.lines().next().unwrap_or_default().to_owned(),
        origin: origin(entry),
        flags: flags(entry),
    }
}

fn origin(entry: &ToolEntry) -> String {
    format!("{:?}", entry.tool.origin).to_lowercase()
}

fn flags(entry: &ToolEntry) -> Vec<Html> {
    let tool = &entry.tool;
    let flag = |flag: &String| match flag.as_str() {
        "none" => html::pill("good", "no effects"),
        "file_system" | "pii_risk" => html::pill("calm", &flag.replace('_', " ")),
        other => html::pill("wait", &other.replace('_', " ")),
    };
    let mut flags: Vec<_> = tool.safety_flags.iter().map(flag).collect();
    flags.extend(tool.requires_approval.then(|| html::pill("wait", "needs approval")));
    flags
}

/// The result of a call that was tried.
#[derive(Debug)]
struct Tried {
    id: String,
    state: Html,
    took: String,
    result: Option<Html>,
    error: Option<String>,
    stdout: Html,
    has_stdout: bool,
    is_held: bool,
    is_over: bool,
}

#[derive(Debug, Template)]
#[template(path = "tool.html")]
struct ReadPage {
    shell: Shell,
    name: String,
    version: String,
    versions: Vec<String>,
    description: String,
    origin: String,
    flags: Vec<Html>,
    tags: Vec<String>,
    digest: Html,
    created: Html,
    limits: Vec<(&'static str, String)>,
    is_pure: bool,
    is_memoised: bool,
    input_schema: Html,
    output_schema: Html,
    fields: Html,
    raw: String,
    is_raw: bool,
    once: String,
    errors: Vec<(String, String)>,
    tried: Option<Tried>,
    recent: Vec<CallRow>,
    may_call: bool,
}

/// Values of the form as they were sent.
#[derive(Debug, Default)]
struct Sent {
    values: Values,
    raw: Option<String>,
    is_raw: bool,
    errors: Vec<(String, String)>,
}

/// Shows a tool with a form to try it.
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
    Named(name): Named<ToolName>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let version = query.optional::<String>("version");
    let is_raw = query.optional::<String>("mode").is_some_and(|mode| mode == "raw");
    query.finish()?;
    let sent = Sent { is_raw, ..Sent::default() };
    let page = view(&shared, &caller, &name, version.as_deref(), sent).await?;
    Ok(shell::render(StatusCode::OK, &page))
}

async fn view(
    shared: &Shared,
    caller: &Caller,
    name: &ToolName,
    version: Option<&str>,
    sent: Sent,
) -> Result<ReadPage, Problem> {
    let who = caller.principal();
    let catalogue = shared.engine.tools();
    let entry = catalogue.get(name.as_str(), version).ok_or_else(Problem::not_found)?;
    let tool = &entry.tool;
    let mut shell = Shell::new(shared, caller, "Tools").await?;
    shell.title = tool.name.to_string();
    let recent = match who.scopes.allow(Scope::Read) {
        true => recent(shared, caller, &shell, name).await?,
        false => Vec::new(),
    };
    let schema = tool.input_schema.to_value();
    let versions = catalogue.versions(name.as_str()).iter();
    let limits = &tool.limits;
    let is_raw = sent.is_raw || !schema_form::is_suitable(&schema);
    Ok(ReadPage {
        name: tool.name.to_string(),
        version: tool.version.clone(),
        versions: versions.map(|entry| entry.tool.version.clone()).rev().collect(),
        description: tool.description.clone(),
        origin: origin(entry),
        flags: flags(entry),
        tags: tool.tags.clone(),
        digest: html::digest(&tool.digest.to_string()),
        created: shell.time(&tool.created_at),
        limits: vec![
            ("Wall time", html::rough(limits.wall)),
            ("CPUs", limits.cpus.to_string()),
            ("Memory", html::bytes(limits.memory.0)),
            ("Processes", limits.processes.to_string()),
            ("Disk", html::bytes(limits.disk.0)),
            ("Output", html::bytes(limits.output.0)),
            ("Network", limits.network.to_string()),
        ],
        is_pure: tool.is_pure(),
        is_memoised: shared.engine.memoises(tool),
        input_schema: json_view::tree(&tool.input_schema),
        output_schema: json_view::tree(&tool.output_schema),
        fields: schema_form::fields(&tool.input_schema, &sent.values),
        raw: sent.raw.unwrap_or_else(|| skeleton(&schema)),
        is_raw,
        once: uuid::Uuid::new_v4().to_string(),
        errors: sent.errors,
        tried: None,
        recent,
        may_call: who.scopes.allow(Scope::Call),
        shell,
    })
}

/// Calls of the tool that the page shows.
const RECENT: usize = 8;

async fn recent(
    shared: &Shared,
    caller: &Caller,
    shell: &Shell,
    name: &ToolName,
) -> Result<Vec<CallRow>, Problem> {
    let query = CallQuery {
        tenant: caller.principal().tenant.clone(),
        state: None,
        tool: Some(name.to_string()),
        session: None,
        parent: None,
        before: None,
        limit: RECENT,
    };
    let (calls, _) = calls::page_of(shared, caller.principal(), query).await?;
    Ok(calls.iter().map(|call| CallRow::of(call, shell)).collect())
}

/// Arguments to begin with: the required members, with their defaults.
fn skeleton(schema: &serde_json::Value) -> String {
    let required = schema.get("required").and_then(|names| names.as_array());
    let members = required.into_iter().flatten().filter_map(|name| name.as_str());
    let members = members.map(|name| {
        let member = &schema["properties"][name];
        let empty = match member["type"].as_str() {
            Some("string") => "".into(),
            Some("integer" | "number") => 0.into(),
            Some("boolean") => false.into(),
            Some("array") => serde_json::json!([]),
            Some("object") => serde_json::json!({}),
            _ => serde_json::Value::Null,
        };
        (name.to_owned(), member.get("default").cloned().unwrap_or(empty))
    });
    let object: serde_json::Map<_, _> = members.collect();
    match Json::from_value(&object.into()) {
        Some(json) => Node::of(&json).pretty(),
        None => "{}".to_owned(),
    }
}

/// Time that the page waits for the end of the call.
const TRY_TIMEOUT: Duration = Duration::from_secs(15);

/// Calls the tool with the arguments of the form, and shows the result beside it.
pub(crate) async fn attempt(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(name): Named<ToolName>,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let mut text = |name| fields.all(name).pop();
    let (version, add, once) = (text("version"), text("add"), text("once"));
    let raw = text("raw");
    let mut values: Values = fields.with_prefix("arg:").into_iter().collect();
    for (pointer, count) in fields.with_prefix("count:") {
        let grown =
            count.parse::<usize>().unwrap_or(1) + usize::from(add.as_ref() == Some(&pointer));
        values.insert(format!("count:{pointer}"), grown.to_string());
    }
    let catalogue = shared.engine.tools();
    let entry = catalogue.get(name.as_str(), version.as_deref()).ok_or_else(Problem::not_found)?;
    let args = match &raw {
        Some(raw) => {
            Json::parse(raw.as_bytes()).map_err(|error| vec![(String::new(), error.to_string())])
        }
        None => schema_form::arguments(&entry.tool.input_schema.to_value(), &values),
    };
    let mut sent = Sent { values, is_raw: raw.is_some(), raw, errors: Vec::new() };
    if add.is_some() {
        let page = view(&shared, &caller, &name, version.as_deref(), sent).await?;
        return Ok(shell::render(StatusCode::OK, &page));
    }
    let called = match args {
        Ok(args) => call(&shared, &caller, &name, version.clone(), args, once).await,
        Err(errors) => Err(errors),
    };
    let (status, tried) = match called {
        Ok(call) => (StatusCode::OK, Some(tried(&shared, &caller, &call).await?)),
        Err(errors) => {
            sent.errors = errors;
            (StatusCode::UNPROCESSABLE_ENTITY, None)
        }
    };
    let mut page = view(&shared, &caller, &name, version.as_deref(), sent).await?;
    page.tried = tried;
    Ok(shell::render(status, &page))
}

/// The call at its end, or as it stands when the page is made; or everything that is wrong with it.
async fn call(
    shared: &Shared,
    caller: &Caller,
    name: &ToolName,
    version: Option<String>,
    args: Json,
    once: Option<String>,
) -> Result<Arc<Call>, Vec<(String, String)>> {
    let request = CallRequest {
        version,
        idempotency_key: once,
        trace: Some(caller.trace().clone()),
        detached: true,
        ..CallRequest::new(name.clone(), args)
    };
    let ticket = shared.engine.call(caller.principal(), request).await;
    let mut ticket = ticket.map_err(|refused| match refused {
        Refused::InvalidArguments { violations, .. } => {
            violations.into_iter().map(|violation| (violation.pointer, violation.message)).collect()
        }
        other => vec![(String::new(), Problem::from(&other).detail().to_owned())],
    })?;
    let called = ticket.wait(TRY_TIMEOUT).await;
    called.ok_or_else(|| vec![(String::new(), "the call could not be recorded".to_owned())])
}

async fn tried(shared: &Shared, caller: &Caller, call: &Call) -> Result<Tried, Problem> {
    let finished = calls::finished(call);
    let stdout = match finished {
        Some(_) => {
            shared.engine.output(caller.principal(), call.asked.id, OutputStream::Stdout, 0).await?
        }
        None => None,
    };
    let stdout = stdout.map(|piece| piece.bytes).unwrap_or_default();
    let error = match finished.map(|finished| &finished.produced) {
        Some(Produced::Error(error)) => Some(format!("{}: {}", error.code.as_str(), error.message)),
        _ => None,
    };
    Ok(Tried {
        id: call.asked.id.to_string(),
        state: calls::state_of(call),
        took: finished.map(|finished| html::precise(finished.duration)).unwrap_or_default(),
        result: finished.and_then(|finished| match &finished.produced {
            Produced::Result(result) => Some(json_view::tree(result)),
            Produced::Error(_) => None,
        }),
        error,
        has_stdout: !stdout.is_empty(),
        stdout: html::output(&stdout[..stdout.len().min(32 << 10)]),
        is_held: call.hold().is_some(),
        is_over: call.state.is_final(),
    })
}
