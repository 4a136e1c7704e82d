//! Documents of plans: strict, bounded, and read with all problems at once.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_registry::document::{Bounds, read};
use ringfence_types::nearest;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::binding::{self, Found, Source, escaped};
pub(crate) use crate::kind::Kind;

/// Bounds of a document as text.
const BOUNDS: Bounds = Bounds { bytes: 512 << 10, values: 50_000 };
/// Most steps.
pub(crate) const MAX_STEPS: usize = 500;
/// Most items of a fan-out.
pub(crate) const MAX_ITEMS: usize = 256;
/// Most steps at the same time.
const MAX_PARALLEL: u64 = 32;
const DEFAULT_PARALLEL: usize = 8;
const MAX_RETRIES: u64 = 10;
const MAX_REPAIRS: u64 = 5;
const MAX_TIMEOUT_SECS: u64 = 86_400;
/// Longest wait of a step: 30 days.
const MAX_WAIT_SECS: u64 = 30 * 86_400;
const MAX_TEXT_CHARS: usize = 4_000;

/// A problem of a document, with the JSON pointer of its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// Place in the document.
    pub pointer: String,
    /// Description of the mistake and of what would be right.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}

/// A document that was read. Its tools are checked apart.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) goal: String,
    pub(crate) max_parallel: usize,
    pub(crate) intervention: bool,
    /// Repairs of one step by rules.
    pub(crate) repair: usize,
    pub(crate) steps: Vec<Step>,
}

/// A step of a plan.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) description: String,
    pub(crate) payload: Value,
    /// Steps that it waits for: named ones and bound ones.
    pub(crate) needs: BTreeSet<String>,
    /// Steps whose outputs or files it is bound to.
    pub(crate) bound: BTreeSet<String>,
    pub(crate) condition: Option<Condition>,
    /// List, or binding to one.
    pub(crate) for_each: Option<Value>,
    pub(crate) retries: u32,
    pub(crate) timeout_secs: Option<u64>,
    pub(crate) limits: Map<String, Value>,
    pub(crate) files: Map<String, Value>,
    pub(crate) outputs: Option<Value>,
}

/// Condition of a step; it is skipped where the condition does not hold.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) value: Value,
    pub(crate) test: String,
    pub(crate) with: Value,
}

/// Fields of the document.
const PLAN_FIELDS: [&str; 5] = ["goal", "steps", "maxParallel", "intervention", "repair"];
/// Fields of a step.
const STEP_FIELDS: [&str; 13] = [
    "id",
    "type",
    "description",
    "payload",
    "dependsOn",
    "if",
    "forEach",
    "retries",
    "timeout",
    "limits",
    "files",
    "outputs",
    "workspace",
];
/// Tests of a condition.
const TESTS: [&str; 5] = ["equals", "notEquals", "in", "greaterThan", "lessThan"];

/// Reads JSON or YAML as a tree. What begins with a brace is JSON.
pub fn parse_text(text: &[u8]) -> Result<Value, Problem> {
    read(text, &BOUNDS).map_err(|message| Problem { pointer: String::new(), message })
}

/// Reads a tree, or names all its problems.
pub(crate) fn parse(tree: &Value) -> Result<Document, Vec<Problem>> {
    let mut reader = Reader { problems: Vec::new() };
    let document = reader.document(tree);
    reader.problems.sort_unstable();
    reader.problems.dedup();
    match document {
        Some(document) if reader.problems.is_empty() => Ok(document),
        _ => Err(reader.problems),
    }
}

struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    fn problem(&mut self, pointer: &str, message: impl Into<String>) {
        self.problems.push(Problem { pointer: pointer.to_owned(), message: message.into() });
    }

    fn unknown_fields(&mut self, at: &str, fields: &Map<String, Value>, known: &[&str]) {
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            let hint = nearest(name, known.iter().copied());
            let hint = hint.map(|known| format!("; did you mean `{known}`?")).unwrap_or_default();
            self.problem(&format!("{at}/{}", escaped(name)), format!("unknown field{hint}"));
        }
    }

    fn document(&mut self, tree: &Value) -> Option<Document> {
        let Value::Object(fields) = tree else {
            self.problem("", "a plan is an object with `steps`");
            return None;
        };
        self.unknown_fields("", fields, &PLAN_FIELDS);
        let goal = self.text("/goal", fields.get("goal"));
        let max_parallel = self.number("/maxParallel", fields.get("maxParallel"), 1, MAX_PARALLEL);
        let repair = self.number("/repair", fields.get("repair"), 0, MAX_REPAIRS);
        let intervention = match fields.get("intervention") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(on)) => *on,
            Some(_) => {
                self.problem("/intervention", "must be true or false");
                false
            }
        };
        let Some(Value::Array(steps)) = fields.get("steps") else {
            self.problem("/steps", "must be a list of steps");
            return None;
        };
        if steps.is_empty() || steps.len() > MAX_STEPS {
            self.problem("/steps", format!("has 1 to {MAX_STEPS} steps"));
        }
        let steps: Vec<_> = steps
            .iter()
            .take(MAX_STEPS)
            .enumerate()
            .map(|(index, step)| self.step(index, step))
            .collect();
        self.graph(&steps);
        let steps = steps.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Document {
            goal,
            max_parallel: max_parallel.map_or(DEFAULT_PARALLEL, |number| number as usize),
            intervention,
            repair: repair.unwrap_or_default() as usize,
            steps,
        })
    }

    fn text(&mut self, at: &str, value: Option<&Value>) -> String {
        match value {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) if text.chars().count() <= MAX_TEXT_CHARS => text.clone(),
            Some(_) => {
                self.problem(at, format!("must be text of at most {MAX_TEXT_CHARS} characters"));
                String::new()
            }
        }
    }

    fn number(&mut self, at: &str, value: Option<&Value>, least: u64, most: u64) -> Option<u64> {
        let value = value.filter(|value| !value.is_null())?;
        let number = value.as_u64().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.problem(at, format!("must be a whole number from {least} to {most}"));
        }
        number
    }

    fn object(&mut self, at: &str, value: Option<&Value>) -> Map<String, Value> {
        match value {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(fields)) => fields.clone(),
            Some(_) => {
                self.problem(at, "must be an object");
                Map::new()
            }
        }
    }

    fn step(&mut self, index: usize, tree: &Value) -> Option<Step> {
        let at = format!("/steps/{index}");
        let Value::Object(fields) = tree else {
            self.problem(&at, "a step is an object with `type` and `payload`");
            return None;
        };
        self.unknown_fields(&at, fields, &STEP_FIELDS);
        let id = match fields.get("id") {
            None | Some(Value::Null) => format!("step-{}", index + 1),
            Some(Value::String(id)) if is_step_id(id) => id.clone(),
            Some(_) => {
                self.problem(&format!("{at}/id"), "must be 1 to 64 of A-Z a-z 0-9 _ -");
                format!("step-{}", index + 1)
            }
        };
        if fields.get("workspace").is_some_and(|workspace| workspace != "own") {
            let rule =
                "steps share no workspace: pass files by `files` and `${steps.a.files['…']}`";
            self.problem(&format!("{at}/workspace"), rule);
        }
        let kind = self.kind(&at, fields.get("type"))?;
        let payload = self.payload(&at, kind, fields.get("payload"));
        let description = self.text(&format!("{at}/description"), fields.get("description"));
        let files = self.object(&format!("{at}/files"), fields.get("files"));
        if !files.is_empty() && !kind.takes_files() {
            let rule = format!("a step of type `{}` takes no files", kind.name());
            self.problem(&format!("{at}/files"), rule);
        }
        let limits = self.object(&format!("{at}/limits"), fields.get("limits"));
        let outputs = fields.get("outputs").filter(|outputs| !outputs.is_null()).cloned();
        let mut step = Step {
            id,
            kind,
            description,
            payload,
            needs: self.names(&format!("{at}/dependsOn"), fields.get("dependsOn")),
            bound: BTreeSet::new(),
            condition: self.condition(&format!("{at}/if"), fields.get("if")),
            for_each: self.for_each(&format!("{at}/forEach"), fields.get("forEach")),
            retries: self
                .number(&format!("{at}/retries"), fields.get("retries"), 0, MAX_RETRIES)
                .unwrap_or_default() as u32,
            timeout_secs: self.number(
                &format!("{at}/timeout"),
                fields.get("timeout"),
                1,
                MAX_TIMEOUT_SECS,
            ),
            limits,
            files,
            outputs,
        };
        self.bindings(&at, &mut step);
        Some(step)
    }

    fn kind(&mut self, at: &str, value: Option<&Value>) -> Option<Kind> {
        let at = format!("{at}/type");
        let Some(Value::String(name)) = value else {
            self.problem(&at, "must be the type of the step, such as `command`");
            return None;
        };
        if let Some((_, kind)) = Kind::ALL.iter().find(|(known, _)| known == name) {
            return Some(*kind);
        }
        if let Some((_, reason)) = Kind::ABSENT.iter().find(|(known, _)| known == name) {
            self.problem(&at, *reason);
            return None;
        }
        let names = Kind::ALL.map(|(name, _)| name);
        let hint = nearest(name, names);
        let hint = hint.map(|known| format!("; did you mean `{known}`?")).unwrap_or_default();
        self.problem(&at, format!("unknown type{hint} (known: {})", names.join(", ")));
        None
    }

    fn payload(&mut self, at: &str, kind: Kind, value: Option<&Value>) -> Value {
        let at = format!("{at}/payload");
        let fields = self.object(&at, value);
        let known: Vec<_> = kind.fields().iter().map(|(name, ..)| *name).collect();
        self.unknown_fields(&at, &fields, &known);
        for (name, is_needed, type_name) in kind.fields() {
            let place = format!("{at}/{name}");
            match fields.get(*name) {
                None | Some(Value::Null) if *is_needed => {
                    self.problem(&place, format!("a step of type `{}` needs it", kind.name()));
                }
                None | Some(Value::Null) => {}
                Some(value) if !fits(value, type_name) => {
                    self.problem(&place, format!("must be of type {type_name}"));
                }
                Some(_) => {}
            }
        }
        if kind == Kind::Code {
            self.language(&format!("{at}/language"), fields.get("language"));
        }
        if kind == Kind::Wait {
            self.number(&format!("{at}/seconds"), fields.get("seconds"), 1, MAX_WAIT_SECS);
        }
        Value::Object(fields)
    }

    fn language(&mut self, at: &str, value: Option<&Value>) {
        match value.and_then(Value::as_str) {
            Some("python" | "javascript" | "bash") | None => {}
            Some("typescript") => {
                self.problem(at, "`typescript` does not run here; use `javascript`")
            }
            Some(_) => self.problem(at, "must be `python`, `javascript` or `bash`"),
        }
    }

    fn names(&mut self, at: &str, value: Option<&Value>) -> BTreeSet<String> {
        let names = match value {
            None | Some(Value::Null) => return BTreeSet::new(),
            Some(Value::String(name)) => Some(BTreeSet::from([name.clone()])),
            Some(Value::Array(names)) => {
                names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
            }
            Some(_) => None,
        };
        names.unwrap_or_else(|| {
            self.problem(at, "must be a list of ids of steps");
            BTreeSet::new()
        })
    }

    fn condition(&mut self, at: &str, value: Option<&Value>) -> Option<Condition> {
        let value = value.filter(|value| !value.is_null())?;
        let fields = value.as_object();
        let tested = fields.and_then(|fields| fields.get("value"));
        let (Some(fields), Some(tested)) = (fields, tested) else {
            self.problem(at, "must be an object with `value` and a test such as `equals`");
            return None;
        };
        let known: Vec<_> = TESTS.iter().copied().chain(["value"]).collect();
        self.unknown_fields(at, fields, &known);
        let mut tests = TESTS.iter().filter_map(|test| Some((*test, fields.get(*test)?)));
        let (Some((test, with)), None) = (tests.next(), tests.next()) else {
            self.problem(at, format!("has one test: {}", TESTS.join(", ")));
            return None;
        };
        if test == "in" && !with.is_array() {
            self.problem(&format!("{at}/in"), "must be a list");
        }
        if matches!(test, "greaterThan" | "lessThan") && !with.is_number() {
            self.problem(&format!("{at}/{test}"), "must be a number");
        }
        Some(Condition { value: tested.clone(), test: test.to_owned(), with: with.clone() })
    }

    fn for_each(&mut self, at: &str, value: Option<&Value>) -> Option<Value> {
        let value = value.filter(|value| !value.is_null())?;
        let fits = match value {
            Value::Array(items) => items.len() <= MAX_ITEMS,
            Value::String(text) => {
                matches!(binding::parts(text).as_deref(), Ok([binding::Part::Bound(_)]))
            }
            _ => false,
        };
        if !fits {
            let rule = format!("must be a list of at most {MAX_ITEMS} items, or a binding to one");
            self.problem(at, rule);
        }
        Some(value.clone())
    }

    /// Bindings of a step: they must be readable and in a place that takes them.
    fn bindings(&mut self, at: &str, step: &mut Step) {
        let mut found = step.found(at);
        for (pointer, problem) in std::mem::take(&mut found.problems) {
            self.problem(&pointer, problem);
        }
        let program = step.kind.program().map(|field| format!("{at}/payload/{field}"));
        for bound in &found.bound {
            let is_source = matches!(bound.source, Source::Output { .. } | Source::File { .. });
            if is_source && program.as_ref() == Some(&bound.at) {
                let rule =
                    "no value is written into a program: bind it in `env`, `files` or `stdin`";
                self.problem(&bound.at, rule);
            }
            match &bound.source {
                Source::Output { step: other, .. } | Source::File { step: other, .. } => {
                    step.needs.insert(other.clone());
                    step.bound.insert(other.clone());
                }
                Source::Item { .. } | Source::Index if program.as_ref() == Some(&bound.at) => {}
                Source::Item { .. } | Source::Index if step.for_each.is_none() => {
                    self.problem(&bound.at, "`${item}` and `${index}` need `forEach`");
                }
                Source::Item { .. } | Source::Index => {}
            }
            if matches!(bound.source, Source::Item { .. } | Source::Index)
                && ["/forEach", "/if"]
                    .iter()
                    .any(|part| bound.at.starts_with(&format!("{at}{part}")))
            {
                self.problem(&bound.at, "is read once for all items");
            }
        }
    }

    /// Ids are unique, references exist, and no step waits for itself.
    fn graph(&mut self, steps: &[Option<Step>]) {
        let mut places = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            let Some(step) = step else { continue };
            if let Some(first) = places.insert(step.id.clone(), index) {
                let place = format!("/steps/{index}/id");
                self.problem(&place, format!("step {first} has the id `{}` too", step.id));
            }
        }
        for (index, step) in steps.iter().enumerate() {
            let Some(step) = step else { continue };
            for name in step.needs.iter().filter(|name| !places.contains_key(*name)) {
                // A step that could not be read has problems of its own.
                if steps.iter().any(Option::is_none) {
                    continue;
                }
                let hint = nearest(name, places.keys().map(String::as_str));
                let hint =
                    hint.map(|known| format!("; did you mean `{known}`?")).unwrap_or_default();
                let place = format!("/steps/{index}");
                self.problem(&place, format!("there is no step `{}`{hint}", shown(name)));
            }
        }
        let known: Vec<_> = steps.iter().flatten().collect();
        let cycle = cycle(&known);
        if !cycle.is_empty() {
            self.problem(
                "/steps",
                format!("these steps wait for each other: {}", cycle.join(", ")),
            );
        }
    }
}

