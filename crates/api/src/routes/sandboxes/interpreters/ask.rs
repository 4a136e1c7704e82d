//! Variables, completions, reset and restart of an interpreter.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_engine::sandbox::session::{
    SessionId,
    interpreter::{Completions, Variable},
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::interpreter;
use crate::{
    routes::sandboxes::{
        Number,
        calls::{HeldView, SandboxCall, with_call},
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
};

/// Variables of an interpreter, as it describes them: `name`, `type` and a short `repr`.
#[derive(Serialize, ToSchema)]
#[schema(as = VariableList)]
pub(crate) struct VariablesView {
    #[schema(value_type = Vec<Object>)]
    variables: Vec<Variable>,
}

/// Lists the variables of an interpreter, after the executions queued before.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/interpreters/{interpreter}/variables", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("interpreter" = u32, Path, description = "The interpreter"),
    ),
    responses(
        (status = 200, description = "Variables", body = VariablesView),
        (status = 409, description = "The interpreter is not available now"),
    )
)]
pub(crate) async fn variables(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, number): NamedWithin<SessionId, Number>,
) -> Result<Response, Problem> {
    let interpreter = interpreter(&shared, caller.principal(), &id, number)?;
    let variables = interpreter.variables().await.map_err(|error| why(&error))?;
    Ok(reply::ok(&VariablesView { variables }))
}

/// Code to complete.
#[derive(ToSchema)]
#[schema(as = CompleteRequest)]
#[expect(dead_code, reason = "it documents what `complete` reads field by field")]
pub(crate) struct CompleteBody {
    code: String,
    /// Position of the cursor, in characters of the language; the end by default.
    cursor: Option<u64>,
}

/// Completions at a cursor.
#[derive(Serialize, ToSchema)]
#[schema(as = Completions)]
pub(crate) struct CompletionsView {
    /// Replacements of the text between the two positions.
    matches: Vec<String>,
    cursor_start: u64,
    cursor_end: u64,
}

impl From<Completions> for CompletionsView {
    fn from(found: Completions) -> Self {
        let Completions { matches, cursor_start, cursor_end } = found;
        Self { matches, cursor_start, cursor_end }
    }
}

/// Completes code with the interpreter's names.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/interpreters/{interpreter}/complete", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("interpreter" = u32, Path, description = "The interpreter"),
    ),
    request_body = CompleteBody,
    responses(
        (status = 200, description = "The completions", body = CompletionsView),
        (status = 409, description = "The interpreter is not available now"),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn complete(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, number): NamedWithin<SessionId, Number>,
    request: Request,
) -> Result<Response, Problem> {
    let interpreter = interpreter(&shared, caller.principal(), &id, number)?;
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let code: Option<String> = fields.required("code");
    let cursor = fields.whole("cursor");
    let code = fields.finish(code)?;
    let cursor = cursor.unwrap_or_else(|| code.chars().count() as u64);
    let found = interpreter.complete(&code, cursor).await.map_err(|error| why(&error))?;
    Ok(reply::ok(&CompletionsView::from(found)))
}

/// Removes all variables; the process, its modules and its files stay.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/interpreters/{interpreter}/reset", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("interpreter" = u32, Path, description = "The interpreter"),
    ),
    responses(
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 204, description = "Reset"),
        (status = 409, description = "It cannot be reset now"),
    )
)]
pub(crate) async fn reset(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, number): NamedWithin<SessionId, Number>,
) -> Result<Response, Problem> {
    interpreter(&shared, caller.principal(), &id, number)?;
    let args = json!({"sandbox": id.as_str(), "interpreter": number, "reset": true});
    restarted(&shared, &caller, &args).await
}

/// Restarts the interpreter: ends its process, whatever it is doing, and starts a new one.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/interpreters/{interpreter}/restart", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("interpreter" = u32, Path, description = "The interpreter"),
    ),
    responses(
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 204, description = "Restarted"),
        (status = 409, description = "It cannot be restarted now"),
    )
)]
pub(crate) async fn restart(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, number): NamedWithin<SessionId, Number>,
) -> Result<Response, Problem> {
    interpreter(&shared, caller.principal(), &id, number)?;
    let args = json!({"sandbox": id.as_str(), "interpreter": number});
    restarted(&shared, &caller, &args).await
}

async fn restarted(
    shared: &Shared,
    caller: &identity::Caller,
    args: &Value,
) -> Result<Response, Problem> {
    let made = SandboxCall::new(shared, "sandbox_restart", args).call(shared, caller).await?;
    Ok(match made.result()? {
        Ok(_) => with_call(reply::nothing(), made.id()),
        Err(waits) => waits,
    })
}
