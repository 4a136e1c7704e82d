//! Executing code in an interpreter, and interrupting it.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use http::{HeaderMap, header};
use ringfence_engine::sandbox::session::{
    SessionId,
    interpreter::{Collected, Execution},
};
use ringfence_types::Json;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{
    interpreter,
    view::{ExecutionView, told},
};
use crate::{
    routes::sandboxes::{
        Number,
        calls::{HeldView, Made, SandboxCall, with_call},
        exec::{args, seconds},
        why,
    },
    shared::Shared,
};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    path::NamedWithin,
    reply,
    sse::{self, Source, StreamSlot},
};

/// Code to execute.
#[derive(ToSchema)]
#[schema(as = ExecuteRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct ExecuteBody {
    /// Statements; the value of the last one is the result.
    #[schema(example = "x = 6 * 7\nx")]
    code: String,
    /// Seconds after which it is interrupted and, if that does not help, killed with its
    /// interpreter; default 60.
    #[schema(minimum = 0.001, maximum = 300.0)]
    timeout_secs: Option<f64>,
}

/// Executes code and waits for its end; with `Accept: text/event-stream`, streams events.
///
/// Events are `started`, `stdout`, `stderr`, `gap`, `result`, `error`, `dropped` and last `done`.
/// They cannot be resumed. Code goes on when its client leaves; `interrupt` stops it. Executions of
/// one interpreter are queued, at most sixteen.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/interpreters/{interpreter}/execute", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("interpreter" = u32, Path, description = "The interpreter"),
    ),
    request_body = ExecuteBody,
    responses(
        (status = 200, description = "The result",
            content((ExecutionView = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "It cannot be executed now"),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn execute(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, number): NamedWithin<SessionId, Number>,
    request: Request,
) -> Result<Response, Problem> {
    interpreter(&shared, caller.principal(), &id, number)?;
    let wants_events = wants_events(request.headers());
    let body = body::json(&shared.edge, request).await?;
    check(&shared, &body)?;
    let mut args = args(&id, &body, &[]);
    args["interpreter"] = json!(number);
    let place = wants_events.then(|| StreamSlot::take(&shared.edge, caller.known())).transpose()?;
    let asked = SandboxCall::new(&shared, "sandbox_execute", &args);
    let Some(place) = place else {
        let (made, all) = asked.collect(&shared, &caller).await?;
        return all.map_or_else(|| refusal(&made), |all| Ok(whole(&made, all)));
    };
    let made = asked.wait(Duration::ZERO).call(&shared, &caller).await?;
    match made.ticket.take_execution() {
        Some(execution) => Ok(with_call(sse::respond(Live(execution), place), made.id())),
        None => refusal(&made),
    }
}

/// The answer with a whole execution.
fn whole(made: &Made, all: Collected) -> Response {
    with_call(reply::ok(&ExecutionView::of(all, made.id())), made.id())
}

/// The answer to a call without an execution.
fn refusal(made: &Made) -> Result<Response, Problem> {
    match made.result()? {
        Ok(_) => Err(Problem::not_found()),
        Err(waits) => Ok(waits),
    }
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT);
    accepted.iter().any(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

fn check(shared: &Shared, body: &Json) -> Result<(), Problem> {
    let mut fields = Fields::of(body)?;
    let code: Option<String> = fields.required("code");
    let most = shared.edge.config().max_wait.as_secs_f64();
    seconds(&mut fields, "timeout_secs", most.min(60.0), (0.001, most));
    fields.finish(code).map(drop)
}

/// A live execution.
struct Live(Execution);

impl Source for Live {
    async fn next(&mut self) -> Option<Bytes> {
        let (kind, data) = told(self.0.next().await?);
        Some(sse::event(None, kind, &data))
    }
}

/// Whether an execution was interrupted.
#[derive(Serialize, ToSchema)]
#[schema(as = Interrupted)]
pub(crate) struct InterruptedView {
    interrupted: bool,
}

/// Interrupts the running execution, or the first queued one, as Ctrl-C would. Code can resist.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/interpreters/{interpreter}/interrupt", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("interpreter" = u32, Path, description = "The interpreter"),
    ),
    responses(
        (status = 200, description = "Whether an execution was interrupted", body = InterruptedView),
        (status = 409, description = "The sandbox is paused"),
    )
)]
pub(crate) async fn interrupt(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, number): NamedWithin<SessionId, Number>,
) -> Result<Response, Problem> {
    let interpreter = interpreter(&shared, caller.principal(), &id, number)?;
    let interrupted = interpreter.interrupt().map_err(|error| why(&error))?;
    Ok(reply::ok(&InterruptedView { interrupted }))
}
