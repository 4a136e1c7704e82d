//! `echo`: returns its text.

use ringfence_policy::{Action, Permit};
use serde_json::json;

use super::{Builtin, Job, Starting, UsedSandbox, message, object, text};

pub(super) const TOOL: Builtin = Builtin {
    name: "echo",
    description: "Returns the given text.",
    flags: &["none"],
    input: || object(&["text"], json!({"text": {"type": "string"}})),
    output: message,
    argument_errors: &[("text", "echo requires a 'text' field")],
    sandbox: UsedSandbox::None,
    queued: true,
    repeatable: true,
    action: || Action::ToolExecute,
    start,
};

fn start(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move {
        let args = job.args().to_value();
        job.inline(Ok(json!({"message": text(&args, "text")})))
    })
}
