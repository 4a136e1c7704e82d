//! Stateful interpreters of a sandbox: definitions of one execution stay for the next.

pub(crate) mod ask;
pub(crate) mod execute;
mod view;

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringfence_engine::sandbox::{
    Language,
    session::{Interpreter, SessionId},
};
use ringfence_types::{CallId, Json, Principal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Number,
    calls::{HeldView, SandboxCall, with_call},
    create::environment,
    exec::{args, directory},
    find,
};
use crate::shared::Shared;
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    path::{Named, NamedWithin},
    reply,
};

/// Request for an interpreter.
#[derive(ToSchema)]
#[schema(as = InterpreterRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct InterpreterBody {
    #[schema(inline)]
    language: Tongue,
    /// Working and import directory; default `/workspace`.
    #[schema(pattern = "^/[^\\x00]{0,4094}$")]
    cwd: Option<String>,
    /// Environment, added to the sandbox's.
    env: Option<BTreeMap<String, String>>,
}

/// Language of an interpreter.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tongue {
    /// CPython.
    Python,
    /// Node.
    Javascript,
}

/// An interpreter.
#[derive(Serialize, ToSchema)]
#[schema(as = Interpreter)]
pub(crate) struct InterpreterView {
    /// Number of the interpreter in its sandbox.
    #[schema(value_type = u32)]
    id: Number,
    #[schema(inline)]
    language: Tongue,
    /// The call that started it; only in the answer to that call.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<CallId>,
}

/// Interpreters, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = InterpreterList)]
pub(crate) struct InterpreterListView {
    interpreters: Vec<InterpreterView>,
    count: usize,
}

impl InterpreterView {
    fn of(id: Number, interpreter: &Interpreter) -> Self {
        let language = match interpreter.language() {
            Language::Javascript => Tongue::Javascript,
            _ => Tongue::Python,
        };
        Self { id, language, call_id: None }
    }
}

/// Starts an interpreter. A sandbox can have eight.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/interpreters", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    request_body = InterpreterBody,
    responses(
        (status = 201, description = "Ready for code", body = InterpreterView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
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
    let body = body::json(&shared.edge, request).await?;
    check(&body)?;
    let asked = SandboxCall::new(&shared, "sandbox_interpreter", &args(&id, &body, &[]));
    let made = asked.call(&shared, &caller).await?;
    let result = match made.result()? {
        Ok(result) => result,
        Err(waits) => return Ok(waits),
    };
    let number = result["interpreter"].as_u64().and_then(|number| u32::try_from(number).ok());
    let number = Number(number.ok_or_else(Problem::not_found)?);
    let interpreter = interpreter(&shared, caller.principal(), &id, number)?;
    let view =
        InterpreterView { call_id: Some(made.id()), ..InterpreterView::of(number, &interpreter) };
    let mut response = reply::json(StatusCode::CREATED, &view);
    let place = format!("/v1/sandboxes/{id}/interpreters/{number}");
    let place = HeaderValue::try_from(place).expect("an id is printable ASCII");
    response.headers_mut().insert(header::LOCATION, place);
    Ok(with_call(response, made.id()))
}

fn check(body: &Json) -> Result<(), Problem> {
    let mut fields = Fields::of(body)?;
    let language = fields.required::<Tongue>("language");
    directory(&mut fields);
    environment(&mut fields);
    fields.finish(language).map(drop)
}

/// The interpreter with this number in the tenant's sandbox.
fn interpreter(
    shared: &Arc<Shared>,
    who: &Principal,
    id: &SessionId,
    number: Number,
) -> Result<Interpreter, Problem> {
    find(shared, who, id)?.interpreter(number.0).ok_or_else(Problem::not_found)
}

/// Lists the interpreters of a sandbox.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/interpreters", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    responses((status = 200, description = "Interpreters", body = InterpreterListView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
) -> Result<Response, Problem> {
    let all = find(&shared, caller.principal(), &id)?.interpreters();
    let interpreters: Vec<_> =
        all.iter().map(|(number, one)| InterpreterView::of(Number(*number), one)).collect();
    Ok(reply::ok(&InterpreterListView { count: interpreters.len(), interpreters }))
}

/// Ends an interpreter, whatever it is doing. A repeated request is answered with 404.
#[utoipa::path(
    delete, path = "/v1/sandboxes/{id}/interpreters/{interpreter}", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("interpreter" = u32, Path, description = "The interpreter"),
    ),
    responses((status = 204, description = "It ends"))
)]
pub(crate) async fn end(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, number): NamedWithin<SessionId, Number>,
) -> Result<Response, Problem> {
    let removed = find(&shared, caller.principal(), &id)?.remove_interpreter(number.0);
    let interpreter = removed.ok_or_else(Problem::not_found)?;
    // Closing waits for queued executions; the running one is interrupted first, if it can be.
    let _ = interpreter.interrupt();
    drop(interpreter);
    Ok(reply::nothing())
}
