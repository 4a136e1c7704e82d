//! Running a program in a sandbox.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_sandbox::{
    Output,
    session::{ExecRequest, Input, Process, ProcessEnd, SessionId},
};
use ringfence_types::{Bytes, Json, Outcome, Truncated};
use serde::Serialize;
use utoipa::ToSchema;

use super::{find, why};
use crate::{
    auth::{self, May},
    body,
    fields::Fields,
    path::Named,
    problem::Problem,
    reply,
    shared::Shared,
    views::call::millis,
};

/// A program to be run.
#[derive(ToSchema)]
#[schema(as = ExecRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct ExecBody {
    /// Program and arguments.
    argv: Vec<String>,
    /// Added to the sandbox's environment.
    env: Option<BTreeMap<String, String>>,
    /// Where it starts; `/workspace` without.
    cwd: Option<String>,
    /// What it can read.
    stdin: Option<String>,
    /// After how many seconds it is killed; 60 without.
    timeout_secs: Option<f64>,
}

/// What became of a program.
#[derive(Serialize, ToSchema)]
#[schema(as = ExecResult)]
pub(crate) struct ExecView {
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    /// How it ended, with the limit it met if one explains it.
    #[schema(value_type = Object)]
    outcome: Outcome,
    /// What it printed, as text; bytes that are none are replaced.
    stdout: String,
    /// What it complained.
    stderr: String,
    /// The middle that was not kept.
    #[schema(value_type = Option<Object>)]
    stdout_truncated: Option<Truncated>,
    #[schema(value_type = Option<Object>)]
    stderr_truncated: Option<Truncated>,
    duration_ms: f64,
}

/// Bytes kept of each stream.
const KEPT: Bytes = Bytes::mib(1);

/// Runs a program and waits for its end.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/exec", tag = "sandboxes", request_body = ExecBody,
    params(("id" = String, Path, description = "The sandbox")),
    responses(
        (status = 200, description = "It ended", body = ExecView),
        (status = 409, description = "It could not be started"),
        (status = 422, description = "The body does not fit"),
    )
)]
pub(crate) async fn exec(
    State(shared): State<Arc<Shared>>,
    caller: May<auth::Call>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?;
    let body = body::json(&shared, request).await?;
    let request = read(&shared, &body)?;
    let process = session.exec(request).await.map_err(|error| why(&error))?;
    let end = process.wait().await.map_err(|error| why(&error))?;
    Ok(reply::ok(&view(&process, end)))
}

fn read(shared: &Shared, body: &Json) -> Result<ExecRequest, Problem> {
    let mut fields = Fields::of(body)?;
    let argv: Option<Vec<String>> = fields.required("argv");
    if argv.as_ref().is_some_and(Vec::is_empty) {
        fields.fault("argv", "must name a program");
    }
    let env = fields.optional("env");
    let cwd: Option<String> = fields.optional("cwd");
    let stdin: Option<String> = fields.optional("stdin");
    let timeout = timeout(shared, &mut fields);
    fields.finish(argv).map(|argv| {
        let usual = ExecRequest::new(argv);
        ExecRequest {
            env: env.unwrap_or_default(),
            cwd: cwd.unwrap_or_else(|| usual.cwd.clone()),
            stdin: stdin.map_or(Input::Empty, |text| Input::Bytes(text.into_bytes())),
            output: Some(KEPT),
            timeout: Some(timeout),
            ..usual
        }
    })
}

fn timeout(shared: &Shared, fields: &mut Fields<'_>) -> Duration {
    let most = shared.config.max_wait.as_secs_f64();
    let secs = fields.optional::<f64>("timeout_secs").unwrap_or(60.0_f64.min(most));
    if !(secs > 0.0 && secs <= most) {
        fields.fault("timeout_secs", format!("must be above 0 and at most {most}"));
        return Duration::ZERO;
    }
    Duration::from_secs_f64(secs)
}

fn view(process: &Process, end: ProcessEnd) -> ExecView {
    let text = |output: &Output| String::from_utf8_lossy(&output.kept()).into_owned();
    ExecView {
        exit_code: end.code,
        signal: end.signal,
        timed_out: end.timed_out,
        outcome: end.outcome,
        stdout: text(process.stdout()),
        stderr: text(process.stderr()),
        stdout_truncated: process.stdout().truncated(),
        stderr_truncated: process.stderr().truncated(),
        duration_ms: millis(end.usage.wall),
    }
}
