//! Checks of a document against the tools of the server, and the preview of what it would do.

use std::collections::BTreeMap;

use ringfence_engine::{
    Engine,
    data::{Catalogue, ToolEntry},
};
use ringfence_types::{Json, Principal, ToolStatus, nearest};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    binding::{Key, Source, path_text},
    document::{Document, Kind, Problem, Step},
    outputs::is_file_binding,
    step_call::{self, Resolved, StepCall},
};

/// A digest for files that do not exist yet.
const NO_DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Preview of a plan: what it would do, without running it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Whether no problem is known and nothing is denied.
    pub ok: bool,
    /// Problems of the document.
    pub problems: Vec<Problem>,
    /// Steps in the order of the document.
    pub steps: Vec<StepPreview>,
    /// Hosts that it asks for.
    pub hosts: Vec<String>,
    /// Steps that wait for a person.
    pub approvals: Vec<String>,
    /// Steps that policy denies.
    pub denied: Vec<String>,
}

/// Preview of a step.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepPreview {
    /// Id of the step.
    pub id: String,
    /// Type of the step.
    #[serde(rename = "type")]
    pub kind: String,
    /// Steps that it comes after.
    pub depends_on: Vec<String>,
    /// Tool, if it is a call.
    pub tool: Option<String>,
    /// Version of the tool.
    pub version: Option<String>,
    /// Digest of the tool.
    pub digest: Option<String>,
    /// Safety flags of the tool.
    pub flags: Vec<String>,
    /// Whether it can run twice without harm.
    pub pure: bool,
    /// Hosts that it asks for.
    pub hosts: Vec<String>,
    /// Probable verdict of policy: `allow`, `hold`, `deny`, or none if it does not answer.
    pub verdict: Option<String>,
    /// Reasons of the verdict.
    pub reasons: Vec<String>,
    /// Whether arguments are bound to earlier steps, so that the verdict may become another one.
    pub bound: bool,
}

/// All problems of a document that need tools to be found.
pub(crate) fn problems(engine: &Engine, document: &Document) -> Vec<Problem> {
    let catalogue = engine.tools();
    let mut checker = Checker { engine, document, catalogue: &catalogue, problems: Vec::new() };
    for (index, step) in document.steps.iter().enumerate() {
        checker.step(&format!("/steps/{index}"), step);
    }
    let mut problems = checker.problems;
    problems.sort_unstable();
    problems.dedup();
    problems
}

