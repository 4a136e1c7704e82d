//! `sandbox_exec`: a program in a session sandbox, with a terminal on request.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ringfence_policy::{Action, Permit};
use ringfence_sandbox::session::{ExecRequest, Input, Process, ProcessEnd, SessionId, Size};
use ringfence_types::{CallError, Finished, Usage};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Builtin, Job, MAX_TIMEOUT_SECS, Start, UsedSandbox, cwd_schema, env_schema, head, object,
    refusal, refuse_masks, refused, sandbox_schema, started, timeout, timeout_schema,
};
use crate::{
    KEPT_OUTPUT,
    record::Ended,
    runners::{
        builtin::produced,
        program::kept,
        work::{Started, Work, outputs_hash},
    },
    sandboxes::Program,
    sdk::CALL_VARIABLE,
};

pub(in crate::runners::builtin) const TOOL: Builtin = Builtin {
    name: "sandbox_exec",
    description: "Runs a program in a session sandbox and waits for its end.",
    flags: &["none"],
    input: || {
        let side = json!({"type": "integer", "minimum": 1, "maximum": 1000});
        let stdin = json!({"oneOf": [
            {"type": "string"},
            object(&["base64"], json!({"base64": {"type": "string"}})),
            object(&["open"], json!({"open": {"const": true}})),
        ]});
        object(
            &["sandbox", "argv"],
            json!({
                "sandbox": sandbox_schema(),
                "argv": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "env": env_schema(),
                "cwd": cwd_schema(),
                "stdin": stdin,
                "terminal": object(&["rows", "columns"], json!({"rows": side, "columns": side})),
                "timeout_secs": timeout_schema(),
            }),
        )
    },
    output: || {
        let (text, whole) = (json!({"type": "string"}), json!({"type": "integer"}));
        let maybe = json!({"type": ["integer", "null"]});
        object(
            &["exec", "exit_code", "signal", "timed_out", "stdout", "stderr"],
            json!({
                "exec": whole, "exit_code": maybe, "signal": maybe,
                "timed_out": {"type": "boolean"}, "stdout": text, "stderr": text,
                "stdout_bytes": whole, "stderr_bytes": whole,
            }),
        )
    },
    argument_errors: &[],
    sandbox: UsedSandbox::Kept,
    queued: false,
    repeatable: false,
    action: || Action::ToolExecute,
    start: |permit, job| Box::pin(async move { started(&job, start(permit, &job).await) }),
};

#[derive(Deserialize)]
struct ExecArgs {
    sandbox: SessionId,
    argv: Vec<String>,
    #[serde(flatten)]
    start: Start,
    stdin: Option<StdinArg>,
    terminal: Option<TerminalArg>,
    timeout_secs: Option<f64>,
}

/// Standard input, in one of three ways.
#[derive(Deserialize)]
#[serde(untagged)]
enum StdinArg {
    Text(String),
    Coded { base64: String },
    Later { open: bool },
}

#[derive(Deserialize)]
struct TerminalArg {
    rows: u16,
    columns: u16,
}

