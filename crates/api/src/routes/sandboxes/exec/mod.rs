//! Programs in a sandbox: starting, reading, ending.
//!
//! A program runs independently of its clients and never waits for a reader: the head and the tail
//! of each stream are kept, and a slow reader is told which part is missing.

mod body;
pub(crate) mod events;
pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod terminal;
mod view;

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, Uri, header};
use ringfence_engine::Program;
use ringfence_engine::sandbox::session::SessionId;
use ringfence_types::{Principal, State as CallState};
use serde::Serialize;
use utoipa::ToSchema;

pub(super) use self::body::{args, directory, seconds, without_nulls};
pub(crate) use self::{
    body::ExecBody,
    view::{ExecListView, ExecView},
};
use super::{
    Number,
    calls::{HeldView, SandboxCall, with_call},
    find, why,
};
use crate::shared::Shared;
use ringfence_edge::{
    Problem, body as bodies,
    identity::{self, May},
    path::{Named, NamedWithin},
    query::Query,
    reply,
};

/// A running program, or a held call.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it documents an answer that has two shapes")]
pub(crate) enum ExecOrHeld {
    Exec(Box<ExecView>),
    Held(HeldView<'static>),
}

/// Runs a program and waits for its end.
///
/// A program that has not ended after the wait is answered with 202 and its location, where it can
/// be followed, fed and ended. A held one is answered with 202 and its call; once approved it runs,
/// and is listed among the programs with its `call_id`.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/exec", tag = "sandboxes", request_body = ExecBody,
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "It ended", body = ExecView),
        (status = 202, description = "It runs, or is held by policy", body = ExecOrHeld),
        (status = 409, description = "It could not be started"),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn start(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), &id)?;
    let body = bodies::json(&shared.edge, request).await?;
    let (args, wait) = body::read(&shared, &id, &body)?;
    let made =
        SandboxCall::new(&shared, "sandbox_exec", &args).wait(wait).call(&shared, &caller).await?;
    // A program that was cancelled or lost its sandbox is shown with its end.
    let program = match made.ticket.program() {
        Some(program) => program,
        None => match made.result()? {
            Ok(_) => return Err(Problem::not_found()),
            Err(waits) => return Ok(waits),
        },
    };
    if let CallState::Finished(_) = &made.call.state {
        made.came()?;
    }
    Ok(with_call(answer(&id, program, &ExecView::whole(program)), made.id()))
}

/// The program after waiting for its end for a while.
async fn after(wait: Duration, program: &Program) -> Result<ExecView, Problem> {
    match tokio::time::timeout(wait, program.process.wait()).await {
        Ok(Err(error)) => Err(why(&error)),
        Ok(Ok(_)) | Err(_) => Ok(ExecView::whole(program)),
    }
}

fn answer(id: &SessionId, program: &Program, view: &ExecView) -> Response {
    if view.has_ended() {
        return reply::ok(view);
    }
    let mut response = reply::json(StatusCode::ACCEPTED, view);
    let place = format!("/v1/sandboxes/{id}/exec/{}", program.process.id());
    let place = HeaderValue::try_from(place).expect("an id is printable ASCII");
    response.headers_mut().insert(header::LOCATION, place);
    response
}

/// The program with this number in the tenant's sandbox.
pub(super) fn program(
    shared: &Arc<Shared>,
    who: &Principal,
    id: &SessionId,
    exec: Number,
) -> Result<Program, Problem> {
    find(shared, who, id)?.program(exec.0).ok_or_else(Problem::not_found)
}

/// Lists the programs of a sandbox, oldest first, without their output. The last 64 ended ones are
/// kept, within 16 MiB of output together.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/exec", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses((status = 200, description = "Programs", body = ExecListView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    let all = find(&shared, caller.principal(), &id)?.programs();
    let programs: Vec<_> = all.iter().map(ExecView::brief).collect();
    Ok(reply::ok(&ExecListView { count: programs.len(), programs }))
}

/// Shows a program, after an optional wait for its end.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/exec/{exec}", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("exec" = u32, Path, description = "The program"),
        ("wait" = Option<u64>, Query, description = "Seconds to wait for its end; default 0", maximum = 300),
    ),
    responses((status = 200, description = "The program", body = ExecView))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    NamedWithin(id, exec): NamedWithin<SessionId, Number>,
    uri: Uri,
) -> Result<Response, Problem> {
    let program = program(&shared, caller.principal(), &id, exec)?;
    let mut query = Query::of(&uri);
    let wait = query.number("wait", 0, shared.edge.config().max_wait.as_secs()).unwrap_or(0);
    query.finish()?;
    Ok(reply::ok(&after(Duration::from_secs(wait), &program).await?))
}

/// Ends a program with everything in its session, and removes it from the list.
///
/// The answer comes when it is dead. A repeated request is answered with 404.
#[utoipa::path(
    delete, path = "/v1/sandboxes/{id}/exec/{exec}", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("exec" = u32, Path, description = "The program"),
    ),
    responses(
        (status = 204, description = "Ended"),
        (status = 409, description = "It cannot be ended while the sandbox is paused"),
    )
)]
pub(crate) async fn end(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, exec): NamedWithin<SessionId, Number>,
) -> Result<Response, Problem> {
    let sandbox = find(&shared, caller.principal(), &id)?;
    let program = sandbox.program(exec.0).ok_or_else(Problem::not_found)?;
    match program.process.kill().await {
        Ok(()) => drop(program.process.wait().await),
        // It ended by itself.
        Err(ringfence_engine::sandbox::session::Error::ProcessEnded) => {}
        Err(error) => return Err(why(&error)),
    }
    sandbox.forget_program(exec.0);
    Ok(reply::nothing())
}
