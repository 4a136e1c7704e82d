//! Outputs and files of steps that have ended, as later steps are bound to them.

use std::collections::BTreeMap;

use ringfence_types::{Call, Produced, State};
use serde_json::{Value, json};

use crate::{
    binding::{Source, at_path, path_text},
    document::{Document, Kind, Step},
    step_call::Resolved,
};

/// Outputs of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outputs {
    pub(crate) values: Value,
    /// Digests of files by path.
    pub(crate) files: BTreeMap<String, String>,
}

impl Outputs {
    /// Outputs of a call that ended well.
    pub(crate) fn of_call(step: &Step, payload: &Value, call: &Call) -> Result<Self, String> {
        let State::Finished(finished) = &call.state else {
            return Err(format!("call {} has no result", call.asked.id));
        };
        let Produced::Result(result) = &finished.produced else {
            return Err(format!("call {} has no result", call.asked.id));
        };
        let result = result.to_value();
        let mut files: BTreeMap<_, _> = finished
            .files
            .iter()
            .flat_map(|files| &files.stored)
            .map(|file| (file.path.clone(), file.digest.to_string()))
            .collect();
        let text = |name: &str| result.get(name).cloned().unwrap_or_default();
        let values = match step.kind {
            Kind::Command => json!({"ok": true, "exitCode": 0, "stdout": text("stdout")}),
            Kind::Code => json!({
                "ok": true, "exitCode": 0, "stdout": text("stdout"), "locals": text("locals"),
            }),
            Kind::FileRead => json!({"ok": true, "content": text("stdout")}),
            Kind::FileWrite => {
                let path = payload["path"].as_str().unwrap_or_default().to_owned();
                if let Some(digest) = result["digest"].as_str() {
                    files.insert(path.clone(), digest.to_owned());
                }
                json!({
                    "ok": true, "path": path, "artifact": text("artifact"),
                    "digest": text("digest"),
                })
            }
            Kind::Tool | Kind::Approval | Kind::Wait => result,
        };
        Ok(Self { values, files })
    }
}

/// Values that bindings of a step are replaced by.
pub(crate) struct Values<'a> {
    pub(crate) document: &'a Document,
    pub(crate) outputs: &'a BTreeMap<String, Result<Outputs, String>>,
    /// Item of the fan-out, with its number.
    pub(crate) item: Option<(usize, Value)>,
}

impl Values<'_> {
    fn outputs(&self, step: &str) -> Result<&Outputs, String> {
        match self.outputs.get(step) {
            Some(Ok(outputs)) => Ok(outputs),
            Some(Err(error)) => Err(format!("step `{step}`: {error}")),
            None => Err(format!("step `{step}` has no outputs")),
        }
    }

    /// The value of a source.
    pub(crate) fn value(&self, source: &Source) -> Result<Value, String> {
        match source {
            Source::Output { step, path } => {
                let outputs = self.outputs(step)?;
                let missing =
                    || format!("step `{step}` has no output `outputs{}`", path_text(path));
                at_path(&outputs.values, path).cloned().ok_or_else(missing)
            }
            Source::File { step, path } => {
                let outputs = self.outputs(step)?;
                let missing = || format!("step `{step}` left no file `{path}`");
                outputs.files.get(path).map(|digest| json!(digest)).ok_or_else(missing)
            }
            Source::Item { path } => {
                let (_, item) = self.item.as_ref().ok_or("there is no item here")?;
                let missing = || format!("the item has no `item{}`", path_text(path));
                at_path(item, path).cloned().ok_or_else(missing)
            }
            Source::Index => {
                let (index, _) = self.item.as_ref().ok_or("there is no item here")?;
                Ok(json!(index))
            }
        }
    }

    fn resolve(&self, tree: &Value) -> Result<Value, String> {
        crate::binding::resolve(tree, &|source| self.value(source))
    }

    /// Items of a fan-out.
    pub(crate) fn items(&self, step: &Step) -> Result<Option<Vec<Value>>, String> {
        let Some(list) = &step.for_each else { return Ok(None) };
        match self.resolve(list)? {
            Value::Array(items) if items.len() <= crate::document::MAX_ITEMS => Ok(Some(items)),
            Value::Array(items) => Err(format!(
                "`forEach` has {} items, at most {} are allowed",
                items.len(),
                crate::document::MAX_ITEMS
            )),
            _ => Err("`forEach` is not a list".to_owned()),
        }
    }

    /// Whether the condition of a step holds.
    pub(crate) fn holds(&self, step: &Step) -> Result<bool, String> {
        let Some(condition) = &step.condition else { return Ok(true) };
        let value = self.resolve(&condition.value)?;
        let with = &condition.with;
        Ok(match condition.test.as_str() {
            "equals" => value == *with,
            "notEquals" => value != *with,
            "in" => with.as_array().is_some_and(|all| all.contains(&value)),
            test => {
                let (Some(value), Some(with)) = (value.as_f64(), with.as_f64()) else {
                    return Err("the value of the condition is not a number".to_owned());
                };
                if test == "greaterThan" { value > with } else { value < with }
            }
        })
    }

    /// The step with all bindings replaced.
    pub(crate) fn step(&self, step: &Step) -> Result<Resolved, String> {
        let payload = &step.payload;
        // Programs are not written into, and what looks like a binding in one is its own.
        let program = step.kind.program();
        let mut resolved = Resolved::default();
        for (name, value) in payload.as_object().into_iter().flatten() {
            let value = if program == Some(name) { value.clone() } else { self.resolve(value)? };
            resolved.payload.insert(name.clone(), value);
        }
        if step.kind.sees_written() {
            for before in self.document.before(&step.id) {
                if before.kind != Kind::FileWrite || before.for_each.is_some() {
                    continue;
                }
                if let Some(Ok(outputs)) = self.outputs.get(&before.id) {
                    let files = outputs.files.iter();
                    resolved.files.extend(
                        files.map(|(path, digest)| (path.clone(), json!({"artifact": digest}))),
                    );
                }
            }
        }
        for (path, content) in &step.files {
            let is_file = content.as_str().is_some_and(is_file_binding);
            let content = self.resolve(content)?;
            let content = if is_file { json!({"artifact": content}) } else { content };
            resolved.files.insert(path.clone(), content);
        }
        Ok(resolved)
    }
}

/// Whether a text is a binding to a file.
pub(crate) fn is_file_binding(text: &str) -> bool {
    use crate::binding::{Part, parts};
    matches!(parts(text).as_deref(), Ok([Part::Bound(Source::File { .. })]))
}