struct Checker<'a> {
    engine: &'a Engine,
    document: &'a Document,
    catalogue: &'a Catalogue,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn problem(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { pointer: pointer.into(), message: message.into() });
    }

    fn step(&mut self, at: &str, step: &Step) {
        let entry = self.entry(at, step);
        self.sources(at, step, entry.as_deref());
        self.read_file(at, step);
        if let Some(entry) = entry {
            self.args(at, step, &entry);
        }
    }

    /// The tool of a step, if it can be called.
    fn entry(&mut self, at: &str, step: &Step) -> Option<std::sync::Arc<ToolEntry>> {
        let call = sample_call(step)?;
        let place = match step.kind {
            Kind::Tool => format!("{at}/payload/tool"),
            _ => format!("{at}/type"),
        };
        let name = call.tool.as_str();
        if let Some(entry) = self.catalogue.get(name, call.version.as_deref()) {
            return Some(entry.clone());
        }
        if !self.catalogue.versions(name).is_empty() {
            let version = call.version.unwrap_or_default();
            self.problem(
                format!("{at}/payload/version"),
                format!("tool `{name}` has no version `{version}`"),
            );
            return None;
        }
        let inactive =
            self.catalogue.inactive().iter().find(|found| found.tool.name.as_str() == name);
        if let Some(found) = inactive {
            let status: ToolStatus = found.status;
            self.problem(place, format!("tool `{name}` is {status}, not active"));
            return None;
        }
        let names = self.catalogue.newest().map(|entry| entry.tool.name.as_str());
        let hint = nearest(name, names);
        let hint = hint.map(|known| format!("; did you mean `{known}`?")).unwrap_or_default();
        self.problem(place, format!("there is no tool `{name}`{hint}"));
        None
    }

    /// Every bound value exists as far as it can be known, and has a type that fits.
    fn sources(&mut self, at: &str, step: &Step, entry: Option<&ToolEntry>) {
        for bound in step.found(at).bound {
            match &bound.source {
                Source::Output { step: other, path } => {
                    let Some(other) = self.document.step(other) else { continue };
                    match self.output_schema(other, path) {
                        Known::Missing => {
                            let message = format!(
                                "step `{}` has no output `outputs{}`",
                                other.id,
                                path_text(path)
                            );
                            self.problem(&bound.at, message);
                        }
                        Known::Types(types) if bound.is_whole => {
                            let wanted = wanted_types(at, step, entry, &bound.at);
                            if !overlap(&types, &wanted) {
                                let message = format!(
                                    "is of type {}, and `{}` gives {}",
                                    wanted.join(" or "),
                                    other.id,
                                    types.join(" or ")
                                );
                                self.problem(&bound.at, message);
                            }
                        }
                        Known::Types(_) | Known::Any => {}
                    }
                }
                Source::File { step: other, path } => {
                    let Some(other) = self.document.step(other) else { continue };
                    if other.for_each.is_some() {
                        let rule = format!(
                            "step `{}` runs once for each item: its files cannot be named",
                            other.id
                        );
                        self.problem(&bound.at, rule);
                    } else if !other.kind.leaves_files() {
                        let rule =
                            format!("a step of type `{}` leaves no files", other.kind.name());
                        self.problem(&bound.at, rule);
                    } else if other.kind == Kind::FileWrite && other.payload["path"] != *path {
                        self.problem(&bound.at, format!("step `{}` writes another file", other.id));
                    }
                }
                Source::Item { .. } | Source::Index => {}
            }
        }
    }

    /// A file that is read must be there.
    fn read_file(&mut self, at: &str, step: &Step) {
        let path = step.payload["path"].as_str().unwrap_or_default();
        if step.kind != Kind::FileRead || step.files.contains_key(path) || path.contains("${") {
            return;
        }
        let before = self.document.before(&step.id);
        let is_written = before
            .iter()
            .any(|before| before.kind == Kind::FileWrite && before.payload["path"] == *path);
        if !is_written {
            let rule = "no earlier step writes it: name the step in `dependsOn`, or give the file by `files`";
            self.problem(format!("{at}/payload/path"), rule);
        }
    }

    fn output_schema(&self, step: &Step, path: &[Key]) -> Known {
        let schema = match step.kind {
            Kind::Command => outputs(&[("stdout", "string")]),
            Kind::Code => outputs(&[("stdout", "string"), ("locals", "object")]),
            Kind::FileRead => outputs(&[("content", "string")]),
            Kind::FileWrite => {
                outputs(&[("path", "string"), ("artifact", "string"), ("digest", "string")])
            }
            Kind::Approval => {
                json!({"type": "object", "properties": {"approved": {"type": "boolean"}}})
            }
            Kind::Wait => {
                json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "additionalProperties": false})
            }
            Kind::Tool => {
                let name = step.payload["tool"].as_str().unwrap_or_default();
                match self.catalogue.get(name, step.payload["version"].as_str()) {
                    Some(entry) => entry.tool.output_schema.to_value(),
                    None => return Known::Any,
                }
            }
        };
        let schema = match step.for_each {
            Some(_) => json!({
                "type": "object",
                "properties": {
                    "ok": {"type": "boolean"}, "items": {"type": "array", "items": schema},
                },
                "additionalProperties": false,
            }),
            None => schema,
        };
        schema_at(&schema, path)
    }

    /// The arguments fit the tool, with values that fit in the place of bound ones.
    fn args(&mut self, at: &str, step: &Step, entry: &ToolEntry) {
        let Some(call) = sample_call(step) else { return };
        let Some(args) = Json::from_value(&call.args) else {
            return self.problem(format!("{at}/payload"), "is nested too deeply");
        };
        let Err(violations) = self.engine.check_args(entry, &args) else { return };
        let found = step.found(at);
        for violation in violations {
            let place = match violation.pointer.strip_prefix("/$given") {
                Some(given)
                    if ["/files", "/limits", "/outputs"].iter().any(|p| given.starts_with(p)) =>
                {
                    format!("{at}{given}")
                }
                Some(given) => format!("{at}/payload{given}"),
                None if step.kind == Kind::Tool => {
                    format!("{at}/payload/args{}", violation.pointer)
                }
                None => format!("{at}/payload{}", violation.pointer),
            };
            // A bound value is known when it runs; the tool checks it then.
            let is_bound = found.bound.iter().any(|bound| {
                place.starts_with(&bound.at) || bound.at.starts_with(&format!("{place}/"))
            });
            if !is_bound {
                self.problem(place, violation.message);
            }
        }
    }
}

/// Types of a value, as far as they are known.
#[derive(Debug, PartialEq)]
enum Known {
    Any,
    Types(Vec<String>),
    Missing,
}

