//! Sandboxes that are kept: create, use by terminal, cells and files, stop.
//!
//! Whatever runs or changes something in one is a call of a built-in tool, decided and recorded like any
//! other. Its session is the sandbox's id, so the history of cells is a list of calls.

mod cells;
mod files;
mod metrics;
mod terminal;

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem, fields,
    identity::{self, Caller, May},
    path::Named,
    problem::Fault,
    problem_codes,
    query::Query,
};
use ringfence_engine::{
    Attachment, CallRequest, Sandbox, Ticket,
    sandbox::session::{Error, SessionId, SessionInfo, State as SandboxState},
};
use ringfence_types::{Call, Json, Produced, Scope, State as CallState};
use serde_json::{Value, json};

use self::{
    cells::{Cell, cells},
    files::{FileRow, OpenFile, directory, open_file},
    metrics::MetricsView,
};
pub(crate) use self::{
    cells::{execute, made_page},
    files::{download, upload, write},
    metrics::metrics,
    terminal::{attach, open as open_terminal},
};
use crate::{
    Shared,
    error::escape,
    form,
    html::{self, Html},
    shell::{self, Shell},
};

/// Time that a page waits for a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A sandbox in the list.
#[derive(Debug)]
struct SandboxRow {
    id: String,
    short: String,
    name: String,
    state: Html,
    programs: usize,
    memory: String,
    network: String,
    age: String,
    left: String,
}

impl SandboxRow {
    fn of(info: &SessionInfo) -> Self {
        let id = info.id.as_str().to_owned();
        Self {
            short: id[..id.len().min(8)].to_owned(),
            id,
            name: info.metadata.get("client.name").cloned().unwrap_or_default(),
            state: match info.state {
                SandboxState::Running => html::pill("good", "running"),
                SandboxState::Paused => html::pill("wait", "paused"),
                SandboxState::Ended(_) => html::pill("calm", "ended"),
            },
            programs: info.programs,
            memory: html::bytes(info.limits.memory.0),
            network: info.limits.network.to_string(),
            age: html::rough(info.age),
            left: html::rough(info.left),
        }
    }
}

#[derive(Debug, Template)]
#[template(path = "sandboxes.html")]
struct ListPage {
    shell: Shell,
    rows: Vec<SandboxRow>,
    may_call: bool,
    problem: Option<String>,
}

/// Lists the sandboxes of the tenant.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let done = Query::of(&uri).optional::<String>("done");
    let mut page = list_page(&shared, &caller).await?;
    page.shell = page.shell.done(done.as_deref());
    Ok(shell::render(StatusCode::OK, &page))
}

async fn list_page(shared: &Shared, caller: &Caller) -> Result<ListPage, Problem> {
    let shell = Shell::new(shared, caller, "Sandboxes").await?;
    let rows = shared.engine.sandboxes(caller.principal()).iter().map(SandboxRow::of).collect();
    let may_call = caller.principal().scopes.allow(Scope::Call);
    Ok(ListPage { shell, rows, may_call, problem: None })
}