impl Step {
    /// All bindings, with their places.
    pub(crate) fn found(&self, at: &str) -> Found {
        let mut found = Found::default();
        binding::sources(&self.payload, &format!("{at}/payload"), &mut found);
        binding::sources(&Value::Object(self.files.clone()), &format!("{at}/files"), &mut found);
        if let Some(condition) = &self.condition {
            binding::sources(&condition.value, &format!("{at}/if/value"), &mut found);
        }
        if let Some(list) = &self.for_each {
            binding::sources(list, &format!("{at}/forEach"), &mut found);
        }
        found
    }
}

/// Steps that cannot be ordered.
fn cycle<'a>(steps: &[&'a Step]) -> Vec<&'a str> {
    let mut left: BTreeMap<&str, BTreeSet<&str>> = steps
        .iter()
        .map(|step| (step.id.as_str(), step.needs.iter().map(String::as_str).collect()))
        .collect();
    loop {
        let ready: Vec<_> = left
            .iter()
            .filter(|(_, needs)| needs.iter().all(|need| !left.contains_key(need)))
            .map(|(id, _)| *id)
            .collect();
        if ready.is_empty() {
            return left.into_keys().collect();
        }
        for id in ready {
            left.remove(id);
        }
    }
}

fn is_step_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

fn shown(name: &str) -> String {
    name.chars().take(80).collect()
}

