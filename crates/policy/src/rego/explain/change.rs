//! Candidate changes of a document.

use serde_json::{Value, json};

use super::{pointer, source::Source};

/// Values tried at one path.
const MAX_VALUES: usize = 64;
/// Elements of a list whose removal is tried.
const MAX_ELEMENTS: usize = 32;
/// Fields that identify a call: another value would be another call.
const FIXED: &[&str] = &["action", "call_id", "metadata", "principal", "tenant", "time"];

/// Change of one part of the document.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// JSON Pointer of the part.
    pub path: String,
    /// Present value; `None` if absent.
    pub from: Option<Value>,
    /// Proposed value; `None` for removal.
    pub to: Option<Value>,
    names: Vec<String>,
    edit: Edit,
}

#[derive(Debug, Clone, PartialEq)]
enum Edit {
    Set(Value),
    Remove,
    /// Removal of an element from a list.
    Without(Value),
    /// Addition of an element to a list.
    With(Value),
}

impl Change {
    fn new(names: &[String], from: Option<&Value>, edit: Edit) -> Self {
        let mut to = from.cloned();
        edit.on(&mut to);
        let (path, from) = (pointer(names), from.cloned());
        Self { path, from, to, names: names.to_vec(), edit }
    }
}

impl Edit {
    fn on(&self, place: &mut Option<Value>) {
        match (self, &mut *place) {
            (Edit::Set(value), _) => *place = Some(value.clone()),
            (Edit::Remove, _) => *place = None,
            (Edit::Without(value), Some(Value::Array(items))) => items.retain(|item| item != value),
            (Edit::With(value), Some(Value::Array(items))) => items.push(value.clone()),
            (Edit::Without(_) | Edit::With(_), _) => {}
        }
    }
}

/// Value at a path.
pub(super) fn at<'a>(document: &'a Value, names: &[String]) -> Option<&'a Value> {
    names.iter().try_fold(document, |value, name| match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Document with all of these changes.
pub(super) fn apply(document: &Value, changes: &[&Change]) -> Value {
    let mut changed = document.clone();
    for change in changes {
        edit(&mut changed, &change.names, &change.edit);
    }
    changed
}

/// Changes with those of the same path merged.
pub(super) fn joined(document: &Value, changes: Vec<Change>) -> Vec<Change> {
    let after = apply(document, &changes.iter().collect::<Vec<_>>());
    let mut joined: Vec<Change> = Vec::new();
    for mut change in changes {
        change.to = at(&after, &change.names).cloned();
        if joined.iter().all(|other| other.path != change.path) {
            joined.push(change);
        }
    }
    joined
}

fn edit(value: &mut Value, names: &[String], how: &Edit) {
    let Some((name, rest)) = names.split_first() else { return };
    let Value::Object(fields) = value else { return };
    if !rest.is_empty() {
        let inner = fields.entry(name.clone()).or_insert_with(|| json!({}));
        return edit(inner, rest, how);
    }
    let mut place = fields.remove(name);
    how.on(&mut place);
    if let Some(place) = place {
        fields.insert(name.clone(), place);
    }
}

/// Changes to try, the likeliest and smallest first. `blamed` are the paths that the rules behind
/// the reasons read.
pub(super) fn candidates(source: &Source, blamed: &[Vec<String>], document: &Value) -> Vec<Change> {
    let constants = source.constants();
    let mut paths: Vec<_> = source.all_reads().into_iter().filter(|path| is_open(path)).collect();
    paths.sort_by_key(|path| (!blamed.contains(path), rank(path)));
    let mut found: Vec<Change> = Vec::new();
    for path in &paths {
        for change in at_path(path, at(document, path), &constants, document) {
            if change.to != change.from && !found.contains(&change) {
                found.push(change);
            }
        }
    }
    found
}

fn is_open(path: &[String]) -> bool {
    path.first().is_some_and(|first| !FIXED.contains(&first.as_str()))
}

/// Order of preference: an approval can be obtained and an argument chosen; another tool is another task.
fn rank(path: &[String]) -> u8 {
    match path.first().map(String::as_str) {
        Some("approval") => 0,
        Some("args") => 1,
        Some("grants" | "taint" | "session_id" | "persona_id") => 2,
        _ => 3,
    }
}

fn at_path(
    path: &[String],
    now: Option<&Value>,
    constants: &[Value],
    document: &Value,
) -> Vec<Change> {
    if path[0] == "approval" {
        return approval(document);
    }
    let change = |edit| Change::new(path, now, edit);
    let set = |value| change(Edit::Set(value));
    match now {
        Some(Value::Array(items)) => {
            let without = items.iter().take(MAX_ELEMENTS).cloned().map(Edit::Without);
            let with = constants.iter().filter(|c| !items.contains(c)).take(MAX_VALUES);
            without.chain(with.cloned().map(Edit::With)).map(change).collect()
        }
        Some(Value::Bool(now)) => vec![set(json!(!now))],
        Some(Value::Number(_)) => numbers(constants).map(set).collect(),
        Some(Value::String(now)) => {
            let gone = (path[0] == "args").then(|| change(Edit::Remove));
            texts(now, constants).into_iter().take(MAX_VALUES * 2).map(set).chain(gone).collect()
        }
        Some(Value::Object(_)) => Vec::new(),
        Some(Value::Null) | None => constants.iter().take(MAX_VALUES).cloned().map(set).collect(),
    }
}

/// Approval by a person other than the caller.
fn approval(document: &Value) -> Vec<Change> {
    let names = ["approval".to_owned()];
    let now = document.get("approval");
    if now.is_some_and(|now| !now.is_null()) {
        return Vec::new();
    }
    let yes = json!({
        "by": ["00000000-0000-7000-8000-000000000000"],
        "decided_at": document.get("time"),
        "id": "00000000-0000-7000-8000-000000000001",
        "reach": "once",
        "shown": format!("sha256:{}", "0".repeat(64)),
    });
    vec![Change::new(&names, now, Edit::Set(yes))]
}

fn numbers(constants: &[Value]) -> impl Iterator<Item = Value> + '_ {
    let whole = constants.iter().filter_map(Value::as_i64).take(MAX_VALUES);
    let near = whole.flat_map(|n| [n, n.saturating_sub(1), n.saturating_add(1)]).map(Value::from);
    near.chain(constants.iter().filter(|c| c.is_f64()).cloned())
}

/// Strings that rules compare with, alone and as prefix or suffix of the present value.
fn texts(now: &str, constants: &[Value]) -> Vec<Value> {
    let known: Vec<&str> = constants.iter().filter_map(Value::as_str).collect();
    let mut found = Vec::new();
    for text in known.iter().filter(|text| text.starts_with('@')) {
        let name = now.split('@').next().unwrap_or(now);
        found.push(json!(format!("{name}{text}")));
    }
    found.extend(known.iter().take(MAX_VALUES).map(|text| json!(text)));
    for text in known.iter().take(MAX_VALUES) {
        if text.starts_with(['.', '/', '-']) {
            found.push(json!(format!("{now}{text}")));
        }
        if text.ends_with(['.', '/', '-', ':']) {
            found.push(json!(format!("{text}{now}")));
        }
    }
    found
}
