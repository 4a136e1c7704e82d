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
    calls::{Asked, HeldView, with_call},
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

/// A program that runs, or a call that policy holds.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it documents an answer that has two shapes")]
pub(crate) enum ExecOrHeld {
    Exec(Box<ExecView>),
    Held(HeldView<'static>),
}

/// Starts a program and waits for its end.
///
/// A program that has not ended when the wait is over is answered with 202 and its place, where it
/// can be followed, fed and ended. One that policy holds is answered with 202 and its call; once
/// approved it runs, and is found in the list of programs by its `call_id`.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/exec", tag = "sandboxes", request_body = ExecBody,
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses(
        (status = 200, description = "It ended", body = ExecView),
        (status = 202, description = "It runs, or policy holds it", body = ExecOrHeld),
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
    find(&shared, caller.principal(), &id)?;
    let body = bodies::json(&shared.edge, request).await?;
    let (args, wait) = body::read(&shared, &id, &body)?;
    let made = Asked::new(&shared, "sandbox_exec", &args).wait(wait).call(&shared, &caller).await?;
    // A program that was cancelled or lost its sandbox is shown as it ended.
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

/// What is known of a program after waiting for its end for a while.
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

/// The program of this number in the tenant's sandbox.
pub(super) fn program(
    shared: &Arc<Shared>,
    who: &Principal,
    id: &SessionId,
    exec: Number,
) -> Result<Program, Problem> {
    find(shared, who, id)?.program(exec.0).ok_or_else(Problem::not_found)
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
    let all = find(&shared, caller.principal(), &id)?.programs();
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
    let sandbox = find(&shared, caller.principal(), &id)?;
    let program = sandbox.program(exec.0).ok_or_else(Problem::not_found)?;
    match program.process.kill().await {
        Ok(()) => drop(program.process.wait().await),
        // It went by itself.
        Err(ringfence_engine::sandbox::session::Error::ProcessEnded) => {}
        Err(error) => return Err(why(&error)),
    }
    sandbox.forget_program(exec.0);
    Ok(reply::nothing())
}
