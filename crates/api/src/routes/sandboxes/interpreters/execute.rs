//! Executing code in an interpreter, and stopping it.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use http::{HeaderMap, header};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    path::NamedWithin,
    reply,
    sse::{self, Source, StreamSlot},
};
use ringfence_sandbox::session::{
    SessionId,
    interpreter::{ExecuteRequest, Execution},
};
use ringfence_types::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    interpreter,
    view::{ExecutionView, told},
};
use crate::{
    routes::sandboxes::{
        exec::{KEPT, seconds},
        permit,
        table::Number,
        why,
    },
    shared::Shared,
};

/// Code to be executed.
#[derive(ToSchema)]
#[schema(as = ExecuteRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct ExecuteBody {
    /// Statements; the value of the last one is the result.
    #[schema(example = "x = 6 * 7\nx")]
    code: String,
    /// After how many seconds it is interrupted and, if that does not help, killed with its
    /// interpreter; 60 without.
    #[schema(minimum = 0.001, maximum = 300.0)]
    timeout_secs: Option<f64>,
}

/// Executes code and waits for its end; with `Accept: text/event-stream` what happens comes as it
/// happens.
///
/// Events are `started`, `stdout`, `stderr`, `gap`, `result`, `error`, `dropped` and last `done`.
/// They cannot be resumed. Code goes on when its client leaves; `interrupt` stops it. Executions
/// of one interpreter wait for each other, sixteen at most.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/interpreters/{interpreter}/execute", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("interpreter" = u32, Path, description = "The interpreter"),
    ),
    request_body = ExecuteBody,
    responses(
        (status = 200, description = "What came of it",
            content((ExecutionView = "application/json"), (String = "text/event-stream"))),
        (status = 409, description = "It cannot be executed now"),
        (status = 422, description = "The body does not fit"),
    )
)]
pub(crate) async fn execute(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, number): NamedWithin<SessionId, Number>,
    request: Request,
) -> Result<Response, Problem> {
    let interpreter = interpreter(&shared, caller.principal(), &id, number)?;
    let wants_events = wants_events(request.headers());
    let body = body::json(&shared.edge, request).await?;
    let request = read(&shared, &body)?;
    let place = wants_events.then(|| StreamSlot::take(&shared.edge, caller.known())).transpose()?;
    let execution = interpreter.execute(permit::within(), request).map_err(|error| why(&error))?;
    match place {
        Some(place) => Ok(sse::respond(Live(execution), place)),
        None => Ok(reply::ok(&ExecutionView::from(execution.collect().await))),
    }
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT);
    accepted.iter().any(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

fn read(shared: &Shared, body: &Json) -> Result<ExecuteRequest, Problem> {
    let mut fields = Fields::of(body)?;
    let code: Option<String> = fields.required("code");
    let most = shared.edge.config().max_wait.as_secs_f64();
    let timeout = seconds(&mut fields, "timeout_secs", most.min(60.0), (0.001, most));
    fields.finish(code).map(|code| ExecuteRequest {
        timeout: Some(timeout),
        output: Some(KEPT),
        ..ExecuteRequest::new(code)
    })
}

/// An execution as it happens.
struct Live(Execution);

impl Source for Live {
    async fn next(&mut self) -> Option<Bytes> {
        let (kind, data) = told(self.0.next().await?);
        Some(sse::event(None, kind, &data))
    }
}

/// Whether there was something to stop.
#[derive(Serialize, ToSchema)]
#[schema(as = Interrupted)]
pub(crate) struct InterruptedView {
    interrupted: bool,
}

/// Stops the execution that runs, or else the first that waits, as Ctrl-C would. Code can resist.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/interpreters/{interpreter}/interrupt", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("interpreter" = u32, Path, description = "The interpreter"),
    ),
    responses(
        (status = 200, description = "Whether there was one", body = InterruptedView),
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
