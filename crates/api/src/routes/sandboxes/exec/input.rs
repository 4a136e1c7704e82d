//! Input, signals and terminal size of a running program.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::Uri;
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    path::NamedWithin,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::sandbox::session::{Error, SessionId};
use serde::Deserialize;
use utoipa::{
    ToSchema,
    openapi::schema::{ObjectBuilder, OneOfBuilder, Type},
};

use super::{
    body::{SizeBody, size},
    program,
};
use crate::{
    routes::sandboxes::{Number, why},
    shared::Shared,
};

/// Sends bytes to a program's standard input, or types them into its terminal.
///
/// It must have been started with `"stdin": {"open": true}` or a terminal. The bytes of one request
/// arrive in one piece. A program that does not read in time is answered with 409; part of the
/// bytes may have reached it.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/exec/{exec}/stdin", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("exec" = u32, Path, description = "The program"),
        ("end" = Option<bool>, Query, description = "Whether the input ends after these bytes; not for terminals"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 204, description = "Sent"),
        (status = 409, description = "It has ended, takes no input, or does not read"),
    )
)]
pub(crate) async fn stdin(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, exec): NamedWithin<SessionId, Number>,
    uri: Uri,
    request: Request,
) -> Result<Response, Problem> {
    let program = program(&shared, caller.principal(), &id, exec)?;
    let mut query = Query::of(&uri);
    let end = query.optional::<bool>("end").unwrap_or(false);
    query.finish()?;
    body::check_type(request.headers(), "application/octet-stream")?;
    let taken = body::take(&shared.edge, request, shared.edge.config().max_body).await?;
    if !program.is_open {
        let detail =
            "the program was started without `\"stdin\": {\"open\": true}` and without a terminal";
        return Err(
            Problem::new(&problem_codes::SANDBOX_REFUSED, detail).with("reason", "no_stdin")
        );
    }
    let writing = program.process.write(&taken.bytes);
    match tokio::time::timeout(shared.edge.config().request_timeout, writing).await {
        Ok(written) => written.map_err(|error| why(&error))?,
        Err(_) => {
            return Err(Problem::new(&problem_codes::INPUT_BLOCKED, "the program does not read"));
        }
    }
    if end {
        program.process.close_stdin().await;
    }
    Ok(reply::nothing())
}

/// Signal to send.
#[derive(ToSchema)]
#[schema(as = SignalRequest)]
#[expect(dead_code, reason = "it documents what `signal` reads field by field")]
pub(crate) struct SignalBody {
    #[schema(schema_with = described)]
    signal: Signal,
}

/// Schema of the signal.
fn described() -> utoipa::openapi::schema::Schema {
    let names = SIGNALS.iter().map(|(name, _)| *name);
    let name = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
    let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(64));
    let either = OneOfBuilder::new().item(name).item(number);
    either.description(Some("By name, without `SIG`, or by number.")).build().into()
}

/// Signal by name or number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Signal {
    Number(f64),
    Name(String),
}

/// Signals by name.
const SIGNALS: [(&str, i32); 13] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];

impl Signal {
    fn number(&self) -> Option<i32> {
        match self {
            Self::Number(number) => (1..=64).find(|known| f64::from(*known) == *number),
            Self::Name(name) => {
                SIGNALS.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
            }
        }
    }
}

/// Sends a signal to a program's process group, as a terminal does.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/exec/{exec}/signal", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("exec" = u32, Path, description = "The program"),
    ),
    request_body = SignalBody,
    responses(
        (status = 204, description = "Sent"),
        (status = 409, description = "It has ended, or the sandbox is paused"),
    )
)]
pub(crate) async fn signal(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, exec): NamedWithin<SessionId, Number>,
    request: Request,
) -> Result<Response, Problem> {
    let program = program(&shared, caller.principal(), &id, exec)?;
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let signal: Option<Signal> = fields.required("signal");
    let number = signal.as_ref().and_then(Signal::number);
    if signal.is_some() && number.is_none() {
        let names: Vec<_> = SIGNALS.iter().map(|(name, _)| *name).collect();
        fields.fault("signal", format!("must be from 1 to 64 or one of {}", names.join(", ")));
    }
    let number = fields.finish(number)?;
    program.process.signal(number).await.map_err(|error| why(&error))?;
    Ok(reply::nothing())
}

/// Changes the size of a program's terminal.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/exec/{exec}/resize", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("exec" = u32, Path, description = "The program"),
    ),
    request_body = SizeBody,
    responses(
        (status = 204, description = "Resized"),
        (status = 409, description = "It has no terminal, or has ended"),
    )
)]
pub(crate) async fn resize(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    NamedWithin(id, exec): NamedWithin<SessionId, Number>,
    request: Request,
) -> Result<Response, Problem> {
    let program = program(&shared, caller.principal(), &id, exec)?;
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let asked = size(&mut fields);
    let asked = fields.finish(asked)?;
    program.process.resize(asked).map_err(|error: Error| why(&error))?;
    Ok(reply::nothing())
}
