//! `sandbox_fork`: a new sandbox with a copy of a workspace and no processes.

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::session::SessionId;
use serde::Deserialize;
use serde_json::json;

use super::{
    Builtin, InlineResult, Job, UsedSandbox,
    create::{check_room, connect, given, made, sandbox_output},
    object, refuse_masks, refused, sandbox_schema,
};

pub(in crate::runners::builtin) const TOOL: Builtin = Builtin {
    name: "sandbox_fork",
    description: "Creates a sandbox with a copy of another sandbox's workspace and no processes.",
    flags: &["none"],
    input: || object(&["sandbox"], json!({"sandbox": sandbox_schema()})),
    output: sandbox_output,
    argument_errors: &[],
    sandbox: UsedSandbox::New,
    queued: false,
    repeatable: false,
    action: || Action::SandboxCreate,
    start: |permit, job| Box::pin(async move { made(&job, fork(permit, &job).await) }),
};

#[derive(Deserialize)]
struct ForkArgs {
    sandbox: SessionId,
}

/// The limits are those of the original, to which policy agreed.
async fn fork(permit: Permit, job: &Job<'_>) -> InlineResult {
    let asked: ForkArgs = job.read()?;
    refuse_masks(&permit)?;
    let session = job.session(&asked.sandbox)?;
    let obligations = permit.obligations().clone();
    let _turn = job.inner().sandboxes.making.lock().await;
    check_room(job)?;
    let fork = session.fork(permit).await.map_err(|error| refused(&error))?;
    // Policy agreed to the original's hosts; what it forbids now is not granted to the copy.
    let table = job.inner().sandbox_table(&session);
    let network = table.network_grant();
    let network = network.map(|network| network.within(&obligations)).transpose()?.flatten();
    connect(job, &fork, network, table.tool_grant()).await?;
    job.inner().share_sandbox(&fork, &job.asked().tenant).await;
    Ok(given(&fork))
}
