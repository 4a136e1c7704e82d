//! `sandbox_interpreter`: starts an interpreter that keeps its state.

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::{
    Language,
    session::{SessionId, interpreter::Options},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    Builtin, InlineResult, Job, Start, UsedSandbox, cwd_schema, env_schema, number_schema, object,
    refuse_masks, refused, sandbox_schema,
};

pub(in crate::runners::builtin) const TOOL: Builtin = Builtin {
    name: "sandbox_interpreter",
    description: "Starts an interpreter in a sandbox that is kept; what one execution defines, the \
                  next one finds.",
    flags: &["none"],
    input: || {
        object(
            &["sandbox", "language"],
            json!({
                "sandbox": sandbox_schema(),
                "language": {"enum": ["python", "javascript"]},
                "cwd": cwd_schema(),
                "env": env_schema(),
            }),
        )
    },
    output: || object(&["interpreter"], json!({"interpreter": number_schema()})),
    argument_errors: &[],
    sandbox: UsedSandbox::Kept,
    queued: false,
    repeatable: false,
    action: || Action::ToolExecute,
    start: |permit, job| Box::pin(async move { job.inline(begin(permit, &job).await) }),
};

#[derive(Deserialize)]
struct InterpreterArgs {
    sandbox: SessionId,
    language: InterpreterLanguage,
    #[serde(flatten)]
    start: Start,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum InterpreterLanguage {
    Python,
    Javascript,
}

async fn begin(permit: Permit, job: &Job<'_>) -> InlineResult {
    let asked: InterpreterArgs = job.read()?;
    refuse_masks(&permit)?;
    let session = job.session(&asked.sandbox)?;
    let language = match asked.language {
        InterpreterLanguage::Python => Language::Python,
        InterpreterLanguage::Javascript => Language::Javascript,
    };
    let options = Options { cwd: asked.start.cwd(), env: asked.start.env };
    let made = session.interpreter(permit, language, options).await;
    let made = made.map_err(|error| refused(&error))?;
    let number = job.inner().sandbox_table(&session).add_interpreter(made);
    Ok(json!({"interpreter": number}))
}
