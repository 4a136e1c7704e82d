//! View of an execution.

use ringfence_engine::sandbox::session::interpreter::{Collected, Event, Raised, Rich, Status};
use ringfence_types::CallId;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Result of an execution.
#[derive(Serialize, ToSchema)]
#[schema(as = Execution)]
pub(crate) struct ExecutionView {
    /// `ok`, `error`, `interrupted`, `timed_out` or `died`.
    #[schema(value_type = String)]
    status: Status,
    /// Displayed and returned values, each in its media types: text as a string, images in base64,
    /// JSON as itself. `main` is the value of the last statement.
    #[schema(value_type = Vec<Object>)]
    results: Vec<Rich>,
    /// Raised error: `name`, `value` and `traceback`.
    #[schema(value_type = Option<Object>)]
    error: Option<Raised>,
    /// Standard output as text; invalid UTF-8 is replaced.
    stdout: String,
    /// Standard error.
    stderr: String,
    /// Executions since the interpreter was started or reset.
    count: u64,
    /// The call of the execution.
    #[schema(value_type = String)]
    call_id: CallId,
}

impl ExecutionView {
    pub(super) fn of(all: Collected, call: CallId) -> Self {
        Self {
            status: all.status,
            results: all.results,
            error: all.error,
            stdout: String::from_utf8_lossy(&all.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&all.stderr).into_owned(),
            count: all.count,
            call_id: call,
        }
    }
}

/// Name and data of an event.
pub(super) fn told(event: Event) -> (&'static str, Value) {
    match event {
        Event::Started { fresh } => ("started", json!({"fresh": fresh})),
        Event::Stdout(bytes) => ("stdout", json!({"text": String::from_utf8_lossy(&bytes)})),
        Event::Stderr(bytes) => ("stderr", json!({"text": String::from_utf8_lossy(&bytes)})),
        Event::Gap { stream, dropped } => ("gap", json!({"stream": stream, "dropped": dropped})),
        Event::Result(rich) => ("result", json!(rich)),
        Event::Error(raised) => ("error", json!(raised)),
        Event::Dropped { events } => ("dropped", json!({"events": events})),
        Event::Done { status, count } => ("done", json!({"status": status, "count": count})),
    }
}
