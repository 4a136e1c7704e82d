//! `tool_search`: tools by words, for agents that do not have a list of all of them.
//!
//! Only tools that policy may let the caller call are found. The order depends on the words and on
//! the tools alone.

use ringfence_policy::{Action, Permit};
use ringfence_types::{Asked, Principal};
use serde_json::{Value, json};

use super::{Builtin, Job, Starting, UsedSandbox, object, text};
use crate::use_cases::search_tools;

/// Tools in a result, if the caller names no number.
const DEFAULT_LIMIT: usize = 10;

/// Tools in a result.
const MAX_LIMIT: usize = 50;

pub(super) const TOOL: Builtin = Builtin {
    name: "tool_search",
    description: "Finds tools of the server by words of their names, tags and descriptions, best \
                  match first. Use it to find a capability before saying that there is none.",
    flags: &["none"],
    input: || {
        object(
            &["query"],
            json!({
                "query": {
                    "type": "string", "minLength": 1, "maxLength": 1000,
                    "description": "Words to look for; the first 16 count",
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
                },
            }),
        )
    },
    output: || {
        let tool = object(
            &["name", "version", "description", "input_schema", "safety_flags"],
            json!({
                "name": {"type": "string"},
                "version": {"type": "string"},
                "description": {"type": "string"},
                "input_schema": {},
                "safety_flags": {"type": "array", "items": {"type": "string"}},
            }),
        );
        object(&["tools"], json!({"tools": {"type": "array", "items": tool}}))
    },
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    // It also depends on the tools and rules of the moment.
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

fn start(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move {
        let args = job.args().to_value();
        let limit = args.get("limit").and_then(Value::as_u64);
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT);
        let who = caller(job.asked());
        let found = search_tools(job.inner(), &who, text(&args, "query"), limit).await;
        let found: Vec<Value> = found
            .iter()
            .map(|entry| {
                let tool = &entry.tool;
                json!({
                    "name": tool.name, "version": tool.version, "description": tool.description,
                    "input_schema": tool.input_schema, "safety_flags": tool.safety_flags,
                })
            })
            .collect();
        job.inline(Ok(json!({"tools": found})))
    })
}

/// The caller, as policy is asked about it.
pub(super) fn caller(asked: &Asked) -> Principal {
    Principal {
        key: asked.key,
        tenant: asked.tenant.clone(),
        persona: asked.persona.clone(),
        scopes: asked.scopes.clone(),
        label: String::new(),
        person: None,
    }
}