/// Whether a value has a type; a text that is one binding may become anything.
fn fits(value: &Value, type_name: &str) -> bool {
    let is_bound = value.as_str().is_some_and(|text| {
        matches!(binding::parts(text).as_deref(), Ok([binding::Part::Bound(_)]))
    });
    match type_name {
        "string" => value.is_string(),
        "object" => value.is_object() || is_bound,
        "array" => value.is_array() || is_bound,
        "integer" => value.is_u64(),
        _ => true,
    }
}

impl Document {
    /// The step with an id.
    pub(crate) fn step(&self, id: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.id == id)
    }

    /// Steps before a step, at any distance, in the order of the document.
    pub(crate) fn before(&self, id: &str) -> Vec<&Step> {
        let (mut found, mut queue) = (BTreeSet::new(), vec![id]);
        while let Some(step) = queue.pop().and_then(|id| self.step(id)) {
            for need in &step.needs {
                if found.insert(need.as_str()) {
                    queue.push(need);
                }
            }
        }
        self.steps.iter().filter(|step| found.contains(step.id.as_str())).collect()
    }

    /// Steps after a step, at any distance.
    pub(crate) fn after(&self, id: &str) -> Vec<&str> {
        let follows = |step: &&Step| self.before(&step.id).iter().any(|before| before.id == id);
        self.steps.iter().filter(follows).map(|step| step.id.as_str()).collect()
    }
}

#[cfg(test)]
mod tests;
