//! Parts of the document that the rules read.
//!
//! Two documents that agree in all of those parts have the same answer, so it may be cached, and a
//! document of those parts alone has the same answer as the whole one. Derived from the parsed rules,
//! always too much rather than too little: `input.tool[x]` reads all of `tool`, and `input` in any
//! other position reads everything.

use regorus::Value;
use ringfence_types::{Digest, Json, json::canonical};
use serde::Serialize;

use super::syntax::{self, Found};
use crate::Input;

/// Part of the document, with its serializer.
struct Part {
    path: &'static [&'static str],
    write: fn(&Input, &mut Vec<u8>),
}

macro_rules! parts {
    ($($($name:ident).+),* $(,)?) => {
        &[$(Part { path: &[$(stringify!($name)),+], write: |input, out| json(&input.$($name).+, out) }),*]
    };
}

/// All parts. A test holds this against the document as it is written.
const PARTS: &[Part] = parts![
    action,
    approval,
    args,
    call_id,
    grants,
    metadata,
    network,
    parent_call_id,
    persona_id,
    plan_step,
    principal.key,
    principal.scopes,
    secrets,
    session_id,
    taint,
    tenant,
    time,
    tool.digest,
    tool.name,
    tool.origin,
    tool.pure,
    tool.requires_approval,
    tool.safety_flags,
    tool.tags,
    tool.version,
];

/// Parts that differ for every call: an answer that depends on one of them is not cached.
const PER_CALL: &[&str] = &["call_id", "time"];

/// Parts that a set of rules reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reads {
    /// Positions in [`PARTS`], ascending.
    parts: Vec<usize>,
}

/// Parts of one document that a set of rules reads, serialized.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    input: &'a Input,
    reads: &'a Reads,
    /// Text of the parts, separated by line breaks, which compact JSON does not contain.
    text: Vec<u8>,
}

impl Reads {
    /// Parts read by these modules.
    pub(super) fn of(modules: &[regorus::unstable::Ref<regorus::unstable::Module>]) -> Self {
        let mut read = vec![false; PARTS.len()];
        for module in modules {
            syntax::module(module, &mut |found, _| match found {
                Found::Name(path) if path.names[0] == "input" => mark(&path.names[1..], &mut read),
                // The contents were not visited, so they may read anything.
                Found::TooDeep => mark(&[], &mut read),
                Found::Name(_)
                | Found::Call { .. }
                | Found::With(_)
                | Found::Constant(_)
                | Found::Statement
                | Found::Level(_) => {}
            });
        }
        let parts = (0..PARTS.len()).filter(|index| read[*index]).collect();
        Self { parts }
    }

    /// Parts of `input` that the rules read.
    pub(super) fn see<'a>(&'a self, input: &'a Input) -> Seen<'a> {
        let mut text = Vec::with_capacity(256);
        for part in self.parts() {
            (part.write)(input, &mut text);
            text.push(b'\n');
        }
        Seen { input, reads: self, text }
    }

    /// Names of the parts.
    pub(super) fn names(&self) -> Vec<String> {
        self.parts().map(|part| part.path.join(".")).collect()
    }

    fn parts(&self) -> impl Iterator<Item = &'static Part> {
        self.parts.iter().map(|index| &PARTS[*index])
    }
}

impl Seen<'_> {
    /// Cache key, equal for two documents only if the rules cannot tell them apart; `None` if the
    /// answer must not be cached.
    pub(super) fn key(&self) -> Option<Digest> {
        let is_passing = self.reads.parts().any(|part| PER_CALL.contains(&part.path[0]));
        (!is_passing).then(|| Digest::of(&self.text))
    }

    /// Size in bytes.
    pub(super) fn size(&self) -> usize {
        self.text.len()
    }

    /// Document of the parts as a Rego value; `None` if it cannot be parsed, which only an invalid
    /// serialization could cause.
    pub(super) fn document(&self) -> Option<Value> {
        let mut document = Value::new_object();
        let mut texts = self.text.split(|byte| *byte == b'\n');
        for part in self.reads.parts() {
            let text = std::str::from_utf8(texts.next()?).ok()?;
            // Rules see the canonical form of the client's JSON, in which a number has one notation.
            let value = match part.path {
                ["args"] if has_other_numbers(text) => canonical_value(&self.input.args),
                ["metadata"] if has_other_numbers(text) => canonical_value(&self.input.metadata),
                _ => Value::from_json_str(text).ok(),
            };
            put(&mut document, part.path, value?)?;
        }
        Some(document)
    }
}

fn canonical_value(json: &Json) -> Option<Value> {
    Value::from_json_str(canonical::jcs(json)).ok()
}

/// Whether compact JSON has numbers other than plain integers; those are canonical already.
fn has_other_numbers(text: &str) -> bool {
    let (mut is_text, mut is_escaped, mut before) = (false, false, b' ');
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'.' => return true,
            b'e' | b'E' if before.is_ascii_digit() => return true,
            b'0' if before == b'-' => return true,
            _ => {}
        }
        before = byte;
    }
    false
}

fn put(document: &mut Value, path: &[&str], value: Value) -> Option<()> {
    let (first, rest) = path.split_first()?;
    let fields = document.as_object_mut().ok()?;
    if rest.is_empty() {
        fields.insert(Value::from(*first), value);
        return Some(());
    }
    put(fields.get_or_insert_with(Value::from(*first), Value::new_object), rest, value)
}

/// Marks the parts that a path reads: those beneath it and those that contain it.
fn mark(path: &[String], read: &mut [bool]) {
    for (part, read) in PARTS.iter().zip(read) {
        *read |= part.path.iter().zip(path).all(|(one, other)| one == other);
    }
}

fn json<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("plain data with text keys can be written");
}
