//! Facts from the source of rules: which rule contains which reason, the paths it reads, and the
//! constants it compares with.

use std::collections::BTreeSet;

use regorus::unstable::{Module, Ref, Rule};
use serde_json::Value;

use super::super::{
    check,
    syntax::{self, Found},
};

/// Constants considered.
const MAX_CONSTANTS: usize = 200;

/// Rules of a bundle.
pub(super) struct Source {
    rules: Vec<Written>,
    /// Scalar values of the data.
    facts: Vec<Value>,
}

/// Rule as written.
struct Written {
    name: Vec<String>,
    file: String,
    line: u32,
    /// Paths below `input`.
    reads: BTreeSet<Vec<String>>,
    /// Names that may refer to other rules, in every possible meaning.
    refers: Vec<Vec<String>>,
    /// Constants in source order.
    constants: Vec<Value>,
}

impl Source {
    pub(super) fn of(modules: &[Ref<Module>], data: Option<&str>) -> Self {
        let rules = modules
            .iter()
            .flat_map(|module| module.policy.iter().filter_map(|rule| written(module, rule)));
        let data = data.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        let mut facts = Vec::new();
        scalars(&data, &mut facts);
        Self { rules: rules.collect(), facts }
    }

    /// Rules that contain a reason of this name, and all paths that they read. If there is none, the
    /// name is computed, and the paths of all rules are returned.
    pub(super) fn behind(&self, reason: &str) -> (Vec<(String, u32)>, Vec<Vec<String>>) {
        let writes = |rule: &&Written| {
            let pairs = rule.constants.windows(2);
            pairs.into_iter().any(|pair| pair[0] == "rule" && pair[1] == reason)
        };
        let found: Vec<_> = self.rules.iter().filter(writes).collect();
        let places = found.iter().map(|rule| (rule.file.clone(), rule.line)).collect();
        let reads = match found.is_empty() {
            true => self.rules.iter().flat_map(|rule| rule.reads.iter().cloned()).collect(),
            false => self.reads(&found),
        };
        (places, reads.into_iter().collect())
    }

    /// Paths that any rule reads.
    pub(super) fn all_reads(&self) -> BTreeSet<Vec<String>> {
        self.rules.iter().flat_map(|rule| rule.reads.iter().cloned()).collect()
    }

    /// Constants that rules compare with, without duplicates: those of the rules, then those of the data.
    pub(super) fn constants(&self) -> Vec<Value> {
        let mut found: Vec<Value> = Vec::new();
        let all = self.rules.iter().flat_map(|rule| &rule.constants).chain(&self.facts);
        for constant in all {
            if found.len() < MAX_CONSTANTS && !found.contains(constant) {
                found.push(constant.clone());
            }
        }
        found
    }

    /// Paths that these rules read, directly or through rules that they refer to.
    fn reads(&self, from: &[&Written]) -> BTreeSet<Vec<String>> {
        let mut reads = BTreeSet::new();
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        let mut open: Vec<&Written> = from.to_vec();
        while let Some(rule) = open.pop() {
            reads.extend(rule.reads.iter().cloned());
            for (index, other) in self.rules.iter().enumerate() {
                let is_meant = rule.refers.iter().any(|name| name.starts_with(&other.name));
                if is_meant && seen.insert(index) {
                    open.push(other);
                }
            }
        }
        reads
    }
}

fn written(module: &Module, rule: &Rule) -> Option<Written> {
    let package = check::package(module);
    let span = rule.span();
    let mut written = Written {
        name: [package.clone(), syntax::path(syntax::refr(rule))?.names].concat(),
        file: span.source.file().clone(),
        line: span.line,
        reads: BTreeSet::new(),
        refers: Vec::new(),
        constants: Vec::new(),
    };
    syntax::rule(rule, &mut |found, _| match found {
        Found::Name(path) if path.names[0] == "input" => {
            written.reads.insert(path.names[1..].to_vec());
        }
        Found::Name(path) => {
            written.refers.push([package.clone(), path.names.clone()].concat());
            written.refers.extend(check::imported(&path, &module.imports));
            written.refers.push(path.names);
        }
        Found::Constant(value) => {
            if let Some(value) =
                value.to_json_str().ok().and_then(|t| serde_json::from_str(&t).ok())
            {
                written.constants.push(value);
            }
        }
        Found::Call { .. }
        | Found::With(_)
        | Found::Statement
        | Found::Level(_)
        | Found::TooDeep => {}
    });
    // A rule's head contains its own name; other rules of that name are unrelated. Only a default
    // depends on them, because it applies when they do not.
    if !matches!(rule, Rule::Default { .. }) {
        let Written { name, refers, .. } = &mut written;
        refers.retain(|other| other != name);
    }
    Some(written)
}

fn scalars(value: &Value, found: &mut Vec<Value>) {
    if found.len() >= MAX_CONSTANTS {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| scalars(item, found)),
        Value::Object(fields) => fields.values().for_each(|item| scalars(item, found)),
        Value::Null => {}
        plain => found.push(plain.clone()),
    }
}
