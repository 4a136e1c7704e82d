//! `approval_request`: a question to a person. The hold of the call is the question, its approval the answer.

use ringfence_policy::{Action, Permit};
use serde_json::json;

use super::{Builtin, Job, Starting, UsedSandbox, object};

pub(super) const TOOL: Builtin = Builtin {
    name: "approval_request",
    description: "Asks a person for approval: the call is held until a person who may approve decides, \
                  and its result says that it was approved.",
    flags: &["none"],
    input: || {
        object(
            &["message"],
            json!({"message": {"type": "string", "minLength": 1, "maxLength": 4_000}}),
        )
    },
    output: || object(&["approved"], json!({"approved": {"const": true}})),
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

fn start(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { job.inline(Ok(json!({"approved": true}))) })
}
