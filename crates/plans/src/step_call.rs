//! The call that a step is: tool, arguments and what it is given.

use std::collections::BTreeMap;

use ringfence_engine::GIVEN;
use serde_json::{Map, Value, json};

use crate::document::{Kind, Step};

/// Name of the tool that programs run in.
pub(crate) const CODE: &str = "code_execute";
/// Name of the tool that writes artifacts.
const ARTIFACT: &str = "artifact_write";
/// Name of the tool that asks a person.
const APPROVAL: &str = "approval_request";
/// Wall time of a program that a step may ask for; the tool has a limit too.
const MAX_WALL_SECS: u64 = 60;

/// Tool and arguments of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepCall {
    pub(crate) tool: String,
    pub(crate) version: Option<String>,
    pub(crate) args: Value,
}

/// Parts of a step with all bindings replaced.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resolved {
    pub(crate) payload: Map<String, Value>,
    /// Files by path: digests of artifacts, or other content.
    pub(crate) files: BTreeMap<String, Value>,
}

/// The call of a step; none for a wait.
pub(crate) fn of(step: &Step, resolved: &Resolved) -> Option<StepCall> {
    let text = |name: &str| resolved.payload.get(name).and_then(Value::as_str).unwrap_or_default();
    let built_in =
        |tool: &str, args: Value| Some(StepCall { tool: tool.to_owned(), version: None, args });
    match step.kind {
        Kind::Wait => None,
        Kind::Approval => built_in(APPROVAL, json!({"message": text("message")})),
        Kind::FileWrite => {
            let title = text("path").rsplit('/').next().unwrap_or_default();
            let args = json!({
                "operation": "create", "kind": "code", "title": title, "task": step.id,
                "description": step.description, "content": text("content"),
            });
            built_in(ARTIFACT, args)
        }
        Kind::FileRead => {
            let code = format!("cat -- {}", quoted(text("path")));
            built_in(CODE, program(step, resolved, "bash", code))
        }
        Kind::Command => {
            let command = text("command");
            let code = match text("cwd") {
                "" => command.to_owned(),
                cwd => format!("cd -- {} || exit 1\n{command}", quoted(cwd)),
            };
            built_in(CODE, program(step, resolved, "bash", code))
        }
        Kind::Code => {
            built_in(CODE, program(step, resolved, text("language"), text("code").to_owned()))
        }
        Kind::Tool => Some(tool(step, resolved)),
    }
}

fn program(step: &Step, resolved: &Resolved, language: &str, code: String) -> Value {
    let mut args = json!({"language": language, "code": code});
    for name in ["env", "stdin", "hosts"] {
        if let Some(value) = resolved.payload.get(name).filter(|value| !value.is_null()) {
            args[name] = value.clone();
        }
    }
    // Variables are texts, and a bound value may be a number.
    let variables = args.get_mut("env").and_then(Value::as_object_mut);
    for value in variables.into_iter().flat_map(Map::values_mut) {
        if matches!(value, Value::Number(_) | Value::Bool(_)) {
            *value = Value::String(value.to_string());
        }
    }
    for (name, value) in given(step, resolved) {
        args[name] = value;
    }
    if step.kind == Kind::FileRead {
        args["outputs"] = json!([]);
    }
    args
}

fn tool(step: &Step, resolved: &Resolved) -> StepCall {
    let text = |name: &str| resolved.payload.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut args = resolved.payload.get("args").cloned().unwrap_or_else(|| json!({}));
    let mut given = given(step, resolved);
    // Tools have limits of their own, and many take none: the time is kept by the driver.
    if step.limits.is_empty() {
        given.remove("limits");
    }
    if !given.is_empty() {
        args[GIVEN] = Value::Object(given);
    }
    StepCall { tool: text("tool").unwrap_or_default(), version: text("version"), args }
}

/// Files, limits and patterns of outputs.
fn given(step: &Step, resolved: &Resolved) -> Map<String, Value> {
    let mut given = Map::new();
    if !resolved.files.is_empty() {
        given.insert("files".to_owned(), json!(resolved.files));
    }
    let mut limits = step.limits.clone();
    if let Some(secs) = step.timeout_secs {
        limits.entry("wall_secs").or_insert_with(|| secs.min(MAX_WALL_SECS).into());
    }
    if !limits.is_empty() {
        given.insert("limits".to_owned(), Value::Object(limits));
    }
    if let Some(outputs) = &step.outputs {
        given.insert("outputs".to_owned(), outputs.clone());
    }
    given
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_shell_stays_one_word() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's; rm -rf /"), r"'it'\''s; rm -rf /'");
    }
}
