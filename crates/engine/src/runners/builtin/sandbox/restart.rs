//! `sandbox_restart`: a fresh process for an interpreter, or the same one without its variables.

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::session::SessionId;
use serde::Deserialize;
use serde_json::json;

use super::{
    Builtin, InlineResult, Job, UsedSandbox, number_schema, object, refuse_masks, refused,
    sandbox_schema,
};

pub(in crate::runners::builtin) const TOOL: Builtin = Builtin {
    name: "sandbox_restart",
    description: "Ends an interpreter's process and starts a new one; with `reset`, forgets its \
                  variables and keeps the process.",
    flags: &["none"],
    input: || {
        object(
            &["sandbox", "interpreter"],
            json!({
                "sandbox": sandbox_schema(),
                "interpreter": number_schema(),
                "reset": {"type": "boolean", "default": false},
            }),
        )
    },
    output: || object(&["interpreter"], json!({"interpreter": number_schema()})),
    argument_errors: &[],
    sandbox: UsedSandbox::Kept,
    queued: false,
    repeatable: false,
    action: || Action::ToolExecute,
    start: |permit, job| Box::pin(async move { job.inline(restart(permit, &job).await) }),
};

#[derive(Deserialize)]
struct RestartArgs {
    sandbox: SessionId,
    interpreter: u32,
    #[serde(default)]
    reset: bool,
}

async fn restart(permit: Permit, job: &Job<'_>) -> InlineResult {
    let asked: RestartArgs = job.read()?;
    refuse_masks(&permit)?;
    let session = job.session(&asked.sandbox)?;
    let interpreter = job.interpreter(&session, asked.interpreter)?;
    let done = match asked.reset {
        true => interpreter.reset(permit).await,
        false => interpreter.restart(permit).await,
    };
    done.map_err(|error| refused(&error))?;
    Ok(json!({"interpreter": asked.interpreter}))
}
