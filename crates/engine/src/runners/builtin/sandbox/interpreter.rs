//! `sandbox_interpreter`: starts an interpreter that keeps its state.

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::{
    Language,
    session::{SessionId, interpreter::Options},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    Builtin, Given, Job, Start, UsedSandbox, cwd_schema, env_schema, number_schema, object,
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
    complaints: &[],
    sandbox: UsedSandbox::Kept,
    queued: false,
    repeatable: false,
    action: || Action::ToolExecute,
    start: |permit, job| Box::pin(async move { job.inline(begin(permit, &job).await) }),
};

#[derive(Deserialize)]
struct Asked {
    sandbox: SessionId,
    language: Tongue,
    #[serde(flatten)]
    start: Start,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Tongue {
    Python,
    Javascript,
}

async fn begin(permit: Permit, job: &Job<'_>) -> Given {
    let asked: Asked = job.read()?;
    refuse_masks(&permit)?;
    let session = job.session(&asked.sandbox)?;
    let language = match asked.language {
        Tongue::Python => Language::Python,
        Tongue::Javascript => Language::Javascript,
    };
    let options = Options { cwd: asked.start.cwd(), env: asked.start.env };
    let made = session.interpreter(permit, language, options).await;
    let made = made.map_err(|error| refused(&error))?;
    let number = job.inner().sandbox_table(&session).add_interpreter(made);
    Ok(json!({"interpreter": number}))
}
