//! `sandbox_fork`: another sandbox with a copy of the workspace and nothing running.

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::session::SessionId;
use serde::Deserialize;
use serde_json::json;

use super::{
    Builtin, Given, Job, UsedSandbox,
    create::{check_room, given, sandbox_output},
    object, refuse_masks, refused, sandbox_schema,
};

pub(in crate::runners::builtin) const TOOL: Builtin = Builtin {
    name: "sandbox_fork",
    description: "Makes a sandbox with a copy of another one's workspace and nothing running.",
    flags: &["none"],
    input: || object(&["sandbox"], json!({"sandbox": sandbox_schema()})),
    output: sandbox_output,
    complaints: &[],
    sandbox: UsedSandbox::New,
    queued: false,
    repeatable: false,
    action: || Action::SandboxCreate,
    start: |permit, job| Box::pin(async move { job.inline(fork(permit, &job).await) }),
};

#[derive(Deserialize)]
struct Asked {
    sandbox: SessionId,
}

/// Its limits are those of the first, to which policy agreed.
async fn fork(permit: Permit, job: &Job<'_>) -> Given {
    let asked: Asked = job.read()?;
    refuse_masks(&permit)?;
    let session = job.session(&asked.sandbox)?;
    let _turn = job.inner().sandboxes.making.lock().await;
    check_room(job)?;
    let fork = session.fork(permit).await.map_err(|error| refused(&error))?;
    Ok(given(&fork))
}
