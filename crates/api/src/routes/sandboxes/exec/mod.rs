//! Programs in a sandbox: started, looked at, ended.
//!
//! A program runs whether or not anybody waits. It never waits for a reader either: of each stream
//! the beginning and the end are kept, and whoever is slower than that is told what is missing.

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
use ringfence_edge::{
    Problem, body as bodies,
    identity::{self, May},
    path::{Named, NamedWithin},
    query::Query,
    reply,
};
use ringfence_sandbox::session::{Session, SessionId};
use ringfence_types::{Bytes, Principal};

pub(super) use self::body::{directory, seconds};
pub(crate) use self::{
    body::ExecBody,
    view::{ExecListView, ExecView},
};
use super::{
    find, permit,
    table::{Number, Program},
    why,
};
use crate::shared::Shared;

/// Bytes kept of each stream.
pub(super) const KEPT: Bytes = Bytes::mib(1);

/// Starts a program and waits for its end.
///
/// A program that has not ended when the wait is over is answered with 202 and its place, where it
/// can be followed, fed and ended.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/exec", tag = "sandboxes", request_body = ExecBody,
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "It ended", body = ExecView),
        (status = 202, description = "It runs", body = ExecView),
        (status = 409, description = "It could not be started"),
        (status = 422, description = "The body does not fit"),
    )
)]
pub(crate) async fn start(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?;
    let body = bodies::json(&shared.edge, request).await?;
    let asked = body::read(&shared, &body)?;
    let (argv, wait) = (asked.argv.into(), asked.wait);
    let (has_terminal, is_open) = (asked.exec.terminal.is_some(), asked.is_open);
    let started_at = shared.engine.clock().now();
    let process = session.exec(permit::within(), asked.exec).await.map_err(|error| why(&error))?;
    let program = Program { process, argv, started_at, has_terminal, is_open };
    shared.table(&session).add(program.clone());
    let view = after(wait, &program).await?;
    Ok(answer(&session, &program, &view))
}

/// What is known of a program after waiting for its end for a while.
async fn after(wait: Duration, program: &Program) -> Result<ExecView, Problem> {
    match tokio::time::timeout(wait, program.process.wait()).await {
        Ok(Err(error)) => Err(why(&error)),
        Ok(Ok(_)) | Err(_) => Ok(ExecView::whole(program)),
    }
}

fn answer(session: &Session, program: &Program, view: &ExecView) -> Response {
    if view.has_ended() {
        return reply::ok(view);
    }
    let mut response = reply::json(StatusCode::ACCEPTED, view);
    let place = format!("/v1/sandboxes/{}/exec/{}", session.id(), program.process.id());
    let place = HeaderValue::try_from(place).expect("an id is printable ASCII");
    response.headers_mut().insert(header::LOCATION, place);
    response
}

/// The program of this number in the tenant's sandbox.
pub(super) fn program(
    shared: &Arc<Shared>,
    who: &Principal,
    id: &SessionId,
    exec: Number,
) -> Result<Program, Problem> {
    let session = find(shared, who, id)?;
    shared.table(&session).program(exec).ok_or_else(Problem::not_found)
}

/// Lists the programs of a sandbox that were started here, oldest first, without their output.
/// Of those that ended the last 64 are kept, as far as their output is not over 16 MiB together.
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
    let session = find(&shared, caller.principal(), &id)?;
    let all = shared.table(&session).programs();
    let programs: Vec<_> = all.iter().map(ExecView::brief).collect();
    Ok(reply::ok(&ExecListView { count: programs.len(), programs }))
}

/// Shows a program, after waiting for its end if asked to.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/exec/{exec}", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("exec" = u32, Path, description = "The program"),
        ("wait" = Option<u64>, Query, description = "Seconds to wait for its end; 0 without", maximum = 300),
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

/// Ends a program, with everything in its session, and forgets it.
///
/// Answers when it is dead. From then on its number is nobody's, and asking again is answered
/// with 404.
#[utoipa::path(
    delete, path = "/v1/sandboxes/{id}/exec/{exec}", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("exec" = u32, Path, description = "The program"),
    ),
    responses(
        (status = 204, description = "It has ended"),
        (status = 409, description = "It cannot be ended while the sandbox is paused"),
    )
)]
pub(crate) async fn end(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, exec): NamedWithin<SessionId, Number>,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?;
    let table = shared.table(&session);
    let program = table.program(exec).ok_or_else(Problem::not_found)?;
    match program.process.kill().await {
        Ok(()) => drop(program.process.wait().await),
        // It went by itself.
        Err(ringfence_sandbox::session::Error::ProcessEnded) => {}
        Err(error) => return Err(why(&error)),
    }
    table.remove_program(exec);
    Ok(reply::nothing())
}