async fn start(permit: Permit, job: &Job<'_>) -> Result<Started, CallError> {
    let asked: ExecArgs = job.read()?;
    refuse_masks(&permit)?;
    let session = job.session(&asked.sandbox)?;
    let stdin = match asked.stdin {
        None => Input::Empty,
        Some(StdinArg::Text(text)) => Input::Bytes(text.into_bytes()),
        Some(StdinArg::Coded { base64 }) => Input::Bytes(
            STANDARD
                .decode(&base64)
                .map_err(|_| refusal("invalid_request", &"`stdin` is not base64"))?,
        ),
        Some(StdinArg::Later { open: true }) => Input::Open,
        Some(StdinArg::Later { open: false }) => Input::Empty,
    };
    let terminal = asked.terminal.map(|size| Size { rows: size.rows, columns: size.columns });
    let (has_terminal, is_open) = (terminal.is_some(), stdin == Input::Open || terminal.is_some());
    // Terminals have no default time limit: one lasts as long as its sandbox unless a time is asked
    // for.
    let timeout_secs = asked.timeout_secs.or(has_terminal.then_some(MAX_TIMEOUT_SECS));
    let (call, started_at) = (job.asked().id, job.started_at);
    let table = job.inner().sandbox_table(&session);
    // Before the program can say anything.
    let speaks = table.speak_for(call);
    let (cwd, mut env) = (asked.start.cwd(), asked.start.env);
    if speaks.is_some() {
        env.insert(CALL_VARIABLE.to_owned(), call.to_string());
    }
    let request = ExecRequest {
        cwd,
        env,
        stdin,
        terminal,
        output: Some(KEPT_OUTPUT),
        timeout: Some(timeout(permit.obligations(), timeout_secs)),
        ..ExecRequest::new(asked.argv.clone())
    };
    let process = session.exec(permit, request).await.map_err(|error| refused(&error))?;
    job.in_flight().print_to(process.stdout().clone(), process.stderr().clone());
    let argv: Arc<[String]> = asked.argv.into();
    let program =
        Program { process: process.clone(), call, argv, started_at, has_terminal, is_open };
    job.in_flight().set_program(program.clone());
    table.add(program);
    let (clock, entry, stop) =
        (job.inner().parts.clock.clone(), job.entry.clone(), CancellationToken::new());
    let asked_to_stop = stop.clone();
    let work = async move {
        // Until the end of the program.
        let _speaks = speaks;
        let mut stopped = false;
        let end = tokio::select! {
            end = process.wait() => end,
            () = asked_to_stop.cancelled() => {
                stopped = true;
                end_now(&process).await
            }
        };
        if stopped {
            return Ended::Stopped { details: table.access_details() };
        }
        let given = end.as_ref().map(|end| result(&process, end)).map_err(refused);
        let duration = clock.now().since(started_at);
        let produced = produced(&entry, given);
        let (stdout, out) = kept(process.stdout());
        let (stderr, err) = kept(process.stderr());
        let finished = Finished {
            outputs_hash: outputs_hash(&produced),
            true_result: None,
            produced,
            outcome: end.as_ref().ok().map(|end| end.outcome.clone()),
            stdout,
            stderr,
            usage: end.as_ref().ok().map(usage),
            isolation: None,
            layers: Some(session.info().layers),
            files: None,
            started_at,
            duration,
            memoised: None,
            tokens: None,
        };
        let blobs = [out, err].into_iter().filter(|bytes| !bytes.is_empty()).collect();
        let (finished, details) = (Box::new(finished), table.access_details());
        Ended::Finished { finished, blobs, session_events: Vec::new(), details }
    };
    Ok(Started::Running(Work::ours(work, stop)))
}

/// Kills a program and waits for its end; a paused sandbox is waited for, since nothing dies in it.
async fn end_now(process: &Process) -> Result<ProcessEnd, ringfence_sandbox::session::Error> {
    let _ = process.kill().await;
    process.wait().await
}

fn result(process: &Process, end: &ProcessEnd) -> Value {
    json!({
        "exec": process.id(),
        "exit_code": end.code,
        "signal": end.signal,
        "timed_out": end.timed_out,
        "stdout": head(process.stdout()),
        "stderr": head(process.stderr()),
        "stdout_bytes": process.stdout().total(),
        "stderr_bytes": process.stderr().total(),
    })
}

/// Usage of a program as usage of a call. Peaks of the whole sandbox are left out.
fn usage(end: &ProcessEnd) -> Usage {
    Usage {
        wall: end.usage.wall,
        cpu_user: end.usage.cpu_user,
        cpu_system: end.usage.cpu_system,
        memory_peak: Some(end.usage.memory_peak),
        io_read: end.usage.io_read,
        io_written: end.usage.io_written,
        processes: 1,
    }
}
