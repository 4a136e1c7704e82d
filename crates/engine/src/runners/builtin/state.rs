//! `state_get` and `state_set`: values that a tool keeps between its calls.
//!
//! They belong to the tool whose call makes this call, and to its tenant. A call that no other call made has no
//! state. A tool that was approved with grants needs storage among them.

use ringfence_policy::{Action, Permit};
use ringfence_store::{ToolDataChange, ToolDataChanged, ToolDataKind, ToolDataScope, ToolDatum};
use ringfence_types::{Bytes, CallError, ErrorCode, Json, error_chain};
use serde_json::{Value, json};

use super::{Builtin, InlineResult, Job, Starting, UsedSandbox, error, object, text};

/// Bytes of a value as JSON.
const MAX_VALUE_BYTES: usize = 64 << 10;

/// Bytes of all values and keys of a tool.
const MAX_BYTES: u64 = 1 << 20;

fn key_schema() -> Value {
    json!({
        "type": "string", "pattern": "^[A-Za-z0-9_.:/-]{1,200}$",
        "description": "Key of the value, for the calling tool alone",
    })
}

pub(super) const GET: Builtin = Builtin {
    name: "state_get",
    description: "Reads a value that the calling tool keeps between its calls.",
    flags: &["none"],
    input: || object(&["key"], json!({"key": key_schema()})),
    output: || object(&["found"], json!({"found": {"type": "boolean"}, "value": {}})),
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    // It depends on what was kept.
    repeatable: false,
    action: || Action::ToolExecute,
    start: get,
};

pub(super) const SET: Builtin = Builtin {
    name: "state_set",
    description: "Keeps a value for later calls of the calling tool; null removes it.",
    flags: &["none"],
    input: || object(&["key", "value"], json!({"key": key_schema(), "value": {}})),
    output: || object(&["bytes"], json!({"bytes": {"type": "integer"}})),
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    repeatable: false,
    action: || Action::ToolExecute,
    start: set,
};

fn get(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { job.inline(read(&job).await) })
}

fn set(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { job.inline(write(&job).await) })
}

async fn read(job: &Job<'_>) -> InlineResult {
    let (scope, _) = scope(job)?;
    let args = job.args().to_value();
    let found = job.inner().parts.store.tool_data(&scope, Some(text(&args, "key"))).await;
    let found = found.map_err(|error| unavailable(&error))?;
    let value = found.first().and_then(|datum| Json::parse(&datum.bytes).ok());
    Ok(match value {
        Some(value) => json!({"found": true, "value": value.to_value()}),
        None => json!({"found": false}),
    })
}

async fn write(job: &Job<'_>) -> InlineResult {
    let (of, max_bytes) = scope(job)?;
    let args = job.args().to_value();
    let (name, value) = (text(&args, "key").to_owned(), &args["value"]);
    let (mut put, mut remove) = (Vec::new(), Vec::new());
    if value.is_null() {
        remove.push(name);
    } else {
        let bytes = value.to_string().into_bytes();
        if bytes.len() > MAX_VALUE_BYTES {
            let words = format!("a value has at most {}", Bytes(MAX_VALUE_BYTES as u64));
            return Err(error(ErrorCode::StorageRefused, &words));
        }
        put.push(ToolDatum { name, bytes });
    }
    let at = job.inner().parts.clock.now();
    let change = ToolDataChange { of, put, remove, max_bytes, at };
    match job.inner().parts.store.change_tool_data(change).await {
        Ok(ToolDataChanged::Done(totals)) => Ok(json!({"bytes": totals.bytes})),
        Ok(ToolDataChanged::TooLarge(totals)) => {
            let words = format!(
                "the tool would keep {} in {} values; it may keep {}",
                Bytes(totals.bytes),
                totals.names,
                Bytes(max_bytes)
            );
            Err(error(ErrorCode::StorageRefused, &words))
        }
        Err(error) => Err(unavailable(&error)),
    }
}

/// State of the tool whose call made this one, and its quota.
fn scope(job: &Job<'_>) -> Result<(ToolDataScope, u64), CallError> {
    let refused = |words: &str| error(ErrorCode::StorageRefused, &words);
    let parent = job.asked().cause.as_ref().and_then(|cause| cause.parent);
    let parent = parent.ok_or_else(|| refused("only a tool has a state: no call made this one"))?;
    let parent = job.inner().in_flight.get(parent);
    let parent = parent.ok_or_else(|| refused("the call that made this one has ended"))?.now();
    let asked = &parent.call.asked;
    let catalogue = job.inner().parts.registry.catalogue();
    let entry = catalogue.by_digest(asked.tool.digest);
    let entry = entry.ok_or_else(|| refused("the tool is not active any more"))?;
    let quota = entry.grants().map_or(MAX_BYTES, |grants| grants.storage_bytes.min(MAX_BYTES));
    if quota == 0 {
        return Err(refused("the tool was granted no storage"));
    }
    let (tenant, tool) = (asked.tenant.clone(), asked.tool.name.clone());
    Ok((ToolDataScope { tenant, tool, kind: ToolDataKind::State }, quota))
}

fn unavailable(failed: &ringfence_store::Error) -> CallError {
    let failed = error_chain(failed);
    tracing::warn!(error = failed, "the state of a tool cannot be used");
    error(ErrorCode::StorageRefused, &"the state of the tool cannot be read or written")
}
