//! `sandbox_execute`: code in an interpreter that keeps its state.

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::session::{
    SessionId,
    interpreter::{ExecuteRequest, ExecutionHandle, Status, Summary},
};
use ringfence_types::{CallError, Finished};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Builtin, Job, UsedSandbox, head, number_schema, object, refuse_masks, refused, sandbox_schema,
    started, timeout, timeout_schema,
};
use crate::{
    KEPT_OUTPUT,
    record::Ended,
    runners::{
        builtin::produced,
        program::kept,
        work::{Started, Work, outputs_hash},
    },
};

pub(in crate::runners::builtin) const TOOL: Builtin = Builtin {
    name: "sandbox_execute",
    description: "Executes code in an interpreter of a session sandbox.",
    flags: &["none"],
    input: || {
        object(
            &["sandbox", "interpreter", "code"],
            json!({
                "sandbox": sandbox_schema(),
                "interpreter": number_schema(),
                "code": {"type": "string"},
                "timeout_secs": timeout_schema(),
            }),
        )
    },
    output: || {
        let (text, whole) = (json!({"type": "string"}), json!({"type": "integer"}));
        object(
            &["status", "count", "results", "error", "stdout", "stderr"],
            json!({
                "status": {"enum": ["ok", "error", "interrupted", "timed_out", "died"]},
                "count": whole,
                "results": {"type": "array", "items": {"type": "object"}},
                "results_dropped": whole,
                "error": {"type": ["object", "null"]},
                "stdout": text, "stderr": text, "stdout_bytes": whole, "stderr_bytes": whole,
            }),
        )
    },
    argument_errors: &[],
    sandbox: UsedSandbox::Kept,
    queued: false,
    repeatable: false,
    action: || Action::ToolExecute,
    start: |permit, job| Box::pin(async move { started(&job, start(permit, &job)) }),
};

#[derive(Deserialize)]
struct ExecuteArgs {
    sandbox: SessionId,
    interpreter: u32,
    code: String,
    timeout_secs: Option<f64>,
}

fn start(permit: Permit, job: &Job<'_>) -> Result<Started, CallError> {
    let asked: ExecuteArgs = job.read()?;
    refuse_masks(&permit)?;
    let session = job.session(&asked.sandbox)?;
    let interpreter = job.interpreter(&session, asked.interpreter)?;
    let table = job.inner().sandbox_table(&session);
    let speaks = table.speak_for(job.asked().id);
    let request = ExecuteRequest {
        call: speaks.is_some().then(|| job.asked().id.to_string()),
        timeout: Some(timeout(permit.obligations(), asked.timeout_secs)),
        output: Some(KEPT_OUTPUT),
        ..ExecuteRequest::new(asked.code)
    };
    let execution = interpreter.execute(permit, request).map_err(|error| refused(&error))?;
    let handle = execution.handle();
    job.in_flight().print_to(handle.stdout().clone(), handle.stderr().clone());
    job.in_flight().set_execution(execution);
    let started_at = job.started_at;
    let (clock, entry, stop) =
        (job.inner().parts.clock.clone(), job.entry.clone(), CancellationToken::new());
    let asked_to_stop = stop.clone();
    let work = async move {
        // Until the end of the code.
        let _speaks = speaks;
        // Held until the end: dropping the last handle ends the interpreter.
        let _interpreter = interpreter;
        let (summary, stopped) = tokio::select! {
            summary = handle.ended() => (summary, false),
            () = asked_to_stop.cancelled() => {
                handle.cancel();
                (handle.ended().await, true)
            }
        };
        if stopped && matches!(summary.status, Status::Interrupted | Status::Died) {
            return Ended::Stopped { details: table.access_details() };
        }
        let produced = produced(&entry, Ok(result(&handle, &summary)));
        let (stdout, out) = kept(handle.stdout());
        let (stderr, err) = kept(handle.stderr());
        let finished = Finished {
            outputs_hash: outputs_hash(&produced),
            true_result: None,
            produced,
            outcome: None,
            stdout,
            stderr,
            usage: None,
            isolation: None,
            layers: Some(session.info().layers),
            files: None,
            started_at,
            duration: clock.now().since(started_at),
            memoised: None,
            tokens: None,
        };
        let blobs = [out, err].into_iter().filter(|bytes| !bytes.is_empty()).collect();
        let (finished, details) = (Box::new(finished), table.access_details());
        Ended::Finished { finished, blobs, session_events: Vec::new(), details }
    };
    Ok(Started::Running(Work::ours(work, stop)))
}

fn result(handle: &ExecutionHandle, summary: &Summary) -> Value {
    json!({
        "status": summary.status,
        "count": summary.count,
        "results": summary.results,
        "results_dropped": summary.results_dropped,
        "error": summary.error,
        "stdout": head(handle.stdout()),
        "stderr": head(handle.stderr()),
        "stdout_bytes": handle.stdout().total(),
        "stderr_bytes": handle.stderr().total(),
    })
}