fn outputs(fields: &[(&str, &str)]) -> Value {
    let own = [("ok", "boolean"), ("exitCode", "integer")];
    let fields = fields.iter().chain(&own);
    let properties: Map<String, Value> =
        fields.map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// Type of the value at a path.
fn schema_at(schema: &Value, path: &[Key]) -> Known {
    let Some((first, rest)) = path.split_first() else { return types_of(schema) };
    match first {
        Key::Name(name) => match schema["properties"].get(name) {
            Some(inner) => schema_at(inner, rest),
            None if schema["additionalProperties"] == false => Known::Missing,
            None => Known::Any,
        },
        Key::Index(_) if schema["items"].is_object() => schema_at(&schema["items"], rest),
        Key::Index(_) => Known::Any,
    }
}

fn types_of(schema: &Value) -> Known {
    let types: Vec<_> = match &schema["type"] {
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => {
            names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    if types.is_empty() { Known::Any } else { Known::Types(types) }
}

/// Types that a place of a step takes; none if any.
fn wanted_types(at: &str, step: &Step, entry: Option<&ToolEntry>, place: &str) -> Vec<String> {
    if place == format!("{at}/forEach") {
        return vec!["array".to_owned()];
    }
    let Some(inside) = place.strip_prefix(&format!("{at}/payload/args/")) else {
        // Fields of other payloads are texts, apart from these.
        let is_text = ["/payload/content", "/payload/path", "/payload/message", "/payload/cwd"]
            .iter()
            .any(|part| place == format!("{at}{part}"));
        return if is_text { vec!["string".to_owned()] } else { Vec::new() };
    };
    let (Kind::Tool, Some(entry)) = (step.kind, entry) else { return Vec::new() };
    let path: Vec<_> = inside
        .split('/')
        .map(|name| Key::Name(name.replace("~1", "/").replace("~0", "~")))
        .collect();
    match schema_at(&entry.tool.input_schema.to_value(), &path) {
        Known::Types(types) => types,
        _ => Vec::new(),
    }
}

fn overlap(given: &[String], wanted: &[String]) -> bool {
    wanted.is_empty()
        || given.iter().any(|given| {
            wanted.contains(given) || given == "integer" && wanted.iter().any(|w| w == "number")
        })
}

/// The call of a step, with placeholders for bound values.
pub(crate) fn sample_call(step: &Step) -> Option<StepCall> {
    let mut resolved = Resolved::default();
    let program = step.kind.program();
    for (name, value) in step.payload.as_object().into_iter().flatten() {
        let value = if program == Some(name) { value.clone() } else { placeholder(value) };
        resolved.payload.insert(name.clone(), value);
    }
    let files = step.files.iter().map(|(path, content)| {
        let is_file = content.as_str().is_some_and(is_file_binding);
        let content = if is_file { json!({"artifact": NO_DIGEST}) } else { placeholder(content) };
        (path.clone(), content)
    });
    resolved.files = files.collect::<BTreeMap<_, _>>();
    step_call::of(step, &resolved)
}

fn placeholder(tree: &Value) -> Value {
    let stand_in = |source: &Source| {
        Ok(match source {
            Source::Index => json!(0),
            Source::File { .. } => json!(NO_DIGEST),
            _ => json!("bound"),
        })
    };
    crate::binding::resolve(tree, &stand_in).unwrap_or_default()
}

/// Preview of a document.
pub(crate) async fn preview(
    engine: &Engine,
    who: &Principal,
    document: &Document,
    problems: Vec<Problem>,
) -> Preview {
    let catalogue = engine.tools();
    let mut steps = Vec::new();
    for (index, step) in document.steps.iter().enumerate() {
        steps.push(step_preview(engine, who, &catalogue, step, index).await);
    }
    let with = |verdict: &str| {
        let found = steps.iter().filter(|step| step.verdict.as_deref() == Some(verdict));
        found.map(|step| step.id.clone()).collect::<Vec<_>>()
    };
    let (approvals, denied) = (with("hold"), with("deny"));
    let mut hosts: Vec<_> = steps.iter().flat_map(|step| step.hosts.clone()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    Preview {
        ok: problems.is_empty() && denied.is_empty(),
        problems,
        steps,
        hosts,
        approvals,
        denied,
    }
}

async fn step_preview(
    engine: &Engine,
    who: &Principal,
    catalogue: &Catalogue,
    step: &Step,
    index: usize,
) -> StepPreview {
    let at = format!("/steps/{index}");
    let call = sample_call(step);
    let entry = call.as_ref().and_then(|call| catalogue.get(&call.tool, call.version.as_deref()));
    let mut preview = StepPreview {
        id: step.id.clone(),
        kind: step.kind.name().to_owned(),
        depends_on: step.needs.iter().cloned().collect(),
        tool: call.as_ref().map(|call| call.tool.clone()),
        version: entry.map(|entry| entry.tool.version.clone()),
        digest: entry.map(|entry| entry.tool.digest.to_string()),
        flags: entry.map(|entry| entry.tool.safety_flags.clone()).unwrap_or_default(),
        pure: entry.is_none_or(|entry| entry.tool.is_pure()),
        hosts: entry.map(|entry| entry.tool.network.clone()).unwrap_or_default(),
        verdict: None,
        reasons: Vec::new(),
        bound: !step.found(&at).bound.is_empty(),
    };
    let (Some(entry), Some(call)) = (entry, call) else { return preview };
    let asked = call.args["hosts"].as_array().into_iter().flatten();
    preview.hosts.extend(asked.filter_map(|host| host.as_str().map(str::to_owned)));
    let args = Json::from_value(&call.args).unwrap_or_else(Json::empty_object);
    let foreseen = engine.foresee_call(who, entry, &args).await;
    preview.verdict = foreseen.verdict.map(|verdict| verdict.name().to_owned());
    preview.reasons = foreseen.reasons.into_iter().map(|reason| reason.message).collect();
    preview
}