/// Makes a sandbox.
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let mut text = |name| fields.all(name).pop().unwrap_or_default();
    let (name, memory, network) = (text("name"), text("memory"), text("network"));
    let memory: ringfence_types::Bytes =
        memory.parse().map_err(|error| invalid("memory", &error))?;
    let args = json!({
        "limits": {"memory_bytes": memory.0, "network": network},
        "metadata": {"name": name},
    });
    let call = done(make(&shared, &caller, None, "sandbox_create", &args).await?).await?;
    match result(&call) {
        Ok(value) => {
            let id = value["id"].as_str().or(value["sandbox"].as_str()).unwrap_or_default();
            Ok(shell::redirect(&format!("/console/sandboxes/{id}")))
        }
        Err(Waits::Held) => Ok(shell::redirect(&format!("/console/calls/{}", call.asked.id))),
        Err(Waits::Failed(words)) => {
            let mut page = list_page(&shared, &caller).await?;
            page.problem = Some(words);
            Ok(shell::render(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

fn invalid(field: &str, detail: &impl ToString) -> Problem {
    fields::invalid(vec![Fault { pointer: field.to_owned(), detail: detail.to_string() }])
}

/// A program that runs or ran.
#[derive(Debug)]
struct ProgramRow {
    number: u32,
    words: String,
    call: String,
    is_running: bool,
    has_terminal: bool,
}

#[derive(Debug, Template)]
#[template(path = "sandbox.html")]
struct ReadPage {
    shell: Shell,
    row: SandboxRow,
    id_view: Html,
    is_paused: bool,
    programs: Vec<ProgramRow>,
    /// Program whose terminal is shown.
    terminal: Option<u32>,
    files_of: crate::assets::TerminalReferences,
    cells: Vec<Cell>,
    languages: [&'static str; 2],
    directory: String,
    parent: Option<String>,
    files: Vec<FileRow>,
    open: Option<OpenFile>,
    metrics: MetricsView,
    may_call: bool,
    problem: Option<String>,
}

/// Shows a sandbox.
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let page = view(&shared, &caller, &id, &uri).await?;
    Ok(shell::render(StatusCode::OK, &page))
}

fn find(shared: &Shared, caller: &Caller, id: &SessionId) -> Result<Sandbox, Problem> {
    shared.engine.sandbox(caller.principal(), id).ok_or_else(Problem::not_found)
}

async fn view(
    shared: &Shared,
    caller: &Caller,
    id: &SessionId,
    uri: &Uri,
) -> Result<ReadPage, Problem> {
    let mut query = Query::of(uri);
    let path = query.optional::<String>("path").unwrap_or_default();
    let terminal = query.optional::<u32>("terminal");
    let file = query.optional::<String>("file");
    let done = query.optional::<String>("done");
    let sandbox = find(shared, caller, id)?;
    let info = sandbox.session.info();
    let mut shell = Shell::new(shared, caller, "Sandboxes").await?.done(done.as_deref());
    let row = SandboxRow::of(&info);
    shell.title = format!("Sandbox {}", row.short);
    let (files, directory) = directory(&sandbox.session, &path).await?;
    let open = match file {
        Some(file) => Some(open_file(&sandbox.session, &file).await?),
        None => None,
    };
    let parent = (!directory.is_empty()).then(|| {
        let parent = directory.rsplit_once('/').map_or("", |(parent, _)| parent);
        escape(parent)
    });
    let metrics = MetricsView::of(&sandbox.session, "").await;
    Ok(ReadPage {
        id_view: html::id(&row.id, &row.id),
        is_paused: matches!(info.state, SandboxState::Paused),
        programs: programs(&sandbox),
        terminal: terminal.filter(|number| sandbox.program(*number).is_some()),
        files_of: crate::assets::TerminalReferences::new(),
        cells: cells(shared, caller, id).await?,
        languages: ["python", "javascript"],
        directory,
        parent,
        files,
        open,
        metrics,
        may_call: caller.principal().scopes.allow(Scope::Call),
        problem: None,
        row,
        shell,
    })
}

fn programs(sandbox: &Sandbox) -> Vec<ProgramRow> {
    let row = |program: &ringfence_engine::Program| ProgramRow {
        number: program.process.id(),
        words: program.argv.join(" "),
        call: program.call.to_string(),
        is_running: program.process.try_wait().is_none(),
        has_terminal: program.has_terminal,
    };
    let mut rows: Vec<_> = sandbox.programs().iter().map(row).collect();
    rows.reverse();
    rows.truncate(12);
    rows
}

fn failed(error: &Error) -> Problem {
    match error.code() {
        "not_found" | "session_ended" => Problem::not_found(),
        "session_paused" => Problem::new(&problem_codes::SANDBOX_PAUSED, error.to_string()),
        _ => Problem::new(&problem_codes::SANDBOX_REFUSED, error.to_string()),
    }
}

/// The page once more, with what went wrong.
async fn again(
    shared: &Shared,
    caller: &Caller,
    id: &SessionId,
    words: String,
) -> Result<Response, Problem> {
    let mut page = view(shared, caller, id, &Uri::from_static("/console/sandboxes")).await?;
    page.problem = Some(words);
    Ok(shell::render(StatusCode::UNPROCESSABLE_ENTITY, &page))
}

/// Pauses, resumes, forks or stops a sandbox.
pub(crate) async fn change(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let session = find(&shared, &caller, &id)?.session;
    match fields.all("action").pop().unwrap_or_default().as_str() {
        "pause" => session.pause().await.map_err(|error| failed(&error))?,
        "resume" => session.resume().await.map_err(|error| failed(&error))?,
        "fork" => return fork(&shared, &caller, &id).await,
        "stop" => {
            session.stop().await;
            return Ok(shell::redirect("/console/sandboxes?done=stopped"));
        }
        _ => return Err(invalid("action", &"must be pause, resume, fork or stop")),
    }
    Ok(shell::redirect(&format!("/console/sandboxes/{}", id.as_str())))
}

/// Makes a sandbox with a copy of the workspace and no programs.
async fn fork(shared: &Shared, caller: &Caller, id: &SessionId) -> Result<Response, Problem> {
    let args = json!({"sandbox": id.as_str()});
    let call = done(make(shared, caller, Some(id), "sandbox_fork", &args).await?).await?;
    match result(&call) {
        Ok(value) => {
            let fork = value["id"].as_str().or(value["sandbox"].as_str()).unwrap_or_default();
            Ok(shell::redirect(&format!("/console/sandboxes/{fork}?done=forked")))
        }
        Err(Waits::Held) => Ok(shell::redirect(&format!("/console/calls/{}", call.asked.id))),
        Err(Waits::Failed(words)) => again(shared, caller, id, words).await,
    }
}

/// Sends a snapshot of the workspace as a download; `POST /v1/sandboxes/restore` takes it.
pub(crate) async fn snapshot(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    form::read(&shared.edge, &caller, request).await?;
    let session = find(&shared, &caller, &id)?.session;
    let snapshot = session.snapshot().await.map_err(|error| failed(&error))?;
    let name = format!("{}.snapshot", id.as_str());
    Ok(super::calls::download(snapshot.to_bytes(), "application/octet-stream", &name))
}

/// Makes a call of a sandbox tool, as part of the session of its sandbox.
async fn make(
    shared: &Shared,
    caller: &Caller,
    sandbox: Option<&SessionId>,
    tool: &'static str,
    args: &Value,
) -> Result<Ticket, Problem> {
    make_with(shared, caller, sandbox, tool, args, None).await
}

/// The same with bytes beside the arguments.
async fn make_with(
    shared: &Shared,
    caller: &Caller,
    sandbox: Option<&SessionId>,
    tool: &'static str,
    args: &Value,
    attachment: Option<Attachment>,
) -> Result<Ticket, Problem> {
    let tool = tool.parse().expect("our own names are valid");
    let args = Json::from_value(args).unwrap_or_else(Json::empty_object);
    let request = CallRequest {
        session: sandbox.and_then(|id| id.as_str().parse().ok()),
        trace: Some(caller.trace().clone()),
        detached: true,
        attachment,
        ..CallRequest::new(tool, args)
    };
    let ticket = shared.engine.call(caller.principal(), request).await;
    ticket.map_err(|refused| Problem::from(&refused))
}

async fn done(mut ticket: Ticket) -> Result<Arc<Call>, Problem> {
    let unrecorded = || Problem::new(&problem_codes::INTERNAL, "the call could not be recorded");
    ticket.wait(CALL_TIMEOUT).await.ok_or_else(unrecorded)
}

/// Why a call has no result.
enum Waits {
    /// It is held, or runs still.
    Held,
    /// It failed, in words.
    Failed(String),
}

fn result(call: &Call) -> Result<Value, Waits> {
    match &call.state {
        CallState::Finished(finished) => match &finished.produced {
            Produced::Result(result) => Ok(result.to_value()),
            Produced::Error(error) => Err(Waits::Failed(error.message.clone())),
        },
        CallState::Denied { reasons } => {
            let words: Vec<_> = reasons.iter().map(|reason| reason.message.as_str()).collect();
            Err(Waits::Failed(format!("Denied by policy: {}", words.join("; "))))
        }
        state if state.is_final() => Err(Waits::Failed(format!("The call is {}.", state.name()))),
        _ => Err(Waits::Held),
    }
}
